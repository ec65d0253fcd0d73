package web

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
)

// turn is one turn of a conversation.
type turn struct {
	ID, Cause, State, Tone, Trouble, Took string
	Seq                                   int64
	At                                    time.Time
	Clock, Full                           string
	// Heard is what the agent read, and Said what it answered. Whole is all that it read where Heard is a part of it.
	Heard []block
	Whole string
	Said  []block
}

// block is a piece of a turn: text of one kind, or a line with what came of it.
type block struct {
	Text   string
	Others bool
	Line   *line
}

// line is a line of a reply that is a command, or looks like one.
type line struct {
	Text, Chip, Tone, Why string
	// Need is where the command waits for a person, and Agent the conversation of the agent that it made.
	Need, Agent string
}

func (t turn) key() string { return t.ID }

// HTML implements keyed.
func (t turn) HTML(p *Page) (template.HTML, error) { return p.fragment("turn.html", t) }

// Hash implements keyed.
func (t turn) Hash() string { return hashOf(t) }

// causes says why an agent got a turn.
var causes = map[string]string{
	string(bridge.CauseUser): "heard from you", string(bridge.CauseLaunch): "was launched", string(bridge.CauseCompletion): "heard a result", string(bridge.CauseActionOutcome): "heard a result",
	string(bridge.CauseMessage): "heard a message", string(bridge.CauseReminder): "was reminded", string(bridge.CauseReport): "heard from the bridge",
}

// turnTones are the colors of a turn's states.
var turnTones = map[string]string{"running": "ok", "delivering": "ok", "failed": "bad", "uncertain": "bad", "queued": "info"}

// turnOf makes a turn of a conversation, whose texts are bounded.
func (p *Page) turnOf(t api.Turn) turn {
	at := t.CreatedAt
	if !t.SentAt.IsZero() {
		at = t.SentAt
	}
	out := turn{ID: t.ID, Seq: t.Seq, Cause: causes[t.Cause], State: t.State, Tone: turnTones[t.State], Trouble: t.Trouble, At: at, Clock: at.UTC().Format(time.TimeOnly), Full: at.UTC().Format(time.RFC3339)}
	if out.Cause == "" {
		out.Cause = t.Cause
	}
	if t.Stopped {
		out.State, out.Tone = "stopped", "bad"
	}
	out.Took = lasted(t)
	switch {
	case t.Text != "":
		out.Heard = []block{{Text: t.Text}}
		if t.Sent != "" && t.Sent != t.Text {
			out.Whole = t.Sent
		}
	case t.Sent != "":
		out.Heard, out.Whole = barred(news(t.Sent)), t.Sent
	}
	out.Said = said(t)
	return out
}

// lasted says how long a turn took, and what it cost.
func lasted(t api.Turn) string {
	var parts []string
	if !t.EndedAt.IsZero() && !t.SentAt.IsZero() {
		parts = append(parts, span(t.EndedAt.Sub(t.SentAt)))
	}
	if s := t.Spent; s != nil {
		if s.Tokens != nil {
			parts = append(parts, fmt.Sprintf("%d tokens in, %d out", s.Tokens.Input+s.Tokens.CacheRead+s.Tokens.CacheWrite, s.Tokens.Output))
		}
		if s.CostUSD != nil {
			parts = append(parts, fmt.Sprintf("$%.2f", *s.CostUSD))
		}
		if s.Model != "" {
			parts = append(parts, s.Model)
		}
	}
	return strings.Join(parts, ", ")
}

// seen is the beginning of a text that may be very long.
func seen(text string) string {
	if len(text) <= maxSeen {
		return text
	}
	cut := maxSeen
	for cut > 0 && text[cut]&0xc0 == 0x80 { // not within a character
		cut--
	}
	return fmt.Sprintf("%s\n… %d more bytes", text[:cut], len(text)-cut)
}

// news is what the bridge told an agent, without the sentences that stand in each such text. The whole text is one click away.
func news(text string) string {
	text = strings.TrimPrefix(text, "What happened since your last turn:\n")
	if end := strings.LastIndex(text, "\nLines that begin with a bar (|) were written by others"); end >= 0 {
		text = text[:end]
	}
	return strings.Trim(text, "\n")
}

// barred splits what the bridge told an agent: the lines of others stand behind a bar.
func barred(text string) (all []block) {
	for l := range strings.Lines(text) {
		rest, others := strings.CutPrefix(l, "|")
		if others {
			l = strings.TrimPrefix(rest, " ")
		}
		if n := len(all); n > 0 && all[n-1].Others == others {
			all[n-1].Text += l
			continue
		}
		all = append(all, block{Text: l, Others: others})
	}
	return all
}

// said splits a reply into text and the lines of which something came.
func said(t api.Turn) (all []block) {
	marks := map[int]*line{}
	for _, m := range t.NearMisses {
		marks[m.Line] = &line{Chip: "not run", Why: m.Reason}
	}
	for _, c := range t.Commands {
		marks[c.Line] = lineOf(c)
	}
	n := 0
	for l := range strings.Lines(t.Reply) {
		n++
		if mark := marks[n]; mark != nil {
			mark.Text = strings.TrimRight(l, "\r\n")
			all = append(all, block{Line: mark})
			continue
		}
		if last := len(all) - 1; last >= 0 && all[last].Line == nil {
			all[last].Text += l
			continue
		}
		all = append(all, block{Text: l})
	}
	for _, c := range t.Commands {
		if c.Line == 0 { // by a tool, or beyond what is shown
			l := lineOf(c)
			l.Text = c.Summary
			all = append(all, block{Line: l})
		}
	}
	return all
}

// lineOf says what came of a command.
func lineOf(c api.Command) *line {
	chip, tone, why := outcome(c)
	l := &line{Chip: chip, Tone: tone, Why: why}
	if chip == "allowed" || tone == "info" { // the outcome says more than the yes
		l.Chip, l.Tone = c.State, "info"
		if c.Ended != "" {
			l.Chip = c.Ended
		}
	}
	switch c.State {
	case string(bridge.CommandHeld):
		l.Chip, l.Tone, l.Need = "held", "wait", item{Key: c.ID}.Path()
	case string(bridge.CommandUncertain):
		l.Chip, l.Tone, l.Need = "uncertain", "bad", item{Key: c.ID}.Path()
	}
	if o := c.Outcome; o != nil {
		l.Chip, l.Tone = strings.ToLower(o.Status), "ok"
		if c.Verb == "LOCAL_ACTION" {
			l.Chip = fmt.Sprintf("exit %d", o.ExitCode)
			if o.Status != string(bridge.ActionExecuted) {
				l.Chip = o.Status
			}
			l.Why = seen(strings.TrimSpace(o.Stdout + "\n" + o.Stderr))
			if o.ExitCode != 0 || o.Status != string(bridge.ActionExecuted) {
				l.Tone = "bad"
			}
		}
	}
	if c.Child != "" {
		l.Agent = agentRow{ID: c.Child}.Path()
	}
	return l
}
