package runtimes

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/policy"
)

// turns: an agent is launched, ends its turn, gets another, and both stay as they ended.
func turns(_ *testing.T, p play) {
	l := p.launch(1, "build it")
	p.foundLaunch(l, "")
	s, err := p.Runtime.Launch(p.Context(), l)
	if err != nil || s.Agent == "" {
		p.Fatalf("launch: %+v %v", s, err)
	}
	if repo, err := policy.CanonicalRepo(s.Repo); s.Repo != "" && (err != nil || string(repo) != Repo) {
		p.Errorf("launched on %q, granted was %q", s.Repo, Repo)
	}
	first := p.ref(s, "")
	p.finished(first, "build it")
	f := p.followUp(first, 2, "go on")
	if _, found, err := p.Runtime.FindSend(p.Context(), f); found != p.absent() || err != nil {
		p.Errorf("a follow-up is found before it was sent: %v %v", found, err)
	}
	s2, err := p.Runtime.Send(p.Context(), f)
	if err != nil || s2.Agent != first.Agent {
		p.Fatalf("send: %+v %v", s2, err)
	}
	p.finished(p.ref(s2, f.Marker), "go on")
	if found, ok, err := p.Runtime.FindSend(p.Context(), f); ok != bridge.FoundThere || err != nil || found.Run != s2.Run {
		p.Errorf("a follow-up is not found after it was sent: %+v %v %v", found, ok, err)
	}
	p.finished(first, "build it")
	p.foundLaunch(l, first.Agent)
	p.made(1, 1)
}

// noGrant: nothing is launched without one.
func noGrant(_ *testing.T, p play) {
	l := p.launch(1, "build it")
	l.Grant = policy.Grant{}
	_, err := p.Runtime.Launch(p.Context(), l)
	p.kind(err, bridge.Denied, false)
	p.made(0, 0)
}

// sameLaunch: repeated and side by side, one AgentID is one agent. A repeat is
// not done by an agent's newer turns either.
func sameLaunch(t *testing.T, p play) {
	if !p.Repeats {
		return
	}
	l := p.launch(1, "build it")
	got := make([]bridge.Started, 8)
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() {
			var err error
			if got[i], err = p.Runtime.Launch(t.Context(), l); err != nil {
				t.Errorf("launch: %v", err)
			}
		})
	}
	all.Wait()
	for _, s := range got {
		if s.Agent != got[0].Agent || s.Run != got[0].Run {
			p.Errorf("one AgentID became %+v and %+v", got[0], s)
		}
	}
	p.finished(p.ref(got[0], ""), "build it")
	p.made(1, 0)
}

// lostLaunch: an answer that was lost is Unclear, and the agent is found.
func lostLaunch(_ *testing.T, p play) {
	if p.LoseLaunch == nil {
		return
	}
	l := p.launch(1, "build it")
	p.LoseLaunch()
	_, err := p.Runtime.Launch(p.Context(), l)
	p.kind(err, bridge.Unavailable, true)
	s := p.foundLaunch(l, anyAgent)
	if p.Repeats {
		again, err := p.Runtime.Launch(p.Context(), l)
		if err != nil || again.Agent != s.Agent || again.Run != s.Run {
			p.Errorf("a repeated launch came to %+v %v, found was %+v", again, err, s)
		}
	}
	p.finished(p.ref(s, ""), "build it")
	p.made(1, 0)
}

// lostSend is the same for a follow-up, with a newer one of another turn not taken for it.
func lostSend(_ *testing.T, p play) {
	if p.LoseSend == nil {
		return
	}
	first := p.start(1, "build it")
	p.finished(first, "build it")
	f := p.followUp(first, 2, "go on")
	p.LoseSend()
	_, err := p.Runtime.Send(p.Context(), f)
	p.kind(err, bridge.Unavailable, true)
	s, found, err := p.Runtime.FindSend(p.Context(), f)
	if found != bridge.FoundThere || err != nil {
		p.Fatalf("find follow-up: %+v %v %v", s, found, err)
	}
	p.finished(p.ref(s, f.Marker), "go on")
	p.made(1, 1)
}

// refused: what was refused clearly did not happen, and may be asked again.
func refused(_ *testing.T, p play) {
	n := 0
	for kind, refuse := range p.Refuse {
		n++
		l := p.launch(n, "build it")
		refuse()
		_, err := p.Runtime.Launch(p.Context(), l)
		unclear := bridge.IsUnclear(err)
		p.kind(err, kind, unclear)
		if unclear && kind != bridge.Unavailable {
			p.Errorf("%s may have had its effect", kind)
		}
		p.foundLaunch(l, "")
		p.made(n-1, 0)
		p.finished(p.start(n, "build it"), "build it")
	}
	p.made(n, 0)
}

// unknown: agents and runs that are not there are NotFound, for every method.
func unknown(_ *testing.T, p play) {
	r := bridge.RunRef{Runtime: p.Name, API: p.API, Agent: "bc-00000000-0000-4000-8000-0000000000ff", Run: "run-00000000-0000-4000-8000-0000000000ff", Marker: "[bridge trn_9]"}
	_, err := p.Runtime.Send(p.Context(), p.followUp(r, 9, "go on"))
	p.kind(err, bridge.NotFound, false)
	_, found, err := p.Runtime.FindSend(p.Context(), p.followUp(r, 9, "go on"))
	p.kind(err, bridge.NotFound, false)
	if found != bridge.FoundUnknown {
		p.Error("a follow-up to nobody is found")
	}
	_, err = p.Runtime.Observe(p.Context(), r)
	p.kind(err, bridge.NotFound, false)
	p.kind(p.Runtime.Cancel(p.Context(), r), bridge.NotFound, false)
	p.made(0, 0)
}

// failed: a run that broke says so, stays so, and its agent takes another turn.
func failed(_ *testing.T, p play) {
	r := p.start(1, "this fails")
	for range 2 {
		if o := p.finish(r); o.State != bridge.RunError {
			p.Errorf("the run ended as %+v, want ERROR", o)
		}
	}
	f := p.followUp(r, 2, "go on")
	s, err := p.Runtime.Send(p.Context(), f)
	if err != nil {
		p.Fatalf("send after a failed run: %v", err)
	}
	p.finished(p.ref(s, f.Marker), "go on")
}

// cancel: twice is fine, what is over stays as it is, and the agent takes another turn.
func cancel(_ *testing.T, p play) {
	r := p.start(1, "this never ends")
	for range 2 {
		if err := p.Runtime.Cancel(p.Context(), r); err != nil {
			p.Fatalf("cancel: %v", err)
		}
	}
	if o := p.finish(r); o.Reply != "" || p.Cancelled && o.State != bridge.RunCancelled {
		p.Errorf("the run ended as %+v, want CANCELLED", o)
	}
	f := p.followUp(r, 2, "go on")
	s, err := p.Runtime.Send(p.Context(), f)
	if err != nil {
		p.Fatalf("send after a cancelled run: %v", err)
	}
	next := p.ref(s, f.Marker)
	p.finished(next, "go on")
	if err := p.Runtime.Cancel(p.Context(), next); err != nil {
		p.Errorf("cancel a run that is over: %v", err)
	}
	p.finished(next, "go on")
}

// busy: a second turn beside one that runs is refused, and did not happen.
func busy(_ *testing.T, p play) {
	if !p.Busy {
		return
	}
	r := p.start(1, "this never ends")
	f := p.followUp(r, 2, "go on")
	_, err := p.Runtime.Send(p.Context(), f)
	p.kind(err, bridge.Busy, false)
	if _, found, err := p.Runtime.FindSend(p.Context(), f); found != p.absent() || err != nil {
		p.Errorf("a refused follow-up is found: %v %v", found, err)
	}
	p.made(1, 0)
}

// sideBySide: many agents at once, each with its own turns.
func sideBySide(t *testing.T, p play) {
	const n = 12
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			words := fmt.Sprintf("task number %d.", i)
			s, err := p.Runtime.Launch(t.Context(), p.launch(i+1, words))
			if err != nil {
				t.Errorf("launch: %v", err)
				return
			}
			r := p.ref(s, "")
			for {
				o, err := p.Runtime.Observe(t.Context(), r)
				if err != nil {
					t.Errorf("observe: %v", err)
					return
				}
				if o.State.Terminal() {
					p.finished(r, words)
					return
				}
			}
		})
	}
	all.Wait()
	p.made(n, 0)
}

// endedContext: a call whose context is over says so, and what it leaves is found or was never made.
func endedContext(t *testing.T, p play) {
	ctx, l := ended(t), p.launch(1, "build it")
	if _, err := p.Runtime.Launch(ctx, l); err == nil {
		p.Error("a launch with an ended context was confirmed")
	}
	_, found, err := p.Runtime.FindLaunch(p.Context(), l)
	if made, _ := p.Made(); err != nil || (found == bridge.FoundThere) != (made == 1) {
		p.Errorf("%d agents were made, found is %v (%v)", made, found, err)
	}
	first := p.start(2, "build it")
	if _, err := p.Runtime.Observe(ctx, first); err == nil {
		p.Error("an observation with an ended context was answered")
	}
	p.finished(first, "build it")
	_, before := p.Made()
	f := p.followUp(first, 2, "go on")
	if _, err := p.Runtime.Send(ctx, f); err == nil {
		p.Error("a follow-up with an ended context was confirmed")
	}
	_, found, err = p.Runtime.FindSend(p.Context(), f)
	if _, made := p.Made(); err != nil || (found == bridge.FoundThere) != (made == before+1) {
		p.Errorf("%d follow-ups were made, found is %v (%v)", made-before, found, err)
	}
}

// follow: it ends when the run does, at once for one that is over, and with its context.
func follow(t *testing.T, p play) {
	f, ok := p.Runtime.(bridge.Follower)
	if !p.Follows {
		return
	}
	if !ok {
		p.Fatal("it says that it follows runs, and is no bridge.Follower")
	}
	r := p.start(1, "build it")
	for range 2 {
		if err := f.Follow(t.Context(), r); err != nil {
			p.Fatalf("follow: %v", err)
		}
	}
	p.finished(r, "build it")
	long := p.start(2, "this never ends")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := f.Follow(ctx, long); err == nil || ctx.Err() == nil {
		p.Errorf("the wait for a run that goes on ended with %v", err)
	}
	over := make(chan error, 1)
	go func() { over <- f.Follow(t.Context(), long) }()
	if err := p.Runtime.Cancel(t.Context(), long); err != nil {
		p.Fatal(err)
	}
	if err := <-over; err != nil {
		p.Errorf("follow a run that is cancelled: %v", err)
	}
}

// inspect: it speaks of agents that are there, and of no others.
func inspect(t *testing.T, p play) {
	i, ok := p.Runtime.(bridge.Inspector)
	if !p.Inspects {
		return
	}
	if !ok {
		p.Fatal("it says that it inspects agents, and is no bridge.Inspector")
	}
	r := p.start(1, "build it")
	p.finished(r, "build it")
	e, err := i.Inspect(t.Context(), r)
	if err != nil || e.Usage != nil && (e.Usage.Tokens < 0 || e.Usage.CostMicros < 0) {
		p.Errorf("inspect: %+v %v", e, err)
	}
	r.Agent = "bc-00000000-0000-4000-8000-0000000000ff"
	_, err = i.Inspect(t.Context(), r)
	p.kind(err, bridge.NotFound, false)
}

// restart: agents that live in the process come to an end with it, and what they
// were told is there in the next one: launches and follow-ups are found, runs
// that were over stay so, and those that were cut off come to an end.
func restart(t *testing.T, p play) {
	if p.Restart == nil {
		return
	}
	done, l := p.start(1, "build it"), p.launch(2, "this never ends")
	p.finished(done, "build it")
	f := p.followUp(done, 2, "go on")
	sent, err := p.Runtime.Send(t.Context(), f)
	if err != nil {
		p.Fatal(err)
	}
	cut := p.start(2, "this never ends")
	p.Runtime = p.Restart()
	p.finished(done, "build it")
	if s, found, err := p.Runtime.FindSend(t.Context(), f); found != bridge.FoundThere || err != nil || s.Run != sent.Run {
		p.Errorf("find follow-up in the next process: %+v %v %v", s, found, err)
	}
	p.finished(p.ref(sent, f.Marker), "go on")
	if s := p.foundLaunch(l, cut.Agent); s.Run != cut.Run {
		p.Errorf("found %+v, launched was %+v", s, cut)
	}
	if err := p.Runtime.Cancel(t.Context(), cut); err != nil {
		p.Errorf("cancel in the next process: %v", err)
	}
	if o := p.finish(cut); !o.State.Terminal() {
		p.Errorf("%+v", o)
	}
	p.made(2, 1)
}
