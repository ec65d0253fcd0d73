package turns

import (
	"cmp"
	"fmt"
	"strings"

	"drawbridge/relay/agents/acp"
	"drawbridge/relay/wire"
)

// finding is what a replay shows of a turn.
type finding int

// The findings.
const (
	// cannotTell means that the agent cannot say what it has.
	cannotTell finding = iota
	// notThere means that the agent does not have the turn.
	notThere
	// unanswered means that the agent has the turn, and no answer to it.
	unanswered
	// answered means that the agent's own words are the last that belong to the turn.
	answered
)

// What Claude Code writes into a session whose process was killed: a line of the user's and an answer that nobody said.
const (
	phantomPrompt = "Continue from where you left off."
	phantomAnswer = "No response requested."
)

// find looks for the last message to the agent that holds the needle, and for the answer to it.
func find(said []acp.Said, known bool, needle string) finding {
	if !known {
		return cannotTell
	}
	at := -1
	for i, s := range said {
		if s.User && strings.Contains(s.Text, needle) {
			at = i
		}
	}
	if at < 0 {
		return notThere
	}
	_, rest, _ := strings.Cut(said[at].Text, needle)
	if strings.Contains(rest, phantomPrompt) {
		return unanswered
	}
	var words []string
	last := acp.Said{User: true}
	for _, s := range said[at+1:] {
		if s.User {
			break
		}
		last = s
		if !s.Tool {
			words = append(words, s.Text)
		}
	}
	text := strings.Join(words, "\n")
	if last.User || last.Tool || strings.TrimSpace(text) == "" || strings.TrimSpace(text) == phantomAnswer {
		return unanswered
	}
	return answered
}

// Ends that a replay leads to.
const (
	maybeSaid  = "the relay ended while it sent the turn to the agent, and the agent cannot tell whether it got the turn"
	maybeAgain = "the agent cannot tell whether it got the turn that this one repeats, so the relay did not send the turn again"
)

// noAnswer is the end of a turn that goes on no more.
var noAnswer = fmt.Sprintf("the agent has the turn and did not answer it: its process ended in the turn %d times", maxAgain+1)

// message is what an agent gets for a turn. The needle shows in its history that it has the message.
type message struct{ text, needle string }

// message is what to say to the agent, nothing when somebody only asked, or the end that the turn has without a word.
func (j *job) message() (m message, end *wire.TurnEnded) {
	said, known := j.w.Replay()
	known = known && j.alone()
	m = message{j.t.Text, j.t.Marker}
	goesOn := false
	if p := j.before; p != nil && p.said {
		m.needle = p.marker
		found := findTurn(said, known, p)
		switch {
		case found == notThere:
			if err := j.write(line{Step: stepWithdrawn, Turn: j.t.ID}); err != nil {
				end := refusal(err)
				return m, &end
			}
		case found == cannotTell, p.broke() > maxAgain:
			return m, j.settled(found, p)
		default: // also where words of the agent stand last: nobody vouches for their end
			goesOn = true
			j.noteRestart(p)
		}
	}
	if p := j.earlier; p != nil && p.said && m.text != "" && !goesOn {
		found := find(said, known, j.t.Marker)
		if found == cannotTell {
			end := j.over(wire.TurnEnded{Cause: wire.TurnCrashed, Unclear: true, Error: maybeAgain}, "")
			return m, &end
		}
		goesOn = found != notThere
	}
	if goesOn {
		m.needle = j.continued(m.needle)
		m.text = m.needle + " The turn above was interrupted. Continue it: first check which steps are done, and do not repeat them. If you had finished, repeat your whole last answer."
	}
	if m.text != "" {
		m.text = j.remind(said, known) + m.text
	}
	return m, nil
}

// findTurn is find for a turn that was said. The agent may have the turn, and not the last message that was to let it continue.
func findTurn(said []acp.Said, known bool, p *past) finding {
	if found := find(said, known, p.needle); found != notThere {
		return found
	}
	return find(said, known, p.marker)
}

// alone reports whether no process of an earlier relay can add to what the agent has.
func (j *job) alone() bool {
	select {
	case <-j.host.before:
		return j.host.alone
	default:
		return true // the session was not open in an earlier relay
	}
}

// settled is the end of a turn that does not go on.
func (j *job) settled(found finding, p *past) *wire.TurnEnded {
	end := wire.TurnEnded{ID: j.t.ID, Cause: wire.TurnCrashed}
	switch {
	case found != cannotTell:
		end.Error = noAnswer
	case j.broken != "" || p.last == stepLeft: // the agent had the turn
		end.Error = clipped(cmp.Or(j.broken, "the relay ended in the middle of the turn") + "; the agent cannot tell how much of the turn it has, so it does not continue by itself")
	default:
		end.Unclear, end.Error = true, maybeSaid
	}
	end = j.evidence(end)
	return &end
}

// continued marks the message that lets an agent go on with the turn of a marker. It holds the marker, and an id that no other message has.
func (j *job) continued(marker string) string {
	id := j.t.ID
	if p := j.before; p != nil && p.tries > 0 {
		id += fmt.Sprintf(".%d", p.tries)
	}
	return fmt.Sprintf("%s [continue %s]", marker, id)
}

// maxReminder bounds what an agent gets back of an answer that it lost, in bytes; the end of the answer counts.
const maxReminder = 16 << 10

// remind gives an agent back its last answer when its own history lost it, "" when not. Claude Code loses an answer when it is killed
// within 50 ms after the end of a turn.
func (j *job) remind(said []acp.Said, known bool) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.record.lastAnswered()
	if p == nil || !j.w.torn {
		return ""
	}
	if find(said, known, p.needle) == answered {
		return ""
	}
	end, err := j.record.end(p.id)
	if err != nil || strings.TrimSpace(end.Text) == "" {
		return ""
	}
	text := end.Text
	if len(text) > maxReminder {
		text = "..." + strings.ToValidUTF8(text[len(text)-maxReminder:], "")
	}
	return "Your process ended right after your last answer, so your history may lack that answer. The answer arrived. It was:\n\n" + quoted(text) + "\n\n"
}

// quoted puts "> " before each line, so that no line of it reads as anything but a quotation.
func quoted(text string) string { return "> " + strings.ReplaceAll(text, "\n", "\n> ") }
