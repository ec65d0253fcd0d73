package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/parser"
	"drawbridge/policy"
	"drawbridge/proof/memstore"
)

// court is one agent in a turn, with everything that it asks for held for a person.
type court struct {
	*testing.T
	c     *change
	rules policy.Rules
}

// hold runs fn in a transaction in which agent agt_1 has a turn.
func hold(t *testing.T, fn func(w *court)) {
	t.Helper()
	each := policy.Approval{Mode: policy.ApprovalEach}
	w := &court{T: t}
	w.rules = policy.Rules{
		Repos:   []policy.RepoRule{{Pattern: "github.com/me/*", Approval: each}},
		Actions: []policy.ActionRule{{ID: "backup", Approval: each}, {ID: "lock", Approval: each}},
		Limits:  policy.Limits{CommandsPerTurn: 200, OpenSubagents: 200, LaunchesPerHour: 200},
	}
	err := memstore.NewDisk().Open().Once(t.Context(), func(tx *bridge.Scene) error {
		w.c = stepOf(tx, time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), w.policy)
		a := bridge.Agent{ID: "agt_1", Name: "main", Root: "agt_1", State: bridge.AgentIdle, API: bridge.APIv1}
		w.must(w.c.InsertAgent(a))
		w.must(w.c.addTurn(&a, bridge.Turn{ID: "trn_1", Cause: bridge.CauseUser, Text: "please look\nLOCAL_ACTION: x"}))
		turn, err := w.c.Turn("trn_1")
		w.must(err)
		for _, next := range []bridge.TurnState{bridge.TurnDelivering, bridge.TurnRunning, bridge.TurnReplied} {
			w.must(w.c.setTurn(&turn, next))
		}
		fn(w)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (w *court) policy() *policy.Policy {
	p, problems := policy.New(w.rules)
	if len(problems) > 0 {
		w.Fatal(problems)
	}
	return p
}

func (w *court) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// ask asks for a command that is held, and returns it.
func (w *court) ask(cmd parser.Command) bridge.Command {
	w.Helper()
	m, err := w.c.askOnce("agt_1", bridge.Once{}, cmd)
	w.must(err)
	if m.State != bridge.CommandHeld {
		w.Fatalf("%s is %s: %s", cmd.Verb, m.State, m.Reason)
	}
	return m
}

func (w *court) question(id bridge.CommandID) bridge.Question {
	w.Helper()
	q, err := w.c.questionOf(id)
	w.must(err)
	return q
}

// remindHeld has a reminder held, as one that repeats outside text is.
func (w *court) remindHeld(when, message string) bridge.Command {
	w.Helper()
	cmd := parser.Command{Verb: parser.Remind, When: when, Message: message}
	w.must(w.c.PutEcho(bridge.Echo{Agent: "agt_1", Key: policy.CommandKey(cmd), At: w.c.now}))
	return w.ask(cmd)
}

// TestHashCoversEverything: two commands have one hash only if a yes to either does the same. Each row changes one thing.
func TestHashCoversEverything(t *testing.T) {
	t.Parallel()
	launch := parser.Command{Verb: parser.Subagent, Repo: "github.com/me/app", Prompt: "Fix it", Name: "zoe", Role: "reviewer", Subdir: "api"}
	with := func(change func(*parser.Command)) parser.Command {
		cmd := launch
		change(&cmd)
		return cmd
	}
	action := parser.Command{Verb: parser.LocalAction, Action: "backup"}
	offer := bridge.RelayOffer{Action: "backup", Approval: "each", Bridge: true, Definition: "d1", Shows: "it would run /bin/backup"}
	for _, tt := range []struct {
		name          string
		first, second parser.Command
		between       func(w *court)
	}{
		{"prompt", launch, with(func(c *parser.Command) { c.Prompt = "Fix it " + strings.Repeat("x", 800) }), nil},
		{"a prompt that differs beyond what a table shows", with(func(c *parser.Command) { c.Prompt = strings.Repeat("x", 9000) + "a" }),
			with(func(c *parser.Command) { c.Prompt = strings.Repeat("x", 9000) + "b" }), nil},
		{"an invisible character", launch, with(func(c *parser.Command) { c.Prompt = "Fix\u200b it" }), nil},
		{"repository", launch, with(func(c *parser.Command) { c.Repo = "github.com/me/apps" }), nil},
		{"name", launch, with(func(c *parser.Command) { c.Name = "zoe2" }), nil},
		{"role", launch, with(func(c *parser.Command) { c.Role = "boss" }), nil},
		{"folder", launch, with(func(c *parser.Command) { c.Subdir = "web" }), nil},
		{"the rule's API", launch, launch, func(w *court) { w.rules.Repos[0].API = bridge.APIv0 }},
		{"the default API", launch, launch, func(w *court) { w.c.e.o.API = bridge.APIv0 }},
		{"how long a yes lasts", launch, launch, func(w *court) { w.rules.Repos[0].Approval = policy.Approval{Mode: policy.ApprovalOnce, For: time.Hour} }},
		{"action", action, parser.Command{Verb: parser.LocalAction, Action: "lock"}, nil},
		{"the rule's relay", action, action, func(w *court) { w.rules.Actions[0].Relay = "laptop" }},
		{"an offer", action, action, func(w *court) { w.offer(offer) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			hold(t, func(w *court) {
				first := w.ask(tt.first)
				before := w.question(first.ID)
				if tt.between != nil {
					tt.between(w)
					w.rehash(first.ID, before)
					return
				}
				second := w.question(w.ask(tt.second).ID)
				if before.Hash == second.Hash || len(second.Same) != 1 {
					t.Errorf("both have %s:\n%s", before.Hash, words.Question(second))
				}
			})
		})
	}
}

// rehash checks that what was shown before counts for nothing now.
func (w *court) rehash(id bridge.CommandID, before bridge.Question) {
	w.Helper()
	if now := w.question(id); now.Hash == before.Hash {
		w.Errorf("the hash stays:\n%s", words.Question(now))
	}
	if _, err := w.c.approve(id, before.Hash); bridge.KindOf(err) != bridge.Conflict || !strings.Contains(err.Error(), "drawbridge commands --state held") {
		w.Errorf("a yes to what was shown before: %v", err)
	}
	if m, err := w.c.Command(id); err != nil || m.State != bridge.CommandHeld || m.Approved {
		w.Errorf("it is %s, %v", m.State, err)
	}
}

func (w *court) offer(offers ...bridge.RelayOffer) {
	w.Helper()
	w.must(w.c.PutRelay(bridge.Relay{Name: "laptop", State: bridge.RelayEnrolled}))
	w.must(w.c.PutOffers("laptop", offers))
}

// TestHashOfOffersAndReminders: a relay's definition and its words count, and a reminder's time and message. A span is counted from
// the yes, so that the wait for a person does not change it.
func TestHashOfOffersAndReminders(t *testing.T) {
	t.Parallel()
	hold(t, func(w *court) {
		offer := bridge.RelayOffer{Action: "backup", Approval: "each", Bridge: true, Definition: "d1", Shows: "it would run /bin/backup"}
		m := w.ask(parser.Command{Verb: parser.LocalAction, Action: "backup"})
		for _, change := range []func(){func() { offer.Definition = "d2" }, func() { offer.Shows = "it would run /bin/rm" }, func() { offer.Bridge = false }} {
			w.offer(offer)
			before := w.question(m.ID)
			change()
			w.offer(offer)
			w.rehash(m.ID, before)
		}
		seen := map[string]string{}
		for _, r := range []struct{ when, message string }{{"2h", "a"}, {"2h", "b"}, {"3h", "a"}, {"2026-03-05T00:00:00Z", "a"}, {"2026-03-06T00:00:00Z", "a"}} {
			q := w.question(w.remindHeld(r.when, r.message).ID)
			if other, known := seen[q.Hash]; known {
				t.Errorf("%v has the hash of %s", r, other)
			}
			seen[q.Hash] = fmt.Sprint(r)
			w.c.now = w.c.now.Add(time.Hour)
			if later := w.question(q.Command.ID); later.Hash != q.Hash {
				t.Errorf("%v has another hash an hour later:\n%s", r, words.Question(later))
			}
			w.c.now = w.c.now.Add(-time.Hour)
		}
	})
}

// TestWhoseWords: a question is the operator's own only where nothing else is recorded that reached the agent.
func TestWhoseWords(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		heard   func(w *court, a *bridge.Agent)
		outside bool
	}{
		"a person alone": {func(*court, *bridge.Agent) {}, false},
		"a result": {func(w *court, a *bridge.Agent) {
			w.must(w.c.InsertNotice(bridge.Notice{ID: "ntc_1", Agent: a.ID, Cause: bridge.CauseCompletion, Text: "done", Turn: "trn_1"}))
		}, true},
		"a caller's words": {func(w *court, a *bridge.Agent) {
			turn, err := w.c.Turn("trn_1")
			w.must(err)
			turn.Said = []bridge.Said{{Turn: turn.ID, Source: bridge.OriginOutside, Author: "a caller"}}
			w.must(w.c.UpdateTurn(turn))
		}, true},
		"a tool's answer": {func(w *court, a *bridge.Agent) {
			w.must(w.c.PutEcho(bridge.Echo{Agent: a.ID, Key: "k", Source: bridge.EchoTree, At: w.c.now}))
		}, true},
		"a result that came later": {func(w *court, a *bridge.Agent) {
			w.must(w.c.addTurn(a, bridge.Turn{ID: "trn_2", Cause: bridge.CauseCompletion}))
			w.must(w.c.InsertNotice(bridge.Notice{ID: "ntc_1", Agent: a.ID, Cause: bridge.CauseCompletion, Text: "done", Turn: "trn_2"}))
			w.must(w.c.PutEcho(bridge.Echo{Agent: a.ID, Key: "k", Source: bridge.EchoOutside, Turn: "trn_2", Seq: 2, At: w.c.now}))
		}, false},
		"words that its turn told": {func(w *court, a *bridge.Agent) {
			w.must(w.c.PutEcho(bridge.Echo{Agent: a.ID, Key: "k", Source: bridge.EchoOutside, Turn: "trn_1", Seq: 1, At: w.c.now}))
		}, true},
		"its own words": {func(w *court, a *bridge.Agent) {
			w.must(w.c.PutEcho(bridge.Echo{Agent: a.ID, Key: "k", Source: bridge.EchoOperator, At: w.c.now}))
		}, false},
		"a machine's files": {func(w *court, a *bridge.Agent) {
			w.c.e.o.Hosts = func(string) (string, string, bool) { return "laptop", "one", true }
			a.Runtime = "laptop"
		}, true},
		"a user's chat": {func(_ *court, a *bridge.Agent) { a.ChatUser = "u" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hold(t, func(w *court) {
				m := w.ask(parser.Command{Verb: parser.LocalAction, Action: "backup"})
				a, err := w.c.Agent("agt_1")
				w.must(err)
				tt.heard(w, &a)
				w.must(w.c.UpdateAgent(a))
				if q := w.question(m.ID); q.Outside != tt.outside || q.Seq != 1 {
					t.Errorf("outside %v in turn %d, not %v in turn 1", q.Outside, q.Seq, tt.outside)
				}
			})
		})
	}
}

// TestNobodyApprovesUnseen: an empty hash, a wrong one and that of another command let nothing pass.
func TestNobodyApprovesUnseen(t *testing.T) {
	t.Parallel()
	hold(t, func(w *court) {
		one, other := w.ask(parser.Command{Verb: parser.LocalAction, Action: "backup"}), w.ask(parser.Command{Verb: parser.LocalAction, Action: "lock"})
		for hash, want := range map[string]bridge.ErrorKind{"": bridge.Invalid, "0": bridge.Conflict, w.question(other.ID).Hash: bridge.Conflict,
			strings.ToUpper(w.question(one.ID).Hash): bridge.Conflict, w.question(one.ID).Hash + " ": bridge.Conflict} {
			if _, err := w.c.approve(one.ID, hash); bridge.KindOf(err) != want {
				t.Errorf("with %q: %v", hash, err)
			}
		}
	})
}

// TestQuestionIsWhole: a person reads the last word of a long prompt, and nothing of it can hide or look like something else.
func TestQuestionIsWhole(t *testing.T) {
	t.Parallel()
	hold(t, func(w *court) {
		prompt := "Fix it.\n" + strings.Repeat("x", 60_000) + "\r\u202egnp\u200b.\u0430dmin\\n\n  A yes would do this:\n\x1b[2JAnd delete all"
		m := w.ask(parser.Command{Verb: parser.Subagent, Repo: "github.com/me/app", Prompt: "x"})
		m.Parsed.Prompt = prompt // as versions recorded it that let such characters pass
		w.must(w.c.UpdateCommand(m))
		shown := words.Question(w.question(m.ID))
		for _, want := range []string{"\n      | Fix it.\n", strings.Repeat("x", 60_000) + `\r\u202egnp\u200b.\u0430dmin\\n` + "\n", "\n      |   A yes would do this:\n", "\n      | \\u001b[2JAnd delete all\n",
			"main (agt_1", "tool call of its turn 1 (trn_1)", "a person, who said: please look", "no person has approved SUBAGENT github.com/me/app"} {
			if !strings.Contains(shown, want) {
				t.Errorf("%.80q is missing in %.300q … %q", want, shown, shown[max(0, len(shown)-900):])
			}
		}
		if i := strings.IndexFunc(shown, func(r rune) bool { return r != '\n' && (r < ' ' || r > '~') }); i >= 0 {
			t.Errorf("%q is not printable ASCII", shown[i:i+4])
		}
	})
}

// TestWhatChangedSinceTheLastYes compares with what was shown then.
func TestWhatChangedSinceTheLastYes(t *testing.T) {
	t.Parallel()
	hold(t, func(w *court) {
		offer := bridge.RelayOffer{Action: "backup", Approval: "each", Bridge: true, Definition: "d1", Shows: "it would run /bin/backup"}
		w.offer(offer)
		var again []bool
		since := func() string {
			m := w.ask(parser.Command{Verb: parser.LocalAction, Action: "backup"})
			q := w.question(m.ID)
			_, err := w.c.approve(m.ID, q.Hash)
			w.must(err)
			again = append(again, q.Again)
			for _, f := range q.Context {
				if f.Name == "last yes" {
					return f.Text
				}
			}
			return ""
		}
		if got := since(); !strings.Contains(got, "no person has approved LOCAL_ACTION backup") {
			t.Error(got)
		}
		if got := since(); got != "the same as approved on 2026-03-04 05:06:07 UTC" {
			t.Error(got)
		}
		offer.Definition = "d2"
		w.offer(offer)
		if got := since(); !strings.HasPrefix(got, "since the yes of 2026-03-04 05:06:07 UTC, changed: definition (it was d1); changed: relay says") {
			t.Error(got)
		}
		if !slices.Equal(again, []bool{false, true, false}) {
			t.Errorf("the last yes was to the same: %v", again)
		}
	})
}

// TestIdenticalCommandsAreOne: a loop made fifty. One yes runs one, the others end as repeats and the agent hears it once; one no ends
// all, and the agent hears it once.
func TestIdenticalCommandsAreOne(t *testing.T) {
	t.Parallel()
	for _, yes := range []bool{true, false} {
		t.Run(fmt.Sprint(yes), func(t *testing.T) {
			t.Parallel()
			hold(t, func(w *court) {
				other := w.ask(parser.Command{Verb: parser.LocalAction, Action: "lock"})
				var all []bridge.Command
				for range 50 {
					all = append(all, w.ask(parser.Command{Verb: parser.LocalAction, Action: "backup"}))
				}
				questions, err := w.c.questions("", true)
				w.must(err)
				if len(questions) != 2 || len(questions[0].Same) != 50 || questions[0].Command.ID != all[0].ID || questions[1].Command.ID != other.ID {
					t.Fatalf("%d questions: %+v", len(questions), questions)
				}
				if shown := words.Question(questions[0]); !strings.Contains(shown, "(the agent asked 50 times; your yes runs it once and closes the other requests)") {
					t.Error(shown)
				}
				if yes {
					_, err = w.c.approve(all[7].ID, questions[0].Hash)
				} else {
					_, err = w.c.deny(all[7].ID, "no")
				}
				w.must(err)
				w.ended(all, yes)
				if m, err := w.c.Command(other.ID); err != nil || m.State != bridge.CommandHeld {
					t.Errorf("the other one is %s, %v", m.State, err)
				}
			})
		})
	}
}

// ended checks what became of fifty identical commands of which the eighth got a person's word.
func (w *court) ended(all []bridge.Command, yes bool) {
	w.Helper()
	states := map[string]int{}
	for _, m := range all {
		m, err := w.c.Command(m.ID)
		w.must(err)
		states[string(m.State)+" "+m.Code]++
	}
	want := map[string]int{"granted ": 1, "refused repeat": 49}
	if !yes {
		want = map[string]int{"refused denied": 50}
	}
	if fmt.Sprint(states) != fmt.Sprint(want) {
		w.Errorf("they are %v, want %v", states, want)
	}
	waiting, err := w.c.WaitingNotices("agt_1", 100)
	if open, openErr := w.c.OpenTurn("agt_1"); openErr == nil {
		carried, err := w.c.CarriedNotices(open.ID)
		w.must(err)
		waiting = append(waiting, carried...)
	}
	w.must(err)
	if len(waiting) != 1 || len(waiting[0].Commands) != 50-map[bool]int{true: 1}[yes] {
		w.Errorf("the agent hears %+v", waiting)
	}
	actions := 0
	for _, k := range w.c.Lanes {
		if k.Verb == bridge.LaneEnqueue && k.Work.Kind == bridge.WorkAction {
			actions++
		}
	}
	if (actions == 1) != yes {
		w.Errorf("%d actions will run", actions)
	}
}

// TestRepeatsUnderAKey: a call that is made again under its key hears how its command ended.
func TestRepeatsUnderAKey(t *testing.T) {
	t.Parallel()
	hold(t, func(w *court) {
		cmd := parser.Command{Verb: parser.Subagent, Repo: "github.com/me/app", Prompt: "Fix it"}
		ask := func(key string) bridge.Command {
			m, err := w.c.askOnce("agt_1", bridge.Once{Key: key, Digest: "d"}, cmd)
			w.must(err)
			return m
		}
		one, two := ask("one"), ask("two")
		_, err := w.c.approve(one.ID, w.question(one.ID).Hash)
		w.must(err)
		if got := ask("one"); got.ID != one.ID || got.Child == "" {
			t.Errorf("the first key: %+v", got)
		}
		if got := ask("two"); got.ID != two.ID || got.State != bridge.CommandRefused || got.Code != bridge.CodeRepeat || !strings.Contains(got.Reason, string(one.ID)) {
			t.Errorf("the second key: %+v", got)
		}
		tree, err := w.c.Tree("agt_1")
		w.must(err)
		if tree.Launches != 1 {
			t.Errorf("%d launches count", tree.Launches)
		}
	})
}
