package bridge

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// What look-ups of notices, completions, deliveries, trees and what the gate remembers need.
type (
	// NeedNotice is the notice of an id.
	NeedNotice struct {
		needs
		ID NoticeID
	}
	// NeedWaiting is the first notices that wait for an agent, those that are worth a
	// turn first; Mail leaves out those that bring no message.
	NeedWaiting struct {
		needs
		Agent AgentID
		Mail  bool
		Limit int
	}
	// NeedNoticesOf is the notices that bring a message.
	NeedNoticesOf struct {
		needs
		Message MessageID
	}
	// NeedCarried is the notices that a turn carries.
	NeedCarried struct {
		needs
		Turn TurnID
	}
	// NeedHeld is the notices that a join holds back.
	NeedHeld struct {
		needs
		Join TurnID
	}
	// NeedRunEnd is the completion of an operation's run with a status.
	NeedRunEnd struct {
		needs
		Op     AgentID
		Run    string
		Status RunState
	}
	// NeedCompletion is the completion of an id.
	NeedCompletion struct {
		needs
		ID CompletionID
	}
	// NeedCompletions is the completions of an operation.
	NeedCompletions struct {
		needs
		Op AgentID
	}
	// NeedDelivery is a delivery with the same operation, external id, event, status and time of sending.
	NeedDelivery struct {
		needs
		Op                              AgentID
		External, Event, Status, SentAt string
	}
	// NeedDeliveries is the newest deliveries for an operation, or for all.
	NeedDeliveries struct {
		needs
		Op    AgentID
		Limit int
	}
	// NeedTree is the tree under a root.
	NeedTree struct {
		needs
		Root AgentID
	}
	// NeedEchoes is the first echoes of an agent that are younger than an age, in the order of their keys.
	NeedEchoes struct {
		needs
		Agent AgentID
		Age   EchoAge
		Limit int
	}
	// NeedOldEchoes is the other echoes of an agent.
	NeedOldEchoes struct {
		needs
		Agent AgentID
		Age   EchoAge
	}
	// NeedApproval is until when a key lets commands pass in a tree.
	NeedApproval struct {
		needs
		Root AgentID
		Key  string
	}
	// NeedYes is the last yes to a target in a tree.
	NeedYes struct {
		needs
		Root   AgentID
		Target string
	}
	// NeedTold is which turn told an item.
	NeedTold struct {
		needs
		Agent AgentID
		Item  ItemID
	}
	// NeedRestored is the operator's latest word on restored runs.
	NeedRestored struct{ needs }
	// NeedWatch is the watch of one agent on another.
	NeedWatch struct {
		needs
		Agent, On AgentID
	}
	// NeedWatches is the first watches, by both agents' ids.
	NeedWatches struct {
		needs
		Limit int
	}
	// NeedOnce is what an agent did under a key.
	NeedOnce struct {
		needs
		Agent AgentID
		Key   string
	}
	// NeedEvents is the events behind a number.
	NeedEvents struct {
		needs
		After int64
		Limit int
	}
	// NeedHistory is the newest events that a filter selects, of those above a number. With End no event with a lower number comes later.
	NeedHistory struct {
		needs
		EventFilter
		After int64
		Limit int
		End   bool
	}
	// NeedWork is the work of an id. In a step the store keeps others from it.
	NeedWork struct {
		needs
		ID int64
	}
)

func (n NeedWaiting) limit() int    { return n.Limit }
func (n NeedDeliveries) limit() int { return n.Limit }
func (n NeedEchoes) limit() int     { return n.Limit }
func (n NeedWatches) limit() int    { return n.Limit }
func (n NeedEvents) limit() int     { return n.Limit }
func (n NeedHistory) limit() int    { return n.Limit }

// InsertNotice records a new notice.
func (s *Scene) InsertNotice(n Notice) error {
	if s.Rows.Notices.Row(n.ID) != nil {
		return fmt.Errorf("notice %q exists already", n.ID)
	}
	n.CreatedAt = stamp(n.CreatedAt)
	return s.setNotice(n)
}

func (s *Scene) setNotice(n Notice) error {
	n.Commands = slices.Clone(n.Commands)
	return set(s, &s.Rows.Notices, n.ID, &n)
}

func noticesOf(rows []*Notice, err error) ([]Notice, error) {
	all, err := valuesOf(rows, err)
	for i := range all {
		all[i].Commands = slices.Clone(all[i].Commands)
	}
	return all, err
}

// WaitingNotices returns an agent's notices that no turn carries yet and that are not held: those
// that are worth a turn, then the quiet ones, each oldest first.
func (s *Scene) WaitingNotices(agent AgentID, limit int) ([]Notice, error) {
	return s.waiting(NeedWaiting{Agent: agent, Limit: limit})
}

// WaitingMail returns those of WaitingNotices that bring messages.
func (s *Scene) WaitingMail(agent AgentID, limit int) ([]Notice, error) {
	return s.waiting(NeedWaiting{Agent: agent, Mail: true, Limit: limit})
}

func (s *Scene) waiting(n NeedWaiting) ([]Notice, error) {
	return noticesOf(first(s, &s.Rows.Notices, look[Notice]{
		need:  func(limit int) Need { n.Limit = limit; return n },
		limit: n.Limit,
		match: func(o *Notice) bool {
			return o.Agent == n.Agent && o.Turn == "" && !o.Withheld && (!n.Mail || o.Message != "")
		},
		order: func(a, b *Notice) int {
			switch {
			case a.Quiet == b.Quiet:
				return cmp.Compare(a.ID, b.ID)
			case a.Quiet:
				return 1
			}
			return -1
		},
	}))
}

// NoticesOf returns the notices that bring a message, oldest first.
func (s *Scene) NoticesOf(id MessageID) ([]Notice, error) {
	if id == "" {
		return nil, nil
	}
	return noticesOf(where(s, &s.Rows.Notices, NeedNoticesOf{Message: id}, func(n *Notice) bool { return n.Message == id }))
}

// RewriteNotices changes what a message's notices say that still wait, and returns how many there
// were. An empty text leaves the trusted part as it is.
func (s *Scene) RewriteNotices(id MessageID, text Words, untrusted string) (int, error) {
	all, err := s.NoticesOf(id)
	if err != nil {
		return 0, err
	}
	waiting := slices.DeleteFunc(all, func(n Notice) bool { return n.Turn != "" })
	for _, n := range waiting {
		if n.Untrusted = untrusted; text != "" {
			n.Text = text
		}
		if err := s.setNotice(n); err != nil {
			return 0, err
		}
	}
	return len(waiting), nil
}

// RouseNotice makes a quiet notice worth a turn. One that is so already is fine.
func (s *Scene) RouseNotice(id NoticeID) error {
	n, err := valueOf(row(s, &s.Rows.Notices, NeedNotice{ID: id}, id))
	if err != nil {
		return err
	}
	n.Quiet = false
	return s.setNotice(n)
}

// CarryNotices binds notices to the turn that will tell them; turn "" lets them wait again.
func (s *Scene) CarryNotices(ids []NoticeID, turn TurnID) error {
	for _, id := range ids {
		n, err := valueOf(row(s, &s.Rows.Notices, NeedNotice{ID: id}, id))
		if err != nil {
			return err
		}
		n.Turn = turn
		if err := s.setNotice(n); err != nil {
			return err
		}
	}
	return nil
}

// CarriedNotices returns the notices that a turn carries, oldest first.
func (s *Scene) CarriedNotices(turn TurnID) ([]Notice, error) {
	if turn == "" {
		return nil, nil
	}
	return noticesOf(where(s, &s.Rows.Notices, NeedCarried{Turn: turn}, func(n *Notice) bool { return n.Turn == turn }))
}

// ReleaseNotices lets go of what a join holds back and returns how many there were.
func (s *Scene) ReleaseNotices(join TurnID) (int, error) {
	held, err := noticesOf(where(s, &s.Rows.Notices, NeedHeld{Join: join}, func(n *Notice) bool { return n.Join == join && n.Withheld }))
	if err != nil {
		return 0, err
	}
	for _, n := range held {
		n.Withheld = false
		if err := s.setNotice(n); err != nil {
			return 0, err
		}
	}
	return len(held), nil
}

// Tree returns a tree as it stands; one that has used nothing is no error.
func (s *Scene) Tree(root AgentID) (Tree, error) {
	t, err := row(s, &s.Rows.Trees, NeedTree{Root: root}, root)
	switch {
	case errors.Is(err, ErrNoRow):
		return Tree{Root: root}, nil
	case err != nil:
		return Tree{}, err
	}
	return *t, nil
}

// PutTree inserts or replaces the row of a tree.
func (s *Scene) PutTree(t Tree) error {
	t.StoppedAt = stamp(t.StoppedAt)
	return set(s, &s.Rows.Trees, t.Root, &t)
}

// InsertCompletion reports false for a duplicate of (op, run, status).
func (s *Scene) InsertCompletion(c Completion) (bool, error) {
	known, err := where(s, &s.Rows.Completions, NeedRunEnd{Op: c.Op, Run: c.Run, Status: c.Status}, func(o *Completion) bool {
		return o.Op == c.Op && o.Run == c.Run && o.Status == c.Status
	})
	if err != nil || len(known) > 0 {
		return false, err
	}
	c.DeliveredAt, c.CreatedAt = stamp(c.DeliveredAt), stamp(c.CreatedAt)
	return true, set(s, &s.Rows.Completions, c.ID, &c)
}

// DeliverCompletions marks completions as delivered by a turn that ran.
func (s *Scene) DeliverCompletions(ids []CompletionID, turn TurnID, at time.Time) error {
	for _, id := range ids {
		c, err := valueOf(row(s, &s.Rows.Completions, NeedCompletion{ID: id}, id))
		if errors.Is(err, ErrNoRow) {
			continue
		}
		if err != nil {
			return err
		}
		c.CarriedBy, c.DeliveredAt = turn, stamp(at)
		if err := set(s, &s.Rows.Completions, id, &c); err != nil {
			return err
		}
	}
	return nil
}

// Completions lists completions by the filter.
func (s *Scene) Completions(op AgentID) ([]Completion, error) {
	return valuesOf(where(s, &s.Rows.Completions, NeedCompletions{Op: op}, func(c *Completion) bool { return c.Op == op }))
}

// InsertDelivery reports false for a duplicate of (op, external, status, sent at).
func (s *Scene) InsertDelivery(d Delivery) (bool, error) {
	n := NeedDelivery{Op: d.Op, External: d.External, Event: d.Event, Status: d.Status, SentAt: d.SentAt}
	known, err := where(s, &s.Rows.Deliveries, n, func(o *Delivery) bool {
		return o.Op == d.Op && o.External == d.External && o.Event == d.Event && o.Status == d.Status && o.SentAt == d.SentAt
	})
	if err != nil || len(known) > 0 {
		return false, err
	}
	d.ReceivedAt = stamp(d.ReceivedAt)
	d = ownDelivery(d)
	return true, set(s, &s.Rows.Deliveries, d.ID, &d)
}

func ownDelivery(d Delivery) Delivery {
	if d.Body = bytes.Clone(d.Body); d.Body == nil {
		d.Body = []byte{}
	}
	d.Headers = maps.Clone(d.Headers)
	for name, values := range d.Headers {
		d.Headers[name] = slices.Clone(values)
	}
	return d
}

// Deliveries lists deliveries by the filter.
func (s *Scene) Deliveries(op AgentID, limit int) ([]Delivery, error) {
	all, err := valuesOf(first(s, &s.Rows.Deliveries, look[Delivery]{
		need:  func(limit int) Need { return NeedDeliveries{Op: op, Limit: limit} },
		limit: limitOr(limit),
		match: func(d *Delivery) bool { return is(op, d.Op) },
		order: func(a, b *Delivery) int { return cmp.Compare(b.ID, a.ID) },
	}))
	for i, d := range all {
		all[i] = ownDelivery(d)
	}
	return all, err
}

// PutEcho records words that an agent heard. The same words (agent and key) heard again replace the
// record, and so last longer.
func (s *Scene) PutEcho(e Echo) error {
	e.At, e.Digest = stamp(e.At), bytes.Clone(e.Digest)
	return set(s, &s.Rows.Echoes, EchoKey(e.Agent, e.Key), &e)
}

// Echoes returns at most limit of an agent's echoes that are younger than age, in the order of
// their keys.
func (s *Scene) Echoes(agent AgentID, age EchoAge, limit int) ([]Echo, error) {
	age.At = stamp(age.At)
	all, err := valuesOf(first(s, &s.Rows.Echoes, look[Echo]{
		need:  func(limit int) Need { return NeedEchoes{Agent: agent, Age: age, Limit: limit} },
		limit: limit,
		match: func(e *Echo) bool { return e.Agent == agent && !e.older(age) },
		order: func(a, b *Echo) int { return strings.Compare(a.Key, b.Key) },
	}))
	for i := range all {
		all[i].Digest = bytes.Clone(all[i].Digest)
	}
	return all, err
}

// DropEchoes deletes an agent's other echoes and returns how many there were.
func (s *Scene) DropEchoes(agent AgentID, age EchoAge) (int, error) {
	age.At = stamp(age.At)
	old, err := where(s, &s.Rows.Echoes, NeedOldEchoes{Agent: agent, Age: age}, func(e *Echo) bool { return e.Agent == agent && e.older(age) })
	for _, e := range old {
		if err := set(s, &s.Rows.Echoes, EchoKey(agent, e.Key), nil); err != nil {
			return 0, err
		}
	}
	return len(old), err
}

func (e *Echo) older(age EchoAge) bool { return e.Seq <= age.Seq && !e.At.After(age.At) }

// PutApproval lets a key pass for agents under root until a time.
func (s *Scene) PutApproval(root AgentID, key string, until time.Time) error {
	return set(s, &s.Rows.Approvals, ApprovalKey(root, key), &ApprovalRow{Root: root, Key: key, Until: stamp(until)})
}

// Approved reports whether PutApproval lets a key pass under a root at a time.
func (s *Scene) Approved(root AgentID, key string, at time.Time) (bool, error) {
	a, err := row(s, &s.Rows.Approvals, NeedApproval{Root: root, Key: key}, ApprovalKey(root, key))
	if errors.Is(err, ErrNoRow) {
		return false, nil
	}
	return err == nil && a.Until.After(stamp(at)), err
}

// PutYes inserts the yes or replaces an earlier one for the same root and target.
func (s *Scene) PutYes(y Yes) error {
	y.At, y.Effect = stamp(y.At), slices.Clone(y.Effect)
	return set(s, &s.Rows.Yeses, YesKey(y.Root, y.Target), &y)
}

// LastYes returns ErrNoRow when nobody has said yes to the target in the tree.
func (s *Scene) LastYes(root AgentID, target string) (Yes, error) {
	y, err := valueOf(row(s, &s.Rows.Yeses, NeedYes{Root: root, Target: target}, YesKey(root, target)))
	y.Effect = slices.Clone(y.Effect)
	return y, err
}

// PutTold notes that a turn tells items. A later turn takes the place of an earlier one.
func (s *Scene) PutTold(agent AgentID, items []ItemID, turn TurnID) error {
	for _, item := range items {
		if err := set(s, &s.Rows.Told, ToldKey(agent, item), &ToldRow{Agent: agent, Item: item, Turn: turn}); err != nil {
			return err
		}
	}
	return nil
}

// ToldBy returns the turn that PutTold named last, ErrNoRow for none.
func (s *Scene) ToldBy(agent AgentID, item ItemID) (TurnID, error) {
	t, err := valueOf(row(s, &s.Rows.Told, NeedTold{Agent: agent, Item: item}, ToldKey(agent, item)))
	return t.Turn, err
}

// PutRestored keeps the operator's word; the latest one counts.
func (s *Scene) PutRestored(r Restored) error {
	r.At = stamp(r.At)
	return set(s, &s.Rows.Restoring, 1, &r)
}

// Restored returns the operator's latest word, the zero value when there is none.
func (s *Scene) Restored() (Restored, error) {
	r, err := valueOf(row(s, &s.Rows.Restoring, NeedRestored{}, 1))
	if errors.Is(err, ErrNoRow) {
		err = nil
	}
	return r, err
}

// PutWatch stores a watch, in place of an earlier one of the same two agents.
func (s *Scene) PutWatch(w Watch) error {
	w.CreatedAt = stamp(w.CreatedAt)
	return set(s, &s.Rows.Watches, WatchKey(w.Agent, w.On), &w)
}

// DropWatch reports false when it is gone already: then another told of it.
func (s *Scene) DropWatch(agent, on AgentID) (bool, error) {
	_, err := row(s, &s.Rows.Watches, NeedWatch{Agent: agent, On: on}, WatchKey(agent, on))
	if errors.Is(err, ErrNoRow) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, set(s, &s.Rows.Watches, WatchKey(agent, on), nil)
}

// Watches returns the watches of all, by both agents' ids. Limit 0 means 100.
func (s *Scene) Watches(limit int) ([]Watch, error) {
	return valuesOf(first(s, &s.Rows.Watches, look[Watch]{
		need:  func(limit int) Need { return NeedWatches{Limit: limit} },
		limit: limitOr(limit),
		match: func(*Watch) bool { return true },
		order: func(a, b *Watch) int { return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.On, b.On)) },
	}))
}

// InsertDone fails with a Conflict error when the agent has used the key.
func (s *Scene) InsertDone(d Done) error {
	switch _, err := s.FindDone(d.Agent, d.Key); {
	case err == nil:
		return Errorf(Conflict, "the agent has used this key")
	case !errors.Is(err, ErrNoRow):
		return err
	}
	d.CreatedAt = stamp(d.CreatedAt)
	return set(s, &s.Rows.Once, OnceKey(d.Agent, d.Key), &d)
}

// FindDone returns what an agent did under a key.
func (s *Scene) FindDone(agent AgentID, key string) (Done, error) {
	return valueOf(row(s, &s.Rows.Once, NeedOnce{Agent: agent, Key: key}, OnceKey(agent, key)))
}

// AppendEvent records an event. It gets its number when the step is applied.
func (s *Scene) AppendEvent(e Event) error {
	if s.readOnly {
		return ErrReadOnly
	}
	e.At, e.Fields = stamp(e.At), maps.Clone(e.Fields)
	s.News = append(s.News, e)
	return nil
}

// Events lists events behind a number, oldest first. Those of the step itself are not among them.
func (s *Scene) Events(after int64, limit int) ([]Event, error) {
	return eventsOf(first(s, &s.Rows.Past, look[Event]{
		need:  func(limit int) Need { return NeedEvents{After: after, Limit: limit} },
		limit: limitOr(limit),
		match: func(e *Event) bool { return e.Seq > after },
		order: func(a, b *Event) int { return cmp.Compare(a.Seq, b.Seq) },
	}))
}

// maxLook is how many events are looked through for kinds when no tree narrows the search.
const maxLook = 20_000

// History lists the events that a filter selects, newest first, at most limit of them; 0 is 100. next is the Before with which the list goes on, 0 at
// its end. A list can be shorter than limit and still go on. Events of the step itself are not among them. An event with a lower number than that of
// the newest may still come; see LastEvent.
func (s *Scene) History(f EventFilter, limit int) (list []Event, next int64, err error) {
	if f.Agent != "" && f.Root == "" { // events are found by their tree
		a, err := s.Agent(f.Agent)
		if err != nil {
			return nil, 0, err
		}
		f.Root = a.Root
	}
	after := int64(0)
	if f.Kinds != "" && f.Root == "" {
		newest, err := s.newest(NeedHistory{Limit: 1})
		if err != nil || len(newest) == 0 {
			return nil, 0, err
		}
		if end := newest[0].Seq + 1; f.Before == 0 || f.Before > end {
			f.Before = end
		}
		after = max(0, f.Before-1-maxLook)
	}
	limit = limitOr(limit)
	list, err = s.newest(NeedHistory{EventFilter: f, After: after, Limit: limit + 1})
	switch {
	case err != nil:
		return nil, 0, err
	case len(list) > limit:
		list = list[:limit]
		next = list[limit-1].Seq
	case after > 0:
		next = after + 1
	}
	return list, next, nil
}

// LastEvent is the number of the newest event, 0 for none. No event with a lower number comes later, so that a reader may go on after it.
func (s *Scene) LastEvent() (int64, error) {
	newest, err := s.newest(NeedHistory{Limit: 1, End: true})
	if err != nil || len(newest) == 0 {
		return 0, err
	}
	return newest[0].Seq, nil
}

func (s *Scene) newest(n NeedHistory) ([]Event, error) {
	return eventsOf(first(s, &s.Rows.Past, look[Event]{
		need:  func(limit int) Need { n.Limit = limit; return n },
		limit: n.Limit,
		match: func(e *Event) bool { return e.Seq > n.After && n.Selects(*e) },
		order: func(a, b *Event) int { return cmp.Compare(b.Seq, a.Seq) },
	}))
}

func eventsOf(rows []*Event, err error) ([]Event, error) {
	all, err := valuesOf(rows, err)
	for i := range all {
		all[i].Fields = maps.Clone(all[i].Fields)
	}
	return all, err
}
