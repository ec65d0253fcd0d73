package stores

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// quoted are texts that rows repeat: long ones, cut ones, and such as look like what a store may use for itself.
func quoted() map[string]string {
	line := "The handler checks the length first, then the signature, and answers 400 with the reason.\n"
	return map[string]string{
		"short": "done", "one line": strings.TrimSpace(line), "lines": strings.Repeat(line, 9), "empty lines": "\n\n" + line + "\n\n" + line,
		"long": strings.Repeat(line, 300), "signs of two bytes": strings.Repeat("äöü", 2500), "signs of three bytes": strings.Repeat("東京", 1500) + "\n" + line,
		"bars": "| " + line + "| | " + line, "digits": "12 " + line + " 34 56 ", "blanks": strings.Repeat(" ", 5000) + line,
		"spoilt": strings.Repeat(line, 2) + "\ufffd",
	}
}

// tells is a turn's text about what a notice brings, cut as a long one is.
func tells(n bridge.Notice) string {
	untrusted := n.Untrusted
	if len(untrusted) > 16<<10 {
		cut := 16 << 10
		for !utf8.RuneStart(untrusted[cut]) {
			cut--
		}
		untrusted = untrusted[:cut] + "\n… (more)"
	}
	return "What happened:\n\n1. " + string(n.Text) + "\n| " + strings.ReplaceAll(untrusted, "\n", "\n| ") + "\n\nThat is all.\n"
}

// talk is a result that goes from a subagent to its parent, with all rows that show it.
type talk struct {
	child, parent bridge.Turn
	notice        bridge.Notice
	events        []bridge.Event
}

func talkAbout(k int, text string) talk {
	id := func(kind string, n int) string { return fmt.Sprintf("%s_%026d", kind, 10*k+n) }
	t := talk{child: turn("agt_0001", 0), parent: turn("agt_0000", 0)}
	t.child.ID, t.parent.ID = bridge.TurnID(id("trn", 1)), bridge.TurnID(id("trn", 2))
	t.child.Text = "Do what stands in the list, number by number, and say what came of it."
	t.child.Sent, t.child.State, t.child.Reply, t.child.Attempts = t.child.Text, bridge.TurnReplied, text, 1
	t.parent.Text = ""
	t.notice = bridge.Notice{ID: bridge.NoticeID(id("ntc", 3)), Agent: "agt_0000", Cause: bridge.CauseCompletion, Completion: bridge.CompletionID(id("cpl", 4)),
		Text: "agent name-1 ended with status FINISHED.\nIts last reply, which the bridge did not check:", Untrusted: text, CreatedAt: epoch}
	t.parent.Sent, t.parent.Attempts, t.parent.State = tells(t.notice), 1, bridge.TurnDelivering
	return t
}

func (t *talk) event(tx *bridge.Scene, of bridge.Turn, kind, text string, fields map[string]string) error {
	e := bridge.Event{At: epoch, Kind: kind, Agent: of.Agent, Name: "name", Turn: of.ID, Text: text, Fields: fields}
	t.events = append(t.events, e)
	return tx.AppendEvent(e)
}

func put(of *bridge.Turn) func(*bridge.Scene) error {
	return func(tx *bridge.Scene) (err error) {
		of.Seq, err = tx.InsertTurn(*of)
		return err
	}
}

// says is the step in which the subagent's turn ends.
func (t *talk) says(tx *bridge.Scene) error {
	t.events = nil
	if err := put(&t.child)(tx); err != nil {
		return err
	}
	c := completion(0)
	c.ID, c.Op, c.Turn, c.Run = t.notice.Completion, "agt_0001", t.child.ID, string(t.child.ID)
	if _, err := tx.InsertCompletion(c); err != nil {
		return err
	}
	if err := tx.InsertNotice(t.notice); err != nil {
		return err
	}
	if err := t.event(tx, t.child, bridge.EventLaunched, "launched", map[string]string{"prompt": t.child.Text, "external": "bc-1"}); err != nil {
		return err
	}
	first, _, more := strings.Cut(strings.TrimSpace(t.child.Reply), "\n")
	if more {
		first += " …"
	}
	return t.event(tx, t.child, bridge.EventReply, first, map[string]string{"text": words.Clip(t.child.Reply, words.Shown), "cause": "launch"})
}

func testQuotes(t *testing.T, open Open) {
	s := open(t)
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		child := agent(1)
		child.Parent, child.Root, child.External = "agt_0000", "agt_0000", "bc-1"
		if err := tx.InsertAgent(agent(0)); err != nil {
			return err
		}
		return tx.InsertAgent(child)
	})
	k, after := 0, int64(0)
	for name, text := range quoted() {
		k++
		told := talkAbout(k, text)
		mustUpdate(t, s, told.says)
		events := told.events
		mustUpdate(t, s, func(tx *bridge.Scene) error {
			told.events = events
			if err := put(&told.parent)(tx); err != nil {
				return err
			}
			return told.event(tx, told.parent, bridge.EventTurn, "What happened: …", map[string]string{"text": words.Clip(told.parent.Sent, words.Shown)})
		})
		told.notice.Turn = told.parent.ID
		mustUpdate(t, s, func(tx *bridge.Scene) error {
			return tx.CarryNotices([]bridge.NoticeID{told.notice.ID}, told.parent.ID)
		})
		told.matches(t, s, name+", under way", after)
		mustUpdate(t, s, func(tx *bridge.Scene) error {
			p, err := tx.Turn(told.parent.ID)
			if err != nil {
				return err
			}
			if _, err := tx.CarriedNotices(p.ID); err != nil {
				return err
			}
			p.State, p.Reply = bridge.TurnReplied, "The report is in."
			told.parent = p
			return tx.UpdateTurn(p)
		})
		told.matches(t, s, name+", told", after)
		mustUpdate(t, s, func(tx *bridge.Scene) error { // neither loads what the rows quote
			told.parent.Joining, told.notice.Turn = 3, "trn_else"
			if err := tx.UpdateTurn(told.parent); err != nil {
				return err
			}
			return tx.CarryNotices([]bridge.NoticeID{told.notice.ID}, "trn_else")
		})
		after = told.matches(t, s, name+", written again", after)
	}
}

// matches compares a talk with what the store has, and returns the number of the last event.
func (t *talk) matches(tt *testing.T, s bridge.Store, what string, after int64) (last int64) {
	tt.Helper()
	for _, want := range []bridge.Turn{t.child, t.parent} {
		equal(tt, what+": turn", read(tt, s, func(tx *bridge.Scene) (bridge.Turn, error) { return tx.Turn(want.ID) }), want)
	}
	carried := read(tt, s, func(tx *bridge.Scene) ([]bridge.Notice, error) { return tx.CarriedNotices(t.notice.Turn) })
	found := false
	for _, n := range carried {
		if n.ID == t.notice.ID {
			found = true
			n.Commands = nil
			equal(tt, what+": notice", n, t.notice)
		}
	}
	equal(tt, what+": notice found", found, true)
	events := read(tt, s, func(tx *bridge.Scene) ([]bridge.Event, error) { return tx.Events(after, 0) })
	for i := range events {
		last, events[i].Seq = events[i].Seq, 0
	}
	equal(tt, what+": events", events, t.events)
	return last
}

// testSentAgain: an event shows what its attempt sent, though a later attempt sends another text.
func testSentAgain(t *testing.T, open Open) {
	s := open(t)
	long := strings.Repeat("A line that is sent first.\n", 200)
	texts := []string{long, long, long + "and more", "something else", "the last words"}
	tr := turn("agt_0000", 1)
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		if err := tx.InsertAgent(agent(0)); err != nil {
			return err
		}
		return put(&tr)(tx)
	})
	for _, sent := range texts {
		mustUpdate(t, s, func(tx *bridge.Scene) error {
			now, err := tx.Turn(tr.ID)
			if err != nil {
				return err
			}
			now.Sent, now.SentAt = sent, now.SentAt.Add(time.Second)
			now.Attempts++
			if err := tx.UpdateTurn(now); err != nil {
				return err
			}
			return tx.AppendEvent(bridge.Event{At: epoch, Kind: bridge.EventTurn, Agent: "agt_0000", Turn: tr.ID, Fields: map[string]string{"text": words.Clip(sent, words.Shown)}})
		})
		mustUpdate(t, s, func(tx *bridge.Scene) error { // sent again as it is
			now, err := tx.Turn(tr.ID)
			now.Attempts++
			if err != nil {
				return err
			}
			return tx.UpdateTurn(now)
		})
	}
	for i, e := range read(t, s, func(tx *bridge.Scene) ([]bridge.Event, error) { return tx.Events(0, 0) }) {
		equal(t, fmt.Sprintf("event of text %d", i), e.Fields["text"], words.Clip(texts[i], words.Shown))
	}
	equal(t, "the last text", read(t, s, func(tx *bridge.Scene) (bridge.Turn, error) { return tx.Turn(tr.ID) }).Sent, "the last words")
}
