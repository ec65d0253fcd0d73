package web

import (
	"net/url"
	"time"

	"drawbridge/api"
	"drawbridge/api/conversation"
)

// turn is one turn of a conversation.
type turn struct {
	ID, Cause, State, Tone, Trouble, Took string
	Seq                                   int64
	Clock, Full                           string
	// Heard is what the agent read, and Said what it answered. Whole is all that it read, "" where Heard is all of it.
	Heard []conversation.Block
	Whole string
	Said  []conversation.Block
}

// turnPath is where a conversation shows a turn, however old it is.
func turnPath(agent, turn string) string {
	return agentPath(agent) + "?turn=" + url.QueryEscape(turn) + "#" + turn
}

func (t turn) names() (template, key string) { return "turn.html", t.ID }

// turnTones are the colors of a turn's states.
var turnTones = map[string]string{"running": "ok", "delivering": "ok", "failed": "bad", "uncertain": "bad", "queued": "info"}

// turnOf makes a turn of a conversation. below says that its agent is below another one.
func turnOf(t api.Turn, below bool) turn {
	at := t.Began()
	out := turn{ID: t.ID, Seq: t.Seq, Cause: conversation.Cause(t.Cause), State: t.State, Tone: turnTones[t.State], Trouble: t.Trouble, Clock: at.UTC().Format(time.TimeOnly), Full: at.UTC().Format(time.RFC3339),
		Took: conversation.Took(t), Heard: conversation.Heard(t, below, maxSeen), Said: conversation.Said(t, maxSeen)}
	if t.Stopped {
		out.State, out.Tone = "stopped", "bad"
	}
	if t.Sent != t.Text {
		out.Whole = conversation.Clip(t.Sent, maxSeen)
	}
	return out
}
