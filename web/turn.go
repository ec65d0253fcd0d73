package web

import (
	"cmp"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/internal/clip"
	"drawbridge/parser"
)

// turn is one turn of a conversation.
type turn struct {
	ID, Cause, State, Tone, Trouble, Took string
	Seq                                   int64
	At                                    time.Time
	Clock, Full                           string
	// Heard is what the agent read, and Said what it answered. Whole is all that it read, "" where Heard is all of it.
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

// turnPath is where a conversation shows a turn, however old it is.
func turnPath(agent, turn string) string {
	return agentRow{ID: agent}.Path() + "?turn=" + url.QueryEscape(turn) + "#" + turn
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

// turnOf makes a turn of a conversation. below says that its agent is below another one.
func turnOf(t api.Turn, below bool) turn {
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
	out.Took, out.Said = lasted(t), said(t)
	rest := t.Sent
	if t.Text != "" {
		out.Heard = barred(t.Text)
		if below && t.Cause == string(bridge.CauseLaunch) { // the words are those of the agent above
			out.Heard = []block{{Text: t.Text, Others: true}}
		}
		_, rest, _ = strings.Cut(t.Sent, t.Text)
	}
	if rest = words.News(rest); rest != "" {
		out.Heard = append(out.Heard, barred(rest)...)
	}
	for i := range out.Heard {
		out.Heard[i].Text = seen(out.Heard[i].Text, maxSeen)
	}
	if t.Sent != t.Text {
		out.Whole = seen(t.Sent, maxSeen)
	}
	return out
}

// lasted says how long a turn took, and what it cost.
func lasted(t api.Turn) string {
	var parts []string
	if !t.EndedAt.IsZero() && !t.SentAt.IsZero() {
		parts = append(parts, span(t.EndedAt.Sub(t.SentAt)))
	}
	if spent := t.Spent.String(); spent != "" {
		parts = append(parts, spent)
	}
	return strings.Join(parts, ", ")
}

// seen is the beginning of a text that may be very long, at most bound bytes of it.
func seen(text string, bound int) string {
	if len(text) <= bound {
		return text
	}
	return fmt.Sprintf("%s\n(%d bytes in all)", clip.Text(text, bound), len(text))
}

// barred splits a text that tells an agent words of others: words.Prefix has put those lines behind a bar.
func barred(text string) (all []block) {
	for l := range strings.Lines(text) {
		l, others := strings.CutPrefix(l, "| ")
		if n := len(all); n > 0 && all[n-1].Others == others {
			all[n-1].Text += l
			continue
		}
		all = append(all, block{Text: l, Others: others})
	}
	return all
}

// said splits a reply into text and the lines of which something came. Each of these is there, however long the reply is.
func said(t api.Turn) []block {
	marks := map[int]*line{}
	for _, m := range t.NearMisses {
		if marks[m.Line] = (&line{Chip: "no command", Why: m.Reason}); m.Code == parser.CodeContinued {
			marks[m.Line].Chip = "not in the prompt"
		}
	}
	var tools []*line // commands by tools stand at the end
	for _, c := range t.Commands {
		l := lineOf(c)
		if c.Line == 0 {
			l.Text = c.Summary
			tools = append(tools, l)
			continue
		}
		marks[c.Line] = l
	}
	var s saying
	n := 0
	for l := range strings.Lines(t.Reply) {
		n++
		if mark := marks[n]; mark != nil {
			mark.Text = seen(strings.TrimRight(l, "\r\n"), maxWhy)
			s.add(block{Line: mark})
			continue
		}
		s.words(l)
	}
	if s.left > 0 {
		s.add(block{Text: fmt.Sprintf("… %d more bytes", s.left)})
	}
	for _, l := range tools {
		s.add(block{Line: l})
	}
	return s.all
}

// saying collects a reply.
type saying struct {
	all []block
	// taken and left count the bytes of words that are shown and that are not.
	taken, left int
}

func (s *saying) add(b block) { s.all = append(s.all, b) }

// words adds a line of words, as far as there is room.
func (s *saying) words(l string) {
	if s.taken += len(l); s.taken > maxSeen {
		s.left += len(l)
		return
	}
	if last := len(s.all) - 1; last >= 0 && s.all[last].Line == nil {
		s.all[last].Text += l
		return
	}
	s.add(block{Text: l})
}

// maxWhy bounds what stands below a line, in bytes.
const maxWhy = 4000

// lineOf says what came of a command.
func lineOf(c api.Command) *line {
	chip, tone, why := outcome(c)
	l := &line{Chip: chip, Tone: tone, Why: why}
	switch {
	case c.State == string(bridge.CommandHeld), c.State == string(bridge.CommandUncertain):
		l.Need = item{Key: c.ID}.Path()
	case c.Outcome != nil:
		l.ended(c, *c.Outcome)
	case chip == "allowed" && c.Verb != string(bridge.VerbPermission):
		l.Chip, l.Tone = cmp.Or(c.Ended, c.State), "info" // what it does now says more than the yes
	}
	if c.Child != "" {
		l.Agent = agentRow{ID: c.Child}.Path()
	}
	return l
}

// ended says how a command ended that ran.
func (l *line) ended(c api.Command, o api.Outcome) {
	executed := o.Status == string(bridge.ActionExecuted)
	switch {
	case l.Tone == "bad": // the outcome does not make a failure good
	case executed && o.ExitCode == bridge.NoExitCode:
		l.Chip, l.Tone = "ran", "ok"
	case executed:
		if l.Chip, l.Tone = fmt.Sprintf("exit %d", o.ExitCode), "ok"; o.ExitCode != 0 {
			l.Tone = "bad"
		}
	case strings.EqualFold(o.Status, string(bridge.RunFinished)), strings.EqualFold(o.Status, "completed"):
		l.Chip, l.Tone = "finished", "ok"
	default:
		l.Chip, l.Tone = strings.ToLower(o.Status), "bad"
	}
	parts := []string{c.Reason, o.Error, strings.TrimSpace(o.Stdout), strings.TrimSpace(o.Stderr)}
	if o.Omitted > 0 {
		parts = append(parts, fmt.Sprintf("%d bytes of output were dropped", o.Omitted))
	}
	l.Why = seen(strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "\n"), maxWhy)
}
