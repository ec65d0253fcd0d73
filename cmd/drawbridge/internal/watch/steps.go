package watch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/internal/pause"
)

// following is an agent whose steps are told.
type following struct {
	id, name string
	// busy is when the agent was busy last; the watcher's mu guards it.
	busy time.Time

	mu sync.Mutex // guards the fields below, and orders what is told
	// asked is true once the agent's steps were read. Before rest is over nobody asks: the agent does not live at a relay, or nobody answered in time.
	asked bool
	rest  time.Time
	after int64
	// run is the latest turn of which words were told. said are these words without blanks, and starts are the places in it where a line began; none
	// where they were too many.
	run    string
	said   strings.Builder
	starts map[int]bool
	over   bool
}

// Bounds of what is told of an agent's turns.
const (
	// soFar is how many steps of a turn are told that were done before the watcher began.
	soFar = 20
	// maxSaid bounds the words of a turn that are kept, in bytes.
	maxSaid = 1 << 20
	// askFor bounds a question to the bridge.
	askFor = 2 * time.Second
	// restFor is how long nobody asks after a failure, and keepFor how long what was told of an agent is kept when it is not busy any more.
	restFor = 5 * time.Second
	keepFor = time.Minute
)

// steps tells what busy agents do until ctx ends, and their last steps when they are not busy any more. A slow relay holds up its own agents alone.
func (w *Watcher) steps(ctx context.Context) {
	var asking sync.WaitGroup
	defer asking.Wait()
	for pause.For(ctx, look) == nil {
		for _, f := range w.followed(time.Now()) {
			if f.mu.TryLock() { // else it is asked about
				asking.Go(func() {
					defer f.mu.Unlock()
					w.catchUp(ctx, f, "")
				})
			}
		}
	}
}

// followed returns the agents that are busy or were a moment ago, and forgets those that were long ago.
func (w *Watcher) followed(now time.Time) (all []*following) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, agent := range w.busy {
		w.follow(id, agent.name).busy = now
	}
	for id, f := range w.follows {
		switch idle := now.Sub(f.busy); {
		case idle > keepFor:
			delete(w.follows, id)
		case idle < 4*look:
			all = append(all, f)
		}
	}
	return all
}

// follow returns what is known of an agent. The caller holds the watcher's mutex.
func (w *Watcher) follow(id, name string) *following {
	f := w.follows[id]
	if f == nil {
		f = &following{id: id, name: name, busy: time.Now()}
		w.follows[id] = f
	}
	return f
}

// catchUp tells the steps of an agent that were not told. The first time it tells those of the turn that runs, or of the one that is named. Nothing
// depends on a step: what cannot be read now is read later, or never. The caller holds the mutex of f.
func (w *Watcher) catchUp(ctx context.Context, f *following, run string) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	if time.Now().Before(f.rest) {
		return
	}
	live, err := w.o.Client.Live(ctx, f.id, f.after)
	if err != nil {
		f.rest = time.Now().Add(restFor)
		return
	}
	if live.Away {
		return
	}
	steps, missed := live.Steps, live.Missed
	switch {
	case f.asked:
	case live.Run == "" && run == "": // the turn of which people shall see the steps is not known yet
		return
	default:
		steps = slices.DeleteFunc(steps, func(s api.Step) bool { return s.Run != live.Run && s.Run != run })
		old := 0
		for old < len(steps) && steps[old].At.Before(w.began) {
			old++
		}
		if old > soFar {
			steps, missed = steps[old-soFar:], true
		}
	}
	f.asked, f.after = true, live.Next
	if missed && len(steps) > 0 {
		w.o.Step(f.name + " | (earlier lines are left out)")
	}
	for _, s := range steps {
		f.hear(s)
		w.o.Step(f.name + " " + stepLine(s))
	}
}

// hear keeps the words of a turn.
func (f *following) hear(s api.Step) {
	if s.Run != f.run {
		f.run, f.over, f.starts = s.Run, false, map[int]bool{}
		f.said.Reset()
	}
	if s.Kind != api.StepSays || f.over {
		return
	}
	f.starts[f.said.Len()] = true
	f.said.WriteString(bare(s.Text))
	if f.said.Len() > maxSaid {
		f.over, f.starts = true, nil
		f.said.Reset()
	}
}

// bare is a text without blanks: how it breaks into lines says nothing.
func bare(text string) string { return strings.Join(strings.Fields(text), "") }

// Told tells the last steps of a turn that has ended, and reports whether people have seen its whole reply.
func (w *Watcher) Told(ctx context.Context, name string, t api.Turn) bool {
	w.mu.Lock()
	f := w.follow(t.Agent, name)
	w.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	w.catchUp(ctx, f, t.Run)
	reply := bare(t.Reply)
	return reply != "" && f.run == t.Run && strings.HasSuffix(f.said.String(), reply) && f.starts[f.said.Len()-len(reply)]
}

// told reports whether people have seen the reply of an event. It tells the last steps of the event's turn first.
func (w *Watcher) told(ctx context.Context, e api.Event) bool {
	w.mu.Lock()
	leave := w.own[e.Turn] || w.holds || w.o.Only != "" && e.Name != w.o.Only
	w.mu.Unlock()
	spent := e.Kind == bridge.EventCompleted && api.SpentOf(e) != nil
	if e.Kind != bridge.EventReply && e.Kind != bridge.EventTurnFailed && !spent || leave {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	t, err := w.o.Client.Turn(ctx, e.Turn)
	return err == nil && w.Told(ctx, e.Name, t)
}

// oneLine makes one line of a text.
var oneLine = strings.NewReplacer("\r", " ", "\n", " ", "\t", " ")

// stepLine is the line about a step, without the agent's name.
func stepLine(s api.Step) string {
	text := oneLine.Replace(s.Text) // a relay may be hostile
	if s.Kind == api.StepSays {
		return "| " + text
	}
	tool := oneLine.Replace(s.Tool)
	if tool == "execute" {
		tool = "run"
	}
	if s.Kind == api.StepFails {
		tool += " failed"
	}
	return strings.TrimRight(fmt.Sprintf("[%s] %s", tool, text), " ")
}
