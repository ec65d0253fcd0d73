package mail_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"drawbridge/bridge"
	"drawbridge/mail"
)

func texts(all []bridge.Message) (out []string) {
	for _, m := range all {
		out = append(out, m.Text)
	}
	return out
}

// testInboxInTheTurn: what an agent fetches in its turn does not come again, and
// waits again when that turn fails.
func testInboxInTheTurn(t *testing.T, begin beginner) {
	w := begin(t, mail.Options{})
	w.team("ann", "bob")
	bob := w.id("bob")
	w.enter("bob")
	first := w.send("ann", mail.Draft{To: "bob", Text: "one"})
	w.send("ann", mail.Draft{To: "bob", Text: "two"})
	unread := func() int {
		n, err := w.mail.Unread(w.ctx, bob)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	inbox := func() []string {
		all, err := w.mail.Inbox(w.ctx, bob)
		if err != nil {
			t.Fatal(err)
		}
		return texts(all)
	}
	equal(t, "unread", unread(), 2)
	equal(t, "inbox", inbox(), []string{"one", "two"})
	equal(t, "inbox again", inbox(), []string{})
	equal(t, "unread after", unread(), 0)
	equal(t, "receipts", w.states(first.Message.ID), []string{"bob offered"})
	third := w.send("ann", mail.Draft{To: "bob", Text: "three"})
	before := len(w.turns("bob"))
	w.turnOver()
	equal(t, "receipts", w.states(first.Message.ID), []string{"bob acknowledged"})
	equal(t, "turns of bob", len(w.turns("bob")), before+1)
	if text := w.prompt("bob"); strings.Contains(text, "| one") || !strings.Contains(text, "| three") {
		t.Errorf("the next turn says:\n%s", text)
	}
	w.rest()
	equal(t, "receipts", w.states(third.Message.ID), []string{"bob acknowledged"})

	w.enter("bob")
	w.breakDown(w.agent("bob"), true)
	lost := w.send("ann", mail.Draft{To: "bob", Text: "four"})
	equal(t, "inbox", inbox(), []string{"four"})
	w.turnOver()
	equal(t, "receipts after the turn broke", w.states(lost.Message.ID), []string{"bob queued"})
	w.breakDown(w.agent("bob"), false)
	w.enter("bob")
	holds(t, w.prompt("bob"), "| four")
}

// TestInboxOutsideATurn: nothing is bound to a turn that is over, so that it is told all the same.
func TestInboxOutsideATurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mail.Options{})
	w.team("ann", "bob")
	bob := w.agent("bob")
	w.breakDown(bob, true)
	w.enter("bob")
	w.turnOver() // bob has failed and gets no turns
	sent := w.send("ann", mail.Draft{To: "bob", Text: "hello"})
	for range 2 {
		all, err := w.mail.Inbox(w.ctx, bob.ID)
		if err != nil || len(all) != 1 {
			t.Fatalf("inbox: %v, %v", all, err)
		}
	}
	if n, err := w.mail.Unread(w.ctx, bob.ID); err != nil || n != 0 {
		t.Errorf("%d unread after they were fetched, %v", n, err)
	}
	equal(t, "receipts", w.states(sent.Message.ID), []string{"bob queued"})
	w.breakDown(bob, false)
	w.enter("bob")
	holds(t, w.prompt("bob"), "| hello")
}

// testMessages: newest first, ten by default, since a time, and marked as read.
func testMessages(t *testing.T, begin beginner) {
	w := begin(t, mail.Options{PerPair: -1})
	w.team("ann", "bob")
	bob := w.id("bob")
	var since time.Time
	for n := range 15 {
		m := w.send("ann", mail.Draft{To: "bob", Text: fmt.Sprint(n)}).Message
		if n == 11 {
			since = m.CreatedAt
		}
	}
	get := func(q mail.Query) []string {
		all, err := w.mail.Messages(w.ctx, bob, q)
		if err != nil {
			t.Fatal(err)
		}
		return texts(all)
	}
	equal(t, "since", get(mail.Query{Since: since}), []string{"14", "13", "12"})
	if n, err := w.mail.Unread(w.ctx, bob); n != 12 || err != nil {
		t.Errorf("%d unread, %v; want 12", n, err)
	}
	equal(t, "by default", get(mail.Query{}), []string{"14", "13", "12", "11", "10", "9", "8", "7", "6", "5"})
	equal(t, "two", get(mail.Query{Limit: 2}), []string{"14", "13"})
	equal(t, "as many as there are", len(get(mail.Query{Limit: 1000})), 15)
	_, err := w.mail.Messages(w.ctx, bob, mail.Query{Limit: -1})
	wantKind(t, "a limit below zero", err, bridge.Invalid)
	_, err = w.mail.Messages(w.ctx, bob, mail.Query{Thread: "thr_none"})
	wantKind(t, "no thread", err, bridge.NotFound)
	_, err = w.mail.Receipts(w.ctx, bob, "msg_none")
	wantKind(t, "receipts of what somebody else wrote", err, bridge.NotFound)
}

// testQuietMailHidesNothing: fifty posts that wake nobody do not keep the agent
// from hearing of what does.
func testQuietMailHidesNothing(t *testing.T, begin beginner) {
	w := begin(t, mail.Options{PerPair: -1})
	w.team("ann", "bob")
	if _, err := w.mail.CreateChannel(w.ctx, "general", "ann", "bob"); err != nil {
		t.Fatal(err)
	}
	before := len(w.turns("bob"))
	for n := range 120 {
		if _, err := w.mail.PostChannel(w.ctx, w.id("ann"), "general", fmt.Sprint("chatter ", n)); err != nil {
			t.Fatal(err)
		}
	}
	w.rest()
	equal(t, "turns of bob for chatter", len(w.turns("bob")), before)
	w.send("ann", mail.Draft{To: "bob", Text: "for you"})
	w.deliver()
	equal(t, "turns of bob", len(w.turns("bob")), before+1)
	holds(t, w.prompt("bob"), "| for you", "| chatter 0", "| chatter 40")
}

// testManyWriters: 64 agents write at once; everything arrives, once, whole.
func testManyWriters(t *testing.T, begin beginner) {
	w := begin(t, mail.Options{})
	names := []string{"target"}
	for n := range 64 {
		names = append(names, fmt.Sprint("w", n))
	}
	w.team(names...)
	ids := map[string]bridge.AgentID{}
	for _, name := range names {
		ids[name] = w.id(name)
	}
	var all errgroup.Group
	for _, name := range names[1:] {
		all.Go(func() error {
			for n := range 5 {
				if _, err := w.mail.Send(w.ctx, ids[name], mail.Draft{To: "target", Text: fmt.Sprintf("<%s.%d>", name, n)}); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	w.rest()
	told := ""
	for _, turn := range w.turns("target") {
		told += turn.Sent
	}
	for _, name := range names[1:] {
		last := -1
		for n := range 5 {
			line := fmt.Sprintf("| <%s.%d>\n", name, n)
			if strings.Count(told, line) != 1 {
				t.Errorf("%s was told %d times", line, strings.Count(told, line))
			}
			if at := strings.Index(told, line); at < last {
				t.Errorf("%s overtook the one before it", line)
			} else {
				last = at
			}
		}
	}
}

// TestInboxModel plays what agents, time and failing runs do in any order, and
// checks that nothing which arrives is lost or told twice in turns that ended
// well, and that exactly what was shown is acknowledged.
func TestInboxModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt, mail.Options{PerPair: -1})
		names := []string{"ann", "bob", "cy"}
		w.team(names...)
		m := model{w: w, names: names, broken: map[string]bool{}}
		ops := []func(*rapid.T){m.send, m.send, m.fetch, m.fail, m.enter, func(*rapid.T) { w.deliver() }, func(*rapid.T) { w.turnOver() }}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			ops[rapid.IntRange(0, len(ops)-1).Draw(rt, "op")](rt)
			m.check(rt)
		}
		for name := range m.broken {
			w.breakDown(w.agent(name), false)
		}
		for range 3 { // each word of a person takes along what waits
			for _, name := range names {
				w.enter(name)
			}
			w.rest()
		}
		m.check(rt)
		for _, sent := range m.sent {
			if states := w.states(sent.id); !slices.Equal(states, []string{sent.to + " acknowledged"}) {
				rt.Fatalf("%s is %v in the end", sent.id, states)
			}
		}
	})
}

type model struct {
	w      *world
	names  []string
	sent   []sentMessage
	broken map[string]bool
}

type sentMessage struct {
	id bridge.MessageID
	to string
	// fetched names the turns in which it was handed out by a tool call.
	fetched []bridge.TurnID
}

func (m *model) name(rt *rapid.T) string { return rapid.SampledFrom(m.names).Draw(rt, "agent") }

func (m *model) send(rt *rapid.T) {
	from, to := m.name(rt), m.name(rt)
	if from == to {
		return
	}
	sent := m.w.send(from, mail.Draft{To: to, Text: fmt.Sprintf("<%d>", len(m.sent)), Sync: rapid.Bool().Draw(rt, "sync")})
	m.sent = append(m.sent, sentMessage{id: sent.Message.ID, to: to})
}

func (m *model) fetch(rt *rapid.T) {
	name := m.name(rt)
	turn := m.current(name)
	all, err := m.w.mail.Inbox(m.w.ctx, m.w.id(name))
	if err != nil {
		rt.Fatalf("inbox of %s: %v", name, err)
	}
	for _, got := range all {
		i := slices.IndexFunc(m.sent, func(s sentMessage) bool { return s.id == got.ID })
		if m.sent[i].to != name {
			rt.Fatalf("%s got a message to %s", name, m.sent[i].to)
		}
		if turn != "" {
			m.sent[i].fetched = append(m.sent[i].fetched, turn)
		}
	}
}

// current is the turn that an agent is in.
func (m *model) current(name string) (id bridge.TurnID) {
	for _, t := range m.w.turns(name) {
		if !t.State.Over() && t.State != bridge.TurnQueued {
			id = t.ID
		}
	}
	return id
}

func (m *model) fail(rt *rapid.T) {
	name := m.name(rt)
	m.broken[name] = !m.broken[name]
	m.w.breakDown(m.w.agent(name), m.broken[name])
}

func (m *model) enter(rt *rapid.T) { m.w.enter(m.name(rt)) }

// check compares each receipt with what the turns themselves say.
func (m *model) check(rt *rapid.T) {
	for n, sent := range m.sent {
		receipts, err := m.w.mail.Receipts(m.w.ctx, bridge.User, sent.id)
		if err != nil || len(receipts) != 1 {
			rt.Fatalf("receipts of %s: %v, %v", sent.id, receipts, err)
		}
		var well []bridge.TurnID // turns that ended well and showed it
		var now []bridge.TurnID  // the turn that shows it now
		for _, t := range m.w.turns(sent.to) {
			shown := slices.Contains(sent.fetched, t.ID) || strings.Contains(t.Sent, fmt.Sprintf("| <%d>\n", n))
			switch {
			case !shown:
			case t.State == bridge.TurnReplied:
				well = append(well, t.ID)
			case !t.State.Over() && t.State != bridge.TurnQueued:
				now = append(now, t.ID)
			}
		}
		r := receipts[0]
		want := cmp.Or(map[bool]bridge.ReceiptState{true: bridge.ReceiptAcknowledged}[len(well) == 1], map[bool]bridge.ReceiptState{true: bridge.ReceiptInPrompt}[len(now) == 1], bridge.ReceiptQueued)
		if r.State == bridge.ReceiptOffered && want == bridge.ReceiptInPrompt {
			want = r.State
		}
		if len(well) > 1 || (len(well) == 1 && len(now) > 0) || r.State != want {
			rt.Fatalf("message %d to %s is %s; it was shown in %v, which ended well, and in %v", n, sent.to, r.State, well, now)
		}
		if carried := append(well, now...); len(carried) == 1 && r.Turn != carried[0] {
			rt.Fatalf("message %d is carried by %s and was shown in %s", n, r.Turn, carried[0])
		}
	}
}

// What a turn brings counts as read, so that it must be all of it; and no flood
// of long messages makes a turn that no Runtime takes.
func TestLongMailIsToldWhole(t *testing.T) {
	t.Parallel()
	names := []string{"bob"}
	for i := range 20 {
		names = append(names, fmt.Sprintf("w%02d", i))
	}
	w := newWorld(t, mail.Options{})
	w.team(names...)
	w.enter("bob")
	for _, name := range names[1:] {
		w.send(name, mail.Draft{To: "bob", Text: strings.Repeat("x", bridge.MaxMessage-len("end ")-len(name)) + "end " + name})
	}
	before := len(w.turns("bob"))
	w.rest()
	var read []string
	for _, turn := range w.turns("bob")[before:] {
		if len(turn.Sent) > bridge.MaxText+10_000 {
			t.Errorf("a turn of %d bytes", len(turn.Sent))
		}
		for _, name := range names[1:] {
			if strings.Contains(turn.Sent, "end "+name+"\n") {
				read = append(read, name)
			}
		}
	}
	equal(t, "messages whose end was told, in order", read, names[1:])
}

// What a call returns counts as fetched, so that no more of it goes than a client can take.
func TestLongMailIsFetchedInParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mail.Options{})
	w.team("ann", "bob")
	w.enter("bob")
	for range 6 {
		w.send("ann", mail.Draft{To: "bob", Text: strings.Repeat("x", bridge.MaxMessage)})
	}
	id := w.id("bob")
	for _, want := range []int{4, 2, 0} {
		got, err := w.mail.Inbox(w.ctx, id)
		if err != nil || len(got) != want {
			t.Errorf("the inbox gives %d messages (%v), want %d", len(got), err, want)
		}
	}
	if got, err := w.mail.Messages(w.ctx, id, mail.Query{}); err != nil || len(got) != 4 {
		t.Errorf("%d messages at a time (%v), want 4", len(got), err)
	}
}
