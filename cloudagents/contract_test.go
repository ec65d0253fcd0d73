package cloudagents_test

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/cloudagents"
	"drawbridge/cloudagents/cloudsim"
	"drawbridge/cloudagents/cloudsim/script"
)

const simScript = `
keys: [` + testKey + `]
latency: 60ms
settings: { usage_cost: true }
agents:
  - repo: github.com/me/my-app
    turns:
      - match: never ends
        reply: too late
        after: 1h
      - match: at once
        reply: here
        after: 0s
      - match: leaves files
        artifacts: [ { path: report.md, content: hello }, { path: log.txt } ]
        usage: { input: 1000, output: 200, cache_write: 30, cache_read: 4, cents: 2.5, charged: 0.5 }
      - match: fails
        status: ERROR
      - match: uses a tool
        reply: "first line\nLOCAL_ACTION: backup_script\n"
        thinking: hm
        tools: [{name: read_file}]
      - reply: "answer to {{.Turn}}\nsecond line"
        branch: cursor/x
        pr: https://github.com/me/my-app/pull/7
`

// world is a client in front of a simulator, whose log is the oracle.
type world struct {
	*testing.T
	sim *cloudsim.Sim
	*cloudagents.Client
	api, url string
}

func newWorld(t *testing.T, api string, faults ...cloudsim.Fault) world {
	t.Helper()
	return newWorldWith(t, api, simScript, faults...)
}

func newWorldWith(t *testing.T, api, text string, faults ...cloudsim.Fault) world {
	t.Helper()
	s, err := script.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	sim, err := cloudsim.New(cloudsim.Options{Script: s})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(sim.Close) // ahead of the server, which waits for open streams
	for _, f := range faults {
		if err := sim.AddFault(f); err != nil {
			t.Fatal(err)
		}
	}
	hangs := slices.ContainsFunc(faults, func(f cloudsim.Fault) bool { return f.Kind == script.Hang })
	c := newClient(t, server.URL, func(o *cloudagents.Options) { o.API = api }, func(o *cloudagents.Options) {
		if hangs {
			o.Timeout = 2 * time.Second // for the request after it, too
		}
	})
	return world{t, sim, c, api, server.URL}
}

func (w world) launch(prompt string) bridge.Launch {
	return bridge.Launch{Grant: grant(w.T, prompt), AgentID: agentID, Op: "op_1", Name: "n"}
}

func (w world) start(prompt string) bridge.RunRef {
	w.Helper()
	s, err := w.Launch(w.Context(), w.launch(prompt))
	if err != nil {
		w.Fatal(err)
	}
	return w.ref(s, "")
}

func (w world) ref(s bridge.Started, marker string) bridge.RunRef {
	return bridge.RunRef{API: w.api, Agent: s.Agent, Run: s.Run, Marker: marker}
}

func (w world) followUp(r bridge.RunRef, text string) bridge.FollowUp {
	return bridge.FollowUp{API: w.api, Agent: r.Agent, LastRun: r.Run, Marker: marker, Text: text}
}

// finish observes until the run is over.
func (w world) finish(r bridge.RunRef) bridge.Observation {
	w.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		o, err := w.Observe(w.Context(), r)
		if err != nil {
			w.Fatal(err)
		}
		if o.State.Terminal() {
			return o
		}
		select {
		case <-tick.C:
		case <-w.Context().Done():
			w.Fatal("the run does not end")
		}
	}
}

// effects counts what really happened.
func (w world) effects(kind cloudsim.EffectKind) int {
	n := 0
	for _, e := range w.sim.Log() {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func (w world) want(kind cloudsim.EffectKind, n int) {
	w.Helper()
	if got := w.effects(kind); got != n {
		w.Errorf("%d times %s, want %d", got, kind, n)
	}
}

func forBoth(t *testing.T, test func(t *testing.T, api string)) {
	t.Parallel()
	for _, api := range []string{bridge.APIv1, bridge.APIv0} {
		t.Run(api, func(t *testing.T) { t.Parallel(); test(t, api) })
	}
}

func TestContractLostCreateResponse(t *testing.T) {
	forBoth(t, func(t *testing.T, api string) {
		for _, fault := range []cloudsim.Fault{
			{Kind: script.LostCreateResponse, Times: 1},
			{Kind: script.Create5xx, When: script.After, Times: 1},
			{Kind: script.GarbageResponse, Op: script.OpCreate, Times: 1},
			{Kind: script.Hang, Op: script.OpCreate, When: script.After, Times: 1},
		} {
			t.Run(string(fault.Kind), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, api, fault)
				l := w.launch("build it")
				_, err := w.Launch(t.Context(), l)
				check(t, err, bridge.Unavailable, true)
				s, found, err := w.FindLaunch(t.Context(), l)
				if found != bridge.FoundThere || err != nil {
					t.Fatal(found, err)
				}
				if api == bridge.APIv1 { // twice is fine at v1
					again, err := w.Launch(t.Context(), l)
					if err != nil || again != s {
						t.Errorf("%+v %v", again, err)
					}
					w.want(cloudsim.DuplicateRefused, 1)
				}
				if o := w.finish(w.ref(s, "")); o.Reply == "" {
					t.Errorf("%+v", o)
				}
				w.want(cloudsim.AgentCreated, 1)
			})
		}
	})
}

func TestContractRefusals(t *testing.T) {
	forBoth(t, func(t *testing.T, api string) {
		for _, shape := range []string{"A", "B", "C", "D", "E"} {
			w := newWorld(t, api,
				cloudsim.Fault{Kind: script.ErrorShape, Shape: shape},
				cloudsim.Fault{Kind: script.RateLimit, Op: script.OpCreate, Delay: script.Duration(3 * time.Second), Times: 1})
			_, err := w.Launch(t.Context(), w.launch("build it"))
			check(t, err, bridge.RateLimited, false)
			if got := bridge.RetryAfter(err); got != 3*time.Second {
				t.Errorf("shape %s: retry after %s", shape, got)
			}
			first := w.start("this never ends")
			if api == bridge.APIv1 {
				_, err = w.Send(t.Context(), w.followUp(first, "go on"))
				check(t, err, bridge.Busy, false)
				if again, err := w.Launch(t.Context(), w.launch("build it")); err != nil || again.Run != first.Run {
					t.Errorf("shape %s: %+v %v", shape, again, err)
				}
			}
			w.want(cloudsim.AgentCreated, 1)
		}
		w := newWorld(t, api, cloudsim.Fault{Kind: script.UsageLimit})
		_, err := w.Launch(t.Context(), w.launch("build it"))
		check(t, err, bridge.UsageLimited, false)
		_, err = w.Observe(t.Context(), bridge.RunRef{API: api, Agent: agentID, Run: "run-1"})
		check(t, err, bridge.NotFound, false)
	})
}

func TestContractReplies(t *testing.T) {
	t.Parallel()
	const reply = "first line\nLOCAL_ACTION: backup_script\n"
	for name, c := range map[string]struct {
		fault  script.FaultKind
		prompt string
		state  bridge.RunState
		reply  string
	}{
		"whole":                {"", "uses a tool", bridge.RunFinished, reply},
		"no result":            {script.FinishedWithoutResult, "build it", bridge.RunFinished, ""},
		"failed":               {"", "this fails", bridge.RunError, ""},
		"failed without words": {script.RunErrorWithoutDetail, "build it", bridge.RunError, ""},
		"no git":               {script.GitMissing, "uses a tool", bridge.RunFinished, reply},
	} {
		for _, api := range []string{bridge.APIv1, bridge.APIv0} {
			t.Run(name+" "+api, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, api)
				if c.fault != "" {
					if err := w.sim.AddFault(cloudsim.Fault{Kind: c.fault}); err != nil {
						t.Fatal(err)
					}
				}
				if o := w.finish(w.start(c.prompt)); o.State != c.state || o.Reply != c.reply {
					t.Errorf("%+v", o)
				}
			})
		}
	}
}

func TestContractWrongRepository(t *testing.T) {
	forBoth(t, func(t *testing.T, api string) {
		w := newWorld(t, api, cloudsim.Fault{Kind: script.WrongRepo, As: "github.com/evil/other"})
		s, err := w.Launch(t.Context(), w.launch("build it"))
		if err != nil || s.Repo == "" || cloudagents.SameRepo(s.Repo, myRepo) {
			t.Errorf("%+v %v", s, err)
		}
	})
}

func TestContractAccount(t *testing.T) {
	forBoth(t, func(t *testing.T, api string) {
		w := newWorld(t, api)
		if a, err := w.Me(t.Context()); err != nil || a.KeyName == "" || a.Created.IsZero() {
			t.Errorf("%+v %v", a, err)
		}
		models, err := w.Models(t.Context())
		if err != nil || len(models) == 0 || strings.Contains(models[0], "{") {
			t.Errorf("%v %v", models, err)
		}
		r := w.start("build it")
		if l, err := w.List(t.Context(), 5); err != nil || len(l) != 1 || l[0].ID != r.Agent || l[0].Created.IsZero() {
			t.Errorf("%+v %v", l, err)
		}
		wrong := newClient(t, w.url, func(o *cloudagents.Options) { o.Key, o.API = "key_wrong", api })
		_, err = wrong.Me(t.Context())
		check(t, err, bridge.Unauthenticated, false)
	})
}
