package mail_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/mail"
)

func (w *world) thread(creator string, d mail.ThreadDraft) mail.Conversation {
	w.t.Helper()
	c, _, err := w.mail.CreateThread(w.ctx, w.id(creator), d)
	if err != nil {
		w.t.Fatalf("create thread: %v", err)
	}
	return c
}

func memberNames(c mail.Conversation) (names []string) {
	for _, m := range c.Members {
		names = append(names, m.Name)
	}
	return names
}

func testThread(t *testing.T, begin beginner) {
	w := begin(t, mail.Options{PerPair: -1})
	w.team("ann", "bob", "cy", "dee")
	ann, bob, cy, dee := w.id("ann"), w.id("bob"), w.id("cy"), w.id("dee")
	c, first, err := w.mail.CreateThread(w.ctx, ann, mail.ThreadDraft{Title: "release", Participants: []string{"bob", "cy", "ann", "bob"}, Text: "shall we?"})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "members", memberNames(c), []string{"ann", "bob", "cy"})
	w.deliver()
	for _, name := range []string{"bob", "cy"} {
		holds(t, w.prompt(name), fmt.Sprintf("ann made thread %s with you (message %s); its title and first message:\n| title: release\n| shall we?\n", c.ID, first))
	}
	w.rest()

	_, err = w.mail.PostThread(w.ctx, dee, c.ID, mail.Draft{Text: "let me in"})
	wantKind(t, "a post of a stranger", err, bridge.NotFound)
	_, err = w.mail.Thread(w.ctx, dee, c.ID)
	wantKind(t, "details for a stranger", err, bridge.NotFound)
	_, err = w.mail.Messages(w.ctx, dee, mail.Query{Thread: c.ID})
	wantKind(t, "messages for a stranger", err, bridge.NotFound)
	_, _, err = w.mail.AddParticipant(w.ctx, dee, c.ID, "dee")
	wantKind(t, "an invitation by a stranger", err, bridge.NotFound)
	_, err = w.mail.React(w.ctx, dee, first, "👍")
	wantKind(t, "a reaction of a stranger", err, bridge.NotFound)

	if c, joined, err := w.mail.Join(w.ctx, dee, c.ID); err != nil || !joined || len(c.Members) != 4 {
		t.Errorf("dee joins: %v, %t, %v", memberNames(c), joined, err)
	}
	if _, joined, err := w.mail.Join(w.ctx, dee, c.ID); err != nil || joined {
		t.Errorf("dee joins again: %t, %v", joined, err)
	}
	_, err = w.mail.RemoveParticipant(w.ctx, bob, c.ID, "dee")
	wantKind(t, "a removal by one who is not the creator", err, bridge.Denied)
	_, err = w.mail.RemoveParticipant(w.ctx, bob, c.ID, "ann")
	wantKind(t, "a removal of the creator", err, bridge.Denied)
	_, err = w.mail.Leave(w.ctx, ann, c.ID)
	wantKind(t, "the creator leaves", err, bridge.Denied)
	if c, err := w.mail.RemoveParticipant(w.ctx, ann, c.ID, "dee"); err != nil || len(c.Members) != 3 {
		t.Errorf("the creator removes dee: %v, %v", memberNames(c), err)
	}
	if c, added, err := w.mail.AddParticipant(w.ctx, cy, c.ID, "dee"); err != nil || !added || len(c.Members) != 4 {
		t.Errorf("cy adds dee: %v, %t, %v", memberNames(c), added, err)
	}
	w.deliver()
	holds(t, w.prompt("dee"), "cy added dee to thread "+string(c.ID))
	if c, err := w.mail.Leave(w.ctx, cy, c.ID); err != nil || len(c.Members) != 3 {
		t.Errorf("cy leaves: %v, %v", memberNames(c), err)
	}
	all, err := w.mail.Messages(w.ctx, bob, mail.Query{Thread: c.ID})
	if err != nil {
		t.Fatal(err)
	}
	id := string(c.ID)
	equal(t, "the thread", texts(all), []string{"cy left thread " + id, "cy added dee to thread " + id, "ann removed dee from thread " + id, "dee joined thread " + id, "shall we?"})
	if _, err := w.mail.SetStatus(w.ctx, id, bridge.ConversationClosed); err != nil {
		t.Fatal(err)
	}
	_, err = w.mail.PostThread(w.ctx, bob, c.ID, mail.Draft{Text: "late"})
	wantKind(t, "a post in a closed thread", err, bridge.Conflict)
}

// testThreadWakes: the creator and who wrote before are woken one after another,
// the rest reads it later; urgent wakes all at once.
func testThreadWakes(t *testing.T, begin beginner) {
	w := begin(t, mail.Options{PerPair: -1})
	w.team("ann", "bob", "cy", "dee")
	c := w.thread("ann", mail.ThreadDraft{Title: "plan", Participants: []string{"bob", "cy", "dee"}})
	w.rest()
	turns := func() (n [4]int) {
		for i, name := range []string{"ann", "bob", "cy", "dee"} {
			n[i] = len(w.turns(name))
		}
		return n
	}
	post := func(name, text string, urgent bool) mail.Sent {
		sent, err := w.mail.PostThread(w.ctx, w.id(name), c.ID, mail.Draft{Text: text, Urgent: urgent})
		if err != nil {
			t.Fatal(err)
		}
		w.deliver()
		return sent
	}
	start := turns()
	if sent := post("bob", "I begin", false); sent.Woken != 1 || sent.Recipients != 3 {
		t.Errorf("bob's post: %+v", sent)
	}
	w.rest()
	equal(t, "turns after bob wrote", turns(), [4]int{start[0] + 1, start[1], start[2], start[3]})
	post("cy", "I go on", false)
	equal(t, "turns when cy wrote: ann first", turns(), [4]int{start[0] + 2, start[1], start[2], start[3]})
	if _, err := w.mail.PostThread(w.ctx, w.id("ann"), c.ID, mail.Draft{Text: "noted"}); err != nil {
		t.Fatal(err)
	}
	w.turnOver()
	w.pass(2 * time.Second)
	holds(t, w.prompt("bob"), "| I go on", "| noted")
	w.rest()
	before := turns()
	equal(t, "turns of dee, who never wrote", before[3], start[3])
	if sent := post("bob", "fire!", true); sent.Woken != 3 {
		t.Errorf("urgent: %+v", sent)
	}
	equal(t, "turns after an urgent post", turns(), [4]int{before[0] + 1, before[1], before[2] + 1, before[3] + 1})
	holds(t, w.prompt("dee"), "urgent", "| fire!", "| I begin")
}

// testChannel: an agent's post wakes nobody; a person's wakes all, one after
// another, so that each reads the answers before its own.
func testChannel(t *testing.T, begin beginner) {
	w := begin(t, mail.Options{})
	w.team("ann", "bob", "cy")
	c, err := w.mail.CreateChannel(w.ctx, "general", "ann", "bob", "cy")
	if err != nil {
		t.Fatal(err)
	}
	before := len(w.turns("bob"))
	sent, err := w.mail.PostChannel(w.ctx, w.id("ann"), "general", "morning")
	if err != nil || sent.Woken != 0 || sent.Recipients != 2 {
		t.Fatalf("ann's post: %+v, %v", sent, err)
	}
	w.rest()
	equal(t, "turns of bob", len(w.turns("bob")), before)

	if sent, err = w.mail.Say(w.ctx, "general", "what do you think?\nLOCAL_ACTION: x"); err != nil || sent.Woken != 3 {
		t.Fatalf("the operator's post: %+v, %v", sent, err)
	}
	w.deliver()
	holds(t, w.prompt("ann"), fmt.Sprintf("USER in channel general (%s) (message %s):\n\nwhat do you think?\nLOCAL_ACTION: x\n", c.ID, sent.Message.ID))
	equal(t, "depth of a turn by a person's word", w.turns("ann")[len(w.turns("ann"))-1].Depth, 0)
	equal(t, "turns of bob while ann answers", len(w.turns("bob")), before)
	if _, err := w.mail.PostChannel(w.ctx, w.id("ann"), string(c.ID), "I say yes"); err != nil {
		t.Fatal(err)
	}
	w.turnOver()
	w.pass(2 * time.Second)
	holds(t, w.prompt("bob"), "what do you think?", "| I say yes", "| morning")
	equal(t, "receipts", w.states(sent.Message.ID), []string{"ann acknowledged", "bob in_prompt", "cy queued"})
	w.rest()
	equal(t, "receipts in the end", w.states(sent.Message.ID), []string{"ann acknowledged", "bob acknowledged", "cy acknowledged"})
}

// TestGroupDoesNotWaitForEver: who has failed is passed over at once, and who does
// not end its turn after a while.
func TestGroupDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	w := newFileWorld(t, mail.Options{TurnWithin: 30 * time.Second})
	w.team("ann", "bob", "cy")
	if _, err := w.mail.CreateChannel(w.ctx, "general", "ann", "bob", "cy"); err != nil {
		t.Fatal(err)
	}
	w.breakDown(w.agent("ann"), true)
	w.enter("ann")
	w.turnOver() // ann has failed
	before := len(w.turns("cy"))
	sent, err := w.mail.Say(w.ctx, "general", "hello")
	if err != nil {
		t.Fatal(err)
	}
	w.pass(2 * time.Second)
	equal(t, "receipts", w.states(sent.Message.ID), []string{"ann queued", "bob in_prompt", "cy queued"})
	// Turns last longer here than a group waits.
	w.pass(59 * time.Second)
	equal(t, "turns of cy", len(w.turns("cy")), before+1)
	equal(t, "bob is in its turn still", w.states(sent.Message.ID)[1], "bob in_prompt")
}

func TestChannelRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mail.Options{})
	w.team("ann", "bob")
	w.root("hello", "eve")
	create := func(name string, members ...string) error {
		_, err := w.mail.CreateChannel(w.ctx, name, members...)
		return err
	}
	if err := create("general", "ann"); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "a name that is taken", create("general"), bridge.Conflict)
	wantKind(t, "an agent's name", create("ann"), bridge.Conflict)
	wantKind(t, "no name", create("a b"), bridge.Invalid)
	wantKind(t, "a member who is nobody", create("other", "nobody"), bridge.NotFound)
	_, err := w.mail.PostChannel(w.ctx, w.id("bob"), "general", "hi")
	wantKind(t, "a post of one who is no member", err, bridge.NotFound)
	_, err = w.mail.Say(w.ctx, "nowhere", "hi")
	wantKind(t, "a word to nobody", err, bridge.NotFound)
	if c, err := w.mail.AddMembers(w.ctx, "general", "bob", "bob", "eve"); err != nil || len(c.Members) != 3 {
		t.Errorf("members: %v, %v", memberNames(c), err)
	}
	if c, err := w.mail.RemoveMembers(w.ctx, "general", "ann"); err != nil || len(c.Members) != 2 {
		t.Errorf("members: %v, %v", memberNames(c), err)
	}
	_, err = w.mail.RemoveMembers(w.ctx, "general", "ann")
	wantKind(t, "a member who is none", err, bridge.NotFound)
	for n := range 10 {
		if _, err := w.mail.PostChannel(w.ctx, w.id("bob"), "general", fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
	_, err = w.mail.PostChannel(w.ctx, w.id("bob"), "general", "too much")
	wantKind(t, "the eleventh post in a minute", err, bridge.RateLimited)
	c := w.thread("ann", mail.ThreadDraft{Title: "x", Participants: []string{"bob"}})
	_, err = w.mail.PostChannel(w.ctx, w.id("ann"), string(c.ID), "hi")
	wantKind(t, "a thread as a channel", err, bridge.Invalid)
	_, _, err = w.mail.CreateThread(w.ctx, w.id("ann"), mail.ThreadDraft{Title: "two\nlines"})
	wantKind(t, "a title of two lines", err, bridge.Invalid)
	_, err = w.mail.AddMembers(w.ctx, string(c.ID), "eve")
	wantKind(t, "members of a thread by the operator", err, bridge.Invalid)
	all, err := w.mail.Conversations(w.ctx, bridge.ConversationFilter{Kind: bridge.MailChannel})
	if err != nil || len(all) != 1 || all[0].Name != "general" {
		t.Errorf("channels: %+v, %v", all, err)
	}
}

// testDMChain: a person's word starts at 0, and a run starts at 0, 1 and 2 only.
func testDMChain(t *testing.T, begin beginner) {
	w := begin(t, mail.Options{})
	w.root("hello", "zoe")
	w.root("hello", "adam")
	_, err := w.mail.DM(w.ctx, w.id("zoe"), "adam", "psst")
	wantKind(t, "a DM to one with whom nothing is shared", err, bridge.NotFound)
	if _, err := w.mail.CreateChannel(w.ctx, "office", "zoe", "adam"); err != nil {
		t.Fatal(err)
	}
	w.enter("zoe") // depth 0
	from, to := "zoe", "adam"
	for n, woken := range []int{1, 1, 0} {
		sent, err := w.mail.DM(w.ctx, w.id(from), to, fmt.Sprint("ping ", n))
		if err != nil || sent.Woken != woken || sent.Message.Depth != n {
			t.Fatalf("DM %d woke %d at depth %d, %v; want %d", n, sent.Woken, sent.Message.Depth, err, woken)
		}
		equal(t, "id", sent.Message.Conversation, "dm:adam:zoe")
		w.turnOver()
		if woken == 1 {
			holds(t, w.prompt(to), fmt.Sprintf("DM from %s (message %s):\n| ping %d", from, sent.Message.ID, n))
		}
		from, to = to, from
	}
	w.rest()
	w.enter("adam")
	holds(t, w.prompt("adam"), "| ping 2")
	// The id of the DM does for a channel's.
	if sent, err := w.mail.PostChannel(w.ctx, w.id("adam"), "dm:adam:zoe", "pong"); err != nil || sent.Message.Kind != bridge.MailDM || sent.Woken != 1 {
		t.Errorf("a post into the DM: %+v, %v", sent, err)
	}
	w.root("hello", "eve")
	_, err = w.mail.PostChannel(w.ctx, w.id("eve"), "dm:adam:zoe", "hi")
	wantKind(t, "a post into somebody else's DM", err, bridge.NotFound)
	_, err = w.mail.DM(w.ctx, w.id("eve"), "eve", "hi")
	wantKind(t, "a DM to oneself", err, bridge.Invalid)
}

// testDMChainIsAsLongAsConfigured: the setting alone decides which DM of a chain is the first that wakes nobody.
func testDMChainIsAsLongAsConfigured(t *testing.T, begin beginner) {
	for _, depth := range []int{1, 2, 5} {
		w := begin(t, mail.Options{ChainDepth: depth, PerPair: 100})
		w.root("hello", "zoe")
		w.root("hello", "adam")
		if _, err := w.mail.CreateChannel(w.ctx, "office", "zoe", "adam"); err != nil {
			t.Fatal(err)
		}
		w.enter("zoe")
		from, to := "zoe", "adam"
		for n := range depth {
			before := len(w.turns(to))
			sent, err := w.mail.DM(w.ctx, w.id(from), to, fmt.Sprint("ping ", n))
			if err != nil {
				t.Fatal(err)
			}
			w.turnOver()
			woken := len(w.turns(to)) - before
			if last := n == depth-1; sent.Woken != woken || (woken == 0) != last {
				t.Fatalf("chain_depth %d: DM %d says that it woke %d, and woke %d", depth, n, sent.Woken, woken)
			}
			from, to = to, from
		}
	}
}

// TestDMOfANameThatMovedOn: the old DM stays its members' alone.
func TestDMOfANameThatMovedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mail.Options{})
	w.team("ann", "bob")
	if _, err := w.mail.DM(w.ctx, w.id("ann"), "bob", "secret"); err != nil {
		t.Fatal(err)
	}
	old := w.agent("bob")
	old.Name = "bob~old"
	w.update(func(tx *bridge.Scene) error { return tx.UpdateAgent(old) })
	w.root("hello", "bob")
	if _, err := w.mail.CreateChannel(w.ctx, "office", "ann", "bob"); err != nil {
		t.Fatal(err)
	}
	sent, err := w.mail.DM(w.ctx, w.id("ann"), "bob", "hello, new one")
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.mail.DM(w.ctx, w.id("bob"), "ann", "hello")
	if err != nil || again.Message.Conversation != sent.Message.Conversation || sent.Message.Conversation == "dm:ann:bob" {
		t.Errorf("the DMs: %s and %s, %v", sent.Message.Conversation, again.Message.Conversation, err)
	}
	_, err = w.mail.Messages(w.ctx, w.id("bob"), mail.Query{Thread: "dm:ann:bob"})
	wantKind(t, "the old DM for the new one", err, bridge.NotFound)
}

func TestReactions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mail.Options{})
	w.team("ann", "bob", "cy")
	sent := w.send("ann", mail.Draft{To: "bob", Text: "done"})
	w.rest()
	before := len(w.turns("ann"))
	bob := w.id("bob")
	for n, want := range []bool{true, false} {
		if fresh, err := w.mail.React(w.ctx, bob, sent.Message.ID, "👩🏽‍💻"); err != nil || fresh != want {
			t.Errorf("reaction %d: %t, %v", n, fresh, err)
		}
	}
	if _, err := w.mail.React(w.ctx, w.id("ann"), sent.Message.ID, ":+1:"); err != nil {
		t.Error(err)
	}
	_, err := w.mail.React(w.ctx, w.id("cy"), sent.Message.ID, "👍")
	wantKind(t, "a reaction to somebody else's message", err, bridge.NotFound)
	for _, emoji := range []string{"", "two words", "a\nb", "\x00", "\u202e", "\xff", strings.Repeat("x", 25), "LOCAL_ACTION", "ok", "!!", "👍ok", "::"} {
		_, err := w.mail.React(w.ctx, bob, sent.Message.ID, emoji)
		wantKind(t, "the emoji "+emoji, err, bridge.Invalid)
	}
	for n, want := range []bool{true, false} {
		if gone, err := w.mail.Unreact(w.ctx, bob, sent.Message.ID, "👩🏽‍💻"); err != nil || gone != want {
			t.Errorf("taking away %d: %t, %v", n, gone, err)
		}
	}
	w.rest()
	equal(t, "turns of ann", len(w.turns("ann")), before)
	equal(t, "events", []int{w.kinds(bridge.EventReactionAdded), w.kinds(bridge.EventReactionRemoved), w.kinds(bridge.EventMessageCreated)}, []int{2, 1, 1})
	peeked, err := w.mail.PeekAgent(w.ctx, "bob", "", 5)
	if err != nil || len(peeked) != 1 || len(peeked[0].Reactions) != 1 || peeked[0].Reactions[0].Emoji != ":+1:" || peeked[0].Reactions[0].Name != "ann" {
		t.Errorf("what the operator sees: %+v, %v", peeked, err)
	}
}

// testTheOperatorAnswers: what a root asked the operator comes back as every answer does, once it was read.
func testTheOperatorAnswers(t *testing.T, begin beginner) {
	w := begin(t, mail.Options{})
	w.root("hello", "boss")
	w.rest()
	asked := w.send("boss", mail.Draft{To: "USER", Text: "May I?", Sync: true})
	say := func(text string) {
		t.Helper()
		if _, err := w.mail.Say(w.ctx, "boss", text); err != nil {
			t.Fatal(err)
		}
		w.deliver()
		w.turnOver()
	}
	say("good morning")
	holds(t, w.prompt("boss"), "The operator wrote to you (message ", "good morning")
	if _, err := w.mail.Acknowledge(w.ctx, asked.Message.ID); err != nil {
		t.Fatal(err)
	}
	say("you may")
	holds(t, w.prompt("boss"), "Reply from USER (to message "+string(asked.Message.ID)+"):\n\nyou may")
	say("and hurry")
	holds(t, w.prompt("boss"), "The operator wrote to you (message ", "and hurry")
}

// testEditOfAThreadsBeginning: who has not read a thread's first message reads its title with the new words.
func testEditOfAThreadsBeginning(t *testing.T, begin beginner) {
	w := begin(t, mail.Options{PerPair: -1})
	w.team("ann", "bob")
	w.enter("bob")
	c, first, err := w.mail.CreateThread(w.ctx, w.id("ann"), mail.ThreadDraft{Title: "release", Participants: []string{"bob"}, Text: "draft"})
	if err != nil {
		t.Fatal(err)
	}
	sent, err := w.mail.PostThread(w.ctx, w.id("ann"), c.ID, mail.Draft{Text: "more"})
	if err != nil {
		t.Fatal(err)
	}
	for id, text := range map[bridge.MessageID]string{first: "final", sent.Message.ID: "much more"} {
		if _, err := w.mail.Edit(w.ctx, bridge.User, id, text); err != nil {
			t.Fatal(err)
		}
	}
	w.turnOver()
	holds(t, w.prompt("bob"), "its title and first message:\n| title: release\n| final\n", "):\n| much more\n")
}

// testEditAndDelete: what waits is changed, what was read is not.
func testEditAndDelete(t *testing.T, begin beginner) {
	w := begin(t, mail.Options{})
	w.team("ann", "bob")
	ann := w.id("ann")
	w.enter("bob")
	edited, gone := w.send("ann", mail.Draft{To: "bob", Text: "draft"}).Message, w.send("ann", mail.Draft{To: "bob", Text: "poison"}).Message
	_, err := w.mail.Edit(w.ctx, w.id("bob"), edited.ID, "mine")
	wantKind(t, "editing another's message", err, bridge.NotFound)
	if m, err := w.mail.Edit(w.ctx, ann, edited.ID, "final\nLOCAL_ACTION: x"); err != nil || m.EditedAt.IsZero() {
		t.Errorf("edit: %+v, %v", m, err)
	}
	for range 2 {
		if m, err := w.mail.Delete(w.ctx, bridge.User, gone.ID); err != nil || m.Text != "" || m.DeletedAt.IsZero() {
			t.Errorf("delete: %+v, %v", m, err)
		}
	}
	_, err = w.mail.Edit(w.ctx, ann, gone.ID, "again")
	wantKind(t, "editing what was withdrawn", err, bridge.Conflict)
	w.turnOver()
	text := w.prompt("bob")
	holds(t, text, "| final\n| LOCAL_ACTION: x\n", "| (this message was withdrawn)")
	if strings.Contains(text, "draft") || strings.Contains(text, "poison") {
		t.Errorf("the old texts are told:\n%s", text)
	}
	equal(t, "events", []int{w.kinds(bridge.EventMessageUpdated), w.kinds(bridge.EventMessageDeleted)}, []int{1, 1})
	said, err := w.mail.Say(w.ctx, "ann", "stop")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.mail.Edit(w.ctx, bridge.User, said.Message.ID, "go"); err != nil {
		t.Fatal(err)
	}
	w.deliver()
	holds(t, w.prompt("ann"), "\n\ngo\n")
}
