package mail_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/echo"
	"drawbridge/bridge/engine"
	"drawbridge/mail"
	"drawbridge/parser"
)

// news counts the turns of an agent that say that no answer comes from another.
func (w *world) news(name, from string) (n int) {
	w.t.Helper()
	for _, t := range w.turns(name) {
		n += strings.Count(t.Sent, "No answer from "+from+" to your message")
	}
	return n
}

// ask sends a synchronous message.
func (w *world) ask(from, to string) bridge.MessageID {
	w.t.Helper()
	return w.send(from, mail.Draft{To: to, Text: "a question from " + from, Sync: true}).Message.ID
}

// TestNoAnswer: a sender hears, once, that its recipient ended its turn without an
// answer, and a late answer still comes. It guards against a wait without end.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mail.Options{})
	w.team("ann", "bob")
	w.enter("ann")
	id := w.ask("ann", "bob")
	w.turnOver()
	w.rest()
	holds(t, w.prompt("ann"), fmt.Sprintf("No answer from bob to your message %s: it read the message and ended its turn without an answer.", id))
	w.pass(48 * time.Hour)
	w.rest()
	equal(t, "times that ann heard it", w.news("ann", "bob"), 1)
	w.send("bob", mail.Draft{To: "ann", Text: "late"})
	w.deliver()
	holds(t, w.prompt("ann"), "Message from bob", "| late")
	equal(t, "state of ann", w.agent("ann").Task, bridge.TaskDone)
}

// TestAnswerInTime: who answers is not said to have been silent.
func TestAnswerInTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mail.Options{})
	w.team("ann", "bob")
	w.ask("ann", "bob")
	w.deliver()
	w.send("bob", mail.Draft{To: "ann", Text: "answer"})
	w.pass(48 * time.Hour)
	w.rest()
	equal(t, "news", w.news("ann", "bob"), 0)
}

// TestNoAnswerWaitsForWhatIsOpen: a recipient that asked another first is waited for.
func TestNoAnswerWaitsForWhatIsOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mail.Options{})
	w.team("ann", "bob", "cy")
	w.slowDown(true, "cy")
	w.ask("ann", "bob")
	w.deliver()
	w.ask("bob", "cy")
	w.turnOver()
	equal(t, "state of bob", w.agent("bob").State, bridge.AgentWaiting)
	equal(t, "news while bob waits for cy", w.news("ann", "bob"), 0)
	w.send("cy", mail.Draft{To: "bob", Text: "answer"})
	w.slowDown(false, "cy")
	w.turnOver()
	w.rest()
	equal(t, "news after bob's last turn", w.news("ann", "bob"), 1)
	equal(t, "news of bob", w.news("bob", "cy"), 0)
}

// TestCircleOfQuestions: agents that wait for each other all hear of it, however
// many they are. It guards against a standstill until the deadline.
func TestCircleOfQuestions(t *testing.T) {
	t.Parallel()
	for _, circle := range [][]string{{"ann", "bob"}, {"ann", "bob", "cy"}, {"ann", "bob", "cy", "dan"}, {"boss", "ann"}, {"boss", "ann", "bob"}} {
		t.Run(strings.Join(circle, " "), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, mail.Options{})
			w.team("ann", "bob", "cy", "dan")
			for _, name := range circle {
				w.enter(name)
			}
			for i, name := range circle {
				w.ask(name, circle[(i+1)%len(circle)])
			}
			w.turnOver()
			w.rest()
			heard := 0
			for i, name := range circle {
				heard += w.news(name, circle[(i+1)%len(circle)])
				if a := w.agent(name); a.State == bridge.AgentWaiting {
					t.Errorf("%s still waits", name)
				}
			}
			if heard != len(circle) {
				t.Errorf("%d of %d heard that no answer comes", heard, len(circle))
			}
		})
	}
}

// TestParentAndChildAskEachOther: a child whose parent awaits its result may ask it,
// and hears when the parent does not answer.
func TestParentAndChildAskEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mail.Options{})
	w.team("ann")
	w.slowDown(true, "ann")
	w.enter("ann")
	ann := w.id("ann")
	w.update(func(tx *bridge.Scene) error { // as if its task were open
		a, err := tx.Agent(ann)
		if err != nil {
			return err
		}
		m, err := tx.Command(a.Command)
		if err != nil {
			return err
		}
		a.Task, m.State = bridge.TaskOpen, bridge.CommandConfirmed
		if err := tx.UpdateCommand(m); err != nil {
			return err
		}
		return tx.UpdateAgent(a)
	})
	w.ask("ann", "boss")
	w.turnOver()
	w.turnOver()
	equal(t, "news before ann's turn is over", w.news("ann", "boss"), 0)
	w.slowDown(false, "ann")
	w.turnOver()
	w.rest()
	equal(t, "news", w.news("ann", "boss"), 1)
	equal(t, "task of ann", w.agent("ann").Task, bridge.TaskDone)
}

// TestSilentRecipients: a sender hears at once of a recipient that failed, was
// stopped or lost its token after the message was sent, and else at the deadline.
func TestSilentRecipients(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, why string
		silence   func(w *world)
	}{
		{"failed", "it failed", func(w *world) {
			w.breakDown(w.agent("bob"), true)
			w.slowDown(false, "bob")
			w.turnOver()
		}},
		{"lost its token", "its token was revoked", func(w *world) {
			bob := w.id("bob")
			err := w.engine.Change(w.ctx, func(tx bridge.Change) error {
				if err := tx.InsertToken(bridge.DoorToken{ID: "tok_1", Agent: bob, Hash: "hash", CreatedAt: tx.Now(), RevokedAt: tx.Now()}); err != nil {
					return err
				}
				return bridge.LookAtAwaited(tx.Scene, bob, tx.Now())
			})
			if err != nil {
				w.t.Fatalf("revoke: %v", err)
			}
		}},
		{"never answers", "none came within 24h0m0s", func(w *world) {
			w.pass(23 * time.Hour)
			if n := w.news("ann", "bob"); n != 0 {
				w.t.Fatalf("told before the deadline")
			}
			w.pass(2 * time.Hour)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, mail.Options{})
			w.team("ann", "bob")
			w.slowDown(true, "bob")
			w.enter("bob")
			id := w.ask("ann", "bob")
			w.deliver()
			tt.silence(w)
			w.deliver()
			holds(t, w.prompt("ann"), fmt.Sprintf("No answer from bob to your message %s: %s.", id, tt.why))
			w.pass(48 * time.Hour)
			equal(t, "times that ann heard it", w.news("ann", "bob"), 1)
		})
	}
}

// livesAtV0 moves bob to the v0 API, which takes no door.
func livesAtV0(w *world) {
	bob := w.id("bob")
	w.update(func(tx *bridge.Scene) error {
		a, err := tx.Agent(bob)
		a.API = bridge.APIv0
		if err != nil {
			return err
		}
		return tx.UpdateAgent(a)
	})
}

// TestMuteRecipients: the answer to a synchronous message says at once who cannot answer, and why.
func TestMuteRecipients(t *testing.T) {
	t.Parallel()
	noDoor := "bob cannot answer now: it is not connected to the bridge's tools, so it cannot answer"
	tests := []struct {
		name, why string
		options   mail.Options
		prepare   func(w *world)
	}{
		{"v0", noDoor, mail.Options{}, livesAtV0},
		{"v0, where the runtime gives doors", noDoor, mail.Options{Doors: func(string) bool { return true }}, livesAtV0},
		{"no public address", noDoor, mail.Options{Doors: func(string) bool { return false }}, func(*world) {}},
		{"failed", "bob cannot answer now: it failed", mail.Options{}, func(w *world) {
			w.breakDown(w.agent("bob"), true)
			w.enter("bob")
			w.turnOver()
		}},
		{"revoked, where each turn brings a door", "bob cannot answer now: its token was revoked", mail.Options{Doors: func(string) bool { return true }}, func(w *world) {
			bob := w.id("bob")
			w.update(func(tx *bridge.Scene) error {
				return tx.InsertToken(bridge.DoorToken{ID: "tok_1", Agent: bob, Hash: "hash", Generation: 1, CreatedAt: w.clock(), RevokedAt: w.clock()})
			})
		}},
		{"revoked", "bob cannot answer now: its token was revoked", mail.Options{}, func(w *world) {
			bob := w.id("bob")
			w.update(func(tx *bridge.Scene) error {
				return tx.InsertToken(bridge.DoorToken{ID: "tok_1", Agent: bob, Hash: "hash", CreatedAt: w.clock(), RevokedAt: w.clock()})
			})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tt.options)
			w.team("ann", "bob")
			tt.prepare(w)
			sent := w.send("ann", mail.Draft{To: "bob", Text: "are you there?", Sync: true})
			if sent.Waiting || sent.Mute != tt.why || sent.Message.Sync {
				t.Errorf("waiting %v, mute %q", sent.Waiting, sent.Mute)
			}
			before := len(w.turns("ann"))
			w.pass(48 * time.Hour)
			equal(t, "turns of ann", len(w.turns("ann")), before)
		})
	}
	t.Run("with a token of its own", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, mail.Options{Doors: func(string) bool { return false }})
		w.team("ann", "bob")
		bob := w.id("bob")
		w.update(func(tx *bridge.Scene) error {
			return tx.InsertToken(bridge.DoorToken{ID: "tok_1", Agent: bob, Hash: "hash", CreatedAt: w.clock()})
		})
		if sent := w.send("ann", mail.Draft{To: "bob", Text: "are you there?", Sync: true}); !sent.Waiting || sent.Mute != "" {
			t.Errorf("sent: %+v", sent)
		}
	})
	t.Run("joined broadcast", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, mail.Options{})
		w.team("ann", "bob", "cy")
		cy := w.id("cy")
		w.update(func(tx *bridge.Scene) error {
			a, err := tx.Agent(cy)
			a.API = bridge.APIv0
			if err != nil {
				return err
			}
			return tx.UpdateAgent(a)
		})
		sent, err := w.mail.Broadcast(w.ctx, w.id("ann"), mail.Draft{Text: "votes, please", Joined: true})
		if err != nil || !strings.Contains(sent.Mute, "cy cannot answer now") {
			t.Fatalf("mute %q, %v", sent.Mute, err)
		}
		w.deliver()
		w.send("bob", mail.Draft{To: "ann", Text: "aye"})
		w.deliver()
		holds(t, w.prompt("ann"), "| aye", "1 of 2 answers came; none from cy (it is not connected")
	})
}

// TestWithdrawnQuestion: nobody waits for the answer to a message that was withdrawn.
func TestWithdrawnQuestion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mail.Options{})
	w.team("ann", "bob")
	w.slowDown(true, "bob")
	w.enter("bob")
	id := w.ask("ann", "bob")
	if _, err := w.mail.Delete(w.ctx, w.id("ann"), id); err != nil {
		t.Fatal(err)
	}
	w.slowDown(false, "bob")
	w.pass(48 * time.Hour)
	w.rest()
	equal(t, "news", w.news("ann", "bob"), 0)
}

// TestCompleteIsTheResult: what a subagent reports while its task is open is the
// task's one result; what it reports later is a message.
func TestCompleteIsTheResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mail.Options{})
	w.root("hello", "other")
	w.slow["github.com/acme/ann"] = true
	boss, _, err := w.engine.LaunchAgent(w.ctx, engine.Spec{Name: "boss", Repo: "github.com/me/root", Prompt: "team: ann"})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.turnOver()
	}
	var ann bridge.Agent
	w.view(func(tx *bridge.Scene) error {
		children, err := tx.Agents(bridge.AgentFilter{Parent: boss.ID})
		if len(children) == 1 {
			ann = children[0]
		}
		return err
	})
	sent, err := w.mail.Complete(w.ctx, ann.ID, "Completed: it stands in main.go")
	if err != nil {
		t.Fatal(err)
	}
	w.deliver()
	holds(t, w.prompt("boss"), "says that its task is done", "WEBHOOK_RESULT: agent_id=", "(message "+string(sent.Message.ID)+")", "| Completed: it stands in main.go")
	// The bridge's own sentence names the subagent and its repository. A launch on it repeats nobody.
	again := parser.Command{Verb: parser.Subagent, Repo: ann.Repo, Prompt: "Has the run of " + ann.Name + " an end, confirmed by the API?"}
	w.view(func(tx *bridge.Scene) error {
		heard, err := echo.Remembered(tx, boss.ID, 2, w.clock())
		equal(t, "why the next launch is held", heard.Repeats(again), "")
		return err
	})
	before := len(w.turns("boss"))
	w.slow["github.com/acme/ann"] = false
	w.turnOver()
	w.rest()
	equal(t, "turns of boss after the run ended", len(w.turns("boss")), before)
	w.view(func(tx *bridge.Scene) error {
		m, err := tx.Command(ann.Command)
		equal(t, "the launch", m.State, bridge.CommandReported)
		return err
	})
	if _, err := w.mail.Complete(w.ctx, ann.ID, "Completed: once more"); err != nil {
		t.Fatal(err)
	}
	w.deliver()
	holds(t, w.prompt("boss"), "Message from "+ann.Name, "| Completed: once more")
}

// TestForgottenAgentsWriteNothing: a call that was under way when its agent was forgotten sends nothing.
func TestForgottenAgentsWriteNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mail.Options{})
	w.root("hello", "other")
	boss, _, err := w.engine.LaunchAgent(w.ctx, engine.Spec{Name: "boss", Repo: "github.com/me/root", Prompt: "team: ann"})
	if err != nil {
		t.Fatal(err)
	}
	w.rest()
	var ann bridge.Agent
	w.view(func(tx *bridge.Scene) error {
		children, err := tx.Agents(bridge.AgentFilter{Parent: boss.ID})
		if len(children) == 1 {
			ann = children[0]
		}
		return err
	})
	if _, err := w.engine.Forget(w.ctx, ann.ID); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() (mail.Sent, error){
		"complete": func() (mail.Sent, error) { return w.mail.Complete(w.ctx, ann.ID, "done") },
		"send":     func() (mail.Sent, error) { return w.mail.Send(w.ctx, ann.ID, mail.Draft{To: "boss", Text: "hello"}) },
		"send to": func() (mail.Sent, error) {
			return w.mail.SendTo(w.ctx, ann.ID, []string{"boss"}, mail.Draft{Text: "hello"})
		},
	} {
		if sent, err := call(); bridge.KindOf(err) != bridge.Conflict {
			t.Errorf("%s: %+v, %v", name, sent, err)
		}
	}
}
