package engine

import (
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/bridge/moving"
	"drawbridge/bridge/runtimes"
	"drawbridge/parser"
	"drawbridge/policy"
)

// homes are the runtimes of these tests: lap and desk live at one relay, and far at another. chat is not of kind relay.
var homes = map[string]string{"lap": "laptop", "desk": "laptop", "far": "box"}

// mover is an agent at the runtime lap that may move to desk and to far.
func mover(t *testing.T, fn func(w *court, a bridge.Agent)) {
	t.Helper()
	hold(t, func(w *court) {
		w.rules.Repos = []policy.RepoRule{{Pattern: "github.com/me/*"}}
		w.c.e.o.Hosts = func(runtime string) (string, string, bool) { return homes[runtime], "codex", homes[runtime] != "" }
		w.c.e.o.Homes = runtimes.Homes{Place: func(runtime string) string { return homes[runtime] }}
		a, err := w.c.Agent("agt_1")
		w.must(err)
		a.Runtime, a.API, a.Repo, a.External, a.OpKey = "lap", "", "github.com/me/app", "bc-1", "op1"
		w.must(w.c.UpdateAgent(a))
		fn(w, a)
	})
}

// turnIn gives the agent another turn in a state.
func (w *court) turnIn(a bridge.Agent, run string, states ...bridge.TurnState) {
	w.Helper()
	w.must(w.c.addTurn(&a, bridge.Turn{ID: "trn_2", Cause: bridge.CauseUser, Text: "work"}))
	t, err := w.c.Turn("trn_2")
	w.must(err)
	t.Run = run
	for _, next := range states {
		w.must(w.c.setTurn(&t, next))
	}
	w.must(w.c.UpdateTurn(t))
}

// subagent launches one that works in the workspace of its parent, or in its own.
func (w *court) subagent(shared bool) bridge.Agent {
	w.Helper()
	cmd := parser.Command{Verb: parser.Subagent, Repo: "github.com/me/app", Prompt: "fix it", Name: "kid", Role: "worker", Shared: shared}
	m, err := w.c.askOnce("agt_1", bridge.Once{}, cmd)
	w.must(err)
	kid, err := w.c.Agent(m.Child)
	w.must(err)
	t, err := w.c.OpenTurn(kid.ID)
	w.must(err)
	for _, next := range []bridge.TurnState{bridge.TurnDelivering, bridge.TurnRunning, bridge.TurnReplied} {
		w.must(w.c.setTurn(&t, next))
	}
	m, err = w.c.Command(m.ID)
	w.must(err)
	for _, next := range []bridge.CommandState{bridge.CommandSending, bridge.CommandConfirmed} {
		w.must(w.c.setCommand(&m, next))
	}
	kid.External = "bc-2"
	w.must(w.c.UpdateAgent(kid))
	return kid
}

// Each reason against a move has its kind and its words, which say what to do instead. Nothing else stands in the way.
func TestMayMove(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		to      string
		prepare func(w *court, a *bridge.Agent)
		kind    bridge.ErrorKind
		why     string
	}{
		"at rest":                        {to: "desk"},
		"to another relay":               {to: "far"},
		"an unknown runtime":             {to: "nowhere", kind: bridge.Invalid, why: "not a runtime of kind relay"},
		"a chat runtime":                 {to: "chat", kind: bridge.Invalid, why: "`drawbridge check` lists the runtimes"},
		"the cloud":                      {to: bridge.CloudRuntime, kind: bridge.Invalid, why: "not a runtime of kind relay"},
		"the same":                       {to: "lap", kind: bridge.Conflict, why: "lives in the runtime lap already"},
		"from the cloud":                 {to: "desk", prepare: func(_ *court, a *bridge.Agent) { a.Runtime, a.API = bridge.CloudRuntime, bridge.APIv1 }, kind: bridge.Conflict, why: "launch another agent in the runtime desk"},
		"from a chat runtime":            {to: "desk", prepare: func(_ *court, a *bridge.Agent) { a.Runtime = "chat" }},
		"a rule pins the runtime":        {to: "far", prepare: func(w *court, _ *bridge.Agent) { w.rules.Repos[0].Runtime = "lap" }, kind: bridge.Denied, why: "live in the runtime lap; change runtime in that rule"},
		"the rule names the new runtime": {to: "far", prepare: func(w *court, _ *bridge.Agent) { w.rules.Repos[0].Runtime = "far" }},
		"a clone on one machine": {to: "far", prepare: func(w *court, a *bridge.Agent) {
			w.rules.OperatorRepos, a.Repo = []string{"local/notes"}, "local/notes"
		}, kind: bridge.Denied, why: "write a rule for it with runtime: far"},
		"a repository without a rule": {to: "far", prepare: func(_ *court, a *bridge.Agent) { a.Repo = "github.com/other/app" }, kind: bridge.Denied, why: "github.com/other/app"},
		"the runtime is away": {to: "far", prepare: func(w *court, _ *bridge.Agent) {
			w.c.e.o.Away = func(r string) error { return bridge.Errorf(bridge.Unavailable, "%s is gone", r) }
		}, kind: bridge.Unavailable, why: "far is gone"},
		"forgotten":        {to: "desk", prepare: func(_ *court, a *bridge.Agent) { a.Name += "~1" }, kind: bridge.Conflict, why: "launch another one"},
		"quarantined":      {to: "desk", prepare: func(_ *court, a *bridge.Agent) { a.Quarantined, a.Trouble = true, "it ran elsewhere" }, kind: bridge.Conflict, why: "it ran elsewhere; launch another one"},
		"never launched":   {to: "desk", prepare: func(_ *court, a *bridge.Agent) { a.External = "" }, kind: bridge.Conflict, why: "wait for its launch"},
		"moved before":     {to: "desk", prepare: func(_ *court, a *bridge.Agent) { a.External, a.LastRun = "", moving.Prefix+"1" }},
		"done":             {to: "desk", prepare: func(_ *court, a *bridge.Agent) { a.State = bridge.AgentDone }, kind: bridge.Conflict, why: "is done and has nothing to go on with; say something to it"},
		"failed":           {to: "desk", prepare: func(_ *court, a *bridge.Agent) { a.State = bridge.AgentFailed }},
		"stopped":          {to: "desk", prepare: func(w *court, _ *bridge.Agent) { w.must(w.c.PutTree(bridge.Tree{Root: "agt_1", StoppedAt: w.c.now})) }, kind: bridge.Conflict, why: "`drawbridge resume agt_1` lets it go on"},
		"a turn is queued": {to: "desk", prepare: func(w *court, a *bridge.Agent) { w.turnIn(*a, "") }},
		"a turn runs":      {to: "desk", prepare: func(w *court, a *bridge.Agent) { w.turnIn(*a, "r", bridge.TurnDelivering, bridge.TurnRunning) }, kind: bridge.Conflict, why: "is under way; wait for its end"},
		"asleep by a limit": {to: "desk", prepare: func(w *court, a *bridge.Agent) {
			w.turnIn(*a, "r", bridge.TurnDelivering, bridge.TurnRunning, bridge.TurnQueued)
		}, kind: bridge.Conflict, why: "was cut off and goes on"},
		"a turn is uncertain":             {to: "desk", prepare: func(w *court, a *bridge.Agent) { w.turnIn(*a, "", bridge.TurnDelivering, bridge.TurnUncertain) }, kind: bridge.Conflict, why: "settle it with `drawbridge give-up trn_2`"},
		"a question is open":              {to: "desk", prepare: func(w *court, _ *bridge.Agent) { w.askedFor("cmd_q", bridge.VerbPermission, bridge.CommandHeld) }, kind: bridge.Conflict, why: "answer it with `drawbridge approve cmd_q`"},
		"a question has its answer":       {to: "desk", prepare: func(w *court, _ *bridge.Agent) { w.askedFor("cmd_q", bridge.VerbPermission, bridge.CommandFinished) }},
		"it launches a subagent":          {to: "desk", prepare: func(w *court, _ *bridge.Agent) { w.askedFor("cmd_l", parser.Subagent, bridge.CommandSending) }, kind: bridge.Conflict, why: "launches a subagent now; wait for it"},
		"a launch waits for a person":     {to: "desk", prepare: func(w *court, _ *bridge.Agent) { w.askedFor("cmd_l", parser.Subagent, bridge.CommandHeld) }},
		"an action runs":                  {to: "desk", prepare: func(w *court, _ *bridge.Agent) { w.askedFor("cmd_a", parser.LocalAction, bridge.CommandSending) }},
		"a subagent with its own clone":   {to: "far", prepare: func(w *court, _ *bridge.Agent) { w.subagent(false) }},
		"a subagent shares its workspace": {to: "desk", prepare: func(w *court, _ *bridge.Agent) { w.subagent(true) }, kind: bridge.Conflict, why: "subagent kid works in the workspace of main, which would stay behind; end it and forget it"},
		"a forgotten subagent shared it": {to: "desk", prepare: func(w *court, _ *bridge.Agent) {
			kid := w.subagent(true)
			kid.Name += "~1"
			w.must(w.c.UpdateAgent(kid))
		}},
		"it shares its parent's, to another relay":   {to: "far", prepare: func(w *court, a *bridge.Agent) { *a = w.subagent(true) }, kind: bridge.Invalid, why: `lives at relay "box" and you live at relay "laptop"`},
		"it shares its parent's, at the same relay":  {to: "desk", prepare: func(w *court, a *bridge.Agent) { *a = w.subagent(true) }},
		"a subagent with its own clone moves itself": {to: "far", prepare: func(w *court, a *bridge.Agent) { *a = w.subagent(false) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mover(t, func(w *court, a bridge.Agent) {
				if tt.prepare != nil {
					tt.prepare(w, &a)
				}
				err := w.c.e.moves().May(w.c.Scene, a, tt.to)
				switch {
				case tt.why == "" && err != nil:
					w.Errorf("refused: %v", err)
				case tt.why != "" && (bridge.KindOf(err) != tt.kind || !strings.Contains(bridge.SafeMessage(err), tt.why)):
					w.Errorf("%v (%s), want %q (%s)", err, bridge.KindOf(err), tt.why, tt.kind)
				}
			})
		})
	}
}

// askedFor records a command of the agent's.
func (w *court) askedFor(id bridge.CommandID, verb parser.Verb, state bridge.CommandState) {
	w.Helper()
	w.must(w.c.InsertCommand(bridge.Command{ID: id, Turn: "trn_1", Agent: "agt_1", Ordinal: 1, Parsed: parser.Command{Verb: verb}, OpKey: string(id), State: state, CreatedAt: w.c.now, UpdatedAt: w.c.now}))
}
