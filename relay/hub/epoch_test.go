package hub_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/proof/memstore"
	"drawbridge/relay/hub"
	"drawbridge/relay/link"
	"drawbridge/relay/wire"
)

// diary is a machine with a journal that outlives its process, and a kill switch.
type diary struct {
	*machine
	process string
	// keep is asked before and after an epoch is kept; nil means that nothing goes wrong.
	keep func(point string) error

	state   sync.Mutex // guards what follows
	epoch   int64
	open    map[string]bool
	stopped bool
	changed chan struct{}
}

var processes atomic.Int64

func newDiary(actions ...string) *diary {
	return &diary{machine: newMachine(actions...), process: "p" + time.Duration(processes.Add(1)).String(), open: map[string]bool{}, changed: make(chan struct{})}
}

// clone is another process on a copy of the state folder. What was under way at the copy's time is interrupted there.
func (d *diary) clone() *diary {
	d.state.Lock()
	defer d.state.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	c := newDiary()
	c.epoch = d.epoch
	c.actions, c.offers, c.done = maps.Clone(d.actions), d.offers, maps.Clone(d.done)
	for id := range d.open {
		c.done[id] = wire.Outcome{Answer: wire.Interrupted("a", "the relay ended")}
	}
	return c
}

// Run implements wire.Handler: the same id under way is waited for.
func (d *diary) Run(ctx context.Context, r wire.Request, progress func(wire.Output)) (wire.Outcome, error) {
	for d.begins(r.ID) {
		if found := d.Lookup(r); found.Known == wire.KnownOver {
			return *found.Outcome, nil
		}
		select {
		case <-ctx.Done():
			return wire.Outcome{}, ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
	defer func() {
		d.state.Lock()
		defer d.state.Unlock()
		delete(d.open, r.ID)
	}()
	return d.machine.Run(ctx, r, progress)
}

// begins claims an id, and reports whether somebody else has it.
func (d *diary) begins(id string) (taken bool) {
	d.state.Lock()
	defer d.state.Unlock()
	taken = d.open[id]
	d.open[id] = true
	return taken
}

func (d *diary) Process() string { return d.process }

func (d *diary) Epoch() int64 {
	d.state.Lock()
	defer d.state.Unlock()
	return d.epoch
}

func (d *diary) KeepEpoch(epoch int64) error {
	if d.keep != nil {
		if err := d.keep("before"); err != nil {
			return err
		}
	}
	d.state.Lock()
	d.epoch = max(d.epoch, epoch)
	d.state.Unlock()
	if d.keep != nil {
		return d.keep("after")
	}
	return nil
}

func (d *diary) Lookup(r wire.Request) wire.Found {
	d.state.Lock()
	defer d.state.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if out, known := d.done[r.ID]; known {
		out.ID, out.Action, out.Replayed = r.ID, r.Action, true
		return wire.Found{ID: r.ID, Known: wire.KnownOver, Outcome: &out}
	}
	if d.open[r.ID] {
		return wire.Found{ID: r.ID, Known: wire.KnownOpen}
	}
	return wire.Found{ID: r.ID, Known: wire.KnownNot}
}

func (d *diary) Stopped() (bool, <-chan struct{}) {
	d.state.Lock()
	defer d.state.Unlock()
	return d.stopped, d.changed
}

func (d *diary) stop(on bool) {
	d.state.Lock()
	defer d.state.Unlock()
	d.stopped = on
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *diary) times(id string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ran[id]
}

// watched is a site with the alarms that it raised.
type watched struct {
	*site
	mu     sync.Mutex // guards alarms
	alarms []string
}

func watchedSite(t *testing.T, disk *memstore.Disk) *watched {
	w := &watched{}
	w.site = siteOn(t, disk, func(o *hub.Options) {
		o.Alarm = func(_ context.Context, text string) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.alarms = append(w.alarms, text)
			return nil
		}
	})
	return w
}

func (w *watched) alarmed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.alarms)
}

func (s *site) relay(t *testing.T) bridge.RelayView {
	t.Helper()
	v, err := s.RelayByName(t.Context(), "laptop")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// connected waits until a process of the relay is let in.
func (s *site) connected(t *testing.T, d *diary) {
	t.Helper()
	eventually(t, d.process+" is let in", func() bool {
		v := s.relay(t)
		return v.Connected && v.Process == d.process
	})
}

// inTime makes a relay go by the bridge's clock.
func (s *site) inTime(o *link.Options) { o.Now = s.clock.now }

// Two relays on copies of one state folder: whichever is let in first stays, the other one is refused, people hear of it, and every
// request runs once.
func TestCopyIsRefused(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]func(t *testing.T, s *watched, path string, original *diary) (stays, refused *diary){
		"copy after a stop, original first": func(t *testing.T, s *watched, path string, original *diary) (*diary, *diary) {
			stop := connect(t, path, original, nil)
			s.connected(t, original)
			stop()
			copied, again := original.clone(), original.clone() // a start of the original is a process of its own, too
			connect(t, path, again, nil)
			s.connected(t, again)
			connect(t, path, copied, nil)
			return again, copied
		},
		"copy after a stop, copy first": func(t *testing.T, s *watched, path string, original *diary) (*diary, *diary) {
			stop := connect(t, path, original, nil)
			s.connected(t, original)
			stop()
			copied, again := original.clone(), original.clone()
			connect(t, path, copied, nil)
			s.connected(t, copied)
			connect(t, path, again, nil)
			return copied, again
		},
		"both alive, an older copy": func(t *testing.T, s *watched, path string, original *diary) (*diary, *diary) {
			stop := connect(t, path, original, nil)
			s.connected(t, original)
			copied := original.clone()
			stop()
			connect(t, path, original, nil)
			eventually(t, "another epoch", func() bool { return s.relay(t).Connected && s.relay(t).Epoch > copied.epoch })
			connect(t, path, copied, nil)
			return original, copied
		},
		"both alive, a copy of now": func(t *testing.T, s *watched, path string, original *diary) (*diary, *diary) {
			connect(t, path, original, nil)
			s.connected(t, original)
			copied := original.clone()
			connect(t, path, copied, nil)
			s.connected(t, copied)
			return copied, original
		},
		"a journal that was removed": func(t *testing.T, s *watched, path string, original *diary) (*diary, *diary) {
			stop := connect(t, path, original, nil)
			s.connected(t, original)
			connect(t, path, newDiary("a"), nil)
			eventually(t, "an alarm", func() bool { return s.alarmed() > 0 })
			stop()
			return nil, original
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := watchedSite(t, memstore.NewDisk())
			path := joined(t, s.site, "laptop")
			original := newDiary("a")
			stays, refused := play(t, s, path, original)
			eventually(t, "people hear of the copy", func() bool { return s.alarmed() > 0 && !s.relay(t).CopyAt.IsZero() })
			if stays == nil {
				return
			}
			s.connected(t, stays)
			for _, id := range []string{"op-1", "op-2", "op-3"} {
				if out, err := s.RunAction(t.Context(), ask(t, "a", "laptop", id)); err != nil || out.Status != bridge.ActionExecuted {
					t.Errorf("%s: %+v, %v", id, out, err)
				}
				if n := stays.times(id) + refused.times(id); n != 1 || refused.times(id) != 0 {
					t.Errorf("%s ran %d times, %d of them at the copy", id, n, refused.times(id))
				}
			}
			if n := s.alarmed(); n != 1 {
				t.Errorf("%d alarms", n)
			}
		})
	}
}

// The relay that is refused says at its own machine what to do.
func TestCopyLogsWhatToDo(t *testing.T) {
	t.Parallel()
	s := watchedSite(t, memstore.NewDisk())
	path := joined(t, s.site, "laptop")
	original := newDiary("a")
	connect(t, path, original, nil)
	s.connected(t, original)
	log := make(lines, 64)
	connect(t, path, newDiary("a"), func(o *link.Options) { o.Log = zerolog.New(log) })
	for line := range log {
		if strings.Contains(line, `"level":"error"`) {
			if !strings.Contains(line, "drawbridge relay accept laptop") {
				t.Errorf("it logs %s", line)
			}
			return
		}
	}
}

// Wherever either side dies between an epoch's being offered and its being acknowledged, the relay is let in again.
func TestUnacknowledgedEpochLocksNobodyOut(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"before", "after"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			s := watchedSite(t, memstore.NewDisk())
			d := newDiary("a")
			var left atomic.Int64
			left.Store(3)
			d.keep = func(at string) error {
				if at == point && left.Add(-1) >= 0 {
					return errors.New("killed")
				}
				return nil
			}
			connect(t, joined(t, s.site, "laptop"), d, nil)
			s.connected(t, d)
			if v := s.relay(t); v.Epoch != 4 || v.Offered != 4 || s.alarmed() != 0 {
				t.Errorf("%+v, %d alarms", v.Relay, s.alarmed())
			}
		})
	}
}

// The bridge ends after the relay kept an epoch and before it wrote the acknowledgement down: its row is behind, and the relay
// is let in. The same goes for a database that was put back.
func TestBridgeThatIsBehind(t *testing.T) {
	t.Parallel()
	disk := memstore.NewDisk()
	s := watchedSite(t, disk)
	path := joined(t, s.site, "laptop")
	d := newDiary("a")
	d.epoch = 40
	connect(t, path, d, nil)
	s.connected(t, d)
	if v := s.relay(t); v.Epoch != 41 || s.alarmed() != 0 {
		t.Errorf("%+v, %d alarms", v.Relay, s.alarmed())
	}
}

// The operator lets the refused one in, and from then on the other one is the copy.
func TestAccept(t *testing.T) {
	t.Parallel()
	s := watchedSite(t, memstore.NewDisk())
	path := joined(t, s.site, "laptop")
	if _, err := s.Accept(t.Context(), "laptop"); bridge.KindOf(err) != bridge.Conflict {
		t.Errorf("nothing was refused: %v", err)
	}
	if _, err := s.Accept(t.Context(), "nobody"); bridge.KindOf(err) != bridge.NotFound {
		t.Errorf("no such relay: %v", err)
	}
	original, other := newDiary("a"), newDiary("a")
	connect(t, path, original, nil)
	s.connected(t, original)
	i, err := link.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if own, _ := i.KeyIDs(time.Now()); s.relay(t).KeyID != own {
		t.Errorf("the bridge shows key %q, the relay %q", s.relay(t).KeyID, own)
	}
	stop := connect(t, path, other, nil)
	eventually(t, "it is refused", func() bool { return !s.relay(t).CopyAt.IsZero() })
	for range 2 {
		if v, err := s.Accept(t.Context(), "laptop"); err != nil || v.AcceptedAt.IsZero() {
			t.Fatalf("%+v, %v", v, err)
		}
	}
	s.connected(t, other)
	eventually(t, "the first one is refused now", func() bool { return s.relay(t).CopyEpoch == original.Epoch() && !s.relay(t).CopyAt.IsZero() })
	stop()
	s.offline(t, "laptop")
	if v := s.relay(t); !v.AcceptedAt.IsZero() || v.Process != other.process {
		t.Errorf("%+v", v.Relay)
	}
}

// An accept that its relay does not use does not keep another one from being refused and accepted, and does not hold for good.
func TestAcceptIsNotUsed(t *testing.T) {
	t.Parallel()
	s := watchedSite(t, memstore.NewDisk())
	path := joined(t, s.site, "laptop")
	original := newDiary("a")
	for range 3 { // each connection makes the journal's epoch greater
		stop := connect(t, path, original, s.inTime)
		s.connected(t, original)
		stop()
		s.offline(t, "laptop")
	}
	// refused connects a relay that shows an epoch, until it is refused, and takes it away again.
	refused := func(shows int64) *diary {
		d := newDiary("a")
		if err := d.KeepEpoch(shows); err != nil {
			t.Fatal(err)
		}
		defer connect(t, path, d, s.inTime)()
		eventually(t, "it is refused", func() bool {
			r := s.relay(t)
			return !r.CopyAt.IsZero() && r.CopyEpoch == shows && r.AcceptedAt.IsZero()
		})
		return d
	}
	accept := func() {
		if _, err := s.Accept(t.Context(), "laptop"); err != nil {
			t.Fatal(err)
		}
	}
	refused(0)
	accept() // and it does not come again
	s.clock.forward(2 * time.Minute)
	other := refused(1)
	accept()
	stop := connect(t, path, other, s.inTime)
	s.connected(t, other)
	stop()

	refused(0)
	accept()
	s.clock.forward(2 * time.Hour)
	refused(0)
}

func lookup(action, relay, id string) bridge.ActionLookup {
	return bridge.ActionLookup{Request: id, Relay: relay, Action: action, Line: "LOCAL_ACTION: " + action, Agent: "main"}
}

// busy makes an action wait until the returned function is called.
func (d *diary) busy() (begun <-chan struct{}, finish func()) {
	began, over := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d.set("a", func(context.Context, wire.Request, func(wire.Output)) wire.Outcome {
		once.Do(func() { close(began) })
		<-over
		return wire.Outcome{Answer: wire.Answer{Status: wire.StatusExecuted, Stdout: "late"}}
	})
	return began, sync.OnceFunc(func() { close(over) })
}

// A request in doubt is repeated to the process that it was sent to, and to no other journal. Once the first one is there again, its
// journal has the answer.
func TestDoubtIsNotRepeatedAtAnotherJournal(t *testing.T) {
	t.Parallel()
	s := watchedSite(t, memstore.NewDisk())
	path := joined(t, s.site, "laptop")
	original := newDiary("a")
	connect(t, path, original, s.inTime)
	s.connected(t, original)
	copied := original.clone()
	begun, finish := original.busy()
	defer finish()
	answers := make(chan error, 1)
	go func() {
		_, err := s.RunAction(t.Context(), ask(t, "a", "laptop", "op-1"))
		answers <- err
	}()
	<-begun
	stop := connect(t, path, copied, s.inTime)
	s.connected(t, copied)
	if err := <-answers; !bridge.IsUnclear(err) {
		t.Errorf("displaced: %v", err)
	}
	for range 2 {
		if _, err := s.RunAction(t.Context(), ask(t, "a", "laptop", "op-1")); bridge.KindOf(err) != bridge.Conflict || !bridge.IsUnclear(err) {
			t.Errorf("asked again: %v", err)
		}
	}
	if found, err := s.LookUp(t.Context(), lookup("a", "laptop", "op-1")); err != nil || found.Known != bridge.JournalNothing {
		t.Errorf("the copy says %+v, %v", found, err)
	}
	s.clock.forward(3 * time.Minute) // also long after the request expired
	eventually(t, "the copy is there again", func() bool {
		found, err := s.LookUp(t.Context(), lookup("a", "laptop", "op-1"))
		return err == nil && found.Known == bridge.JournalNothing
	})
	finish()
	eventually(t, "the first one is refused", func() bool { return !s.relay(t).CopyAt.IsZero() })
	stop()
	if _, err := s.Accept(t.Context(), "laptop"); err != nil {
		t.Fatal(err)
	}
	s.connected(t, original)
	out, err := s.RunAction(t.Context(), ask(t, "a", "laptop", "op-1"))
	if err != nil || out.Stdout != "late" || original.times("op-1") != 1 || copied.times("op-1") != 0 {
		t.Errorf("%+v, %v; ran %d and %d times", out, err, original.times("op-1"), copied.times("op-1"))
	}
}

// A relay whose connection breaks and comes back is the same process, and a request in its hands is asked for again and answered once.
func TestSameProcessIsAskedAgain(t *testing.T) {
	t.Parallel()
	s := watchedSite(t, memstore.NewDisk())
	d := newDiary("a")
	connect(t, joined(t, s.site, "laptop"), d, s.inTime)
	s.connected(t, d)
	begun, finish := d.busy()
	defer finish()
	answers := make(chan error, 1)
	go func() {
		_, err := s.RunAction(t.Context(), ask(t, "a", "laptop", "op-1"))
		answers <- err
	}()
	<-begun
	if found, err := s.LookUp(t.Context(), lookup("a", "laptop", "op-1")); err != nil || found.Known != bridge.JournalOpen {
		t.Errorf("while it runs: %+v, %v", found, err)
	}
	before := s.relay(t).Session
	s.clock.forward(80 * time.Second) // the bridge takes the connection for dead
	if err := <-answers; !bridge.IsUnclear(err) {
		t.Errorf("cut: %v", err)
	}
	eventually(t, "it is there again", func() bool { v := s.relay(t); return v.Connected && v.Session != before && v.Session != "" })
	finish()
	out, err := s.RunAction(t.Context(), ask(t, "a", "laptop", "op-1"))
	if err != nil || out.Stdout != "late" || d.times("op-1") != 1 {
		t.Errorf("%+v, %v, ran %d times", out, err, d.times("op-1"))
	}
}

// What a look-up says, and that it runs nothing.
func TestLookUp(t *testing.T) {
	t.Parallel()
	a, b := twoReplicas(t)
	d := newDiary("a")
	connect(t, joined(t, b.site, "laptop"), d, b.inTime)
	b.connected(t, d)
	for name, s := range map[string]*site{"the holder": b.site, "another replica": a.site} {
		id := "op-" + strings.ReplaceAll(name, " ", "-")
		if found, err := s.LookUp(t.Context(), lookup("a", "laptop", id)); err != nil || found.Known != bridge.JournalNothing || found.Relay != "laptop" {
			t.Errorf("%s, never asked for: %+v, %v", name, found, err)
		}
		if _, err := s.RunAction(t.Context(), ask(t, "a", "laptop", id)); err != nil {
			t.Fatal(err)
		}
		for _, relay := range []string{"laptop", ""} {
			if found, err := s.LookUp(t.Context(), lookup("a", relay, id)); err != nil || found.Known != bridge.JournalOver || found.Outcome.Stdout != "out of a" || found.Outcome.ExitCode != 3 {
				t.Errorf("%s, over, relay %q: %+v, %v", name, relay, found, err)
			}
		}
		d.mu.Lock()
		d.done[id] = wire.Outcome{Answer: wire.Interrupted("a", "killed")}
		d.mu.Unlock()
		if found, err := s.LookUp(t.Context(), lookup("a", "laptop", id)); err != nil || found.Known != bridge.JournalInterrupted {
			t.Errorf("%s, interrupted: %+v, %v", name, found, err)
		}
		d.mu.Lock()
		delete(d.done, id)
		d.mu.Unlock()
		if found, err := s.LookUp(t.Context(), lookup("a", "laptop", id)); err != nil || found.Known != bridge.JournalNothing {
			t.Errorf("%s, unknown before the request expired: %+v, %v", name, found, err)
		}
		if len(d.requests()) != 1 || d.times(id) != 1 {
			t.Errorf("%s: asked %d times", name, len(d.requests()))
		}
		d.mu.Lock()
		d.asked = nil
		d.mu.Unlock()
	}
	// The very process that it was sent to does not know it, and it has expired: it never ran.
	b.clock.forward(3 * time.Minute)
	eventually(t, "the answer", func() bool {
		found, err := b.LookUp(t.Context(), lookup("a", "laptop", "op-the-holder"))
		return err == nil && found.Known == bridge.JournalNever
	})
	// A day later its journal may have forgotten it.
	b.clock.forward(24 * time.Hour)
	eventually(t, "the answer of a day later", func() bool {
		found, err := b.LookUp(t.Context(), lookup("a", "laptop", "op-the-holder"))
		return err == nil && found.Known == bridge.JournalNothing
	})
	if len(d.requests()) != 0 {
		t.Errorf("look-ups ran %d requests", len(d.requests()))
	}
}

// The operator sees that a relay's kill switch is on.
func TestKillSwitchIsSeen(t *testing.T) {
	t.Parallel()
	s := watchedSite(t, memstore.NewDisk())
	path := joined(t, s.site, "laptop")
	d := newDiary("a")
	d.stopped = true
	stop := connect(t, path, d, nil)
	eventually(t, "it is on", func() bool { return !s.relay(t).StoppedAt.IsZero() })
	d.stop(false)
	eventually(t, "it is off", func() bool { return s.relay(t).StoppedAt.IsZero() })
	d.stop(true)
	eventually(t, "it is on again", func() bool { return !s.relay(t).StoppedAt.IsZero() })
	stop()
	s.offline(t, "laptop")
	d.stop(false)
	connect(t, path, d, nil)
	eventually(t, "it was turned off while the relay was away", func() bool { return s.relay(t).StoppedAt.IsZero() })
}
