package agents

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"drawbridge/internal/loosejson"
)

// Step is a thing that an agent does in a turn, as the agent itself says it. It is for people who watch, and decides nothing.
type Step struct {
	Kind StepKind
	// Tool says what kind of tool: read, edit, delete, move, search, execute, fetch, or the agent's own word; "" for words.
	Tool string
	// Text is a line of what the agent says, or what the tool is used on. It is the agent's own, and not trusted.
	Text string
}

// StepKind is the kind of a [Step].
type StepKind string

// The kinds.
const (
	// StepSays is for the agent's words.
	StepSays StepKind = "says"
	// StepUses is for a tool that the agent wants to use; a person may still refuse it.
	StepUses StepKind = "uses"
	// StepFails is for a tool that failed.
	StepFails StepKind = "fails"
)

// Bounds of a step's text, in bytes.
const (
	maxStepLine   = 500
	maxStepTarget = 2000
)

// Lines makes steps of an agent's words, which come in pieces. It is for one goroutine at a time.
type Lines struct {
	// Tell gets each step; nil drops the words.
	Tell func(Step)
	open []byte
	// skips is true in a word that was too long, the rest of which is left out: a secret that is cut in two would not be recognized.
	skips bool
}

// Add takes a piece of a message, and tells the lines that are whole. A long line is told in parts.
func (l *Lines) Add(piece string) {
	if l.Tell == nil {
		return
	}
	for piece != "" {
		line, rest, whole := strings.Cut(piece, "\n")
		l.grow(line)
		if whole {
			l.End()
		}
		piece = rest
	}
}

// grow adds to the open line. What is too long is told up to a blank.
func (l *Lines) grow(text string) {
	for text != "" {
		if l.skips {
			at := strings.IndexByte(text, ' ')
			if at < 0 {
				return
			}
			text, l.skips = text[at:], false
		}
		room := min(maxStepLine+1-len(l.open), len(text))
		l.open, text = append(l.open, text[:room]...), text[room:]
		if len(l.open) <= maxStepLine {
			return
		}
		at := bytes.LastIndexByte(l.open, ' ')
		if at <= 0 {
			for at = maxStepLine; at > maxStepLine-utf8.UTFMax && !utf8.RuneStart(l.open[at]); at-- {
			}
			l.tell(string(l.open[:at]))
			l.open, l.skips = l.open[:0], true
			continue
		}
		l.tell(string(l.open[:at]))
		l.open = append(l.open[:0], l.open[at:]...)
	}
}

// End tells the line that is not whole: nothing more belongs to it.
func (l *Lines) End() {
	if len(l.open) > 0 {
		l.tell(string(l.open))
		l.open = l.open[:0]
	}
	l.skips = false
}

func (l *Lines) tell(text string) {
	if text = strings.TrimRight(controls.ReplaceAllString(text, ""), " \r\t"); text != "" {
		l.Tell(Step{Kind: StepSays, Text: text})
	}
}

// targets are the names of arguments that say what a tool is used on, the best first.
var targets = []string{"command", "cmd", "file_path", "filePath", "abs_path", "path", "url", "pattern", "query", "description"}

// Target returns what a tool is used on, by its arguments or by the paths that it names; "" where neither says it.
func Target(arguments json.RawMessage, paths ...string) string {
	fields, _ := loosejson.Object(arguments)
	for _, name := range targets {
		text := loosejson.Text(fields[name])
		var words []string
		if text == "" && json.Unmarshal(fields[name], &words) == nil {
			text = strings.Join(words, " ")
		}
		if text = FirstLine(text); text != "" {
			return text
		}
	}
	for _, path := range paths {
		if path = FirstLine(path); path != "" {
			return path
		}
	}
	return ""
}

// FirstLine is the first line of a text that is not blank, with "..." where more follows. Of a line of more than 2,000 bytes it is the beginning. It
// holds no memory of the text.
func FirstLine(text string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	line = strings.TrimRight(line, "\r ")
	if len(line) > maxStepTarget {
		return strings.ToValidUTF8(line[:maxStepTarget], "")
	}
	if strings.TrimSpace(rest) != "" {
		return line + " ..."
	}
	return strings.Clone(line)
}

// kinds are the kinds of tools that several agents have, by their names in small letters.
var kinds = map[string]string{
	"bash": "execute", "shell": "execute", "command_execution": "execute", "local_shell_call": "execute",
	"read": "read", "edit": "edit", "multiedit": "edit", "write": "edit", "notebookedit": "edit", "file_change": "edit", "delete": "delete",
	"grep": "search", "glob": "search", "ls": "search", "webfetch": "fetch", "websearch": "fetch", "web_search": "fetch",
}

// Uses is the step of a tool that an agent calls by its name. The name says what kind of tool it is, if it is known.
func Uses(name string, arguments json.RawMessage, paths ...string) Step {
	target := Target(arguments, paths...)
	if kind := kinds[strings.ToLower(name)]; kind != "" && target != "" {
		return Step{Kind: StepUses, Tool: kind, Text: target}
	}
	return Step{Kind: StepUses, Tool: FirstLine(name), Text: target}
}
