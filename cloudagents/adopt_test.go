package cloudagents_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/cloudagents"
	"drawbridge/cloudagents/cloudsim"
	"drawbridge/cloudagents/cloudsim/script"
)

const runsPath = "GET /v1/agents/" + agentID + "/runs"

// runsPage lists runs without times; "id@15" is a run of second 15.
func runsPage(next string, ids ...string) reply {
	items := []map[string]string{}
	for _, id := range ids {
		id, second, timed := strings.Cut(id, "@")
		item := map[string]string{"id": id, "agentId": agentID, "status": "FINISHED"}
		if timed {
			item["createdAt"] = "2026-01-02T03:04:" + second + ".000Z"
		}
		items = append(items, item)
	}
	page := map[string]any{"items": items}
	if next != "" {
		page["nextCursor"] = next
	}
	b, _ := json.Marshal(page)
	return reply{body: string(b)}
}

// The launch's own run is the oldest one of the list, whatever the agent calls its latest.
func TestFindLaunchV1(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	noRun := strings.Replace(agentV1, `"latestRunId":"run-1",`, "", 1)
	later := strings.Replace(agentV1, "run-1", "run-9", 1)
	aged := func(age time.Duration) string {
		return strings.Replace(later, "{", `{"createdAt":"`+now.Add(-age).Format(time.RFC3339)+`",`, 1)
	}
	missing := reply{status: 404, body: `{"error":{"code":"agent_not_found"}}`}
	foreign := reply{body: `{"items":[{"id":"run-1","agentId":"bc-2"}]}`}
	tooMany := make([]string, 101)
	for i := range tooMany {
		tooMany[i] = fmt.Sprint("run-", i)
	}
	for name, c := range map[string]struct {
		agent   string
		runs    []reply
		found   bool
		kind    bridge.ErrorKind
		unclear bool
	}{
		"the only run":              {agent: agentV1, runs: []reply{runsPage("", "run-1")}, found: true},
		"no latest run named":       {agent: noRun, runs: []reply{runsPage("", "run-1")}, found: true},
		"later follow-ups":          {agent: later, runs: []reply{runsPage("", "run-9@09", "run-5@05", "run-1@01")}, found: true},
		"on the last page":          {agent: later, runs: []reply{runsPage("n2", "run-9"), runsPage("n3"), runsPage("", "run-1")}, found: true},
		"an empty last page":        {agent: later, runs: []reply{runsPage("n2", "run-9", "run-1"), runsPage("")}, found: true},
		"the newest is missing":     {agent: later, runs: []reply{runsPage("", "run-5", "run-1")}, found: true},
		"equal times":               {agent: later, runs: []reply{runsPage("", "run-9@01", "run-1@01")}, found: true},
		"not newest first":          {agent: later, runs: []reply{runsPage("", "run-1@01", "run-9@09")}, kind: bridge.Conflict, unclear: true},
		"the oldest has no time":    {agent: later, runs: []reply{runsPage("", "run-9@09", "run-1")}, kind: bridge.Conflict, unclear: true},
		"endless":                   {agent: later, runs: []reply{runsPage("again", "run-9")}, kind: bridge.Conflict, unclear: true},
		"lags behind a young agent": {agent: aged(time.Second), runs: []reply{runsPage("")}, kind: bridge.Unavailable},
		"lags behind an old agent":  {agent: aged(time.Hour), runs: []reply{runsPage("")}, kind: bridge.Unavailable, unclear: true},
		"lags, of unknown age":      {agent: noRun, runs: []reply{runsPage("")}, kind: bridge.Unavailable, unclear: true},
		"the list knows no agent":   {agent: aged(time.Second), runs: []reply{missing}, kind: bridge.Unavailable},
		"run id hostile":            {agent: agentV1, runs: []reply{runsPage("", "a/b")}, kind: bridge.Unavailable},
		"a foreign agent's run":     {agent: agentV1, runs: []reply{foreign}, kind: bridge.Unavailable},
		"more than asked for":       {agent: agentV1, runs: []reply{runsPage("", tooMany...)}, kind: bridge.Unavailable},
		"a huge cursor":             {agent: agentV1, runs: []reply{runsPage(strings.Repeat("n", 2049), "run-1")}, kind: bridge.Unavailable},
		"a huge page":               {agent: agentV1, runs: []reply{{do: flood(200)}}, kind: bridge.Conflict, unclear: true},
		"unreadable in the middle":  {agent: later, runs: []reply{runsPage("n2", "run-9"), {status: 500}}, kind: bridge.Unavailable},
		"hangs in the middle":       {agent: later, runs: []reply{runsPage("n2", "run-9"), {do: hang}}, kind: bridge.Conflict, unclear: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, map[string][]reply{"GET /v1/agents/" + agentID: {{body: c.agent}}, runsPath: c.runs})
			client := newClient(t, f.URL, hasty(name == "hangs in the middle"), func(o *cloudagents.Options) {
				o.MaxReply, o.Now = 1<<10, func() time.Time { return now }
			})
			got, found, err := client.FindLaunch(t.Context(), bridge.Launch{AgentID: agentID})
			check(t, err, c.kind, c.unclear)
			if want := (bridge.Started{}); (found == bridge.FoundThere) != c.found || err != nil && found != bridge.FoundUnknown || !c.found && got != want || c.found && got != wantV1() {
				t.Errorf("found %v, %+v", found, got)
			}
			if n := len(f.requests()); n > 1+50 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func TestFindLaunchV1WithoutAnAgent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		agent reply
		kind  bridge.ErrorKind
	}{
		"not there":  {agent: reply{status: 404, body: `{"error":{"code":"agent_not_found"}}`}},
		"unreadable": {agent: reply{status: 500}, kind: bridge.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, map[string][]reply{"GET /v1/agents/" + agentID: {c.agent}})
			got, found, err := newClient(t, f.URL).FindLaunch(t.Context(), bridge.Launch{AgentID: agentID})
			check(t, err, c.kind, false)
			if found == bridge.FoundThere || (err == nil) != (found == bridge.FoundAbsent) || got != (bridge.Started{}) {
				t.Errorf("found %v, %+v", found, got)
			}
		})
	}
}

// The attack: a list that is longer than any page, to fill the memory or to hide an agent.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	endless := reply{body: `{"agents":[{}` + strings.Repeat(",{}", 100) + `]}`}
	long := reply{body: `{"agents":[],"nextCursor":"` + strings.Repeat("n", 2049) + `"}`}
	for name, answer := range map[string]reply{"too many": endless, "a huge cursor": long} {
		f := newFake(t, map[string][]reply{"GET /v0/agents": {answer}})
		_, found, err := newClient(t, f.URL, withV0).FindLaunch(t.Context(), launchOf(t))
		check(t, err, bridge.Unavailable, false)
		if found != bridge.FoundUnknown || len(f.requests()) != 1 {
			t.Errorf("%s: found %v after %d requests", name, found, len(f.requests()))
		}
	}
}

// A look goes through the pages with the API's own cursors.
func TestFindLaunchV1Pages(t *testing.T) {
	t.Parallel()
	f := newFake(t, map[string][]reply{
		"GET /v1/agents/" + agentID: {{body: agentV1}},
		runsPath:                    {runsPage("a&b=c", "run-3"), runsPage("", "run-1")},
	})
	if _, found, err := newClient(t, f.URL).FindLaunch(t.Context(), bridge.Launch{AgentID: agentID}); found != bridge.FoundThere || err != nil {
		t.Fatal(found, err)
	}
	reqs := f.requests()
	if reqs[1].Query != "limit=100" || reqs[2].Query != "cursor=a%26b%3Dc&limit=100" {
		t.Errorf("asked with %q and %q", reqs[1].Query, reqs[2].Query)
	}
}

// The database was restored from a copy older than the launch's answer, and the
// agent has had follow-ups since, more than a page of them.
func TestContractAdoptsTheFirstRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bridge.APIv1)
	l := w.launch("at once")
	s, err := w.Launch(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	last := w.ref(s, "")
	w.finish(last)
	for range 101 {
		next, err := w.Send(t.Context(), w.followUp(last, "at once"))
		if err != nil {
			t.Fatal(err)
		}
		last = w.ref(next, marker)
		w.finish(last)
	}
	found, ok, err := w.FindLaunch(t.Context(), l)
	if err != nil || ok != bridge.FoundThere || found.Run != s.Run {
		t.Errorf("found %+v %v %v, want run %s", found, ok, err, s.Run)
	}
	again, err := w.Launch(t.Context(), l)
	if err != nil || again.Run != s.Run || again.Agent != s.Agent {
		t.Errorf("adopted %+v %v, want run %s", again, err, s.Run)
	}
	w.want(cloudsim.AgentCreated, 1)
}

// While the list of runs lags behind, no run is adopted.
func TestContractAdoptionWaitsForTheList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bridge.APIv1, cloudsim.Fault{Kind: script.RunsLag, Times: 2, Delay: script.Duration(time.Hour)})
	l := w.launch("build it")
	s, err := w.Launch(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	_, found, err := w.FindLaunch(t.Context(), l)
	check(t, err, bridge.Unavailable, false)
	_, err = w.Launch(t.Context(), l)
	check(t, err, bridge.Unavailable, true)
	if found != bridge.FoundUnknown {
		t.Error("found without a list")
	}
	if again, err := w.Launch(t.Context(), l); err != nil || again.Run != s.Run {
		t.Errorf("%+v %v", again, err)
	}
}
