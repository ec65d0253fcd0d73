package hosted_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/policy"
	"drawbridge/proof/memstore"
	proof "drawbridge/proof/runtimes"
	"drawbridge/relay/hosted"
	"drawbridge/relay/hub"
	"drawbridge/relay/wire"
)

// losing loses the answers of turns that were said.
type losing struct {
	hosted.Turns
	lose atomic.Bool
}

func (l *losing) RunTurn(ctx context.Context, t hub.TurnCall) (wire.TurnEnded, error) {
	if !l.lose.Swap(false) {
		return l.Turns.RunTurn(ctx, t)
	}
	said := make(chan struct{})
	go func() { defer close(said); _, _ = l.Turns.RunTurn(context.WithoutCancel(ctx), t) }()
	for {
		found, err := l.Turns.LookupTurn(ctx, t)
		if err == nil && (found.Known == wire.TurnKnownOpen || found.Known == wire.TurnKnownEnded) || ctx.Err() != nil {
			return wire.TurnEnded{}, &bridge.Error{Kind: bridge.Unavailable, Message: "answer lost", Unclear: true}
		}
	}
}

// TestRuntime: agents of a relay keep the contract of all Runtimes, over a real hub and a real connection.
func TestRuntime(t *testing.T) {
	t.Parallel()
	proof.Run(t, proof.Suite{
		Abilities: proof.Abilities{Repeats: true, Busy: true, Cancelled: true, Follows: true},
		New: func(t *testing.T) proof.World {
			m := newMachine()
			s := newSite(t, memstore.NewDisk(), nil)
			s.connect(t, s.identity(t), m)
			refuse := func(r wire.Refusal) func() {
				return func() { m.mu.Lock(); defer m.mu.Unlock(); m.refuse = r }
			}
			return proof.World{Runtime: s.Runtime, Name: "local", Made: m.made, Refuse: map[bridge.ErrorKind]func(){
				bridge.Busy: refuse(wire.RefusedBusy), bridge.RateLimited: refuse(wire.RefusedRate), bridge.Unavailable: refuse(wire.RefusedStopped)}}
		},
	})
}

func launch(t *testing.T, n int, prompt string) bridge.Launch {
	t.Helper()
	p, problems := policy.New(policy.Rules{Repos: []policy.RepoRule{{Pattern: "local/notes", Runtime: "laptop"}}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return bridge.Launch{Grant: p.OperatorGrant("local/notes", prompt).Grant, AgentID: fmt.Sprintf("bc-00000000-0000-4000-8000-%012d", n), Op: "op", Name: "Ada!", Ref: "main"}
}

// What a turn carries: a marker of its own, the text behind it and, for the first one, where the agent works.
func TestWhatIsSaid(t *testing.T) {
	t.Parallel()
	m := newMachine()
	s := newSite(t, memstore.NewDisk(), nil)
	s.connect(t, s.identity(t), m)
	started, err := s.Launch(t.Context(), launch(t, 7, "build it"))
	if err != nil || started.Agent != "bc-00000000-0000-4000-8000-000000000007" || started.Repo != "local/notes" {
		t.Fatalf("%+v %v", started, err)
	}
	if _, err := s.Send(t.Context(), bridge.FollowUp{Agent: started.Agent, LastRun: started.Run, Marker: "[bridge trn_2]", Text: "go on"}); err != nil {
		t.Fatal(err)
	}
	first, next := m.said[0], m.said[1]
	if want := (wire.Home{Name: "ada-000007", Repo: "local/notes", Ref: "main"}); first.Home != want || first.Home.Check() != nil {
		t.Errorf("home %+v, want %+v", first.Home, want)
	}
	if first.Agent != "opencode" || first.Text != first.Marker+"\nbuild it" || first.Marker == "" || next.Text != "[bridge trn_2]\ngo on" || next.Marker != "[bridge trn_2]" {
		t.Errorf("said %+v and %+v", first.TurnAsk, next.TurnAsk)
	}
	// A first turn that goes on after a limit has the first one's marker, so that the relay knows it again, and another id.
	later, err := s.Send(t.Context(), bridge.FollowUp{Agent: started.Agent, LastRun: started.Run, Text: "build it"})
	if err != nil || later.Run == started.Run {
		t.Fatalf("%+v %v", later, err)
	}
	if again := m.said[2]; again.Marker != first.Marker || again.Text != first.Text {
		t.Errorf("said %+v after %+v", again.TurnAsk, first.TurnAsk)
	}
	if relay, entry := s.Place(); relay != "laptop" || entry != "opencode" {
		t.Errorf("at %s %s", relay, entry)
	}
}

// A turn says in whose workspace a subagent works; a folder that no relay would take is refused before anything is sent.
func TestWithinAnother(t *testing.T) {
	t.Parallel()
	m := newMachine()
	s := newSite(t, memstore.NewDisk(), nil)
	s.connect(t, s.identity(t), m)
	l := launch(t, 8, "build it")
	l.Ref, l.ReadOnly, l.Within = "", true, &bridge.Within{Name: "Boss", AgentID: "bc-00000000-0000-4000-8000-000000000007", Subdir: "docs/api"}
	if _, err := s.Launch(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if want := (wire.Home{Name: "ada-000008", Within: "boss-000007", Subdir: "docs/api", ReadOnly: true}); m.said[0].Home != want {
		t.Errorf("home %+v, want %+v", m.said[0].Home, want)
	}
	l = launch(t, 9, "build it")
	l.Ref, l.Within = "", &bridge.Within{Name: "Boss", AgentID: "bc-00000000-0000-4000-8000-000000000007", Subdir: "-rf"}
	if _, err := s.Launch(t.Context(), l); bridge.KindOf(err) != bridge.Invalid || !strings.Contains(err.Error(), "workspace_subdir") || len(m.said) != 1 {
		t.Errorf("%v, %d turns", err, len(m.said))
	}
}

// A relay may say that it has a turn, and refuse it a moment later: a workspace that cannot be made. Its record then holds nothing, and the
// agent's trouble still says why.
func TestRefusedAfterItWasTaken(t *testing.T) {
	t.Parallel()
	m := newMachine()
	m.end = func(wire.Turn) wire.TurnEnded { return wire.TurnEnded{} }
	s := newSite(t, memstore.NewDisk(), nil)
	s.connect(t, s.identity(t), m)
	started, err := s.Launch(t.Context(), launch(t, 4, "build it"))
	if err != nil {
		t.Fatal(err)
	}
	ref := bridge.RunRef{Agent: started.Agent, Run: started.Run}
	if o, err := s.Observe(t.Context(), ref); err != nil || o.State != bridge.RunRunning {
		t.Fatalf("%+v %v", o, err)
	}
	m.refuseLater(started.Agent, started.Run, "link is not a folder")
	for {
		o, err := s.Observe(t.Context(), ref)
		if err != nil || o.State.Terminal() {
			if err != nil || o.State != bridge.RunError || o.Cause != "" || !strings.Contains(o.Detail, "link is not a folder") {
				t.Errorf("%+v %v", o, err)
			}
			return
		}
	}
}

// The same words after another run are another turn; the same turn is not, also when another process asks for it.
func TestOneIDForOneTurn(t *testing.T) {
	t.Parallel()
	m := newMachine()
	s := newSite(t, memstore.NewDisk(), nil)
	s.connect(t, s.identity(t), m)
	first, err := s.Launch(t.Context(), launch(t, 1, "build it"))
	if err != nil {
		t.Fatal(err)
	}
	f := bridge.FollowUp{Agent: first.Agent, LastRun: first.Run, Marker: "[bridge trn_2]", Text: "continue"}
	runs := map[string]bool{}
	for range 3 {
		for range 2 {
			got, err := s.Send(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			runs[got.Run] = true
		}
		for run := range runs {
			f.LastRun = max(f.LastRun, run)
		}
		f.LastRun = fmt.Sprint("after ", len(runs))
	}
	if _, later := m.made(); later != 3 || len(runs) != 3 {
		t.Errorf("%d turns were said under %d ids", later, len(runs))
	}
}

// An answer that was lost is unclear; the record has the turn, a repeat does not say it again, and its end is read.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	m := newMachine()
	m.end = func(wire.Turn) wire.TurnEnded { return wire.TurnEnded{} } // it goes on
	var turns losing
	s := newSite(t, memstore.NewDisk(), func(o *hosted.Options) { turns.Turns = o.Turns; o.Turns = &turns })
	s.connect(t, s.identity(t), m)
	l := launch(t, 1, "build it")
	turns.lose.Store(true)
	started, err := s.Launch(t.Context(), l)
	if err == nil { // the record showed the turn before its answer was lost
		started, err = s.Launch(t.Context(), l)
	}
	if err != nil && !bridge.IsUnclear(err) {
		t.Fatal(err)
	}
	started, found, err := s.FindLaunch(t.Context(), l)
	if err != nil || found != bridge.FoundThere {
		t.Fatalf("%+v %q %v", started, found, err)
	}
	over := make(chan error, 1)
	ref := bridge.RunRef{Agent: started.Agent, Run: started.Run}
	go func() { over <- s.Follow(t.Context(), ref) }()
	m.finish(started.Agent, started.Run, wire.TurnEnded{Cause: wire.TurnAnswered, Text: "done", Evidence: "clean"})
	if err := <-over; err != nil {
		t.Error(err)
	}
	o, err := s.Observe(t.Context(), ref)
	if err != nil || o.State != bridge.RunFinished || o.Reply != "done" || o.Seen != "clean" || o.Cause != bridge.CauseAnswered {
		t.Errorf("%+v %v", o, err)
	}
	if first, later := m.made(); first != 1 || later != 0 {
		t.Errorf("%d and %d turns were said", first, later)
	}
}

// slow holds turns back on their way to the relay.
type slow struct {
	hosted.Turns
	held, gone chan struct{}
}

func (s *slow) RunTurn(ctx context.Context, c hub.TurnCall) (wire.TurnEnded, error) {
	defer close(s.gone)
	<-s.held
	return s.Turns.RunTurn(ctx, c)
}

// A look-up that overtakes its turn says nothing of it: the turn would be given up, and run all the same.
func TestLookUpOvertakesItsTurn(t *testing.T) {
	t.Parallel()
	m := newMachine()
	way := &slow{held: make(chan struct{}), gone: make(chan struct{})}
	s := newSite(t, memstore.NewDisk(), func(o *hosted.Options) { way.Turns, o.Turns, o.Taken = o.Turns, way, time.Millisecond })
	s.connect(t, s.identity(t), m)
	l := launch(t, 1, "build it")
	if _, err := s.Launch(t.Context(), l); !bridge.IsUnclear(err) {
		t.Fatal(err)
	}
	if _, found, err := s.FindLaunch(t.Context(), l); found != bridge.FoundUnknown || bridge.KindOf(err) != bridge.Unavailable {
		t.Errorf("on its way: %q %v", found, err)
	}
	close(way.held)
	<-way.gone
	started, found, err := s.FindLaunch(t.Context(), l)
	if err != nil || found != bridge.FoundThere {
		t.Fatalf("after it came: %+v %q %v", started, found, err)
	}
	// A person who settles a launch names the session alone.
	if o, err := s.Observe(t.Context(), bridge.RunRef{Agent: started.Agent}); err != nil || o.State != bridge.RunFinished || o.Reply == "" {
		t.Errorf("by the session: %+v %v", o, err)
	}
}

// Another replica follows a turn that it did not send, and reads its end. So does the next process of the bridge.
func TestEndReachesAnotherProcess(t *testing.T) {
	t.Parallel()
	m := newMachine()
	disk := memstore.NewDisk()
	s, next := newSite(t, disk, nil), newSite(t, disk, nil)
	next.connect(t, next.identity(t), m)
	s.online(t)
	started, err := s.Launch(t.Context(), launch(t, 1, "this never ends"))
	if err != nil {
		t.Fatal(err)
	}
	s.stop()
	ref := bridge.RunRef{Agent: started.Agent, Run: started.Run}
	if o, err := next.Observe(t.Context(), ref); err != nil || o.State != bridge.RunRunning {
		t.Fatalf("%+v %v", o, err)
	}
	over := make(chan error, 1)
	go func() { over <- next.Follow(t.Context(), ref) }()
	m.finish(started.Agent, started.Run, wire.TurnEnded{Cause: wire.TurnAnswered, Text: "done"})
	if err := <-over; err != nil {
		t.Error(err)
	}
	if o, err := next.Observe(t.Context(), ref); err != nil || o.Reply != "done" {
		t.Errorf("%+v %v", o, err)
	}
}

// Each cause has its state, its words and its time.
func TestCauses(t *testing.T) {
	t.Parallel()
	until := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	for cause, want := range map[wire.TurnCause]bridge.RunState{
		wire.TurnAnswered: bridge.RunFinished, wire.TurnRefused: bridge.RunError, wire.TurnLimited: bridge.RunError, wire.TurnStopped: bridge.RunCancelled, wire.TurnUnsaid: bridge.RunCancelled,
		wire.TurnHung: bridge.RunExpired, wire.TurnCrashed: bridge.RunError, wire.TurnAsking: bridge.RunError, wire.TurnLoginMissing: bridge.RunError,
	} {
		t.Run(string(cause), func(t *testing.T) {
			t.Parallel()
			m := newMachine()
			m.end = func(wire.Turn) wire.TurnEnded {
				end := wire.TurnEnded{Cause: cause, Text: "words", Error: "why", Evidence: "clean", Spent: &wire.Spent{Tokens: &wire.Tokens{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4}, Model: "m"}}
				if cause == wire.TurnLimited {
					end.Until = until.UnixMilli()
				}
				return end
			}
			s := newSite(t, memstore.NewDisk(), nil)
			s.connect(t, s.identity(t), m)
			started, err := s.Launch(t.Context(), launch(t, 1, "x"))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // once from this process, once from the relay's record
				o, err := s.Observe(t.Context(), bridge.RunRef{Agent: started.Agent, Run: started.Run})
				if err != nil || o.State != want || string(o.Cause) != string(cause) || o.Reply != "words" || o.Detail != "why" || o.Seen != "clean" {
					t.Errorf("%+v %v", o, err)
				}
				if s := o.Spent; s == nil || *s.Tokens != (bridge.Tokens{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4}) || s.Model != "m" || s.CostMicros != nil {
					t.Errorf("spent %+v", s)
				}
				if limited := cause == wire.TurnLimited; limited && o.NotBefore.Sub(until).Abs() > time.Second || !limited && !o.NotBefore.IsZero() {
					t.Errorf("not before %s, want %s", o.NotBefore, until)
				}
			}
		})
	}
}

// An end that is unclear is not a crash: nobody knows whether the agent got the turn. It is read so from this process, and from the record.
func TestUnclearCause(t *testing.T) {
	t.Parallel()
	m := newMachine()
	m.end = func(wire.Turn) wire.TurnEnded {
		return wire.TurnEnded{Cause: wire.TurnCrashed, Unclear: true, Error: "the agent cannot tell"}
	}
	s := newSite(t, memstore.NewDisk(), nil)
	s.connect(t, s.identity(t), m)
	started, err := s.Launch(t.Context(), launch(t, 1, "x"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		o, err := s.Observe(t.Context(), bridge.RunRef{Agent: started.Agent, Run: started.Run})
		if err != nil || o.State != bridge.RunError || o.Cause != bridge.CauseUnclear || o.Detail != "the agent cannot tell" {
			t.Errorf("%+v %v", o, err)
		}
	}
}

// A relay that lost its record answers unknown for a turn that another process of it got. That is never sent again.
func TestForgottenIsUnknown(t *testing.T) {
	t.Parallel()
	m := newMachine()
	disk := memstore.NewDisk()
	first, s := newSite(t, disk, nil), newSite(t, disk, nil)
	path := s.identity(t)
	disconnect := s.connect(t, path, m)
	first.online(t)
	l := launch(t, 1, "this never ends")
	started, err := first.Launch(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	disconnect()
	m.forget()
	s.connect(t, path, m)
	if _, found, err := s.FindLaunch(t.Context(), l); found != bridge.FoundUnknown || err != nil {
		t.Errorf("found %q %v", found, err)
	}
	if _, err := s.Observe(t.Context(), bridge.RunRef{Agent: started.Agent, Run: started.Run}); bridge.KindOf(err) != bridge.NotFound {
		t.Errorf("observed: %v", err)
	}
	if first, _ := m.made(); first != 1 {
		t.Errorf("said %d times", first)
	}
}

// A bridge that stops, or a relay that is away, sends nothing and says so; what was sent is in doubt, not lost.
func TestAway(t *testing.T) {
	t.Parallel()
	s := newSite(t, memstore.NewDisk(), nil)
	path := s.identity(t)
	if _, err := s.Launch(t.Context(), launch(t, 1, "x")); bridge.KindOf(err) != bridge.Unavailable || bridge.IsUnclear(err) {
		t.Errorf("the relay is away: %v", err)
	}
	m := newMachine()
	s.connect(t, path, m)
	if _, found, err := s.FindLaunch(t.Context(), launch(t, 1, "x")); found != bridge.FoundAbsent || err != nil {
		t.Errorf("found %q %v", found, err)
	}
	s.stop()
	if _, err := s.Launch(t.Context(), launch(t, 1, "x")); bridge.KindOf(err) != bridge.Unavailable || bridge.IsUnclear(err) {
		t.Errorf("the bridge is stopped: %v", err)
	}
	if first, _ := m.made(); first != 0 {
		t.Errorf("said %d times", first)
	}
}

// Many calls for one turn say it once.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	m := newMachine()
	s := newSite(t, memstore.NewDisk(), nil)
	s.connect(t, s.identity(t), m)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if _, err := s.Launch(t.Context(), launch(t, 1, strings.Repeat("long ", 20_000))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if first, _ := m.made(); first != 1 {
		t.Errorf("said %d times", first)
	}
}
