package sim

import (
	"fmt"
	"strings"

	"drawbridge/bridge"
)

// witness sees what one step writes. What it saw counts once the step has committed.
type witness struct {
	// edges are the changes of state, illegal those that no state machine knows.
	edges, illegal []Edge
	notices        []bridge.Notice
	// finished are ends of runs that were not on record.
	finished []bridge.Completion
	// begun are turns that went out, ended those whose run's end was taken over.
	begun, ended []bridge.Turn
	// metered are the agents of which another usage was recorded, queued those that got a turn.
	metered, queued []bridge.AgentID
	// claimed is work that was taken, handedBack what was given back or finished.
	claimed, handedBack []bridge.Work
	// troubles are what was said of agents that were gated.
	troubles []string
}

func moved[S interface {
	~string
	CanBecome(S) bool
}](t *witness, noun string, from, to S) {
	if from == to {
		return
	}
	e := Edge{Noun: noun, From: string(from), To: string(to)}
	t.edges = append(t.edges, e)
	if !from.CanBecome(to) {
		t.illegal = append(t.illegal, e)
	}
}

// see takes note of a row that is written; was and now are nil pointers where there is none.
func (t *witness) see(was, now any) {
	switch now := now.(type) {
	case *bridge.AgentRow:
		if was := was.(*bridge.AgentRow); was != nil && now != nil {
			t.seeAgent(was.Agent, now.Agent)
		}
	case *bridge.Turn:
		t.seeTurn(was.(*bridge.Turn), now)
	case *bridge.CommandRow:
		if was := was.(*bridge.CommandRow); was != nil && now != nil {
			moved(t, "command", was.State, now.State)
		}
	case *bridge.Notice:
		if was.(*bridge.Notice) == nil {
			t.notices = append(t.notices, *now)
		}
	case *bridge.Completion:
		if was.(*bridge.Completion) == nil {
			t.finished = append(t.finished, *now)
		}
	}
}

func (t *witness) seeAgent(was, now bridge.Agent) {
	moved(t, "agent", was.State, now.State)
	if was.Tokens != now.Tokens || was.CostMicros != now.CostMicros || was.Unmetered != now.Unmetered {
		t.metered = append(t.metered, now.ID)
	}
	if was.State != now.State && now.State == bridge.AgentGated {
		t.troubles = append(t.troubles, now.Trouble)
	}
}

func (t *witness) seeTurn(was, now *bridge.Turn) {
	switch {
	case was == nil:
		t.queued = append(t.queued, now.Agent)
		return
	case was.State == bridge.TurnQueued && now.State == bridge.TurnDelivering:
		t.begun = append(t.begun, *now)
	case was.State == bridge.TurnRunning && now.State.Over() && now.Status != "":
		t.ended = append(t.ended, *now)
	}
	moved(t, "turn", was.State, now.State)
}

// handed takes note of the work that the step gave back or finished.
func (t *witness) handed(changes []bridge.LaneChange) {
	for _, c := range changes {
		if c.Verb == bridge.LaneFinish || c.Verb == bridge.LaneBack {
			t.handedBack = append(t.handedBack, c.Work)
		}
	}
}

// tokensIn returns the tokens in a text: an r, x or m and a number between angles.
func tokensIn(text string) (all []string) {
	for {
		i := strings.IndexByte(text, '<')
		if i < 0 {
			return all
		}
		text = text[i:]
		end := strings.IndexByte(text, '>')
		if end > 1 && strings.IndexByte("rxm", text[1]) >= 0 {
			all = append(all, text[:end+1])
		}
		text = text[1:]
	}
}

// joinStatement is what an agent was told of joined results.
type joinStatement struct {
	// before is the text before it.
	before string
	// seq is the number of the turn that launched, -1 when it cannot be read.
	seq             int64
	ended, launched int
	// late says that the deadline had passed.
	late bool
	// missing are the lines of those that had not ended.
	missing []int
}

const joinedWords = "results of your turn "

// oneSubagent writes a number where one subagent stands without.
var oneSubagent = strings.NewReplacer("joined: its subagent has ended", "joined: 1 of its 1 subagents", "joined: its subagent has not ended", "joined: 0 of its 1 subagents")

// joinStatements reads what a turn's text says of joined results.
func joinStatements(text string) (all []joinStatement) {
	for from := 0; ; {
		i := strings.Index(text[from:], joinedWords)
		if i < 0 {
			return all
		}
		i += from
		end := i + strings.Index(text[i:]+"\n\n", "\n\n")
		s := joinStatement{before: text[:i], late: strings.Contains(text[i:end], "the deadline has passed")}
		if _, err := fmt.Sscanf(oneSubagent.Replace(text[i:end]), joinedWords+"%d, joined: %d of its %d subagents", &s.seq, &s.ended, &s.launched); err != nil {
			s.seq = -1
		}
		for line := range strings.Lines(text[i:end]) {
			var n int
			if _, err := fmt.Sscanf(strings.TrimSpace(line), "missing: line %d (", &n); err == nil {
				s.missing = append(s.missing, n)
			}
		}
		all, from = append(all, s), end
	}
}
