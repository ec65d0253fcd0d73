package cloudagents_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	"drawbridge/bridge"
	"drawbridge/cloudagents"
	"drawbridge/proof/fields"
)

// TestFieldsThatInform: a launch, a follow-up and a look succeed whatever form a field has that only informs.
func TestFieldsThatInform(t *testing.T) {
	t.Parallel()
	const (
		runJSON = `"run":{"id":"run-1","agentId":"` + agentID + `","createdAt":"2026-01-01T00:00:00Z","updatedAt":"x","status":"RUNNING","durationMs":1.5,"result":"","git":{"branches":[{"repoUrl":"github.com/me/my-app","branch":"b","prUrl":"https://x/1"}]},` +
			`"error":{"code":"c","message":"m"},"extra":{"deep":[1]}}`
		agentV1 = `"agent":{"id":"` + agentID + `","name":"n","status":"RUNNING","url":"https://x","createdAt":"2026-01-01T00:00:00Z","latestRunId":"run-1","repos":[{"url":"https://github.com/me/my-app","startingRef":"main"}],"model":{"id":"m"}}`
		ended   = `{"id":"run-1","agentId":"` + agentID + `","createdAt":"2026-01-01T00:00:00Z","status":"FINISHED","durationMs":1.5,"result":"Done.","git":{"branches":[{"repoUrl":"github.com/me/my-app","branch":"b","prUrl":"https://x/1"}],"n":1},"error":{"code":"c","message":"m"}}`
		agentV0 = `{"id":"bc_1","name":"n","status":"RUNNING","source":{"repository":"github.com/me/my-app","ref":"main"},"target":{"url":"https://x","branchName":"b","prUrl":"https://x/1","autoCreatePr":false},"createdAt":"2026-01-01T00:00:00Z","summary":"s"}`
	)
	for name, c := range map[string]struct {
		json, route string
		api         string
		decides     []string
		call        func(context.Context, *cloudagents.Client) (string, error)
		want        string
	}{
		"launch v1": {"{" + agentV1 + "," + runJSON + "}", "POST /v1/agents", bridge.APIv1, []string{"agent", "agent.id", "agent.latestRunId", "agent.repos", "agent.repos[].url", "run", "run.id", "run.agentId", "run.status", "run.result"},
			func(ctx context.Context, c *cloudagents.Client) (string, error) {
				s, err := c.Launch(ctx, launchOf(t))
				return s.Agent + " " + s.Run, err
			}, agentID + " run-1"},
		"send v1": {"{" + runJSON + "}", "POST /v1/agents/" + agentID + "/runs", bridge.APIv1, []string{"run", "run.id", "run.agentId", "run.status", "run.result"},
			func(ctx context.Context, c *cloudagents.Client) (string, error) {
				s, err := c.Send(ctx, bridge.FollowUp{Agent: agentID, Text: "go on", Marker: "m"})
				return s.Run, err
			}, "run-1"},
		"observe v1": {ended, "GET /v1/agents/" + agentID + "/runs/run-1", bridge.APIv1, []string{"id", "agentId", "status", "result"},
			func(ctx context.Context, c *cloudagents.Client) (string, error) {
				o, err := c.Observe(ctx, bridge.RunRef{API: bridge.APIv1, Agent: agentID, Run: "run-1"})
				return fmt.Sprint(o.State, " ", o.Reply), err
			}, "FINISHED Done."},
		"launch v0": {agentV0, "POST /v0/agents", bridge.APIv0, []string{"id", "status", "source", "source.repository", "target", "target.branchName"},
			func(ctx context.Context, c *cloudagents.Client) (string, error) {
				s, err := c.Launch(ctx, launchOf(t))
				return s.Agent, err
			}, "bc_1"},
		"me": {`{"apiKeyName":"key","userEmail":"me@x","createdAt":"2026-01-01T00:00:00Z","plan":{"name":"x"}}`, "GET /v1/me", bridge.APIv1, []string{"apiKeyName"},
			func(ctx context.Context, c *cloudagents.Client) (string, error) {
				a, err := c.Me(ctx)
				return a.KeyName, err
			}, "key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var body atomic.Value
			f := newFake(t, map[string][]reply{c.route: slices.Repeat([]reply{{do: func(w http.ResponseWriter, _ *http.Request) {
				said, _ := body.Load().(string)
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, said)
			}}}, 5000)})
			client := newClient(t, f.URL, func(o *cloudagents.Options) { o.API = c.api })
			for _, b := range fields.Break(c.json, c.decides...) {
				body.Store(b.JSON)
				if got, err := c.call(t.Context(), client); err != nil || got != c.want {
					t.Errorf("%s is %s: %q, %v", b.Path, b.Form, got, err)
				}
			}
		})
	}
}

// TestFieldsThatDecide: an answer in which the repository or v0's branch has another form is garbled. Nothing is taken for absent.
func TestFieldsThatDecide(t *testing.T) {
	t.Parallel()
	const run = `,"run":{"id":"run-1","agentId":"` + agentID + `","status":"RUNNING"}}`
	for _, body := range []string{`{"agent":{"id":"` + agentID + `","repos":{"main":"https://github.com/me/my-app"}}` + run, `{"agent":{"id":"` + agentID + `","repos":[{"url":7}]}` + run} {
		f := newFake(t, map[string][]reply{"POST /v1/agents": {{body: body}}})
		_, err := newClient(t, f.URL).Launch(t.Context(), launchOf(t))
		check(t, err, bridge.Unavailable, true)
	}
	for _, agent := range []string{`"target":7`, `"target":{"branchName":{"name":"x"}}`, `"source":7`, `"source":{"repository":7}`} {
		f := newFake(t, map[string][]reply{"GET /v0/agents": {{body: `{"agents":[{"id":"bc_1","status":"RUNNING",` + agent + `}]}`}}})
		_, found, err := newClient(t, f.URL, withV0).FindLaunch(t.Context(), launchOf(t))
		check(t, err, bridge.Unavailable, false)
		if found != bridge.FoundUnknown {
			t.Errorf("%s: %s", agent, found)
		}
	}
}
