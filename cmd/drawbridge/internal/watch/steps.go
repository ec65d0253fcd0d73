package watch

import (
	"context"
	"fmt"
	"maps"
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
	mu sync.Mutex // guards the fields below, and orders what is told
	// asked is true once the agent's steps were read, and elsewhere is true for an agent that does not live at a relay.
	asked, elsewhere bool
	after            int64
	// run is the latest turn of which words were told. said are these words without blanks, unless they were too many.
	run  string
	said strings.Builder
	over bool
}

// Bounds of what is told of an agent's turns.
const (
	// soFar is how many steps of a turn are told that were done before the watcher met it.
	soFar = 20
	// maxSaid bounds the words of a turn that are kept, in bytes.
	maxSaid = 1 << 20
	// askFor bounds a question to the bridge.
	askFor = 2 * time.Second
)

// steps tells what busy agents do until ctx ends, and their last steps when they are not busy any more.
func (w *Watcher) steps(ctx context.Context) {
	before := map[string]seen{}
	for pause.For(ctx, look) == nil {
		w.mu.Lock()
		now := maps.Clone(w.busy)
		w.mu.Unlock()
		all := maps.Clone(now)
		maps.Copy(all, before)
		var asked sync.WaitGroup
		for id, agent := range all {
			asked.Go(func() { w.catchUp(ctx, id, agent.name, "") })
		}
		asked.Wait()
		before = now
	}
}

// follow returns what is known of an agent.
func (w *Watcher) follow(id string) *following {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.follows[id]
	if f == nil {
		f = &following{}
		w.follows[id] = f
	}
	return f
}

// catchUp tells the steps of an agent that were not told. The first time it tells those of the turn that runs, or of the one that is named. Nothing
// depends on a step: what cannot be read now is read later, or never.
func (w *Watcher) catchUp(ctx context.Context, id, name, run string) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	f := w.follow(id)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.elsewhere {
		return
	}
	live, err := w.o.Client.Live(ctx, id, f.after)
	if err != nil {
		f.elsewhere = bridge.KindOf(err) == bridge.Invalid
		return
	}
	steps, missed := live.Steps, live.Missed
	switch {
	case f.asked:
	case live.Run == "" && run == "": // the turn of which people shall see the steps is not known yet
		return
	default:
		steps = slices.DeleteFunc(steps, func(s api.Step) bool { return s.Run != live.Run && s.Run != run })
		if more := len(steps) - soFar; more > 0 {
			steps, missed = steps[more:], true
		}
	}
	f.asked, f.after = true, live.Next
	if missed && len(steps) > 0 {
		w.o.Step(name + " | (earlier lines are left out)")
	}
	for _, s := range steps {
		f.hear(s)
		w.o.Step(name + " " + stepLine(s))
	}
}

// hear keeps the words of a turn.
func (f *following) hear(s api.Step) {
	if s.Run != f.run {
		f.run, f.over = s.Run, false
		f.said.Reset()
	}
	if s.Kind != api.StepSays || f.over {
		return
	}
	f.said.WriteString(bare(s.Text))
	if f.said.Len() > maxSaid {
		f.over = true
		f.said.Reset()
	}
}

// bare is a text without blanks: how it breaks into lines says nothing.
func bare(text string) string { return strings.Join(strings.Fields(text), "") }

// Told tells the last steps of a turn that has ended, and reports whether people have seen its whole reply.
func (w *Watcher) Told(ctx context.Context, name string, t api.Turn) bool {
	w.catchUp(ctx, t.Agent, name, t.Run)
	f := w.follow(t.Agent)
	f.mu.Lock()
	defer f.mu.Unlock()
	reply := bare(t.Reply)
	return reply != "" && f.run == t.Run && strings.HasSuffix(f.said.String(), reply)
}

// told reports whether people have seen the reply of an event. It tells the last steps of the event's turn first.
func (w *Watcher) told(ctx context.Context, e api.Event) bool {
	w.mu.Lock()
	leave := w.own[e.Turn] || w.holds || w.o.Only != "" && e.Name != w.o.Only
	w.mu.Unlock()
	if e.Kind != bridge.EventReply && e.Kind != bridge.EventTurnFailed || leave {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	t, err := w.o.Client.Turn(ctx, e.Turn)
	return err == nil && w.Told(ctx, e.Name, t)
}

// stepWords name the kinds of tools that several agents have.
var stepWords = map[string]string{"execute": "run"}

// stepLine is the line about a step, without the agent's name.
func stepLine(s api.Step) string {
	if s.Kind == api.StepSays {
		return "| " + s.Text
	}
	tool := s.Tool
	if word := stepWords[tool]; word != "" {
		tool = word
	}
	if s.Kind == api.StepFails {
		tool += " failed"
	}
	return strings.TrimRight(fmt.Sprintf("[%s] %s", tool, s.Text), " ")
}
