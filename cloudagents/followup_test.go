package cloudagents_test

import (
	"fmt"
	"strings"
	"testing"

	"drawbridge/bridge"

	"github.com/google/go-cmp/cmp"
)

const marker = "[bridge trn_7]"

func v1Followup() bridge.FollowUp {
	return bridge.FollowUp{API: bridge.APIv1, Agent: agentID, LastRun: "run-1", Marker: marker, Text: "go on\nplease"}
}

func v0Followup() bridge.FollowUp {
	return bridge.FollowUp{API: bridge.APIv0, Agent: "bc_1", Marker: marker, Text: "go on\nplease"}
}

func TestSend(t *testing.T) {
	t.Parallel()
	const v1Path, v0Path = "POST /v1/agents/" + agentID + "/runs", "POST /v0/agents/bc_1/followup"
	plain := v1Followup()
	plain.Marker = ""
	marked := v1Followup()
	marked.Text = marker + "\ngo on\nplease"
	with := marker + "\ngo on\nplease"
	ok := bridge.Started{Agent: agentID, Run: "run-2"}
	runs := func(status string) reply { return reply{body: `{"items":[{"id":"run-1","status":"` + status + `"}]}`} }
	for name, c := range map[string]struct {
		f       bridge.FollowUp
		answer  reply
		runs    reply
		agent   reply
		text    string
		want    bridge.Started
		kind    bridge.ErrorKind
		unclear bool
	}{
		"v1":                 {f: v1Followup(), answer: reply{status: 201, body: `{"run":{"id":"run-2"}}`}, text: with, want: ok},
		"v1 without marker":  {f: plain, answer: reply{status: 201, body: `{"run":{"id":"run-2"}}`}, text: "go on\nplease", want: ok},
		"v1 marked already":  {f: marked, answer: reply{status: 201, body: `{"run":{"id":"run-2"}}`}, text: with, want: ok},
		"v1 busy":            {f: v1Followup(), answer: reply{status: 409, body: `{"error":{"code":"agent_busy","message":"m"}}`}, text: with, kind: bridge.Busy},
		"v1 busy, no code":   {f: v1Followup(), answer: reply{status: 409, body: `{"error":"busy"}`}, runs: runs("RUNNING"), text: with, kind: bridge.Busy},
		"v1 other, no code":  {f: v1Followup(), answer: reply{status: 409, body: `{"error":"no"}`}, runs: runs("FINISHED"), text: with, kind: bridge.Conflict},
		"v1 archived":        {f: v1Followup(), answer: reply{status: 409, body: `{"error":{"code":"agent_archived","message":"m"}}`}, text: with, kind: bridge.Conflict},
		"v1 gone":            {f: v1Followup(), answer: reply{status: 404, body: `{"error":{"code":"agent_not_found"}}`}, text: with, kind: bridge.NotFound},
		"v1 lost":            {f: v1Followup(), answer: reply{do: cut}, text: with, kind: bridge.Unavailable, unclear: true},
		"v1 garbage":         {f: v1Followup(), answer: reply{status: 201, body: `{"run":{}}`}, text: with, kind: bridge.Unavailable, unclear: true},
		"v1 another agent's": {f: v1Followup(), answer: reply{status: 201, body: `{"run":{"id":"run-2","agentId":"bc-2"}}`}, text: with, kind: bridge.Unavailable, unclear: true},
		"v0":                 {f: v0Followup(), answer: reply{body: `{"id":"bc_1"}`}, text: with, want: bridge.Started{Agent: "bc_1"}},
		"v0 5xx":             {f: v0Followup(), answer: reply{status: 500}, text: with, kind: bridge.Unavailable, unclear: true},
		"v0 another agent":   {f: v0Followup(), answer: reply{body: `{"id":"bc_2"}`}, text: with, kind: bridge.Unavailable, unclear: true},
		"v0 deleted":         {f: v0Followup(), answer: reply{status: 409, body: `{"error":"Agent is deleted"}`}, text: with, kind: bridge.Conflict},
		"v0 busy, no code":   {f: v0Followup(), answer: reply{status: 409, body: `{"error":"Agent is running"}`}, agent: reply{body: `{"id":"bc_1","status":"RUNNING"}`}, text: with, kind: bridge.Busy},
		"v0 text error body": {f: v0Followup(), answer: reply{status: 429, body: "slow down"}, text: with, kind: bridge.RateLimited},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, map[string][]reply{v1Path: {c.answer}, v0Path: {c.answer}, "GET /v1/agents/" + agentID + "/runs": {c.runs}, "GET /v0/agents/bc_1": {c.agent}})
			got, err := newClient(t, f.URL).Send(t.Context(), c.f)
			check(t, err, c.kind, c.unclear)
			if got != c.want {
				t.Errorf("got %+v", got)
			}
			want := map[string]any{"prompt": map[string]any{"text": c.text}}
			if diff := cmp.Diff(want, f.requests()[0].Body); diff != "" || f.count("POST") != 1 {
				t.Errorf("%d POSTs, %s", f.count("POST"), diff)
			}
		})
	}
}

func TestHostileIDsNeverReachAPath(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	c := newClient(t, f.URL)
	for _, id := range []string{"", "..", "a/b", "a%2fb", "a?b", "a#b", "a b", "ä", "a\n", strings.Repeat("a", 129)} {
		for _, api := range []string{bridge.APIv0, bridge.APIv1} {
			_, err := c.Send(t.Context(), bridge.FollowUp{API: api, Agent: id, Text: "x"})
			check(t, err, bridge.Invalid, false)
			_, _, err = c.FindSend(t.Context(), bridge.FollowUp{API: api, Agent: id, Marker: marker})
			check(t, err, bridge.Invalid, false)
			_, err = c.Observe(t.Context(), bridge.RunRef{API: api, Agent: id, Run: "run-1"})
			check(t, err, bridge.Invalid, false)
			check(t, c.Cancel(t.Context(), bridge.RunRef{API: api, Agent: id, Run: "run-1"}), bridge.Invalid, false)
		}
		_, err := c.Observe(t.Context(), bridge.RunRef{API: bridge.APIv1, Agent: "a", Run: id})
		check(t, err, bridge.Invalid, false)
	}
	_, err := c.Send(t.Context(), bridge.FollowUp{API: "v2", Agent: "a", Text: "x"})
	check(t, err, bridge.Invalid, false)
	_, err = c.Send(t.Context(), bridge.FollowUp{Agent: "a", Marker: "two\nlines", Text: "x"})
	check(t, err, bridge.Invalid, false)
	_, err = c.Send(t.Context(), bridge.FollowUp{Agent: "a", Marker: marker})
	check(t, err, bridge.Invalid, false)
	if n := len(f.requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// sseReply is a stream of events, each "name data", with ids from 1 on.
func sseReply(events ...string) reply {
	var b strings.Builder
	for i, e := range events {
		name, data, _ := strings.Cut(e, " ")
		fmt.Fprintf(&b, "id: %d-0\nevent: %s\ndata: %s\n\n", i+1, name, data)
	}
	return reply{header: map[string]string{"Content-Type": "text/event-stream"}, body: b.String()}
}

func promptEvent(text string) string {
	return fmt.Sprintf(`interaction_update {"type":"user-message-appended","userMessage":{"text":%q}}`, text)
}

func TestFindSendV1(t *testing.T) {
	t.Parallel()
	agent := func(latest string) reply { return reply{body: strings.Replace(agentV1, "run-1", latest, 1)} }
	runs := func(ids ...string) reply {
		return reply{body: `{"items":[{"id":"` + strings.Join(ids, `"},{"id":"`) + `"}]}`}
	}
	mine, theirs := sseReply(promptEvent(marker+"\ngo on"), "done {}"), sseReply(promptEvent("I typed this"), "done {}")
	mute, expired := sseReply(`assistant {"text":"hm"}`, "done {}"), reply{status: 410, body: `{"error":{"code":"stream_expired"}}`}
	last := func(id string) bridge.FollowUp { f := v1Followup(); f.LastRun = id; return f }
	bare := v1Followup()
	bare.Marker = ""
	// A page of the list that has new runs alone may hide others.
	all, others := []string{}, map[string]reply{}
	for n := 21; n >= 2; n-- {
		run := fmt.Sprintf("r%d", n)
		all, others[run] = append(all, run), theirs
	}
	for name, c := range map[string]struct {
		f           bridge.FollowUp
		agent, runs reply
		streams     map[string]reply
		want        string
		kind        bridge.ErrorKind
		unclear     bool
	}{
		"unchanged":                       {f: v1Followup(), agent: agent("run-1")},
		"marker in the stream":            {f: v1Followup(), agent: agent("run-2"), runs: runs("run-2", "run-1"), streams: map[string]reply{"run-2": mine}, want: "run-2"},
		"ours, then a person's":           {f: v1Followup(), agent: agent("run-3"), runs: runs("run-3", "run-2", "run-1"), streams: map[string]reply{"run-3": theirs, "run-2": mine}, want: "run-2"},
		"a person's alone":                {f: v1Followup(), agent: agent("run-2"), runs: runs("run-2", "run-1"), streams: map[string]reply{"run-2": theirs}},
		"only new run, prompt not shown":  {f: v1Followup(), agent: agent("run-2"), runs: runs("run-2", "run-1"), streams: map[string]reply{"run-2": mute}, want: "run-2"},
		"only new run, stream gone":       {f: v1Followup(), agent: agent("run-2"), runs: runs("run-2", "run-1"), streams: map[string]reply{"run-2": expired}, want: "run-2"},
		"only new run, no marker given":   {f: bare, agent: agent("run-2"), runs: runs("run-2", "run-1"), want: "run-2"},
		"a person's and an unshown":       {f: v1Followup(), agent: agent("run-3"), runs: runs("run-3", "run-2", "run-1"), streams: map[string]reply{"run-3": theirs, "run-2": mute}, want: "run-2"},
		"two unshown":                     {f: v1Followup(), agent: agent("run-3"), runs: runs("run-3", "run-2", "run-1"), streams: map[string]reply{"run-3": mute, "run-2": expired}, kind: bridge.Conflict, unclear: true},
		"list lags":                       {f: v1Followup(), agent: agent("run-2"), runs: runs("run-1"), streams: map[string]reply{"run-2": mine}, want: "run-2"},
		"last run unknown, marker":        {f: last(""), agent: agent("run-1"), runs: runs("run-1"), streams: map[string]reply{"run-1": mine}, want: "run-1"},
		"last run unknown, prompt hidden": {f: last(""), agent: agent("run-1"), runs: runs("run-1"), streams: map[string]reply{"run-1": mute}, kind: bridge.Conflict, unclear: true},
		"many": {f: v1Followup(), agent: agent("r7"), runs: runs("r7", "r6", "r5", "r4", "r3", "r2", "run-1"),
			streams: map[string]reply{"r7": theirs, "r6": theirs, "r5": theirs, "r4": theirs, "r3": theirs, "r2": mine}, want: "r2"},
		"too many":            {f: v1Followup(), agent: agent("r21"), runs: runs(all...), streams: others, kind: bridge.Conflict, unclear: true},
		"stream rate limited": {f: v1Followup(), agent: agent("run-2"), runs: runs("run-2", "run-1"), streams: map[string]reply{"run-2": {status: 429}}, kind: bridge.RateLimited},
		"agent gone":          {f: v1Followup(), agent: reply{status: 404}, kind: bridge.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			routes := map[string][]reply{"GET /v1/agents/" + agentID: {c.agent}, "GET /v1/agents/" + agentID + "/runs": {c.runs}}
			for run, r := range c.streams {
				routes["GET /v1/agents/"+agentID+"/runs/"+run+"/stream"] = []reply{r}
			}
			f := newFake(t, routes)
			got, found, err := newClient(t, f.URL).FindSend(t.Context(), c.f)
			check(t, err, c.kind, c.unclear)
			if (found == bridge.FoundThere) != (c.want != "") || err != nil && found != bridge.FoundUnknown || err == nil && c.want == "" && found != bridge.FoundAbsent || got.Run != c.want {
				t.Errorf("found %v, %+v", found, got)
			}
			if f.count("POST") != 0 {
				t.Error("a search has sent something")
			}
		})
	}
}

func TestFindSendV0(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer reply
		found  bool
		kind   bridge.ErrorKind
	}{
		"there":                 {answer: talk("u:first", "a:yes", "u:"+marker+"\ngo on"), found: true},
		"trimmed and CRLF":      {answer: talk("u:\n " + marker + " \r\ngo on"), found: true},
		"not there":             {answer: talk("u:first", "a:yes")},
		"quoted by the agent":   {answer: talk("a:" + marker + "\ngo on")},
		"not at the start":      {answer: talk("u:see " + marker)},
		"a longer marker":       {answer: talk("u:[bridge trn_77]\nx")},
		"marker and more":       {answer: talk("u:" + marker + " x\ny")},
		"not readable":          {answer: reply{status: 500}, kind: bridge.Unavailable},
		"no messages in answer": {answer: reply{body: `{}`}, kind: bridge.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, map[string][]reply{"GET /v0/agents/bc_1/conversation": {c.answer}})
			got, found, err := newClient(t, f.URL).FindSend(t.Context(), v0Followup())
			check(t, err, c.kind, false)
			if found != foundAtV0(c.found) || c.found && got.Agent != "bc_1" {
				t.Errorf("found %v, %+v", found, got)
			}
		})
	}
	bare := v0Followup()
	bare.Marker = ""
	_, _, err := newClient(t, "http://127.0.0.1:1").FindSend(t.Context(), bare)
	check(t, err, bridge.Invalid, false)
}

func TestCancel(t *testing.T) {
	t.Parallel()
	const run = "/v1/agents/" + agentID + "/runs/run-1"
	v1 := bridge.RunRef{API: bridge.APIv1, Agent: agentID, Run: "run-1"}
	v0 := bridge.RunRef{API: bridge.APIv0, Agent: "bc_1"}
	state := func(s string) reply { return reply{body: `{"id":"run-1","status":"` + s + `"}`} }
	agent := func(s string) reply { return reply{body: `{"id":"bc_1","status":"` + s + `"}`} }
	for name, c := range map[string]struct {
		r       bridge.RunRef
		answer  reply
		get     reply
		kind    bridge.ErrorKind
		unclear bool
		posts   int
	}{
		"v1":                    {r: v1, answer: reply{body: `{"id":"run-1"}`}, posts: 1},
		"v1 over":               {r: v1, answer: reply{status: 409, body: `{"error":{"code":"run_not_cancellable","message":"Run is already finished"}}`}, posts: 1},
		"v1 over, no code":      {r: v1, answer: reply{status: 409, body: `{"error":"over"}`}, get: state("FINISHED"), posts: 1},
		"v1 conflict, runs":     {r: v1, answer: reply{status: 409, body: `{"error":"no"}`}, get: state("RUNNING"), kind: bridge.Conflict, posts: 1},
		"v1 latest":             {r: bridge.RunRef{API: bridge.APIv1, Agent: agentID}, answer: reply{body: `{"id":"run-1"}`}, posts: 1},
		"v1 500":                {r: v1, answer: reply{status: 500}, kind: bridge.Unavailable, unclear: true, posts: 1},
		"v1 gone":               {r: v1, answer: reply{status: 404}, kind: bridge.NotFound, posts: 1},
		"v0":                    {r: v0, answer: reply{body: `{"id":"bc_1"}`}, posts: 1},
		"v0 over":               {r: v0, answer: reply{status: 400, body: `{"error":"not running"}`}, get: agent("FINISHED"), posts: 1},
		"v0 refused, runs":      {r: v0, answer: reply{status: 400, body: `{"error":"no"}`}, get: agent("RUNNING"), kind: bridge.Invalid, posts: 1},
		"v0 conflict, over":     {r: v0, answer: reply{status: 409}, get: agent("EXPIRED"), posts: 1},
		"v0 refused, no status": {r: v0, answer: reply{status: 409}, get: reply{status: 500}, kind: bridge.Conflict, posts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, map[string][]reply{
				"POST " + run + "/cancel": {c.answer}, "GET " + run: {c.get}, "GET /v1/agents/" + agentID: {{body: agentV1}},
				"POST /v0/agents/bc_1/stop": {c.answer}, "GET /v0/agents/bc_1": {c.get},
			})
			check(t, newClient(t, f.URL).Cancel(t.Context(), c.r), c.kind, c.unclear)
			if f.count("POST") != c.posts {
				t.Errorf("%d POSTs", f.count("POST"))
			}
		})
	}
}
