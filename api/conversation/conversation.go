// Package conversation tells a turn to a person: what the agent heard and from whom, what it answered, and what came of each line.
// It asks nobody and keeps nothing. Rule of thumb: words of others stand apart, and no outcome is lost, however long a text is.
package conversation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/internal/clip"
	"drawbridge/parser"
)

// Block is a piece of a turn: text of one kind, or a line with what came of it.
type Block struct {
	Text string
	// Others says that the text is not the operator's or the bridge's own.
	Others bool
	Line   *Line
}

// Line is a line of a reply that is a command, or looks like one.
type Line struct {
	// Chip is what came of it in a word or two, Tone is ok, bad, wait, info or "" for plain, and Why the reason or the output.
	Text, Chip, Tone, Why string
	// Waits is the command if it waits for a person, and Child the agent that it launched; "" for none.
	Waits, Child string
}

// causes say why an agent got a turn.
var causes = map[string]string{
	string(bridge.CauseUser): "heard from you", string(bridge.CauseLaunch): "was launched", string(bridge.CauseCompletion): "heard a result", string(bridge.CauseActionOutcome): "heard a result",
	string(bridge.CauseMessage): "heard a message", string(bridge.CauseReminder): "was reminded", string(bridge.CauseReport): "heard from the bridge",
}

// Cause says why an agent got a turn, in words that follow the agent's name.
func Cause(cause string) string { return cmp.Or(causes[cause], cause) }

// Took says how long a turn took and what it cost, as far as somebody reported it.
func Took(t api.Turn) string {
	var parts []string
	if !t.EndedAt.IsZero() && !t.SentAt.IsZero() {
		parts = append(parts, t.EndedAt.Sub(t.SentAt).Round(100*time.Millisecond).String())
	}
	if spent := t.Spent.String(); spent != "" {
		parts = append(parts, spent)
	}
	return strings.Join(parts, ", ")
}

// Heard splits what an agent read, without the sentences that stand in each such text. below says that the agent is below another one, whose words its
// first turn are. Each text is cut to bound bytes, and says how long it is.
func Heard(t api.Turn, below bool, bound int) (all []Block) {
	rest := t.Sent
	if t.Text != "" {
		all = barred(t.Text)
		if below && t.Cause == string(bridge.CauseLaunch) {
			all = []Block{{Text: t.Text, Others: true}}
		}
		_, rest, _ = strings.Cut(t.Sent, t.Text)
	}
	if rest = words.News(rest); rest != "" {
		all = append(all, barred(rest)...)
	}
	for i := range all {
		all[i].Text = Clip(all[i].Text, bound)
	}
	return all
}

// Clip is the beginning of a text that may be very long, at most bound bytes of it.
func Clip(text string, bound int) string {
	if len(text) <= bound {
		return text
	}
	return fmt.Sprintf("%s\n(%d bytes in all)", clip.Text(text, bound), len(text))
}

// barred splits a text that tells an agent words of others: words.Prefix has put those lines behind a bar.
func barred(text string) (all []Block) {
	for l := range strings.Lines(text) {
		l, others := strings.CutPrefix(l, "| ")
		if n := len(all); n > 0 && all[n-1].Others == others {
			all[n-1].Text += l
			continue
		}
		all = append(all, Block{Text: l, Others: others})
	}
	return all
}

// Said splits a reply into text and the lines of which something came. Each of these is there, however long the reply is.
func Said(t api.Turn, bound int) []Block {
	marks := map[int]*Line{}
	for _, m := range t.NearMisses {
		if marks[m.Line] = (&Line{Chip: "not a command", Why: m.Reason}); m.Code == parser.CodeContinued {
			marks[m.Line].Chip = "not in the prompt"
		}
	}
	var tools []*Line // commands by tools stand at the end
	for _, c := range t.Commands {
		l := lineOf(c)
		if c.Line == 0 {
			l.Text = c.Summary
			tools = append(tools, l)
			continue
		}
		marks[c.Line] = l
	}
	s := saying{bound: bound}
	n := 0
	for l := range strings.Lines(t.Reply) {
		n++
		if mark := marks[n]; mark != nil {
			mark.Text = Clip(strings.TrimRight(l, "\r\n"), maxWhy)
			s.add(Block{Line: mark})
			continue
		}
		s.words(l)
	}
	if s.left > 0 {
		s.add(Block{Text: fmt.Sprintf("… %d more bytes", s.left)})
	}
	for _, l := range tools {
		s.add(Block{Line: l})
	}
	return s.all
}

// saying collects a reply.
type saying struct {
	all []Block
	// taken and left count the bytes of words that are shown and that are not.
	taken, left int
	// bound is how many bytes of words are shown.
	bound int
}

func (s *saying) add(b Block) { s.all = append(s.all, b) }

// words adds a line of words, as far as there is room.
func (s *saying) words(l string) {
	if s.taken += len(l); s.taken > s.bound {
		s.left += len(l)
		return
	}
	if last := len(s.all) - 1; last >= 0 && s.all[last].Line == nil {
		s.all[last].Text += l
		return
	}
	s.add(Block{Text: l})
}

// maxWhy bounds what stands below a line, in bytes.
const maxWhy = 4000

// lineOf says what came of a command.
func lineOf(c api.Command) *Line {
	chip, tone, why := Outcome(c)
	l := &Line{Chip: chip, Tone: tone, Why: why}
	switch {
	case c.State == string(bridge.CommandHeld), c.State == string(bridge.CommandUncertain):
		l.Waits = c.ID
	case c.Outcome != nil:
		l.ended(c, *c.Outcome)
	case chip == "allowed" && c.Verb != string(bridge.VerbPermission):
		l.Chip, l.Tone = cmp.Or(c.Ended, c.State), "info" // what it does now says more than the yes
	}
	l.Child = c.Child
	return l
}

// ended says how a command ended that ran.
func (l *Line) ended(c api.Command, o api.Outcome) {
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
	l.Why = Clip(strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "\n"), maxWhy)
}

// Outcome says in a word what became of a command.
func Outcome(m api.Command) (chip, tone, why string) {
	ended := cmp.Or(m.Ended, m.State)
	switch {
	case m.Code == "denied":
		return "denied", "bad", m.Reason
	case m.Code == bridge.CodeRepeat:
		return "repeat", "info", m.Reason
	case ended == string(bridge.CommandRefused), ended == string(bridge.CommandFailed), ended == string(bridge.CommandUncertain):
		return ended, "bad", m.Reason
	case ended == string(bridge.CommandHeld):
		return ended, "wait", m.Reason
	case m.Approved:
		return "allowed", "ok", ""
	}
	return ended, "info", m.Reason
}
