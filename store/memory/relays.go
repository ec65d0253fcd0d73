package memory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"drawbridge/bridge"
)

// relayTables are the tables of relays, and of what replicas ask of each other about them.
type relayTables struct {
	relays   table[string, bridge.Relay]
	offers   table[string, []bridge.RelayOffer]
	joins    table[string, bridge.RelayJoin]
	keys     table[int64, bridge.RelayKey]
	replicas table[string, time.Time]
	calls    table[string, bridge.RelayCall]
	ties     table[string, bridge.RelayTie]
	asked    table[string, bridge.MachineQuestion]
}

func (r *relayTables) clone() relayTables {
	return relayTables{
		relays: r.relays.clone(), offers: r.offers.clone(), joins: r.joins.clone(), keys: r.keys.clone(),
		replicas: r.replicas.clone(), calls: r.calls.clone(), ties: r.ties.clone(), asked: r.asked.clone(),
	}
}

// look returns a row's copy or ErrNoRow.
func look[V any](row *V) (V, error) {
	if row == nil {
		var zero V
		return zero, bridge.ErrNoRow
	}
	return *row, nil
}

// PutRelay implements bridge.RelayTx.
func (t *tx) PutRelay(r bridge.Relay) error {
	r.ConnectedAt, r.EnrolledAt, r.SeenAt = stamp(r.ConnectedAt), stamp(r.EnrolledAt), stamp(r.SeenAt)
	r.StoppedAt, r.OutdatedAt, r.CopyAt = stamp(r.StoppedAt), stamp(r.OutdatedAt), stamp(r.CopyAt)
	return set(t, &t.state.relays, r.Name, &r)
}

// Relay implements bridge.RelayTx.
func (t *tx) Relay(name string) (bridge.Relay, error) { return look(t.state.relays.get(name)) }

// Relays implements bridge.RelayTx.
func (t *tx) Relays(f bridge.RelayFilter) (out []bridge.Relay, err error) {
	limit := f.Limit
	if limit <= 0 {
		limit = 100
	}
	t.state.relays.oldest(func(r *bridge.Relay) bool {
		if is(f.State, r.State) && is(f.Replica, r.Replica) && r.Name > f.After {
			out = append(out, *r)
		}
		return len(out) < limit
	})
	return out, nil
}

// PutOffers implements bridge.RelayTx.
func (t *tx) PutOffers(relay string, offers []bridge.RelayOffer) error {
	own := slices.Clone(offers)
	for i := range own {
		own[i].Relay = relay
	}
	slices.SortFunc(own, func(a, b bridge.RelayOffer) int { return strings.Compare(a.Action, b.Action) })
	return set(t, &t.state.offers, relay, &own)
}

// Offers implements bridge.RelayTx.
func (t *tx) Offers(relay string) ([]bridge.RelayOffer, error) {
	if row := t.state.offers.get(relay); row != nil {
		return slices.Clone(*row), nil
	}
	return nil, nil
}

// PutMachineQuestions implements bridge.RelayTx.
func (t *tx) PutMachineQuestions(relay string, questions []bridge.MachineQuestion) error {
	if err := purge(t, &t.state.asked, func(q *bridge.MachineQuestion) bool { return q.Relay == relay }); err != nil {
		return err
	}
	for _, q := range questions {
		q = bridge.MachineQuestion{Request: q.Request, Relay: relay, Since: stamp(q.Since), Until: stamp(q.Until)}
		if err := set(t, &t.state.asked, q.Request, &q); err != nil {
			return err
		}
	}
	return nil
}

// MachineQuestion implements bridge.RelayTx.
func (t *tx) MachineQuestion(request string) (bridge.MachineQuestion, error) {
	return look(t.state.asked.get(request))
}

// MachineQuestions implements bridge.RelayTx.
func (t *tx) MachineQuestions() (out []bridge.MachineQuestion, err error) {
	waits := map[string]bridge.Command{}
	t.state.commands.oldest(func(c *commandRow) bool {
		if c.State == bridge.CommandHeld || c.State == bridge.CommandSending || c.State == bridge.CommandUncertain {
			waits[c.OpKey] = c.Command
		}
		return true
	})
	t.state.asked.oldest(func(q *bridge.MachineQuestion) bool {
		if c, there := waits[q.Request]; there {
			found := *q
			found.Command, found.Agent, found.Action = c.ID, c.Agent, c.Canonical
			out = append(out, found)
		}
		return true
	})
	slices.SortFunc(out, func(a, b bridge.MachineQuestion) int { return cmp.Compare(a.Command, b.Command) })
	return out[:min(len(out), 1000)], nil
}

// OfferedBy implements bridge.RelayTx.
func (t *tx) OfferedBy(action string) (out []bridge.RelayOffer, err error) {
	t.state.offers.oldest(func(offers *[]bridge.RelayOffer) bool {
		for _, o := range *offers {
			r := t.state.relays.get(o.Relay)
			if o.Action == action && r != nil && r.State != bridge.RelayRevoked {
				out = append(out, o)
			}
		}
		return true
	})
	return out, nil
}

// PutJoin implements bridge.EnrolTx.
func (t *tx) PutJoin(j bridge.RelayJoin) error {
	j.CreatedAt, j.ExpiresAt = stamp(j.CreatedAt), stamp(j.ExpiresAt)
	return set(t, &t.state.joins, j.ID, &j)
}

// Join implements bridge.EnrolTx.
func (t *tx) Join(id string) (bridge.RelayJoin, error) { return look(t.state.joins.get(id)) }

// DropJoins implements bridge.EnrolTx.
func (t *tx) DropJoins(relay string) (int, error) {
	open := t.joinsWhere(func(j bridge.RelayJoin) bool { return j.Relay == relay })
	for _, j := range open {
		if err := set(t, &t.state.joins, j.ID, nil); err != nil {
			return 0, err
		}
	}
	return len(open), nil
}

// OpenJoins implements bridge.EnrolTx.
func (t *tx) OpenJoins(after time.Time) ([]bridge.RelayJoin, error) {
	open := t.joinsWhere(func(j bridge.RelayJoin) bool { return j.ExpiresAt.After(stamp(after)) })
	slices.SortFunc(open, func(a, b bridge.RelayJoin) int { return cmp.Or(cmp.Compare(a.Relay, b.Relay), cmp.Compare(a.ID, b.ID)) })
	return open[:min(len(open), 100)], nil
}

// joinsWhere returns the tokens that nobody has used and that keep wants.
func (t *tx) joinsWhere(keep func(bridge.RelayJoin) bool) (out []bridge.RelayJoin) {
	t.state.joins.oldest(func(j *bridge.RelayJoin) bool {
		if j.Key == "" && keep(*j) {
			out = append(out, *j)
		}
		return true
	})
	return out
}

// AddRelayKey implements bridge.EnrolTx.
func (t *tx) AddRelayKey(k bridge.RelayKey) error {
	if t.state.keys.get(k.Generation) != nil {
		return fmt.Errorf("generation %d exists already", k.Generation)
	}
	k.CreatedAt = stamp(k.CreatedAt)
	return set(t, &t.state.keys, k.Generation, &k)
}

// RelayKeys implements bridge.EnrolTx.
func (t *tx) RelayKeys() (out []bridge.RelayKey, err error) {
	t.state.keys.oldest(func(k *bridge.RelayKey) bool { out = append(out, *k); return true })
	return out, nil
}

// PutReplica implements bridge.RelayCallTx.
func (t *tx) PutReplica(id string, at time.Time) error {
	at = stamp(at)
	return set(t, &t.state.replicas, id, &at)
}

// ReplicaSeen implements bridge.RelayCallTx.
func (t *tx) ReplicaSeen(id string) (time.Time, error) { return look(t.state.replicas.get(id)) }

// PutCall implements bridge.RelayCallTx.
func (t *tx) PutCall(c bridge.RelayCall) error {
	c.CreatedAt = stamp(c.CreatedAt)
	return set(t, &t.state.calls, c.ID, &c)
}

// Call implements bridge.RelayCallTx.
func (t *tx) Call(id string) (bridge.RelayCall, error) { return look(t.state.calls.get(id)) }

// DropCall implements bridge.RelayCallTx.
func (t *tx) DropCall(id string) error { return set(t, &t.state.calls, id, nil) }

// WaitingCalls implements bridge.RelayCallTx.
func (t *tx) WaitingCalls(replica string) (out []bridge.RelayCall, err error) {
	t.state.calls.oldest(func(c *bridge.RelayCall) bool {
		if c.Replica == replica && c.State == bridge.CallWaiting {
			out = append(out, *c)
		}
		return len(out) < 100
	})
	return out, nil
}

// BindRequest implements bridge.RelayCallTx.
func (t *tx) BindRequest(request, relay string, at time.Time) (string, error) {
	if bound := t.state.ties.get(request); bound != nil {
		return bound.Relay, nil
	}
	return relay, t.PutTie(bridge.RelayTie{Request: request, Relay: relay, CreatedAt: at})
}

// BoundRelay implements bridge.RelayCallTx.
func (t *tx) BoundRelay(request string) (string, error) {
	bound, err := t.Tie(request)
	return bound.Relay, err
}

// PutTie implements bridge.RelayCallTx.
func (t *tx) PutTie(b bridge.RelayTie) error {
	b.CreatedAt, b.SentAt = stamp(b.CreatedAt), stamp(b.SentAt)
	return set(t, &t.state.ties, b.Request, &b)
}

// Tie implements bridge.RelayCallTx.
func (t *tx) Tie(request string) (bridge.RelayTie, error) { return look(t.state.ties.get(request)) }

// PurgeRelays implements bridge.RelayCallTx.
func (t *tx) PurgeRelays(before time.Time) error {
	before = stamp(before)
	s := t.state
	for _, purge := range []func() error{
		func() error {
			return purge(t, &s.joins, func(j *bridge.RelayJoin) bool { return j.ExpiresAt.Before(before) })
		},
		func() error {
			return purge(t, &s.calls, func(c *bridge.RelayCall) bool { return c.CreatedAt.Before(before) })
		},
		func() error {
			return purge(t, &s.ties, func(b *bridge.RelayTie) bool { return b.CreatedAt.Before(before) })
		},
		func() error {
			return purge(t, &s.asked, func(q *bridge.MachineQuestion) bool { return q.Until.Before(before) })
		},
		func() error { return purge(t, &s.replicas, func(at *time.Time) bool { return at.Before(before) }) },
	} {
		if err := purge(); err != nil {
			return err
		}
	}
	return nil
}

// purge removes the rows that are old.
func purge[K interface{ ~string }, V any](t *tx, in *table[K, V], old func(*V) bool) error {
	for _, key := range slices.Clone(in.keys) {
		if old(in.get(key)) {
			if err := set(t, in, key, nil); err != nil {
				return err
			}
		}
	}
	return nil
}
