package turns

import (
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
func find(said []acp.Said, known bool, needle string) (finding, string) {
	if !known {
		return cannotTell, ""
	}
	at := -1
	for i, s := range said {
		if s.User && strings.Contains(s.Text, needle) {
			at = i
		}
	}
	if at < 0 {
		return notThere, ""
	}
	_, rest, _ := strings.Cut(said[at].Text, needle)
	if strings.Contains(rest, phantomPrompt) {
		return unanswered, ""
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
		return unanswered, ""
	}
	return answered, text
}

// Ends that a replay leads to.
const (
	readLater  = "the answer was read from the agent's own history after a crash; its end may be missing"
	noAnswer   = "the agent got the turn, but the process of the agent ended before the answer; send a turn with the same marker, and the agent continues"
	maybeSaid  = "the relay ended while it sent the turn to the agent, and the agent cannot tell whether it got the turn"
	maybeAgain = "the agent cannot tell whether it got the turn that this one repeats, so the relay did not send the turn again"
)

// text is what to say to the agent, or the end that the turn has without a word.
func (j *job) text() (text string, end *wire.TurnEnded) {
	said, known := j.w.Replay()
	known = known && j.alone()
	if p := j.before; p != nil && p.said {
		found, words := find(said, known, p.needle)
		if found != notThere {
			return "", j.settled(found, words)
		}
		if err := j.write(line{Step: stepWithdrawn, Turn: j.t.ID}); err != nil {
			end := refusal(err)
			return "", &end
		}
	}
	text = j.t.Text
	if p := j.earlier; p != nil && p.said && text != "" {
		found, words := find(said, known, j.t.Marker)
		switch {
		case found == cannotTell:
			end := j.over(wire.TurnEnded{Cause: wire.TurnCrashed, Unclear: true, Error: maybeAgain}, "")
			return "", &end
		case found == answered && p.cause == wire.TurnCrashed:
			return "", j.settled(found, words)
		case found != notThere:
			text = continued(j.t) + " The turn above was interrupted. Continue it: first look at what is done, and do nothing twice. If you had finished, repeat your last answer."
		}
	}
	if text != "" {
		text = j.remind(said, known) + text
	}
	return text, nil
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

// settled is the end of a turn that the agent has.
func (j *job) settled(found finding, words string) *wire.TurnEnded {
	end := wire.TurnEnded{ID: j.t.ID}
	switch found {
	case answered:
		end.Cause, end.Text, end.Error = wire.TurnAnswered, words, readLater
	case unanswered:
		end.Cause, end.Error = wire.TurnCrashed, noAnswer
	default:
		end.Cause, end.Unclear, end.Error = wire.TurnCrashed, true, maybeSaid
	}
	end = j.evidence(fitting(end))
	return &end
}

// continued marks the message that lets an agent go on with a turn. It holds the turn's marker, and an id that no other message has.
func continued(t wire.Turn) string { return fmt.Sprintf("%s [continue %s]", t.Marker, t.ID) }

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
	if found, _ := find(said, known, p.needle); found == answered {
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
