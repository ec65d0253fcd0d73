package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"drawbridge/bridge"
	"drawbridge/internal/linelog"
)

// The kinds of lines in a journal.
const (
	// Launched and Told begin a run: the agent's first, and a further one.
	Launched = "launched"
	Told     = "told"
	// Calling stands before a tool call, once for each time that it is made; Returned behind it.
	Calling  = "calling"
	Returned = "returned"
	// Ended is the end of a run.
	Ended = "ended"
)

// Line is one thing that an agent was told or did. It is on the disk before the
// next thing happens: before a call is made, and before a run is said to be over.
type Line struct {
	Kind  string `json:"kind"`
	Agent string `json:"agent"`
	// Run counts the agent's runs from 1.
	Run int `json:"run"`
	// Name and Repo are of the launch; Prompt is the whole text of the run.
	Name   string `json:"name,omitempty"`
	Repo   string `json:"repo,omitempty"`
	Marker string `json:"marker,omitempty"`
	Prompt string `json:"prompt,omitempty"`
	// Door is what the run was given; it holds a token.
	Door *bridge.Door `json:"door,omitempty"`
	// Tool and Args are of a call, Result and Refused of its return.
	Tool    string          `json:"tool,omitempty"`
	Args    json.RawMessage `json:"args,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Refused string          `json:"refused,omitempty"`
	// State, Reply, Detail and Vars are of an end.
	State  bridge.RunState   `json:"state,omitempty"`
	Reply  string            `json:"reply,omitempty"`
	Detail string            `json:"detail,omitempty"`
	Vars   map[string]string `json:"vars,omitempty"`
}

const (
	journalHeader = `{"drawbridge":"journal of scripted agents","version":1}`
	maxLine       = 8 << 20
)

func journalOptions(path string) linelog.Options {
	return linelog.Options{Path: path, Header: journalHeader, MaxRecord: maxLine}
}

// agent is one agent with its runs.
type agent struct {
	id, name, repo string
	door           *bridge.Door
	role           *role
	runs           []*run
	// vars are what it knew at the end of its last turn.
	vars map[string]string
}

func (a *agent) last() *run { return a.runs[len(a.runs)-1] }

// run is one turn of an agent.
type run struct {
	n              int
	marker, prompt string
	// calls are the returns that the agent saw.
	calls []returned
	state bridge.RunState
	reply string
	why   string
	// over is closed at its end; stop ends its agent's work on it, nil before it began.
	over chan struct{}
	stop func()
}

func (r *run) id() string { return fmt.Sprintf("run-%d", r.n) }

// returned is what came of a tool call.
type returned struct {
	Result json.RawMessage
	// Refused is the tool's own word on why not, empty for a success.
	Refused string
}

// field is a value of the result as text, by its path such as data.thread.id;
// empty when there is none.
func (r returned) field(path string) string {
	value := r.Result
	for name := range strings.SplitSeq(path, ".") {
		var fields map[string]json.RawMessage
		if json.Unmarshal(value, &fields) != nil {
			return ""
		}
		value = fields[name]
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// apply takes a line into what is known; the journal is nothing but such lines.
func (r *Runtime) apply(l Line) error {
	a := r.agents[l.Agent]
	if l.Kind == Launched {
		if a != nil {
			return fmt.Errorf("agent %s is launched twice", l.Agent)
		}
		a = &agent{id: l.Agent, name: l.Name, repo: l.Repo, role: r.o.Script.roleOf(l.Prompt)}
		r.agents[l.Agent] = a
	}
	if a == nil {
		return fmt.Errorf("%s of agent %s, which was never launched", l.Kind, l.Agent)
	}
	if l.Kind == Launched || l.Kind == Told {
		if l.Door != nil {
			a.door = l.Door
		}
		a.runs = append(a.runs, &run{n: len(a.runs) + 1, marker: l.Marker, prompt: l.Prompt, state: bridge.RunRunning, over: make(chan struct{})})
		return nil
	}
	now := a.last()
	if now.n != l.Run || now.state.Terminal() {
		return errors.New("a line of a run that is over")
	}
	switch l.Kind {
	case Returned:
		now.calls = append(now.calls, returned{l.Result, l.Refused})
	case Ended:
		now.state, now.reply, now.why = l.State, l.Reply, l.Detail
		if l.Vars != nil {
			a.vars = l.Vars
		}
		close(now.over)
	}
	return nil
}

// write puts a line on the disk and then takes it into what is known. The caller holds the lock.
func (r *Runtime) write(l Line) error {
	data, err := json.Marshal(l)
	if err == nil {
		err = r.journal.Append(data)
	}
	if err != nil {
		return &bridge.Error{Kind: bridge.Unavailable, Message: "the journal of the scripted agents cannot be written", Cause: err}
	}
	r.lines = append(r.lines, data)
	return r.apply(l)
}

// open reads the journal and takes its lock.
func (r *Runtime) open(path string) error {
	o := journalOptions(path)
	o.Keep = func(data []byte) error {
		var l Line
		if err := json.Unmarshal(data, &l); err != nil {
			return err
		}
		r.lines = append(r.lines, append([]byte(nil), data...))
		return r.apply(l)
	}
	o.Needed = func(emit func([]byte) error) error {
		for _, data := range r.lines {
			if err := emit(data); err != nil {
				return err
			}
		}
		return nil
	}
	journal, err := linelog.Open(o)
	if errors.Is(err, linelog.ErrInUse) {
		return bridge.Errorf(bridge.Conflict, "another process runs the scripted agents of %q; stop it, or give this one a folder of its own", path)
	}
	if err != nil {
		return fmt.Errorf("open the journal of the scripted agents %q: %w", path, err)
	}
	if err := journal.Rewrite(); err != nil {
		return errors.Join(fmt.Errorf("write the journal of the scripted agents: %w", err), journal.Close())
	}
	r.journal = journal
	return nil
}
