package stores

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"drawbridge/bridge"
)

func relay(n int) bridge.Relay {
	return bridge.Relay{Name: fmt.Sprintf("relay-%04d", n), State: bridge.RelayEnrolled, Key: "key", NextKey: "next", Pin: "pin", Replica: "rep_1", Session: "ses_1",
		ConnectedAt: at(time.Minute), EnrolledAt: epoch, SeenAt: at(time.Hour),
		Epoch: 7, Offered: 9, Process: "p1", StoppedAt: at(2 * time.Hour), OutdatedAt: at(4 * time.Hour), CopyAt: at(3 * time.Hour), CopyEpoch: 5, AcceptedAt: at(time.Minute)}
}

func testRelays(t *testing.T, open Open) {
	s := open(t)
	first := relay(1)
	noZeroField(t, first)
	revoked, elsewhere, away := relay(3), relay(2), relay(0)
	revoked.State, elsewhere.Replica = bridge.RelayRevoked, "rep_2"
	away.Replica, away.Session, away.ConnectedAt, away.NextKey = "", "", time.Time{}, ""
	away.Epoch, away.Offered, away.Process, away.StoppedAt, away.OutdatedAt, away.CopyAt, away.CopyEpoch, away.AcceptedAt = 0, 0, "", time.Time{}, time.Time{}, time.Time{}, 0, time.Time{}
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		for _, r := range []bridge.Relay{revoked, elsewhere, first, away} {
			if err := tx.PutRelay(r); err != nil {
				return err
			}
		}
		return nil
	})
	get := func(name string) bridge.Relay {
		return read(t, s, func(tx *bridge.Scene) (bridge.Relay, error) { return tx.Relay(name) })
	}
	list := func(f bridge.RelayFilter) []bridge.Relay {
		return read(t, s, func(tx *bridge.Scene) ([]bridge.Relay, error) { return tx.Relays(f) })
	}
	equal(t, "relay", get(first.Name), first)
	equal(t, "relay without a connection", get(away.Name), away)
	equal(t, "all, by name", list(bridge.RelayFilter{}), []bridge.Relay{away, first, elsewhere, revoked})
	equal(t, "paged", list(bridge.RelayFilter{After: away.Name, Limit: 2}), []bridge.Relay{first, elsewhere})
	equal(t, "of a replica", list(bridge.RelayFilter{Replica: "rep_1"}), []bridge.Relay{first, revoked})
	equal(t, "to cut off", list(bridge.RelayFilter{Replica: "rep_1", State: bridge.RelayRevoked}), []bridge.Relay{revoked})
	equal(t, "in a state", list(bridge.RelayFilter{State: bridge.RelayRevoked}), []bridge.Relay{revoked})
	first.Key, first.NextKey, first.Session = "next", "", "ses_2"
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PutRelay(first) })
	equal(t, "replaced", get(first.Name), first)
	if _, err := lookUp(t.Context(), s, func(tx *bridge.Scene) (bridge.Relay, error) { return tx.Relay("nobody") }); !errors.Is(err, bridge.ErrNoRow) {
		t.Errorf("a relay that is not there: %v", err)
	}
}

func testRelayOffers(t *testing.T, open Open) {
	s := open(t)
	offer := func(relay, action, definition string) bridge.RelayOffer {
		return bridge.RelayOffer{Relay: relay, Action: action, Approval: "each", Bridge: true, ApproveBy: "either", Definition: definition, Shows: "it would run " + definition}
	}
	noZeroField(t, offer("a", "b", "c"))
	put := func(relay string, offers ...bridge.RelayOffer) {
		t.Helper()
		mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PutOffers(relay, offers) })
	}
	one, two, gone := relay(1), relay(2), relay(3)
	gone.State = bridge.RelayRevoked
	for _, r := range []bridge.Relay{one, two, gone} {
		mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PutRelay(r) })
	}
	put(one.Name, bridge.RelayOffer{Action: "lock", Approval: "never", Definition: "d"}, offer("ignored", "backup", "d1"))
	put(two.Name, offer(two.Name, "backup", "d2"))
	put(gone.Name, offer(gone.Name, "backup", "d3"))
	of := func(relay string) []bridge.RelayOffer {
		return read(t, s, func(tx *bridge.Scene) ([]bridge.RelayOffer, error) { return tx.Offers(relay) })
	}
	by := func(action string) []bridge.RelayOffer {
		return read(t, s, func(tx *bridge.Scene) ([]bridge.RelayOffer, error) { return tx.OfferedBy(action) })
	}
	equal(t, "of a relay, by action", of(one.Name), []bridge.RelayOffer{offer(one.Name, "backup", "d1"), {Relay: one.Name, Action: "lock", Approval: "never", Definition: "d"}})
	equal(t, "of nobody", len(of("nobody")), 0)
	equal(t, "by action, without the revoked", by("backup"), []bridge.RelayOffer{offer(one.Name, "backup", "d1"), offer(two.Name, "backup", "d2")})
	put(one.Name, offer(one.Name, "backup", "changed"), offer(one.Name, "new", "d"))
	equal(t, "replaced", of(one.Name), []bridge.RelayOffer{offer(one.Name, "backup", "changed"), offer(one.Name, "new", "d")})
	put(one.Name)
	equal(t, "none left", len(of(one.Name)), 0)
	equal(t, "others untouched", by("backup"), []bridge.RelayOffer{offer(two.Name, "backup", "d2")})
}

// testMachineQuestions: what a relay asks a person replaces what it asked before, touches no other relay's, and is listed with the
// commands that wait.
func testMachineQuestions(t *testing.T, open Open) {
	s := open(t)
	question := func(n int, relay string) bridge.MachineQuestion {
		// The requests are in another order than their commands.
		return bridge.MachineQuestion{Request: fmt.Sprintf("op-%d", 9-n), Relay: relay, Since: at(time.Duration(n) * time.Second), Until: at(time.Hour + time.Duration(n)*time.Second)}
	}
	listed := func(n int, relay string) bridge.MachineQuestion {
		q, c := question(n, relay), fullCommand(n)
		q.Command, q.Agent, q.Action = c.ID, c.Agent, c.Canonical
		return q
	}
	put := func(relay string, questions ...bridge.MachineQuestion) {
		t.Helper()
		mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PutMachineQuestions(relay, questions) })
	}
	list := func() []bridge.MachineQuestion {
		return read(t, s, func(tx *bridge.Scene) ([]bridge.MachineQuestion, error) { return tx.MachineQuestions() })
	}
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		for n, state := range []bridge.CommandState{bridge.CommandSending, bridge.CommandHeld, bridge.CommandUncertain, bridge.CommandFinished} {
			c := fullCommand(n + 1)
			c.State, c.OpKey = state, question(n+1, "").Request
			if err := tx.InsertCommand(c); err != nil {
				return err
			}
		}
		return nil
	})
	equal(t, "at first", len(list()), 0)
	mine := question(1, "ignored")
	mine.Command, mine.Agent, mine.Action = "cmd_x", "agt_x", "x" // the command says these
	put("laptop", mine, question(3, "laptop"), question(4, "laptop"), question(9, "laptop"))
	put("desk", question(2, "desk"))
	equal(t, "of commands that wait", list(), []bridge.MachineQuestion{listed(1, "laptop"), listed(2, "desk"), listed(3, "laptop")})
	one := func(n int) bridge.MachineQuestion {
		return read(t, s, func(tx *bridge.Scene) (bridge.MachineQuestion, error) {
			return tx.MachineQuestion(question(n, "").Request)
		})
	}
	equal(t, "one", one(1), question(1, "laptop"))
	equal(t, "one whose command is unknown", one(9), question(9, "laptop"))
	put("laptop", question(3, "laptop"))
	equal(t, "replaced", list(), []bridge.MachineQuestion{listed(2, "desk"), listed(3, "laptop")})
	if _, err := lookUp(t.Context(), s, func(tx *bridge.Scene) (bridge.MachineQuestion, error) {
		return tx.MachineQuestion(question(1, "").Request)
	}); !errors.Is(err, bridge.ErrNoRow) {
		t.Errorf("a question that is over: %v", err)
	}
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PurgeRelays(at(time.Hour + 3*time.Second)) })
	equal(t, "purged", list(), []bridge.MachineQuestion{listed(3, "laptop")})
	put("laptop")
	equal(t, "none left", len(list()), 0)
}

func testRelayJoins(t *testing.T, open Open) {
	s := open(t)
	j := bridge.RelayJoin{ID: "j1", Relay: "laptop", CreatedAt: epoch, ExpiresAt: at(time.Hour), Key: "key"}
	noZeroField(t, j)
	fresh := j
	fresh.Key = ""
	get := func() bridge.RelayJoin {
		return read(t, s, func(tx *bridge.Scene) (bridge.RelayJoin, error) { return tx.RelayJoin("j1") })
	}
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PutRelayJoin(fresh) })
	equal(t, "fresh", get(), fresh)
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PutRelayJoin(j) })
	equal(t, "used", get(), j)
	if _, err := lookUp(t.Context(), s, func(tx *bridge.Scene) (bridge.RelayJoin, error) { return tx.RelayJoin("j2") }); !errors.Is(err, bridge.ErrNoRow) {
		t.Errorf("a token that is not there: %v", err)
	}
	t.Run("open", func(t *testing.T) { testOpenJoins(t, open) })
}

func testOpenJoins(t *testing.T, open Open) {
	s := open(t)
	for _, j := range []bridge.RelayJoin{
		{ID: "j3", Relay: "tower", ExpiresAt: at(time.Hour)}, {ID: "j2", Relay: "laptop", ExpiresAt: at(time.Hour)},
		{ID: "j1", Relay: "laptop", ExpiresAt: at(2 * time.Hour)}, {ID: "j4", Relay: "laptop", ExpiresAt: at(time.Hour), Key: "key"},
	} {
		j.CreatedAt = epoch
		mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PutRelayJoin(j) })
	}
	ids := func(after time.Time) (out []string) {
		for _, j := range read(t, s, func(tx *bridge.Scene) ([]bridge.RelayJoin, error) { return tx.OpenRelayJoins(after) }) {
			out = append(out, j.ID)
		}
		return out
	}
	drop := func(relay string) (n int) {
		mustUpdate(t, s, func(tx *bridge.Scene) (err error) { n, err = tx.DropRelayJoins(relay); return err })
		return n
	}
	equal(t, "by relay, without what was used", ids(epoch), []string{"j1", "j2", "j3"})
	equal(t, "one that ends at that time is over", ids(at(time.Hour)), []string{"j1"})
	equal(t, "dropped", drop("laptop"), 2)
	equal(t, "dropped twice", drop("laptop"), 0)
	equal(t, "others untouched", ids(epoch), []string{"j3"})
	if used := read(t, s, func(tx *bridge.Scene) (bridge.RelayJoin, error) { return tx.RelayJoin("j4") }); used.Key != "key" {
		t.Errorf("a used token: %+v", used)
	}
}

func testRelayKeys(t *testing.T, open Open) {
	s := open(t)
	first := bridge.RelayKey{Generation: 1, Source: "k1", CreatedAt: epoch}
	noZeroField(t, first)
	second := bridge.RelayKey{Generation: 2, Source: "k2", CreatedAt: at(time.Hour)}
	for _, k := range []bridge.RelayKey{second, first} {
		mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.AddRelayKey(k) })
	}
	if err := s.Update(t.Context(), func(tx *bridge.Scene) error {
		return tx.AddRelayKey(bridge.RelayKey{Generation: 2, Source: "k3", CreatedAt: epoch})
	}); err == nil {
		t.Error("a generation is there twice")
	}
	equal(t, "oldest first", read(t, s, func(tx *bridge.Scene) ([]bridge.RelayKey, error) { return tx.RelayKeys() }), []bridge.RelayKey{first, second})
}

func call(n int) bridge.RelayCall {
	return bridge.RelayCall{ID: fmt.Sprintf("rcl_%04d", n), Replica: "rep_1", Relay: "laptop", Request: "op", Ask: `{"a":1}`, State: bridge.CallWaiting, Outcome: `{"b":2}`, CreatedAt: epoch}
}

func testRelayCalls(t *testing.T, open Open) {
	s := open(t)
	first, second, other := call(1), call(2), call(3)
	noZeroField(t, first)
	other.Replica = "rep_2"
	for _, c := range []bridge.RelayCall{second, first, other} {
		mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PutCall(c) })
	}
	waiting := func() []bridge.RelayCall {
		return read(t, s, func(tx *bridge.Scene) ([]bridge.RelayCall, error) { return tx.WaitingCalls("rep_1") })
	}
	equal(t, "waiting, oldest first", waiting(), []bridge.RelayCall{first, second})
	first.State, first.Outcome = bridge.CallDone, "done"
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PutCall(first) })
	equal(t, "one is done", waiting(), []bridge.RelayCall{second})
	equal(t, "the done one", read(t, s, func(tx *bridge.Scene) (bridge.RelayCall, error) { return tx.Call(first.ID) }), first)
	mustUpdate(t, s, func(tx *bridge.Scene) error { return errors.Join(tx.DropCall(first.ID), tx.DropCall("nobody")) })
	if _, err := lookUp(t.Context(), s, func(tx *bridge.Scene) (bridge.RelayCall, error) { return tx.Call(first.ID) }); !errors.Is(err, bridge.ErrNoRow) {
		t.Errorf("a call that was dropped: %v", err)
	}
	seen := func() (time.Time, error) {
		return lookUp(t.Context(), s, func(tx *bridge.Scene) (time.Time, error) { return tx.ReplicaSeen("rep_1") })
	}
	if _, err := seen(); !errors.Is(err, bridge.ErrNoRow) {
		t.Errorf("a replica that never lived: %v", err)
	}
	for _, when := range []time.Time{epoch, at(time.Second)} {
		mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PutReplica("rep_1", when) })
		got, err := seen()
		equal(t, "seen", got, when)
		equal(t, "seen, error", err, nil)
	}
}

func testRelayTies(t *testing.T, open Open) {
	s := open(t)
	bind := func(relay string) (got string) {
		mustUpdate(t, s, func(tx *bridge.Scene) (err error) {
			got, err = tx.BindRequest("op", relay, epoch)
			return err
		})
		return got
	}
	if _, err := lookUp(t.Context(), s, func(tx *bridge.Scene) (string, error) { return tx.BoundRelay("op") }); !errors.Is(err, bridge.ErrNoRow) {
		t.Errorf("a tie that is not there: %v", err)
	}
	equal(t, "the first wins", bind("laptop"), "laptop")
	equal(t, "and stays", bind("desk"), "laptop")
	equal(t, "bound", read(t, s, func(tx *bridge.Scene) (string, error) { return tx.BoundRelay("op") }), "laptop")
	tie := func() bridge.RelayTie {
		return read(t, s, func(tx *bridge.Scene) (bridge.RelayTie, error) { return tx.Tie("op") })
	}
	equal(t, "not sent", tie(), bridge.RelayTie{Request: "op", Relay: "laptop", CreatedAt: epoch})
	sent := bridge.RelayTie{Request: "op", Relay: "laptop", Process: "p1", CreatedAt: at(time.Minute), SentAt: at(time.Hour)}
	noZeroField(t, sent)
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PutTie(sent) })
	equal(t, "sent", tie(), sent)
	equal(t, "a tie that was sent stays", bind("desk"), "laptop")
	if _, err := lookUp(t.Context(), s, func(tx *bridge.Scene) (bridge.RelayTie, error) { return tx.Tie("nobody") }); !errors.Is(err, bridge.ErrNoRow) {
		t.Errorf("a tie that is not there: %v", err)
	}
}

func testPurgeRelays(t *testing.T, open Open) {
	s := open(t)
	for n, when := range []time.Time{epoch, at(time.Hour)} {
		id := fmt.Sprintf("x%d", n)
		c := call(n)
		c.ID, c.CreatedAt = id, when
		mustUpdate(t, s, func(tx *bridge.Scene) error {
			_, err := tx.BindRequest(id, "laptop", when)
			return errors.Join(err, tx.PutCall(c), tx.PutReplica(id, when), tx.PutRelayJoin(bridge.RelayJoin{ID: id, Relay: "r", CreatedAt: when, ExpiresAt: when}))
		})
	}
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PurgeRelays(at(time.Minute)) })
	mustView(t, s, func(tx *bridge.Scene) error {
		looks := map[string]func(id string) error{
			"tie":     func(id string) error { _, err := tx.BoundRelay(id); return err },
			"call":    func(id string) error { _, err := tx.Call(id); return err },
			"replica": func(id string) error { _, err := tx.ReplicaSeen(id); return err },
			"token":   func(id string) error { _, err := tx.RelayJoin(id); return err },
		}
		for what, look := range looks {
			if err := look("x0"); !errors.Is(err, bridge.ErrNoRow) {
				t.Errorf("old %s: %v", what, err)
			}
			if err := look("x1"); err != nil {
				t.Errorf("newer %s: %v", what, err)
			}
		}
		return nil
	})
}
