package cloudsim_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"drawbridge/cloudagents/cloudsim"
	"drawbridge/cloudagents/cloudsim/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counter is a source of ids that repeats from run to run.
type counter struct{ n byte }

func (c *counter) Read(p []byte) (int, error) {
	c.n++
	for i := range p {
		p[i] = c.n
	}
	return len(p), nil
}

// service is a Sim that is called without a network, so that it can live in a synctest bubble.
type service struct {
	t *testing.T
	*cloudsim.Sim
}

func start(t *testing.T, yaml string, adjust ...func(*cloudsim.Options)) service {
	t.Helper()
	sc, err := script.Parse([]byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	opts := cloudsim.Options{Script: sc}
	for _, f := range adjust {
		f(&opts)
	}
	sim, err := cloudsim.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	return service{t, sim}
}

// answer is a response with its JSON read.
type answer struct {
	*httptest.ResponseRecorder
	t    *testing.T
	body any
}

func (s service) do(method, path, body string, headers ...string) answer {
	s.t.Helper()
	req := httptest.NewRequestWithContext(s.t.Context(), method, path, strings.NewReader(body))
	req.SetBasicAuth(cloudsim.DefaultKey, "")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	a := answer{ResponseRecorder: httptest.NewRecorder(), t: s.t}
	s.Handler().ServeHTTP(a, req)
	_ = json.Unmarshal(a.Body.Bytes(), &a.body)
	return a
}

func (s service) get(path string) answer { s.t.Helper(); return s.do("GET", path, "").want(200) }

func (a answer) want(code int) answer {
	a.t.Helper()
	if a.Code != code {
		a.t.Fatalf("status %d, want %d: %s", a.Code, code, a.Body)
	}
	return a
}

// at follows a path such as "items.0.id" through the body; nil when it does not exist.
func (a answer) at(path string) any {
	v := a.body
	for _, step := range strings.Split(path, ".") {
		switch node := v.(type) {
		case map[string]any:
			v = node[step]
		case []any:
			var i int
			if _, err := fmt.Sscanf(step, "%d", &i); err != nil || i >= len(node) {
				return nil
			}
			v = node[i]
		default:
			return nil
		}
	}
	return v
}

func (a answer) text(path string) string { s, _ := a.at(path).(string); return s }

// code is the machine-readable error code in shape A.
func (a answer) code() string { return a.text("error.code") }

func (a answer) expect(path string, want any) {
	a.t.Helper()
	if got := a.at(path); got != want {
		a.t.Errorf("%s = %v, want %v in %s", path, got, want, a.Body)
	}
}

const (
	repoURL  = "https://github.com/me/my-app"
	createV1 = `{"prompt":{"text":"do it"},"repos":[{"url":"https://github.com/me/my-app"}]}`
	createV0 = `{"prompt":{"text":"do it"},"source":{"repository":"https://github.com/me/my-app"}}`
)

// create makes a v1 agent and returns the paths of it and of its first run.
func (s service) create() (agent, run string) {
	s.t.Helper()
	a := s.do("POST", "/v1/agents", createV1).want(201)
	agent = "/v1/agents/" + a.text("agent.id")
	return agent, agent + "/runs/" + a.text("run.id")
}

func (s service) kinds() string {
	var kinds []string
	for _, e := range s.Log() {
		kinds = append(kinds, string(e.Kind))
	}
	return strings.Join(kinds, " ")
}

func (s service) wantKinds(want ...cloudsim.EffectKind) {
	s.t.Helper()
	words := make([]string, len(want))
	for i, k := range want {
		words[i] = string(k)
	}
	if got := s.kinds(); got != strings.Join(words, " ") {
		s.t.Errorf("log has %q, want %q", got, words)
	}
}

func (s service) fault(f cloudsim.Fault) {
	s.t.Helper()
	if err := s.AddFault(f); err != nil {
		s.t.Fatal(err)
	}
}

const shipScript = `
latency: 400ms
agents:
  - repo: github.com/me/my-app
    turns:
      - match: "do it"
        reply: "Turn {{.Turn}} of {{.Repo}}: {{.Prompt}}"
        branch: cursor/do-it-1
        pr: https://github.com/me/my-app/pull/7
`

func TestRunGoesThroughItsStates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, shipScript)
		agent, run := s.create()
		s.get(run).expect("status", "CREATING")
		time.Sleep(99 * time.Millisecond)
		s.get(run).expect("status", "CREATING")
		time.Sleep(2 * time.Millisecond)
		running := s.get(run)
		running.expect("status", "RUNNING")
		for _, absent := range []string{"durationMs", "result", "git"} {
			running.expect(absent, nil)
		}
		time.Sleep(299 * time.Millisecond)
		synctest.Wait()
		over := s.get(run)
		over.expect("status", "FINISHED")
		over.expect("durationMs", 400.0)
		over.expect("result", "Turn 1 of github.com/me/my-app: do it")
		over.expect("git.branches.0.repoUrl", "github.com/me/my-app")
		over.expect("git.branches.0.branch", "cursor/do-it-1")
		over.expect("git.branches.0.prUrl", "https://github.com/me/my-app/pull/7")
		over.expect("createdAt", "2000-01-01T00:00:00.000Z")
		a := s.get(agent)
		a.expect("repos.0.url", "github.com/me/my-app")
		a.expect("status", "ACTIVE")
		if a.text("latestRunId") != over.text("id") {
			t.Errorf("latestRunId %q, want %q", a.text("latestRunId"), over.text("id"))
		}
		s.wantKinds(cloudsim.AgentCreated)
	})
}

func TestV0SeesTheSameAgents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, shipScript)
		agent, _ := s.create()
		v0 := strings.Replace(agent, "v1", "v0", 1)
		s.get(v0).expect("status", "CREATING")
		time.Sleep(time.Second)
		a := s.get(v0)
		a.expect("status", "FINISHED")
		a.expect("source.repository", repoURL)
		a.expect("target.branchName", "cursor/do-it-1")
		a.expect("target.prUrl", "https://github.com/me/my-app/pull/7")
		a.expect("summary", "Turn 1 of github.com/me/my-app: do it")
		s.get("/v0/agents?prUrl=https://github.com/me/my-app/pull/7").expect("agents.0.id", a.text("id"))
		s.get("/v0/agents?prUrl=https://github.com/me/my-app/pull/8").expect("agents.0.id", nil)
	})
}

func TestOneActiveRunAnAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, shipScript)
		agent, _ := s.create()
		again := func() answer { return s.do("POST", agent+"/runs", `{"prompt":{"text":"do it again"}}`) }
		if a := again().want(409); a.code() != "agent_busy" {
			t.Errorf("code %q", a.code())
		}
		time.Sleep(time.Second)
		s.do("POST", agent+"/archive", "").want(200)
		s.do("POST", agent+"/archive", "").want(200)
		if a := again().want(409); a.code() != "agent_archived" {
			t.Errorf("code %q", a.code())
		}
		s.get("/v1/agents?includeArchived=false").expect("items.0.id", nil)
		s.get("/v1/agents").expect("items.0.status", "ARCHIVED")
		s.do("POST", agent+"/unarchive", "").want(200)
		again().want(201).expect("run.status", "CREATING")
		time.Sleep(time.Second)
		s.get(agent+"/runs").expect("items.0.result", "Turn 2 of github.com/me/my-app: do it again")
		s.wantKinds(cloudsim.AgentCreated, cloudsim.AgentArchived, cloudsim.AgentUnarchived, cloudsim.RunCreated)
	})
}

func TestV0FollowupWaitsBehindTheActiveRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, shipScript)
		a := s.do("POST", "/v0/agents", createV0).want(201)
		path := "/v0/agents/" + a.text("id")
		s.do("POST", path+"/followup", `{"prompt":{"text":"do it twice"}}`).want(200).expect("id", a.text("id"))
		s.get(path+"/conversation").expect("messages.1", nil)
		time.Sleep(450 * time.Millisecond)
		s.get(path).expect("status", "CREATING")
		time.Sleep(time.Second)
		s.get(path).expect("status", "FINISHED")
		c := s.get(path + "/conversation")
		c.expect("messages.0.type", "user_message")
		c.expect("messages.1.type", "assistant_message")
		c.expect("messages.2.text", "do it twice")
		c.expect("messages.3.text", "Turn 2 of github.com/me/my-app: do it twice")
		if again := s.get(path + "/conversation"); again.text("messages.0.id") == c.text("messages.0.id") {
			t.Error("message ids must change from call to call")
		}
		s.wantKinds(cloudsim.AgentCreated, cloudsim.RunCreated)
	})
}

func TestV0FollowupCanBeRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, "settings: { v0_followup_while_running: refuse }")
		a := s.do("POST", "/v0/agents", createV0).want(201)
		got := s.do("POST", "/v0/agents/"+a.text("id")+"/followup", `{"prompt":{"text":"x"}}`).want(409)
		got.expect("error.code", "agent_busy")
		s.wantKinds(cloudsim.AgentCreated)
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, shipScript)
		agent, run := s.create()
		time.Sleep(200 * time.Millisecond)
		s.do("POST", run+"/cancel", "").want(200).expect("id", run[strings.LastIndex(run, "/")+1:])
		r := s.get(run)
		r.expect("status", "CANCELLED")
		r.expect("durationMs", 200.0)
		r.expect("result", nil)
		s.do("POST", run+"/cancel", "").want(409).expect("error.code", "run_not_cancellable")
		s.do("POST", agent+"/runs/run-none/cancel", "").want(404).expect("error.code", "run_not_found")
		s.get(strings.Replace(agent, "v1", "v0", 1)).expect("status", "FINISHED")
		time.Sleep(time.Second)
		s.get(run).expect("status", "CANCELLED")
		s.do("POST", agent+"/runs", `{"prompt":{"text":"go on"}}`).want(201)
		s.wantKinds(cloudsim.AgentCreated, cloudsim.RunCancelled, cloudsim.RunCreated)
	})
}

func TestV0StopDropsWhatWaitsAndAFollowupStartsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, shipScript+"\nsettings: { v0_cancelled: EXPIRED }")
		path := "/v0/agents/" + s.do("POST", "/v0/agents", createV0).want(201).text("id")
		s.do("POST", path+"/followup", `{"prompt":{"text":"second"}}`).want(200)
		s.do("POST", path+"/stop", "").want(200)
		s.get(path).expect("status", "EXPIRED")
		s.do("POST", path+"/stop", "").want(409)
		time.Sleep(time.Second)
		s.get(path).expect("status", "EXPIRED")
		s.do("POST", path+"/followup", `{"prompt":{"text":"third"}}`).want(200)
		time.Sleep(time.Second)
		s.get(path).expect("status", "FINISHED")
		s.wantKinds(cloudsim.AgentCreated, cloudsim.RunCreated, cloudsim.FollowupDropped, cloudsim.RunCancelled, cloudsim.RunCreated)
	})
}

func TestAgentIDIsTakenForGood(t *testing.T) {
	t.Parallel()
	const id = "bc-0000aaaa-0000-4000-8000-000000000001"
	body := strings.Replace(createV1, "{", `{"agentId":"`+id+`",`, 1)
	for _, tc := range []struct {
		name, yaml string
		afterwards int
	}{{"default", "", 409}, {"reuse", "settings: { reuse_deleted_ids: true }", 201}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := start(t, tc.yaml)
				s.do("POST", "/v1/agents", body).want(201).expect("agent.id", id)
				s.do("POST", "/v1/agents", body).want(409).expect("error.code", "agent_id_conflict")
				s.do("POST", "/v1/agents", strings.Replace(body, "aaaa", "AAAA", 1)).want(409)
				s.wantKinds(cloudsim.AgentCreated, cloudsim.DuplicateRefused, cloudsim.DuplicateRefused)
				s.do("DELETE", "/v1/agents/"+id, "").want(200).expect("id", id)
				s.do("GET", "/v1/agents/"+id, "").want(404).expect("error.code", "agent_not_found")
				s.do("POST", "/v1/agents", body).want(tc.afterwards)
			})
		})
	}
}

func TestV0DeletedAndArchivedAgents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, "")
		id := s.do("POST", "/v0/agents", createV0).want(201).text("id")
		path := "/v0/agents/" + id
		s.do("POST", "/v1/agents/"+id+"/archive", "").want(200)
		calls := []struct{ method, path, body string }{
			{"POST", path + "/followup", `{"prompt":{"text":"x"}}`}, {"POST", path + "/stop", ""},
			{"GET", path + "/conversation", ""}, {"DELETE", path, ""},
		}
		for _, c := range calls {
			s.do(c.method, c.path, c.body).want(409).expect("error.code", "agent_archived")
		}
		s.get(path)
		s.do("POST", "/v1/agents/"+id+"/unarchive", "").want(200)
		s.do("DELETE", path, "").want(200).expect("id", id)
		for _, c := range calls {
			s.do(c.method, c.path, c.body).want(409).expect("error.code", "agent_deleted")
		}
		s.do("GET", path, "").want(404)
		s.do("GET", "/v0/agents/nonsense", "").want(400)
		s.get("/v0/agents").expect("agents.0", nil)
	})
}

func TestOnceTurnsAndRegexps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, `
agents:
  - repo: github.com/*/my-app
    turns:
      - { match: it, reply: first, once: true, after: 1s }
      - { regexp: "^do .t$", reply: second, status: ERROR, error: { message: boom, code: upstream_error } }
  - repo: none
    turns: [ { reply: no repository } ]
default: { reply: default, after: 0s }
`)
		agent, run := s.create()
		time.Sleep(2 * time.Second)
		s.get(run).expect("result", "first")
		next := func(prompt string) answer {
			s.do("POST", agent+"/runs", `{"prompt":{"text":"`+prompt+`"}}`).want(201)
			time.Sleep(2 * time.Second)
			return s.get(agent + "/runs")
		}
		second := next("do it")
		second.expect("items.0.status", "ERROR")
		second.expect("items.0.error.message", "boom")
		next("else").expect("items.0.result", "default")
		s.do("POST", "/v1/agents", `{"prompt":{"text":"hello"}}`).want(201).expect("agent.env.type", "cloud")
		time.Sleep(time.Second)
		last := s.State().Agents[1].Runs[0]
		if last.Result != "no repository" {
			t.Errorf("result %q", last.Result)
		}
	})
}

func TestPagesAreNewestFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, "")
		for i := range 5 {
			s.do("POST", "/v1/agents", fmt.Sprintf(`{"prompt":{"text":"p"},"name":"n%d"}`, i)).want(201)
		}
		for _, v := range []struct{ api, key string }{{"v0", "agents"}, {"v1", "items"}} {
			var names []string
			path := "/" + v.api + "/agents?limit=2"
			for pages := 0; path != "" && pages < 9; pages++ {
				a := s.get(path)
				for i := 0; a.at(fmt.Sprintf("%s.%d", v.key, i)) != nil; i++ {
					names = append(names, a.text(fmt.Sprintf("%s.%d.name", v.key, i)))
				}
				path = ""
				if next := a.text("nextCursor"); next != "" {
					path = "/" + v.api + "/agents?limit=2&cursor=" + next
					s.do("POST", "/v1/agents", `{"prompt":{"text":"p"},"name":"later"}`).want(201) // must not shift the pages
				}
			}
			if got := strings.Join(names, " "); !strings.HasSuffix(got, "n4 n3 n2 n1 n0") || strings.Count(got, "later") > 2 {
				t.Errorf("%s: %s", v.api, got)
			}
		}
		cursor := s.get("/v0/agents?limit=1").text("nextCursor")
		for _, q := range []string{"limit=0", "limit=101", "limit=x", "limit=", "cursor=", "cursor=zzz", "cursor=" + cursor, "includeArchived=perhaps"} {
			s.do("GET", "/v1/agents?"+q, "").want(400).expect("error.code", "validation_error")
		}
		if _, has := s.get("/v1/agents?limit=100").body.(map[string]any)["nextCursor"]; has {
			t.Error("nextCursor on the last page")
		}
	})
}

func TestRepositoryListsAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, "repositories: [github.com/me/my-app, https://github.com/me/two]")
		s.get("/v1/repositories").expect("items.1.url", "https://github.com/me/two")
		a := s.do("GET", "/v0/repositories", "").want(429)
		a.expect("error.code", "rate_limit_exceeded")
		for h, want := range map[string]string{"Retry-After": "60", "X-RateLimit-Limit": "1", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "946684860"} {
			if got := a.Header().Get(h); got != want {
				t.Errorf("%s: %q, want %q", h, got, want)
			}
		}
		for range 29 {
			time.Sleep(time.Minute)
			s.get("/v0/repositories").expect("repositories.0.owner", "me")
		}
		time.Sleep(time.Minute)
		a = s.do("GET", "/v1/repositories", "").want(429)
		if got := a.Header().Get("Retry-After"); got != "1800" {
			t.Errorf("Retry-After %q, want 1800", got)
		}
		time.Sleep(30 * time.Minute)
		s.get("/v1/repositories")
	})
	s := start(t, "settings: { unlimited_repositories: true }")
	s.get("/v1/repositories")
	s.get("/v1/repositories")
}

func TestArtifacts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, `default: { reply: ok, artifacts: [ { path: artifacts/shot.png, content: pixels }, { path: a/b.txt, content: "" } ] }`)
		agent, _ := s.create()
		v0 := strings.Replace(agent, "v1", "v0", 1)
		s.get(agent+"/artifacts").expect("items.0", nil)
		time.Sleep(time.Second)
		list := s.get(agent + "/artifacts")
		list.expect("items.0.path", "artifacts/shot.png")
		list.expect("items.0.sizeBytes", 6.0)
		s.get(v0+"/artifacts").expect("artifacts.1.absolutePath", "/opt/cursor/artifacts/a/b.txt")
		link := s.get(v0 + "/artifacts/download?path=/opt/cursor/artifacts/shot.png")
		link.expect("expiresAt", "2000-01-01T00:15:01.000Z")
		s.do("GET", agent+"/artifacts/download?path=artifacts/none", "").want(404).expect("error.code", "artifact_not_found")
		s.do("GET", agent+"/artifacts/download?path=/etc/passwd", "").want(400)
		s.do("GET", agent+"/artifacts/download", "").want(400)
		raw := link.text("url")
		if got := s.do("GET", raw, "", "Authorization", "").want(200).Body.String(); got != "pixels" {
			t.Errorf("content %q", got)
		}
		s.do("GET", strings.Replace(raw, "shot.png", "a%2Fb.txt", 1), "", "Authorization", "").want(403)
		time.Sleep(15 * time.Minute)
		s.do("GET", raw, "").want(403)
	})
}

func TestUsage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, "")
		agent, run := s.create()
		s.get(agent+"/usage").expect("totalUsage.totalTokens", 0.0)
		time.Sleep(time.Second)
		id := run[strings.LastIndex(run, "/")+1:]
		u := s.get(agent + "/usage?runId=" + id)
		u.expect("runs.0.id", id)
		if u.at("totalUsage.totalTokens") == 0.0 {
			t.Error("a run that is over has usage")
		}
		s.do("GET", agent+"/usage?runId=run-x", "").want(404).expect("error.code", "run_not_found")
		off := start(t, "settings: { no_usage: true }")
		off.do("GET", agent+"/usage", "").want(403).expect("error.code", "feature_unavailable")
	})
}

func TestUsageByScript(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, `
settings: { usage_cost: true, cost_lag: 1m }
default: { usage: { input: 1000, output: 200, cache_write: 30, cache_read: 4, cents: 2.5, charged: 0.5 } }
`)
		agent, run := s.create()
		time.Sleep(time.Second)
		u := s.get(agent + "/usage")
		u.expect("totalUsage.totalTokens", 1234.0)
		u.expect("cost", nil) // it lags
		u.expect("runs.0.cost", nil)
		time.Sleep(time.Minute)
		s.do("POST", agent+"/runs", `{"prompt":{"text":"x"}}`).want(201)
		s.get(agent+"/usage").expect("runs.1.usage.totalTokens", 0.0) // it runs
		time.Sleep(time.Second)
		u = s.get(agent + "/usage")
		u.expect("totalUsage.totalTokens", 2468.0)
		u.expect("cost.rawCostCents", 2.5) // of the first run alone
		u.expect("cost.chargedCents", 0.5)
		u.expect("runs.1.cost", nil)
		time.Sleep(time.Minute)
		s.get(agent+"/usage").expect("cost.chargedCents", 1.0)
		s.get(agent+"/usage?runId="+run[strings.LastIndex(run, "/")+1:]).expect("cost.chargedCents", 0.5)

		invented := start(t, "settings: { usage_cost: true }")
		agent, _ = invented.create()
		time.Sleep(time.Second)
		u = invented.get(agent + "/usage")
		if cents, _ := u.at("cost.chargedCents").(float64); cents <= 0 {
			t.Errorf("cost %v", u.at("cost"))
		}
		silent := start(t, "")
		agent, _ = silent.create()
		time.Sleep(time.Second)
		silent.get(agent+"/usage").expect("cost", nil)
	})
}

func TestScriptFromAFile(t *testing.T) {
	t.Parallel()
	sc, err := cloudsim.LoadScript("script/testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sim, err := cloudsim.New(cloudsim.Options{Script: sc})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	if n := len(sim.Faults()); n != 2 {
		t.Errorf("%d faults, want 2", n)
	}
	_, err = cloudsim.New(cloudsim.Options{Script: &cloudsim.Script{Default: &script.Turn{Status: "DONE"}}})
	if err == nil || !strings.Contains(err.Error(), "default.status") {
		t.Errorf("error %v", err)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	s := start(t, "latency: 1h")
	_, run := s.create()
	ended := make(chan answer)
	go func() { ended <- s.do("GET", run+"/stream", "") }()
	s.Close()
	s.Close()
	<-ended
	if http.StatusServiceUnavailable != s.do("GET", "/v1/me", "").Code {
		t.Error("a closed simulator must say so")
	}
}
