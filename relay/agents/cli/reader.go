package cli

import (
	"bytes"
	"sync"
	"time"

	"drawbridge/relay/agents"
	"drawbridge/relay/agents/host"
	"drawbridge/relay/runner/output"
	"drawbridge/relay/runner/settings"
	"drawbridge/relay/wire"
)

// Bounds of what a program can make us hold or do in one turn.
const (
	// maxLine bounds an event, in bytes. A longer line is skipped: it is the output of a tool, as a rule.
	maxLine = 8 << 20
	// keepLine is how large a buffer for lines is kept between two of them, in bytes.
	keepLine = 1 << 20
	// maxText bounds the answer, in bytes.
	maxText = 4 << 20
	// maxGarbage bounds what is not an event, in bytes.
	maxGarbage = 1 << 20
	// maxEvents bounds the events.
	maxEvents = 2_000_000
	// maxTools bounds the tools that are counted as running.
	maxTools = 1000
	// sample is how much of a line that is not an event is kept, in bytes.
	sample = 200
)

// outcome is what a program said of its turn.
type outcome struct {
	events int
	// answered is true when the program said that its turn ended well; text is its answer then, and else what it had said.
	answered bool
	text     string
	// spent is what the turn took, and total what the session took so far.
	spent, total wire.Spent
	// failed is the failure that the program reported, nil for none.
	failed *failure
	// broke is set when the relay ended the turn because of what the program wrote.
	broke *agents.Error
	// garbage is the first of what was not an event, and skipped counts lines that were too long.
	garbage string
	skipped int
	noise   agents.Noise
}

// failure is what a program reports of a turn that failed.
type failure struct {
	words string
	// beside is true where the standard error says more than the words.
	beside bool
	// cause is set where the program names it in a field of its own.
	cause agents.Cause
	// until is the time at which a limit ends, as a field says it.
	until time.Time
}

// format reads the events of one kind of program.
type format interface {
	// event takes one line. known is false for a line that is not an event of any kind; final is true when the turn has ended.
	event(line []byte) (known, final bool)
	// session is the program's own id of the session, "" before it said one.
	session() string
	// working is true while the program runs a tool.
	working() bool
	// outcome is what the program said until now; text of more than maxText bytes is cut.
	outcome() outcome
}

type readerOptions struct {
	// session is the id that the relay chose or goes on with, or "".
	session string
	hide    func(string) string
	stir    func(working bool)
	kill    func()
	// named gets the program's own id of the session, once.
	named func(string) error
	// tell gets each step of the turn, for people who watch; nil for nobody.
	tell func(agents.Step)
}

// reader takes what a program writes. One goroutine calls Write.
type reader struct {
	o      readerOptions
	text   *textFormat
	format format

	line     []byte
	skipping bool
	named    bool
	linger   *time.Timer

	mu       sync.Mutex // guards the fields below
	events   int
	garbage  int
	noise    agents.Noise
	strange  string
	skipped  int
	broke    *agents.Error
	finished bool
}

func newReader(name string, o readerOptions) *reader {
	r := &reader{o: o}
	steps := newSteps(o.tell)
	switch name {
	case settings.FormatClaudeStream:
		r.format = &claude{steps: steps}
	case settings.FormatCodex:
		r.format = &codex{steps: steps}
	case settings.FormatCursorStream:
		r.format = &cursor{steps: steps}
	default:
		r.text = &textFormat{steps: steps}
	}
	return r
}

// Write takes a piece of output. It never fails, and drops everything after the relay gave the program up.
func (r *reader) Write(p []byte) (int, error) {
	if r.gaveUp() {
		return len(p), nil
	}
	if r.text != nil {
		r.o.stir(true)
		if !r.text.add(p) {
			r.fail(crashed("the agent said more than %d MiB in one turn", maxText>>20))
		}
		return len(p), nil
	}
	for rest := p; len(rest) > 0 && !r.gaveUp(); {
		i := bytes.IndexByte(rest, '\n')
		piece := rest
		if i >= 0 {
			piece = rest[:i]
		}
		r.gather(piece)
		if i < 0 {
			break
		}
		r.endLine()
		rest = rest[i+1:]
	}
	return len(p), nil
}

// gather adds to the line, unless that becomes too long.
func (r *reader) gather(piece []byte) {
	switch {
	case r.skipping:
	case len(r.line)+len(piece) > maxLine:
		r.skipping, r.line = true, nil
		r.mu.Lock()
		r.skipped++
		r.mu.Unlock()
	default:
		r.line = append(r.line, piece...)
	}
}

func (r *reader) endLine() {
	line := bytes.TrimSpace(r.line)
	if !r.skipping && len(line) > 0 {
		r.take(line)
	}
	if r.skipping = false; cap(r.line) > keepLine {
		r.line = nil
	}
	r.line = r.line[:0]
}

// take handles one line.
func (r *reader) take(line []byte) {
	known, final := r.format.event(line)
	if !known {
		objects, bare := agents.Objects(line)
		for _, o := range objects {
			k, f := r.format.event(o)
			known, final = known || k, final || f
		}
		if !known {
			r.strayed(line)
			return
		}
		r.count(line)
		if !bare {
			r.remember(line)
		}
	}
	r.mu.Lock()
	r.events++
	events := r.events
	r.finished = r.finished || final
	finished := r.finished
	r.mu.Unlock()
	r.o.stir(r.format.working())
	if events > maxEvents {
		r.fail(crashed("the agent sent more than %d events in one turn", maxEvents))
		return
	}
	r.name()
	if finished {
		r.last()
	}
}

// name reports the session's id when it is known.
func (r *reader) name() {
	id := r.format.session()
	if r.named || id == "" {
		return
	}
	r.named = true
	if id == r.o.session {
		return
	}
	if !validSession(id) {
		r.fail(crashed("the agent gave its session an id that cannot be an argument: %s", r.clean([]byte(id))))
		return
	}
	if err := r.o.named(id); err != nil {
		r.fail(crashed("the relay could not record the session: %s", oneLine(err)))
	}
}

// last ends the program a moment after its final event, if it does not end by itself.
func (r *reader) last() {
	if r.linger == nil {
		r.linger = time.AfterFunc(lingerFor, r.o.kill)
		return
	}
	r.linger.Reset(lingerFor)
}

// strayed bears some output that is not an event.
func (r *reader) strayed(line []byte) {
	r.count(line)
	r.remember(line)
	r.mu.Lock()
	r.garbage += len(line) + 1
	much, first := r.garbage > maxGarbage, r.strange
	r.mu.Unlock()
	if much {
		r.fail(crashed("the agent's output does not have the format of its entry in relay.yaml; the output begins with %q", first))
	}
}

// count counts lines with something beside an event, and keeps the first of them.
func (r *reader) count(line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noise.Add(r.clean(line))
}

// remember keeps the first line that is not an event, for the reason of a failure.
func (r *reader) remember(line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.strange == "" {
		r.strange = r.clean(line)
	}
}

// clean makes a part of the output fit for one line.
func (r *reader) clean(line []byte) string {
	text := r.o.hide(string(line[:min(len(line), 2*sample)]))
	return output.Line(text[:min(len(text), sample)])
}

// ended reports whether the program said how its turn ended.
func (r *reader) ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.finished
}

func (r *reader) gaveUp() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.broke != nil
}

// fail gives the program up, which ends it.
func (r *reader) fail(why *agents.Error) {
	r.mu.Lock()
	if r.broke == nil {
		r.broke = why
	}
	r.mu.Unlock()
	r.o.kill()
}

// close takes a last line without an end. It is called once, after the last Write.
func (r *reader) close() {
	if r.linger != nil {
		r.linger.Stop()
	}
	if r.text == nil && !r.gaveUp() {
		r.endLine()
	}
	if r.text != nil {
		r.text.lines.End()
	}
	if r.linger != nil {
		r.linger.Stop()
	}
}

// outcome is what the program said, for the way in which it ended.
func (r *reader) outcome(end host.OnceEnd) outcome {
	var out outcome
	if r.text != nil {
		out = r.text.outcome(end)
	} else {
		out = r.format.outcome()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out.events, out.garbage, out.skipped, out.noise = r.events, r.strange, r.skipped, r.noise
	if r.broke != nil {
		out.broke, out.answered = r.broke, false
	}
	if out.answered && len(out.text) > maxText {
		out.broke, out.answered = crashed("the agent said more than %d MiB in one turn", maxText>>20), false
	}
	if len(out.text) > maxText {
		out.text = out.text[:maxText]
	}
	return out
}

// steps are what a program does: its running tools, and what it tells people who watch.
type steps struct {
	lines agents.Lines
	tools map[string]agents.Step
}

func newSteps(tell func(agents.Step)) steps {
	return steps{agents.Lines{Tell: tell}, map[string]agents.Step{}}
}

func (s steps) working() bool { return len(s.tools) > 0 }

// start notes a tool that the program uses.
func (s *steps) start(id string, step agents.Step) {
	if len(s.tools) < maxTools {
		s.tools[id] = step
	}
	s.tell(step)
}

// stop notes the end of a tool.
func (s *steps) stop(id string, failed bool) {
	if step, runs := s.tools[id]; runs && failed {
		step.Kind = agents.StepFails
		s.tell(step)
	}
	delete(s.tools, id)
}

// message tells a whole message.
func (s *steps) message(text string) {
	s.lines.Add(text)
	s.lines.End()
}

func (s *steps) tell(step agents.Step) {
	if s.lines.Tell != nil && (step.Tool != "" || step.Text != "") {
		s.lines.End()
		s.lines.Tell(step)
	}
}
