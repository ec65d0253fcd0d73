package acp

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"drawbridge/internal/loosejson"
	"drawbridge/relay/agents"
)

// steps tells what an agent does in a turn. Agents say in several updates what a tool is used on, and some say it first when they ask for permission.
type steps struct {
	lines agents.Lines
	// calls are the tool calls of the turn, by the agent's ids.
	calls map[string]*toolCalled
	// untold counts calls that were not told, or more.
	untold int
}

// toolCalled is what is known of a tool call.
type toolCalled struct {
	kind, title, target, path string

	told, ended bool
}

func newSteps(tell func(agents.Step)) steps {
	return steps{lines: agents.Lines{Tell: tell}, calls: map[string]*toolCalled{}}
}

// called is a tool call as an update or a question has it. Each field only informs.
type called struct {
	ID        json.RawMessage         `json:"toolCallId"` // as it is written: some count
	Status    loosejson.Value[string] `json:"status"`
	Kind      loosejson.Value[string] `json:"kind"`
	Title     loosejson.Value[string] `json:"title"`
	Arguments json.RawMessage         `json:"rawInput"`
	Locations loosejson.Value[[]struct {
		Path loosejson.Value[string] `json:"path"`
	}] `json:"locations"`
}

func (c called) key() (id string, ok bool) {
	return string(c.ID), loosejson.Said(c.ID) && len(c.ID) <= maxID
}

// Where an agent speaks of a tool call.
type saidIn int

const (
	inUpdate saidIn = iota
	// inBegin is the update with which a call begins.
	inBegin
	inQuestion
)

// tool notes what is said of a tool call. It is told once, when it is known what the tool is used on, and once more if it fails. Some agents give
// several calls the same id.
func (s *steps) tool(c called, in saidIn) {
	id, ok := c.key()
	if !ok || s.lines.Tell == nil {
		return
	}
	t := s.calls[id]
	target := agents.Target(c.Arguments)
	if t == nil || t.ended && in == inBegin || t.told && in == inQuestion && target != "" && target != t.target {
		if t = s.begin(id, t, in); t == nil {
			return
		}
	}
	t.hear(c, target)
	status := c.Status.Is
	if t.target != "" || in == inQuestion || status != "" && status != "pending" {
		s.tell(t)
	}
	if status == "failed" && t.told && !t.ended {
		s.lines.Tell(t.step(agents.StepFails))
	}
	t.ended = t.ended || status == "failed" || status == "completed"
}

// begin makes room for a call, nil where there is none. before is another call with the same id, nil for none.
func (s *steps) begin(id string, before *toolCalled, in saidIn) *toolCalled {
	if len(s.calls) >= maxTools {
		maps.DeleteFunc(s.calls, func(_ string, t *toolCalled) bool { return t.ended })
	}
	if len(s.calls) >= maxTools {
		return nil
	}
	t := &toolCalled{}
	if before != nil && in == inQuestion {
		t.kind = before.kind
	}
	s.calls[id] = t
	s.untold++
	return t
}

// hear takes what an update adds.
func (t *toolCalled) hear(c called, target string) {
	if kind := agents.FirstLine(c.Kind.Is); kind != "" {
		t.kind = kind
	}
	if title := agents.FirstLine(c.Title.Is); title != "" {
		t.title = title
	}
	if target != "" {
		t.target = target
	}
	var paths []string
	for _, l := range c.Locations.Is[:min(len(c.Locations.Is), maxPaths)] {
		if path := agents.FirstLine(l.Path.Is); path != "" && t.kind != "execute" {
			paths = append(paths, path)
		}
	}
	if len(paths) > 0 {
		t.path = agents.FirstLine(strings.Join(paths, " "))
	}
}

// maxPaths bounds the paths of a call that are told.
const maxPaths = 10

// tell tells a tool call that was not told, if anything is known of it.
func (s *steps) tell(t *toolCalled) {
	if step := t.step(agents.StepUses); !t.told && (step.Tool != "" || step.Text != "") {
		t.told = true
		s.untold--
		s.lines.End()
		s.lines.Tell(step)
	}
}

// rest tells each tool that the agent named and that was not told.
func (s *steps) rest() {
	if s.untold == 0 || s.lines.Tell == nil {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(s.calls)) {
		s.tell(s.calls[id])
	}
	s.untold = 0
}

// words takes a piece of what the agent says. other is true where another message begins.
func (s *steps) words(piece string, other bool) {
	s.rest()
	if other {
		s.lines.End()
	}
	s.lines.Add(piece)
}

// end is the end of the turn.
func (s *steps) end() {
	s.lines.End()
	s.rest()
}

// step is a step about the call. A tool of a kind that the protocol has no word for has its title.
func (t *toolCalled) step(kind agents.StepKind) agents.Step {
	target := t.target
	if target == "" {
		target = t.path
	}
	switch t.kind {
	case "read", "edit", "delete", "move", "search", "execute", "fetch":
		if target == "" {
			target = t.title
		}
		return agents.Step{Kind: kind, Tool: t.kind, Text: target}
	}
	if target == t.title {
		target = ""
	}
	return agents.Step{Kind: kind, Tool: t.title, Text: target}
}
