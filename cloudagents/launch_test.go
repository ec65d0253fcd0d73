package cloudagents_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/cloudagents"
	"drawbridge/parser"
	"drawbridge/policy"

	"github.com/google/go-cmp/cmp"
)

const (
	createdV1 = `{"agent":{"id":"` + agentID + `","url":"https://cursor.com/agents/x","latestRunId":"run-1","repos":[{"url":"github.com/me/my-app"}]},"run":{"id":"run-1","status":"CREATING"}}`
	agentV1   = `{"id":"` + agentID + `","status":"ACTIVE","url":"https://cursor.com/agents/x","latestRunId":"run-1","repos":[{"url":"github.com/me/my-app"}]}`
	createdV0 = `{"id":"bc_1","name":"n","status":"CREATING","source":{"repository":"https://github.com/me/my-app"},"target":{"url":"https://cursor.com/agents?id=bc_1","branchName":"bridge/op_1"},"createdAt":"2026-01-02T03:04:05.000Z"}`
)

func wantV1() bridge.Started {
	return bridge.Started{Agent: agentID, Run: "run-1", Repo: "github.com/me/my-app", URL: "https://cursor.com/agents/x"}
}

func TestLaunchSendsFixedFieldsOnly(t *testing.T) {
	t.Parallel()
	hook := &bridge.Webhook{URL: "https://bridge.example.com/hooks/1", Secret: strings.Repeat("s", 32)}
	for name, c := range map[string]struct {
		api, route, answer string
		want               map[string]any
		started            bridge.Started
	}{
		"v1": {bridge.APIv1, "POST /v1/agents", createdV1, map[string]any{
			"agentId": agentID, "name": "build it",
			"prompt":       map[string]any{"text": "do <this> & that"},
			"model":        map[string]any{"id": "m-1"},
			"repos":        []any{map[string]any{"url": "https://github.com/me/my-app", "startingRef": "main"}},
			"autoCreatePR": true,
			"mcpServers":   []any{map[string]any{"name": "drawbridge", "url": "https://bridge.example.com/mcp", "headers": map[string]any{"Authorization": "Bearer dbt_1"}}},
		}, wantV1()},
		"v0": {bridge.APIv0, "POST /v0/agents", createdV0, map[string]any{
			"prompt":  map[string]any{"text": "do <this> & that"},
			"model":   "m-1",
			"source":  map[string]any{"repository": "https://github.com/me/my-app", "ref": "main"},
			"target":  map[string]any{"branchName": "bridge/op_1", "autoCreatePr": true},
			"webhook": map[string]any{"url": hook.URL, "secret": hook.Secret},
		}, bridge.Started{Agent: "bc_1", Repo: "https://github.com/me/my-app", URL: "https://cursor.com/agents?id=bc_1", Branch: "bridge/op_1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, map[string][]reply{c.route: {{status: 201, body: c.answer}}})
			client := newClient(t, f.URL, func(o *cloudagents.Options) {
				o.API, o.Model, o.AutoCreatePR, o.UserAgent = c.api, "m-1", true, "drawbridge/test"
			})
			l := launchOf(t)
			l.Webhook, l.Door = hook, &bridge.Door{URL: "https://bridge.example.com/mcp", Token: "dbt_1"}
			got, err := client.Launch(t.Context(), l)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.started, got); diff != "" {
				t.Error(diff)
			}
			req := f.requests()[0]
			if diff := cmp.Diff(c.want, req.Body); diff != "" {
				t.Error(diff)
			}
			if req.Header.Get("Authorization") != "Bearer "+testKey || req.Header.Get("User-Agent") != "drawbridge/test" || req.Header.Get("Content-Type") != "application/json" {
				t.Errorf("headers: %v", req.Header)
			}
			if req.Header.Get("Idempotency-Key") != "" {
				t.Error("an Idempotency-Key makes net/http repeat a POST")
			}
		})
	}
}

func TestLaunchLeavesOutWhatIsNotSet(t *testing.T) {
	t.Parallel()
	f := newFake(t, map[string][]reply{"POST /v1/agents": {{status: 201, body: createdV1}}, "POST /v0/agents": {{status: 201, body: createdV0}}})
	l := launchOf(t)
	l.Ref, l.Name = "", ""
	for _, api := range []string{bridge.APIv1, bridge.APIv0} {
		if _, err := newClient(t, f.URL, func(o *cloudagents.Options) { o.API = api }).Launch(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	prompt := map[string]any{"text": "do <this> & that"}
	want := []map[string]any{
		{"agentId": agentID, "prompt": prompt, "repos": []any{map[string]any{"url": "https://github.com/me/my-app"}}},
		{"prompt": prompt, "source": map[string]any{"repository": "https://github.com/me/my-app"}, "target": map[string]any{"branchName": "bridge/op_1"}},
	}
	got := f.requests()
	if diff := cmp.Diff(want, []map[string]any{got[0].Body, got[1].Body}); diff != "" {
		t.Error(diff)
	}
}

func TestLaunchRefusesBeforeSending(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	for name, c := range map[string]struct {
		api    string
		change func(*bridge.Launch)
		kind   bridge.ErrorKind
	}{
		"no grant":         {bridge.APIv1, func(l *bridge.Launch) { *l = bridge.Launch{AgentID: agentID, Op: "op_1"} }, bridge.Denied},
		"no agent id":      {bridge.APIv1, func(l *bridge.Launch) { l.AgentID = "" }, bridge.Invalid},
		"foreign agent id": {bridge.APIv1, func(l *bridge.Launch) { l.AgentID = "bc-1/../x" }, bridge.Invalid},
		"no op":            {bridge.APIv0, func(l *bridge.Launch) { l.Op = "" }, bridge.Invalid},
		"op as path":       {bridge.APIv0, func(l *bridge.Launch) { l.Op = "a/b" }, bridge.Invalid},
		"short secret":     {bridge.APIv0, func(l *bridge.Launch) { l.Webhook = &bridge.Webhook{URL: "https://x", Secret: "short"} }, bridge.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			l := launchOf(t)
			c.change(&l)
			_, err := newClient(t, f.URL, func(o *cloudagents.Options) { o.API = c.api }).Launch(t.Context(), l)
			check(t, err, c.kind, false)
		})
	}
	if n := len(f.requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestLaunchV1Conflict(t *testing.T) {
	t.Parallel()
	conflict := reply{status: 409, body: `{"error":{"code":"agent_id_conflict","message":"exists"}}`}
	nameless := reply{status: 409, body: `{"error":"Agent exists"}`}
	gone := reply{status: 404, body: `{"error":{"code":"agent_not_found","message":"no"}}`}
	elsewhere := strings.Replace(agentV1, "github.com/me/my-app", "github.com/other/x", 1)
	foreign := wantV1()
	foreign.Repo = "github.com/other/x"
	for name, c := range map[string]struct {
		post, get reply
		want      bridge.Started
		kind      bridge.ErrorKind
		unclear   bool
	}{
		"adopted":                        {post: conflict, get: reply{body: agentV1}, want: wantV1()},
		"adopted without a code":         {post: nameless, get: reply{body: agentV1}, want: wantV1()},
		"another repository is reported": {post: conflict, get: reply{body: elsewhere}, want: foreign},
		"deleted":                        {post: conflict, get: gone, kind: bridge.Conflict},
		"no code and no agent":           {post: nameless, get: gone, kind: bridge.Conflict},
		"cannot be read":                 {post: conflict, get: reply{status: 503}, kind: bridge.Unavailable, unclear: true},
		"another agent is read":          {post: conflict, get: reply{body: strings.Replace(agentV1, agentID, "bc-2", 1)}, kind: bridge.Unavailable, unclear: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, map[string][]reply{"POST /v1/agents": {c.post}, "GET /v1/agents/" + agentID: {c.get}, runsPath: {runsPage("", "run-1")}})
			got, err := newClient(t, f.URL).Launch(t.Context(), launchOf(t))
			check(t, err, c.kind, c.unclear)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if f.count("POST") != 1 {
				t.Errorf("%d POSTs", f.count("POST"))
			}
		})
	}
}

// What came back of a create decides whether the agent may exist.
func TestLaunchClarity(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer  reply
		kind    bridge.ErrorKind
		unclear bool
	}{
		"hang":                {reply{do: hang}, bridge.Unavailable, true},
		"cut":                 {reply{do: cut}, bridge.Unavailable, true},
		"500":                 {reply{status: 500, body: `{"error":{"code":"internal_error","message":"m"}}`}, bridge.Unavailable, true},
		"502 page":            {reply{status: 502, body: "<html>bad gateway</html>"}, bridge.Unavailable, true},
		"408":                 {reply{status: 408}, bridge.Unavailable, true},
		"redirect":            {reply{status: 302, header: map[string]string{"Location": "/elsewhere"}}, bridge.Unavailable, true},
		"not JSON":            {reply{status: 201, body: "OK"}, bridge.Unavailable, true},
		"empty":               {reply{status: 201}, bridge.Unavailable, true},
		"null":                {reply{status: 201, body: "null"}, bridge.Unavailable, true},
		"wrong types":         {reply{status: 201, body: `{"agent":[],"run":7}`}, bridge.Unavailable, true},
		"trailing garbage":    {reply{status: 201, body: createdV1 + "x"}, bridge.Unavailable, true},
		"another agent":       {reply{status: 201, body: strings.Replace(createdV1, agentID, "bc-9", 1)}, bridge.Unavailable, true},
		"another agent's run": {reply{status: 201, body: strings.Replace(createdV1, `"run":{`, `"run":{"agentId":"bc-9",`, 1)}, bridge.Unavailable, true},
		"run id as path":      {reply{status: 201, body: strings.ReplaceAll(createdV1, "run-1", "../x")}, bridge.Unavailable, true},
		"400":                 {reply{status: 400, body: `{"error":{"code":"invalid_model","message":"m"}}`}, bridge.Invalid, false},
		"401":                 {reply{status: 401, body: `{"code":"error","message":"Invalid User API Key"}`}, bridge.Unauthenticated, false},
		"403":                 {reply{status: 403, body: `{"error":{"code":"plan_required","message":"m"}}`}, bridge.Denied, false},
		"429":                 {reply{status: 429, body: `{"error":{"code":"rate_limit_exceeded"}}`}, bridge.RateLimited, false},
		"429 usage":           {reply{status: 429, body: `{"error":{"code":"usage_limit_exceeded"}}`}, bridge.UsageLimited, false},
		"a huge refusal":      {reply{do: flood(429)}, bridge.RateLimited, false},
		"a huge acceptance":   {reply{do: flood(201)}, bridge.TooLarge, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, map[string][]reply{"POST /v1/agents": {c.answer}})
			client := newClient(t, f.URL, hasty(name == "hang"), func(o *cloudagents.Options) { o.MaxReply = 1 << 10 })
			got, err := client.Launch(t.Context(), launchOf(t))
			check(t, err, c.kind, c.unclear)
			if got != (bridge.Started{}) || f.count("POST") != 1 {
				t.Errorf("started %+v with %d POSTs", got, f.count("POST"))
			}
		})
	}
}

// flood sends 100 MB, or as much as is taken.
func flood(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		for block := make([]byte, 1<<20); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
}

// Without a connection nothing was sent, so that nothing is unclear.
func TestLaunchSurelyNotSent(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	_, err = newClient(t, "http://"+addr).Launch(t.Context(), launchOf(t))
	check(t, err, bridge.Unavailable, false)
	f := newFake(t, nil)
	_, err = newClient(t, strings.Replace(f.URL, "http:", "https:", 1)).Launch(t.Context(), launchOf(t))
	check(t, err, bridge.Unavailable, false)
}

// foundAtV0 is what a look-up at v0 answers: what it does not show may have happened.
func foundAtV0(shown bool) bridge.Found {
	if shown {
		return bridge.FoundThere
	}
	return bridge.FoundUnknown
}

func TestFindLaunchV0(t *testing.T) {
	t.Parallel()
	entry := func(id, repo, branch string) string {
		return `{"id":"` + id + `","source":{"repository":"` + repo + `"},"target":{"url":"https://cursor.com/a","branchName":"` + branch + `"}}`
	}
	page := func(next string, entries ...string) reply {
		body := `{"agents":[` + strings.Join(entries, ",") + `]`
		if next != "" {
			body += `,"nextCursor":"` + next + `"`
		}
		return reply{body: body + "}"}
	}
	decoy := entry("bc_9", "https://github.com/me/other", "bridge/op_1")
	other := entry("bc_8", "https://github.com/me/my-app", "bridge/op_2")
	mine := entry("bc_1", "github.com/Me/my-app.git", "bridge/op_1")
	for name, c := range map[string]struct {
		pages []reply
		want  string
		calls int
	}{
		"first page":                  {[]reply{page("n", other, decoy, mine)}, "bc_1", 1},
		"third page":                  {[]reply{page("n2", other), page("n3", decoy), page("n4", mine)}, "bc_1", 3},
		"beyond the third":            {[]reply{page("n2"), page("n3"), page("n4"), page("", mine)}, "", 3},
		"last page":                   {[]reply{page("", other, decoy)}, "", 1},
		"no repository reported":      {[]reply{page("", entry("bc_1", "", "bridge/op_1"))}, "bc_1", 1},
		"an id that is no id":         {[]reply{page("", entry("../../x", myRepo, "bridge/op_1"))}, "", 1},
		"a branch with a longer name": {[]reply{page("", entry("bc_1", myRepo, "bridge/op_12"))}, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, map[string][]reply{"GET /v0/agents": c.pages})
			got, found, err := newClient(t, f.URL, withV0).FindLaunch(t.Context(), launchOf(t))
			if err != nil || found != foundAtV0(c.want != "") || got.Agent != c.want {
				t.Errorf("%+v %v %v", got, found, err)
			}
			reqs := f.requests()
			if len(reqs) != c.calls || reqs[0].Query != "limit=100" {
				t.Errorf("requests: %+v", reqs)
			}
			if len(reqs) > 1 && reqs[1].Query != "cursor=n2&limit=100" {
				t.Errorf("second page asked with %q", reqs[1].Query)
			}
		})
	}
}

// A repeat asks the version of the first attempt, whatever the default is by now.
func TestLaunchVersion(t *testing.T) {
	t.Parallel()
	f := newFake(t, map[string][]reply{
		"POST /v1/agents": {{status: 201, body: createdV1}}, "GET /v1/agents/" + agentID: {{body: agentV1}}, runsPath: {runsPage("", "run-1")},
		"POST /v0/agents": {{status: 201, body: createdV0}}, "GET /v0/agents": {{body: `{"agents":[` + createdV0 + `]}`}},
	})
	for _, c := range []struct{ launch, def, want string }{
		{bridge.APIv0, bridge.APIv1, "bc_1"}, {bridge.APIv1, bridge.APIv0, agentID}, {"", bridge.APIv0, "bc_1"}, {"", "", agentID},
	} {
		client := newClient(t, f.URL, func(o *cloudagents.Options) { o.API = c.def })
		l := launchOf(t)
		l.API = c.launch
		made, err := client.Launch(t.Context(), l)
		if err != nil || made.Agent != c.want {
			t.Errorf("launch at %q by default %q: %+v %v", c.launch, c.def, made, err)
		}
		l.Grant = policy.Grant{}
		again, found, err := client.FindLaunch(t.Context(), l)
		if err != nil || found != bridge.FoundThere || again != made {
			t.Errorf("find at %q by default %q: %+v %v", c.launch, c.def, again, err)
		}
	}
	l := launchOf(t)
	l.API = "v2"
	_, err := newClient(t, f.URL).Launch(t.Context(), l)
	check(t, err, bridge.Invalid, false)
}

func TestSameRepo(t *testing.T) {
	t.Parallel()
	for reported, want := range map[string]bool{
		"github.com/me/my-app":              true,
		"https://github.com/Me/My-App.git/": true,
		"github.com/me/my-app2":             false,
		"github.com/me/my-app.git.git":      false,
		"https://github.com.evil/me/my-app": false,
		"git@github.com:me/my-app":          false,
		"":                                  false,
	} {
		if got := cloudagents.SameRepo(reported, myRepo); got != want {
			t.Errorf("SameRepo(%q) = %v", reported, got)
		}
	}
	if cloudagents.SameRepo("", "") {
		t.Error("nothing is not the same as nothing")
	}
}

// TestLaunchOnACloneIsRefused: a clone on a person's machine is nothing that the cloud could reach, and its name never leaves.
func TestLaunchOnACloneIsRefused(t *testing.T) {
	t.Parallel()
	p, problems := policy.New(policy.Rules{Repos: []policy.RepoRule{{Pattern: "local/my-app", Runtime: "laptop"}}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	asked := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer server.Close()
	c, err := cloudagents.New(cloudagents.Options{Key: testKey, BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	g := p.Grant(nil, parser.Command{Verb: parser.Subagent, Repo: "local/my-app", Prompt: "x"}, true).Grant
	for _, api := range []string{bridge.APIv0, bridge.APIv1} {
		if _, err := c.Launch(t.Context(), bridge.Launch{Grant: g, API: api, AgentID: "bc-1"}); bridge.KindOf(err) != bridge.Denied || !g.Valid() {
			t.Errorf("%s: %v", api, err)
		}
	}
	if asked {
		t.Error("the API was asked")
	}
}
