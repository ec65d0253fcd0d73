package bridge

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// What look-ups of relays need.
type (
	// NeedRelay is the relay of a name.
	NeedRelay struct {
		needs
		Name string
	}
	// NeedRelays is the relays that a filter selects, by name.
	NeedRelays struct {
		needs
		RelayFilter
	}
	// NeedOffers is what a relay offers.
	NeedOffers struct {
		needs
		Relay string
	}
	// NeedOfferedBy is the offers of an action and the relays that make them.
	NeedOfferedBy struct {
		needs
		Action string
	}
	// NeedJoin is the join token of an id.
	NeedJoin struct {
		needs
		ID string
	}
	// NeedUnusedJoins is the join tokens for a relay that nobody has used.
	NeedUnusedJoins struct {
		needs
		Relay string
	}
	// NeedOpenJoins is the first join tokens that nobody has used and that end after a time, by relay.
	NeedOpenJoins struct {
		needs
		After time.Time
		Limit int
	}
	// NeedRelayKeys is all relay keys.
	NeedRelayKeys struct{ needs }
	// NeedReplica is when a replica last lived.
	NeedReplica struct {
		needs
		ID string
	}
	// NeedCall is the call of an id.
	NeedCall struct {
		needs
		ID string
	}
	// NeedWaitingCalls is the first calls that a replica has not taken, by id.
	NeedWaitingCalls struct {
		needs
		Replica string
		Limit   int
	}
	// NeedTie is what ties a request to a relay.
	NeedTie struct {
		needs
		Request string
	}
	// NeedMachineQuestion is the question about a request.
	NeedMachineQuestion struct {
		needs
		Request string
	}
	// NeedAskedBy is the questions of a relay.
	NeedAskedBy struct {
		needs
		Relay string
	}
	// NeedMachineQuestions is the first questions about commands that wait, by command, and the commands.
	NeedMachineQuestions struct {
		needs
		Limit int
	}
	// NeedOldRelayRows is what PurgeRelays removes.
	NeedOldRelayRows struct {
		needs
		Before time.Time
	}
)

func (n NeedRelays) limit() int       { return n.Limit }
func (n NeedOpenJoins) limit() int    { return n.Limit }
func (n NeedWaitingCalls) limit() int { return n.Limit }

// OfferKey is the key of an offer.
func OfferKey(relay, action string) string { return pair(relay, action) }

// PutRelay inserts or replaces the relay of that name.
func (s *Scene) PutRelay(r Relay) error {
	r.ConnectedAt, r.EnrolledAt, r.SeenAt = stamp(r.ConnectedAt), stamp(r.EnrolledAt), stamp(r.SeenAt)
	r.StoppedAt, r.OutdatedAt, r.CopyAt = stamp(r.StoppedAt), stamp(r.OutdatedAt), stamp(r.CopyAt)
	return set(s, &s.Rows.Relays, r.Name, &r)
}

// Relay returns a relay by its name, ErrNoRow when there is none.
func (s *Scene) Relay(name string) (Relay, error) {
	return valueOf(row(s, &s.Rows.Relays, NeedRelay{Name: name}, name))
}

// Relays lists by name.
func (s *Scene) Relays(f RelayFilter) ([]Relay, error) {
	f.Limit = limitOr(f.Limit)
	return valuesOf(first(s, &s.Rows.Relays, look[Relay]{
		need:  func(limit int) Need { f.Limit = limit; return NeedRelays{RelayFilter: f} },
		limit: f.Limit,
		match: func(r *Relay) bool { return is(f.State, r.State) && is(f.Replica, r.Replica) && r.Name > f.After },
		order: func(a, b *Relay) int { return cmp.Compare(a.Name, b.Name) },
	}))
}

// PutOffers replaces all that a relay offers. A relay that comes back with what it offered before,
// which is nearly always, costs no write.
func (s *Scene) PutOffers(relay string, offers []RelayOffer) error {
	had, err := s.Offers(relay)
	if err != nil {
		return err
	}
	gone := map[string]RelayOffer{}
	for _, o := range had {
		gone[o.Action] = o
	}
	for _, o := range offers {
		o.Relay = relay
		old, there := gone[o.Action]
		delete(gone, o.Action)
		if there && old == o {
			continue
		}
		if err := set(s, &s.Rows.Offers, OfferKey(relay, o.Action), &o); err != nil {
			return err
		}
	}
	for _, o := range had {
		if _, gone := gone[o.Action]; !gone {
			continue
		}
		if err := set(s, &s.Rows.Offers, OfferKey(relay, o.Action), nil); err != nil {
			return err
		}
	}
	return nil
}

// Offers lists a relay's offers by action.
func (s *Scene) Offers(relay string) ([]RelayOffer, error) {
	return valuesOf(where(s, &s.Rows.Offers, NeedOffers{Relay: relay}, func(o *RelayOffer) bool { return o.Relay == relay }))
}

// OfferedBy lists the offers of an action by relays that are not revoked.
func (s *Scene) OfferedBy(action string) ([]RelayOffer, error) {
	return valuesOf(where(s, &s.Rows.Offers, NeedOfferedBy{Action: action}, func(o *RelayOffer) bool {
		r := s.Rows.Relays.Row(o.Relay)
		return o.Action == action && r != nil && r.State != RelayRevoked
	}))
}

// PutMachineQuestions replaces all that a person at a relay's machine is asked.
func (s *Scene) PutMachineQuestions(relay string, questions []MachineQuestion) error {
	asked, err := where(s, &s.Rows.Asked, NeedAskedBy{Relay: relay}, func(q *MachineQuestion) bool { return q.Relay == relay })
	if err != nil {
		return err
	}
	for _, q := range asked {
		if err := set(s, &s.Rows.Asked, q.Request, nil); err != nil {
			return err
		}
	}
	for _, q := range questions {
		if _, err := row(s, &s.Rows.Asked, NeedMachineQuestion{Request: q.Request}, q.Request); err != nil && !errors.Is(err, ErrNoRow) {
			return err
		}
		q = MachineQuestion{Request: q.Request, Relay: relay, Since: stamp(q.Since), Until: stamp(q.Until)}
		if err := set(s, &s.Rows.Asked, q.Request, &q); err != nil {
			return err
		}
	}
	return nil
}

// MachineQuestion returns the question about a request.
func (s *Scene) MachineQuestion(request string) (MachineQuestion, error) {
	return valueOf(row(s, &s.Rows.Asked, NeedMachineQuestion{Request: request}, request))
}

// maxAsked bounds how many questions are listed.
const maxAsked = 1000

// MachineQuestions lists the questions about commands that wait (held, sending, uncertain), in the
// order of their commands, at most 1000.
func (s *Scene) MachineQuestions() ([]MachineQuestion, error) {
	asked, err := valuesOf(where(s, &s.Rows.Asked, NeedMachineQuestions{Limit: maxAsked}, func(*MachineQuestion) bool { return true }))
	if err != nil {
		return nil, err
	}
	waits := map[string]*CommandRow{}
	for c := range s.Rows.Commands.All() {
		if c.State == CommandHeld || c.State == CommandSending || c.State == CommandUncertain {
			waits[c.OpKey] = c
		}
	}
	var out []MachineQuestion
	for _, q := range asked {
		if c := waits[q.Request]; c != nil {
			q.Command, q.Agent, q.Action = c.ID, c.Agent, c.Canonical
			out = append(out, q)
		}
	}
	slices.SortFunc(out, func(a, b MachineQuestion) int { return cmp.Compare(a.Command, b.Command) })
	return out[:min(len(out), maxAsked)], nil
}

// PutRelayJoin inserts or replaces the token of that id.
func (s *Scene) PutRelayJoin(j RelayJoin) error {
	j.CreatedAt, j.ExpiresAt = stamp(j.CreatedAt), stamp(j.ExpiresAt)
	return set(s, &s.Rows.Joins, j.ID, &j)
}

// RelayJoin returns a token to join by its id, ErrNoRow when there is none.
func (s *Scene) RelayJoin(id string) (RelayJoin, error) {
	return valueOf(row(s, &s.Rows.Joins, NeedJoin{ID: id}, id))
}

// DropRelayJoins removes the tokens for a relay that nobody has used, and returns how many there were.
func (s *Scene) DropRelayJoins(relay string) (int, error) {
	open, err := where(s, &s.Rows.Joins, NeedUnusedJoins{Relay: relay}, func(j *RelayJoin) bool { return j.Key == "" && j.Relay == relay })
	for _, j := range open {
		if err := set(s, &s.Rows.Joins, j.ID, nil); err != nil {
			return 0, err
		}
	}
	return len(open), err
}

// OpenRelayJoins lists the tokens that nobody has used and that end after a time, by relay, at most 100.
func (s *Scene) OpenRelayJoins(after time.Time) ([]RelayJoin, error) {
	after = stamp(after)
	return valuesOf(first(s, &s.Rows.Joins, look[RelayJoin]{
		need:  func(limit int) Need { return NeedOpenJoins{After: after, Limit: limit} },
		limit: 100,
		match: func(j *RelayJoin) bool { return j.Key == "" && j.ExpiresAt.After(after) },
		order: func(a, b *RelayJoin) int { return cmp.Or(cmp.Compare(a.Relay, b.Relay), cmp.Compare(a.ID, b.ID)) },
	}))
}

// AddRelayKey fails when the generation exists.
func (s *Scene) AddRelayKey(k RelayKey) error {
	all, err := s.RelayKeys()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(o RelayKey) bool { return o.Generation == k.Generation }) {
		return fmt.Errorf("generation %d exists already", k.Generation)
	}
	k.CreatedAt = stamp(k.CreatedAt)
	return set(s, &s.Rows.Keys, k.Generation, &k)
}

// RelayKeys lists all generations, oldest first.
func (s *Scene) RelayKeys() ([]RelayKey, error) {
	return valuesOf(where(s, &s.Rows.Keys, NeedRelayKeys{}, func(*RelayKey) bool { return true }))
}

// PutReplica says that a replica lives at a time.
func (s *Scene) PutReplica(id string, at time.Time) error {
	return set(s, &s.Rows.Replicas, id, &ReplicaRow{ID: id, SeenAt: stamp(at)})
}

// ReplicaSeen returns when a replica last lived.
func (s *Scene) ReplicaSeen(id string) (time.Time, error) {
	r, err := valueOf(row(s, &s.Rows.Replicas, NeedReplica{ID: id}, id))
	return r.SeenAt, err
}

// PutCall inserts or replaces a call.
func (s *Scene) PutCall(c RelayCall) error {
	c.CreatedAt = stamp(c.CreatedAt)
	return set(s, &s.Rows.Calls, c.ID, &c)
}

// Call returns a call by its id, ErrNoRow when there is none.
func (s *Scene) Call(id string) (RelayCall, error) {
	return valueOf(row(s, &s.Rows.Calls, NeedCall{ID: id}, id))
}

// DropCall removes a call. Dropping one that is gone is fine.
func (s *Scene) DropCall(id string) error {
	_, err := s.Call(id)
	switch {
	case errors.Is(err, ErrNoRow):
		return nil
	case err != nil:
		return err
	}
	return set(s, &s.Rows.Calls, id, nil)
}

// WaitingCalls lists what a replica is asked for and has not taken, oldest first, at most 100.
func (s *Scene) WaitingCalls(replica string) ([]RelayCall, error) {
	return valuesOf(first(s, &s.Rows.Calls, look[RelayCall]{
		need:  func(limit int) Need { return NeedWaitingCalls{Replica: replica, Limit: limit} },
		limit: 100,
		match: func(c *RelayCall) bool { return c.Replica == replica && c.State == CallWaiting },
		order: func(a, b *RelayCall) int { return cmp.Compare(a.ID, b.ID) },
	}))
}

// BindRequest ties a request that named no relay to one, for good: it returns the first relay that
// was given.
func (s *Scene) BindRequest(request, relay string, at time.Time) (string, error) {
	bound, err := s.Tie(request)
	if !errors.Is(err, ErrNoRow) {
		return bound.Relay, err
	}
	return relay, s.PutTie(RelayTie{Request: request, Relay: relay, CreatedAt: at})
}

// BoundRelay returns what BindRequest tied.
func (s *Scene) BoundRelay(request string) (string, error) {
	bound, err := s.Tie(request)
	return bound.Relay, err
}

// PutTie inserts or replaces the tie of that request.
func (s *Scene) PutTie(t RelayTie) error {
	t.CreatedAt, t.SentAt = stamp(t.CreatedAt), stamp(t.SentAt)
	return set(s, &s.Rows.Ties, t.Request, &t)
}

// Tie returns the tie of a request, ErrNoRow when there is none.
func (s *Scene) Tie(request string) (RelayTie, error) {
	return valueOf(row(s, &s.Rows.Ties, NeedTie{Request: request}, request))
}

// PurgeRelays removes tokens that ended, questions whose time was over, calls, ties and replicas
// from before a time.
func (s *Scene) PurgeRelays(before time.Time) error {
	before = stamp(before)
	n := NeedOldRelayRows{Before: before}
	return errors.Join(
		removeAll(s, &s.Rows.Joins, n, func(j *RelayJoin) (string, bool) { return j.ID, j.ExpiresAt.Before(before) }),
		removeAll(s, &s.Rows.Calls, n, func(c *RelayCall) (string, bool) { return c.ID, c.CreatedAt.Before(before) }),
		removeAll(s, &s.Rows.Ties, n, func(t *RelayTie) (string, bool) { return t.Request, t.CreatedAt.Before(before) }),
		removeAll(s, &s.Rows.Asked, n, func(q *MachineQuestion) (string, bool) { return q.Request, q.Until.Before(before) }),
		removeAll(s, &s.Rows.Replicas, n, func(r *ReplicaRow) (string, bool) { return r.ID, r.SeenAt.Before(before) }))
}

// removeAll removes the rows that are old, which old says of each, with its key.
func removeAll[K cmp.Ordered, V any](s *Scene, t *Table[K, V], n Need, old func(*V) (K, bool)) error {
	found, err := where(s, t, n, func(v *V) bool { _, gone := old(v); return gone })
	for _, v := range found {
		key, _ := old(v)
		if err := set(s, t, key, nil); err != nil {
			return err
		}
	}
	return err
}
