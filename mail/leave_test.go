package mail_test

import (
	"fmt"
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/mail"
)

// lacks fails when a text holds one of the parts.
func lacks(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if strings.Contains(text, p) {
			t.Errorf("%q must not stand in:\n%s", p, text)
		}
	}
}

func (w *world) postIn(thread bridge.ConversationID, from, text string) mail.Sent {
	w.t.Helper()
	sent, err := w.mail.PostThread(w.ctx, w.id(from), thread, mail.Draft{Text: text})
	if err != nil {
		w.t.Fatalf("post of %s: %v", from, err)
	}
	return sent
}

// testMembersHearOfMembers: a join and an addition wake the added agent alone. The
// other members and one that joins read it with their next turns.
func testMembersHearOfMembers(t *testing.T, begin beginner) {
	w := begin(t, mail.Options{PerPair: -1})
	w.team("ann", "bob", "cy", "dee")
	c := w.thread("ann", mail.ThreadDraft{Title: "plan", Participants: []string{"bob"}})
	w.rest()
	turns := func() (n [4]int) {
		for i, name := range []string{"ann", "bob", "cy", "dee"} {
			n[i] = len(w.turns(name))
		}
		return n
	}
	before := turns()
	if _, _, err := w.mail.Join(w.ctx, w.id("cy"), c.ID); err != nil {
		t.Fatal(err)
	}
	w.rest()
	equal(t, "turns after a join", turns(), before)
	if _, _, err := w.mail.AddParticipant(w.ctx, w.id("bob"), c.ID, "dee"); err != nil {
		t.Fatal(err)
	}
	w.rest()
	equal(t, "turns after an addition", turns(), [4]int{before[0], before[1], before[2], before[3] + 1})
	holds(t, w.prompt("dee"), "bob added dee to thread "+string(c.ID))
	for name, want := range map[string][]string{
		"ann": {"cy joined thread " + string(c.ID), "bob added dee to thread " + string(c.ID)},
		"bob": {"cy joined thread " + string(c.ID)},
		"cy":  {fmt.Sprintf("You joined thread %s. get_messages with its thread_id shows what was written before.", c.ID), "bob added dee to thread " + string(c.ID)},
	} {
		w.enter(name)
		holds(t, w.prompt(name), want...)
		w.rest()
	}
	lacks(t, w.prompt("bob"), "bob added dee")
}

// testRemovedMember: a removed agent is notified with its next turn, and gets nothing
// of the thread afterwards: what waited, what is written later, or by any tool.
func testRemovedMember(t *testing.T, begin beginner) {
	w := begin(t, mail.Options{PerPair: -1})
	w.team("ann", "bob", "cy")
	bob := w.id("bob")
	c := w.thread("ann", mail.ThreadDraft{Title: "plan", Participants: []string{"bob", "cy"}})
	w.rest()
	read, own := w.postIn(c.ID, "cy", "bob may read this").Message, mail.Sent{}
	if _, err := w.mail.Messages(w.ctx, bob, mail.Query{Thread: c.ID}); err != nil {
		t.Fatal(err)
	}
	own = w.postIn(c.ID, "bob", "a word of bob")
	w.rest()
	waits := w.postIn(c.ID, "cy", "secret that waits").Message
	before := len(w.turns("bob"))
	if _, err := w.mail.RemoveParticipant(w.ctx, w.id("ann"), c.ID, "bob"); err != nil {
		t.Fatal(err)
	}
	w.postIn(c.ID, "ann", "secret of later")
	direct := w.send("cy", mail.Draft{To: "bob", Text: "between us"})
	w.rest()
	if _, err := w.mail.Edit(w.ctx, w.id("cy"), waits.ID, "secret with new words"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.mail.Edit(w.ctx, w.id("cy"), read.ID, "secret over what bob read"); err != nil {
		t.Fatal(err)
	}
	w.enter("bob")
	w.rest()
	told := ""
	for _, turn := range w.turns("bob")[before:] {
		told += turn.Sent
	}
	holds(t, told, "ann removed you from thread "+string(c.ID), "between us")
	lacks(t, told, "secret")
	equal(t, "who got what waited", w.states(waits.ID), []string{"ann acknowledged"})

	got, err := w.mail.Messages(w.ctx, bob, mail.Query{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "what bob can fetch", texts(got), []string{"between us"})
	if inbox, err := w.mail.Inbox(w.ctx, bob); err != nil || len(inbox) != 0 {
		t.Errorf("bob's inbox: %v, %v", texts(inbox), err)
	}
	for what, try := range map[string]func() error{
		"the thread":             func() error { _, err := w.mail.Thread(w.ctx, bob, c.ID); return err },
		"its messages":           func() error { _, err := w.mail.Messages(w.ctx, bob, mail.Query{Thread: c.ID}); return err },
		"a post":                 func() error { _, err := w.mail.PostThread(w.ctx, bob, c.ID, mail.Draft{Text: "x"}); return err },
		"a reaction":             func() error { _, err := w.mail.React(w.ctx, bob, read.ID, "👍"); return err },
		"a reaction to its own":  func() error { _, err := w.mail.React(w.ctx, bob, own.Message.ID, "👍"); return err },
		"new words for its own":  func() error { _, err := w.mail.Edit(w.ctx, bob, own.Message.ID, "x"); return err },
		"another member's leave": func() error { _, err := w.mail.RemoveParticipant(w.ctx, bob, c.ID, "cy"); return err },
	} {
		wantKind(t, what, try(), bridge.NotFound)
	}
	if _, err := w.mail.React(w.ctx, bob, direct.Message.ID, "👍"); err != nil {
		t.Errorf("a reaction to a direct message: %v", err)
	}
	if _, err := w.mail.Delete(w.ctx, bob, own.Message.ID); err != nil {
		t.Errorf("bob may withdraw its own words: %v", err)
	}
}

// testRemovedInAGroup: the members of a thread are woken one after another, and one
// that was removed before its turn came is passed over.
func testRemovedInAGroup(t *testing.T, begin beginner) {
	w := begin(t, mail.Options{PerPair: -1})
	w.team("ann", "bob", "cy")
	c := w.thread("ann", mail.ThreadDraft{Title: "plan", Participants: []string{"bob", "cy"}})
	w.rest()
	w.postIn(c.ID, "bob", "one")
	w.postIn(c.ID, "cy", "two")
	w.rest()
	before := len(w.turns("bob"))
	sent, err := w.mail.Say(w.ctx, string(c.ID), "secret")
	if err != nil {
		t.Fatal(err)
	}
	w.deliver() // ann is first
	if _, err := w.mail.RemoveParticipant(w.ctx, w.id("ann"), c.ID, "bob"); err != nil {
		t.Fatal(err)
	}
	w.rest()
	equal(t, "turns of bob", len(w.turns("bob")), before)
	equal(t, "receipts", w.states(sent.Message.ID), []string{"ann acknowledged", "cy acknowledged"})
}

// testRemovedAndTheTurnFails: a removed agent's turn that carried posts fails, and the
// posts are not told again with the next one.
func testRemovedAndTheTurnFails(t *testing.T, begin beginner) {
	w := begin(t, mail.Options{PerPair: -1})
	w.team("ann", "bob")
	c := w.thread("ann", mail.ThreadDraft{Title: "plan", Participants: []string{"bob"}})
	w.rest()
	w.breakDown(w.agent("bob"), true)
	if _, err := w.mail.PostThread(w.ctx, w.id("ann"), c.ID, mail.Draft{Text: "secret", Urgent: true}); err != nil {
		t.Fatal(err)
	}
	w.deliver()
	holds(t, w.prompt("bob"), "| secret")
	if _, err := w.mail.RemoveParticipant(w.ctx, w.id("ann"), c.ID, "bob"); err != nil {
		t.Fatal(err)
	}
	w.turnOver() // it fails, and what it carried waits again
	w.breakDown(w.agent("bob"), false)
	w.enter("bob")
	lacks(t, w.prompt("bob"), "| secret")
	holds(t, w.prompt("bob"), "ann removed you from thread")
	if inbox, err := w.mail.Inbox(w.ctx, w.id("bob")); err != nil || len(inbox) != 0 {
		t.Errorf("bob's inbox: %v, %v", texts(inbox), err)
	}
}

// testRemovedFromAChannel: what holds for a thread holds for a channel.
func testRemovedFromAChannel(t *testing.T, begin beginner) {
	w := begin(t, mail.Options{})
	w.team("ann", "bob")
	bob := w.id("bob")
	if _, err := w.mail.CreateChannel(w.ctx, "general", "ann", "bob"); err != nil {
		t.Fatal(err)
	}
	sent, err := w.mail.PostChannel(w.ctx, w.id("ann"), "general", "secret")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.mail.RemoveMembers(w.ctx, "general", "bob"); err != nil {
		t.Fatal(err)
	}
	_, err = w.mail.React(w.ctx, bob, sent.Message.ID, "👍")
	wantKind(t, "a reaction", err, bridge.NotFound)
	before := len(w.turns("bob"))
	w.rest()
	equal(t, "turns of bob", len(w.turns("bob")), before)
	w.enter("bob")
	holds(t, w.prompt("bob"), "The operator took you out of channel general")
	lacks(t, w.prompt("bob"), "secret")
}
