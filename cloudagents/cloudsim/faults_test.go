package cloudsim_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drawbridge/cloudagents/cloudsim"
	"drawbridge/cloudagents/cloudsim/script"
)

// served puts a service on a real port, for the faults that break connections.
func served(t *testing.T, yaml string) (service, string) {
	t.Helper()
	s := start(t, yaml)
	server := cloudsim.NewServer(s.Sim, "127.0.0.1:0")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return s, server.URL()
}

func send(t *testing.T, method, url, body string) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+cloudsim.DefaultKey)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	return res.StatusCode, string(data), err
}

func TestLostAnswersHaveHadTheirEffect(t *testing.T) {
	t.Parallel()
	s, url := served(t, "latency: 0s\ndefault: { after: 0s }\nfaults: [ { fault: lost_create_response, times: 1, repo: github.com/me/* }, { fault: followup_lost_response, times: 1 } ]")
	if _, _, err := send(t, "POST", url+"/v1/agents", createV1); !errors.Is(err, io.EOF) {
		t.Errorf("error %v, want EOF", err)
	}
	s.wantKinds(cloudsim.AgentCreated)
	agent := url + "/v0/agents/" + s.Log()[0].AgentID
	if _, _, err := send(t, "POST", agent+"/followup", `{"prompt":{"text":"x"}}`); !errors.Is(err, io.EOF) {
		t.Errorf("error %v, want EOF", err)
	}
	s.wantKinds(cloudsim.AgentCreated, cloudsim.RunCreated)
	if code, _, err := send(t, "POST", url+"/v1/agents", createV1); code != 201 || err != nil {
		t.Errorf("status %d, error %v: the fault has been used up", code, err)
	}
}

func TestDroppedStreamEndsInTheMiddle(t *testing.T) {
	t.Parallel()
	s, url := served(t, "latency: 1h")
	_, run := s.create()
	s.fault(cloudsim.Fault{Kind: script.StreamDrop, Count: 1})
	code, body, err := send(t, "GET", url+run+"/stream", "")
	if code != 200 || !errors.Is(err, io.ErrUnexpectedEOF) || strings.Count(body, "\n\n") != 1 {
		t.Errorf("status %d, error %v, body %q", code, err, body)
	}
}

func TestHangIsBounded(t *testing.T) {
	t.Parallel()
	s, url := served(t, "")
	s.fault(cloudsim.Fault{Kind: script.Hang, Op: script.OpCreate, Delay: script.Duration(20 * time.Millisecond)})
	begun := time.Now()
	if _, _, err := send(t, "POST", url+"/v1/agents", createV1); !errors.Is(err, io.EOF) || time.Since(begun) < 20*time.Millisecond {
		t.Errorf("error %v after %v", err, time.Since(begun))
	}
	s.wantKinds()
}

func TestServerRefusesOtherAddresses(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "nonsense"} {
		if err := cloudsim.NewServer(s.Sim, addr).Start(); err == nil {
			t.Errorf("%q was opened", addr)
		}
	}
}

func TestAnswerFaults(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		fault  cloudsim.Fault
		status int
		code   string
		happen bool
	}{
		{"5xx before", cloudsim.Fault{Kind: script.Create5xx}, 500, "internal_error", false},
		{"5xx after", cloudsim.Fault{Kind: script.Create5xx, When: script.After, Status: 503}, 503, "internal_error", true},
		{"rate limit", cloudsim.Fault{Kind: script.RateLimit, Delay: script.Duration(7 * time.Second)}, 429, "rate_limit_exceeded", false},
		{"usage limit", cloudsim.Fault{Kind: script.UsageLimit}, 429, "usage_limit_exceeded", false},
		{"garbage after", cloudsim.Fault{Kind: script.GarbageResponse}, 200, "", true},
		{"garbage before", cloudsim.Fault{Kind: script.GarbageResponse, When: script.Before}, 200, "", false},
		{"another repository", cloudsim.Fault{Kind: script.RateLimit, Repo: "github.com/me/other"}, 201, "", true},
		{"another version", cloudsim.Fault{Kind: script.RateLimit, API: script.V0}, 201, "", true},
		{"another operation", cloudsim.Fault{Kind: script.RateLimit, Op: script.OpGet}, 201, "", true},
		{"slow", cloudsim.Fault{Kind: script.SlowCreate}, 201, "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := start(t, "")
				s.fault(tc.fault)
				begun := time.Now()
				a := s.do("POST", "/v1/agents", createV1).want(tc.status)
				if a.code() != tc.code {
					t.Errorf("code %q, want %q", a.code(), tc.code)
				}
				if tc.status == 200 && a.body != nil {
					t.Errorf("%s is JSON", a.Body)
				}
				if tc.code == "rate_limit_exceeded" && (a.Header().Get("Retry-After") != "7" || a.Header().Get("X-RateLimit-Reset") != "946684807") {
					t.Errorf("headers %v", a.Header())
				}
				if slow := time.Since(begun) == 35*time.Second; slow != (tc.fault.Kind == script.SlowCreate) {
					t.Errorf("took %v", time.Since(begun))
				}
				if happened := len(s.Log()) == 1; happened != tc.happen {
					t.Errorf("log %q", s.kinds())
				}
			})
		})
	}
}

func TestRunFaults(t *testing.T) {
	t.Parallel()
	const yaml = "default: { reply: text, branch: b }"
	for kind, check := range map[script.FaultKind]func(s service, agent string, run answer){
		script.FinishedWithoutResult: func(s service, agent string, run answer) {
			run.expect("status", "FINISHED")
			run.expect("result", nil)
			s.get(strings.Replace(agent, "v1", "v0", 1)+"/conversation").expect("messages.1", nil)
		},
		script.RunErrorWithoutDetail: func(_ service, _ string, run answer) {
			run.expect("status", "ERROR")
			run.expect("error", nil)
			run.expect("result", nil)
		},
		script.GitMissing: func(_ service, _ string, run answer) { run.expect("git", nil) },
		script.OversizedResult: func(s service, _ string, run answer) {
			if n := len(run.text("result")); n != 1<<20 {
				s.t.Errorf("%d bytes", n)
			}
		},
		script.WrongRepo: func(s service, agent string, run answer) {
			run.expect("git.branches.0.repoUrl", "github.com/somebody-else/other")
			s.get(agent).expect("repos.0.url", "github.com/somebody-else/other")
			s.get(strings.Replace(agent, "v1", "v0", 1)).expect("source.repository", "https://github.com/somebody-else/other")
			if got := s.Log()[0].Repo; got != "github.com/me/my-app" {
				s.t.Errorf("the log must name what was asked for, not %q", got)
			}
		},
		script.SchemefulRepoURLs: func(s service, agent string, run answer) {
			run.expect("git.branches.0.repoUrl", repoURL)
			s.get(agent).expect("repos.0.url", repoURL)
			if stream := s.do("GET", agent+"/runs/"+run.text("id")+"/stream", "").want(200).Body.String(); !strings.Contains(stream, `"repoUrl":"`+repoURL+`"`) {
				s.t.Errorf("the stream names no repository with a scheme:\n%s", stream)
			}
		},
		script.Cancel500: func(s service, agent string, _ answer) {
			s.fault(cloudsim.Fault{Kind: script.Cancel500, Times: 1})
			id := s.do("POST", agent+"/runs", `{"prompt":{"text":"x"}}`).want(201).text("run.id")
			s.do("POST", agent+"/runs/"+id+"/cancel", "").want(500)
			s.get(agent+"/runs/"+id).expect("status", "CREATING")
		},
		script.FollowupInvisible: func(s service, agent string, _ answer) {
			v0 := strings.Replace(agent, "v1", "v0", 1)
			s.do("POST", v0+"/followup", `{"prompt":{"text":"later"}}`).want(200)
			time.Sleep(4 * time.Second)
			s.get(v0+"/conversation").expect("messages.2", nil)
			time.Sleep(2 * time.Second)
			s.get(v0+"/conversation").expect("messages.2.text", "later")
		},
		script.RunsLag: func(s service, agent string, run answer) {
			s.get(agent+"/runs").expect("items.0", nil) // a second old
			s.get(agent).expect("latestRunId", run.text("id"))
			time.Sleep(5 * time.Second)
			s.do("POST", agent+"/runs", `{"prompt":{"text":"x"}}`).want(201)
			list := s.get(agent + "/runs")
			list.expect("items.0.id", run.text("id"))
			list.expect("items.1", nil)
		},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := start(t, yaml)
				s.fault(cloudsim.Fault{Kind: kind})
				agent, run := s.create()
				time.Sleep(time.Second)
				check(s, agent, s.get(run))
			})
		})
	}
}

func TestFaultsCanBeSetFromOutside(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.do("POST", "/_sim/faults", `[{"fault":"rate_limit","op":"me","times":2},{"fault":"hang","op":"list","delay":"2s"}]`).want(200)
	s.do("GET", "/v1/me", "").want(429)
	on := s.get("/_sim/faults")
	on.expect("0.times", 1.0)
	on.expect("1.delay", "2s")
	s.do("GET", "/v0/me", "").want(429)
	s.get("/v1/me")
	s.do("DELETE", "/_sim/faults", "").want(200)
	s.get("/v1/agents")
	for _, bad := range []string{
		"", "x", `{}`, `{"fault":"none"}`, `{"fault":"hang","kind":1}`, `{"fault":"hang","delay":"-1s"}`, `{"fault":"hang","delay":3}`,
		`{"fault":"lost_create_response","op":"get"}`, `{"fault":"rate_limit","op":"dance"}`, `{"fault":"rate_limit","when":"after"}`,
		`{"fault":"error_shape","shape":"Z"}`, `{"fault":"create_5xx","status":200}`, `{"fault":"rate_limit","api":"v2"}`,
		`{"fault":"oversized_result","bytes":999999999}`, `{"fault":"wrong_repo","as":"x"}`, `[{"fault":"hang"},{"fault":"none"}]`,
	} {
		s.do("POST", "/_sim/faults", bad).want(400).expect("error.code", "validation_error")
	}
	s.get("/_sim/faults").expect("0", nil)
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	for yaml, agents := range map[string]int{"": 2, "settings: { idempotency_key: replay }": 1} {
		s := start(t, yaml)
		first := s.do("POST", "/v1/agents", createV1, "Idempotency-Key", "k").want(201)
		second := s.do("POST", "/v1/agents", createV1, "Idempotency-Key", "k").want(201)
		if len(s.Log()) != agents || (first.text("agent.id") == second.text("agent.id")) != (agents == 1) {
			t.Errorf("%q: log %q", yaml, s.kinds())
		}
	}
}

func TestLogAndStateOverHTTP(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, "")
		a := s.do("POST", "/v0/agents", strings.Replace(hookedV0, "127.0.0.1", "192.0.2.1", 1)).want(201)
		time.Sleep(time.Second)
		log := s.get("/_sim/log")
		for path, want := range map[string]any{
			"0.seq": 1.0, "0.kind": "agent_created", "0.api": "v0", "0.agentId": a.text("id"), "0.repo": "github.com/me/my-app",
			"0.prompt": "do <it>", "0.branch": "bridge/op-1", "0.at": "2000-01-01T00:00:00Z", "1": nil,
		} {
			log.expect(path, want)
		}
		state := s.get("/_sim/state")
		state.expect("agents.0.runs.0.result", "Done.")
		state.expect("deliveries.0.problem", "not sent: the simulator sends webhooks to loopback addresses only")
		if strings.Contains(state.Body.String(), secret) {
			t.Error("the state shows the webhook's secret")
		}
	})
}
