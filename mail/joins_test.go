package mail_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/mail"
)

// testJoinedBroadcastCountsTheSilent: whoever failed, was stopped or lost its token is missing at once, whether before the broadcast,
// while the others answer, or last. It guards against a sender that waits an hour for an answer that cannot come.
func testJoinedBroadcastCountsTheSilent(t *testing.T, begin beginner) {
	w := begin(t, mail.Options{})
	w.team("ann", "bob", "cy", "dan")
	ask := func() string {
		t.Helper()
		sent, err := w.mail.Broadcast(w.ctx, w.id("ann"), mail.Draft{Text: "votes, please", Joined: true})
		if err != nil {
			t.Fatal(err)
		}
		w.deliver()
		return string(sent.Message.ID)
	}
	told := func(id string, here int, missing string) {
		t.Helper()
		holds(t, w.prompt("ann"), fmt.Sprintf("No other agent can answer your broadcast %s now: %d of 3 answers came; none from %s. Later answers reach you as separate messages.", id, here, missing))
		w.turnOver()
	}

	w.breakDown(w.agent("cy"), true)
	w.slowDown(true, "bob", "dan")
	id, before := ask(), len(w.turns("ann"))
	w.turnOver() // cy fails
	w.send("bob", mail.Draft{To: "ann", Text: "aye"})
	w.deliver()
	equal(t, "turns of ann while dan can still answer", len(w.turns("ann")), before)
	if err := w.engine.Change(w.ctx, func(tx bridge.Change) error {
		lost := bridge.DoorToken{ID: "tok_1", Agent: w.id("dan"), Hash: "hash", CreatedAt: tx.Now(), RevokedAt: tx.Now()}
		return errors.Join(tx.InsertToken(lost), bridge.LookAtAwaited(tx.Scene, lost.Agent, tx.Now()))
	}); err != nil {
		t.Fatal(err)
	}
	w.deliver()
	told(id, 1, "cy (it failed), dan (its token was revoked)")

	w.slowDown(false, "bob", "dan")
	w.turnOver()
	w.slowDown(true, "bob")
	id, before = ask(), len(w.turns("ann"))
	equal(t, "turns of ann while bob can answer", len(w.turns("ann")), before)
	w.send("bob", mail.Draft{To: "ann", Text: "aye again"})
	w.deliver()
	told(id, 1, "cy (it failed), dan (its token was revoked)")

	w.slowDown(false, "bob")
	w.turnOver()
	w.breakDown(w.agent("bob"), true)
	w.enter("bob")
	w.turnOver()
	told(ask(), 0, "bob (it failed), cy (it failed), dan (its token was revoked)")

	before = len(w.turns("ann"))
	w.pass(2 * time.Hour)
	w.rest()
	equal(t, "turns of ann after the deadlines", len(w.turns("ann")), before)
	w.send("dan", mail.Draft{To: "ann", Text: "I could after all"})
	w.deliver()
	equal(t, "turns of ann after a late answer", len(w.turns("ann")), before+1)
}
