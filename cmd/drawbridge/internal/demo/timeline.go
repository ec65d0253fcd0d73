package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// timeline prints what happens, for a person or as JSON lines.
type timeline struct {
	out   io.Writer
	json  bool
	color bool
	start time.Time
}

// show prints one event.
func (t *timeline) show(e api.Event) error {
	if t.json {
		return t.line(jsonLine(e))
	}
	text, tone := lineOf(e)
	if text == "" {
		return nil
	}
	who := e.Name
	if who == "" {
		who = "bridge"
	}
	head := fmt.Sprintf("%6.2fs  %-14s ", e.At.Sub(t.start).Seconds(), who)
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		if i > 0 {
			head = strings.Repeat(" ", 24)
		}
		if _, err := fmt.Fprintf(t.out, "%s%s\n", harmless(head), t.paint(tone, harmless(line))); err != nil {
			return err
		}
	}
	return nil
}

// note prints a line of the story's own.
func (t *timeline) note(text string) error {
	if t.json {
		return t.line(map[string]any{"time": time.Now().UTC().Format(time.RFC3339Nano), "event": "fault", "text": text})
	}
	_, err := fmt.Fprintf(t.out, "%6.2fs  %-14s %s\n", time.Since(t.start).Seconds(), "(fault)", t.paint(toneBad, text))
	return err
}

// say prints for a person only; a story without its frame is still one.
func (t *timeline) say(text string) {
	if !t.json {
		fmt.Fprint(t.out, text)
	}
}

// line prints one JSON line.
func (t *timeline) line(v map[string]any) error {
	enc := json.NewEncoder(t.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func (t *timeline) paint(tone, line string) string {
	if !t.color || tone == "" {
		return line
	}
	return "\x1b[" + tone + "m" + line + "\x1b[0m"
}

// harmless takes out what could steer a terminal: most of what is shown was written by agents.
func harmless(line string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, line)
}

// jsonLine flattens an event: time, event, ids and words.
func jsonLine(e api.Event) map[string]any {
	line := map[string]any{"time": e.At.UTC().Format(time.RFC3339Nano), "event": e.Kind, "seq": e.Seq}
	for key, value := range e.Fields {
		if value != "" {
			line[key] = value
		}
	}
	for key, value := range map[string]string{"agent": e.Agent, "agent_name": e.Name, "turn": e.Turn, "command": e.Command, "text": e.Text} {
		if _, taken := line[key]; value != "" && (!taken || key != "text") {
			line[key] = value
		}
	}
	return line
}

// The tones: ANSI colors for good, bad, waiting and quiet lines.
const (
	toneGood  = "32"
	toneBad   = "31"
	toneWait  = "33"
	toneQuiet = "2"
)

// lineOf says an event in a few lines; no text means that it is not worth one.
func lineOf(e api.Event) (text, tone string) {
	f := e.Fields
	switch e.Kind {
	case bridge.EventTurn:
		return "hears (turn " + f["seq"] + ", " + f["cause"] + ")\n" + quoteLines(words.ForPerson(f["text"])), toneQuiet
	case bridge.EventReply:
		if f["text"] == "" {
			return "ends its turn without a word", toneQuiet
		}
		return "says\n" + quoteLines(f["text"]), ""
	case bridge.EventGranted:
		return "✓ allowed   line " + f["line"] + ": " + e.Text, toneGood
	case bridge.EventRefused:
		return "✗ refused   line " + f["line"] + ": " + e.Text, toneBad
	case bridge.EventHeld:
		return "… held      line " + f["line"] + ": " + e.Text + " (" + e.Command + ")", toneWait
	case bridge.EventApproved:
		return "✓ approved  by the demo, in your place: " + e.Text, toneGood
	case bridge.EventDenied:
		return "✗ denied    " + e.Text, toneBad
	case bridge.EventNearMiss:
		return "? near miss line " + f["line"] + ": " + f["line_text"] + "\n            " + e.Text, toneWait
	case bridge.EventLaunched:
		return "▲ launched  on " + f["repo"] + " through " + f["api"] + " as " + f["external"], toneGood
	case bridge.EventExecuted:
		return "● executed  " + e.Text + "\n" + quoteLines(f["output"]), toneGood
	case bridge.EventWebhook:
		return "⇐ webhook   signature right, recorded: " + f["status"], toneQuiet
	case bridge.EventCompleted:
		return strings.TrimSpace("■ completed " + f["status"] + ", learned by " + f["source"] + " " + f["branch"] + " " + f["pr"]), toneGood
	case bridge.EventMessageCreated:
		return "✉ writes\n" + quoteLines(f["text"]), ""
	case bridge.EventMemory:
		return "◆ remembers " + e.Text, toneQuiet
	case bridge.EventDelivered:
		return "→ delivered " + e.Text, toneQuiet
	case bridge.EventAgent, bridge.EventDuplicate:
		return "", ""
	}
	return "! " + e.Kind + ": " + e.Text, toneBad
}

// quoteLines indents a text of several lines, two dozen at most.
func quoteLines(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > 24 {
		lines = append(lines[:24], "…")
	}
	for i, l := range lines {
		lines[i] = "    " + l
	}
	return strings.Join(lines, "\n")
}
