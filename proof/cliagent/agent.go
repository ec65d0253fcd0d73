// Package cliagent is a scripted agent that runs once for each turn and writes one of four formats: a stand-in for Claude Code, Codex and
// Cursor's CLI where a test needs one that keeps sessions, dies and misbehaves on demand.
//
// It shares no code with the driver, so that each checks the other. It takes the arguments that the real programs take, refuses others, and
// writes the events that they were seen to write. Its log in HOME says what it was told, synced before anything follows from it. The text
// of a prompt is its script, see [turn.play]. Rule of thumb: what a real program was seen to do, this one can be told to do.
package cliagent

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// LogName is the log in HOME, one JSON object a line.
const LogName = "cliagent.log"

// Line is one line of the log.
type Line struct {
	At    time.Time `json:"at"`
	PID   int       `json:"pid"`
	Event string    `json:"event"`
	// Session and Text depend on the event: the prompt, or what the caller did wrong.
	Session string `json:"session,omitempty"`
	Text    string `json:"text,omitempty"`
	// Args are the arguments, and MCP is the configuration of servers that the program read, of a prompt.
	Args []string `json:"args,omitempty"`
	MCP  string   `json:"mcp,omitempty"`
}

// Events of a [Line].
const (
	Prompted = "prompted"
	Answered = "answered"
	Fault    = "fault"
)

// ReadLog returns the log of the agent with this HOME.
func ReadLog(home string) ([]Line, error) {
	data, err := os.ReadFile(filepath.Join(home, LogName))
	if err != nil {
		return nil, err
	}
	var lines []Line
	for text := range strings.Lines(string(data)) {
		var l Line
		// A kill may have cut the last one.
		if json.Unmarshal([]byte(text), &l) == nil {
			lines = append(lines, l)
		}
	}
	return lines, nil
}

// object is a JSON object to be written.
type object map[string]any

// turn is the whole life of the process.
type turn struct {
	dialect
	home, session, prompt string
	resumed               bool
	args                  []string
	mcp                   string
	// said are the agent's messages, and calls counts its tools.
	said  []string
	calls int
}

// dialect is one of the formats.
type dialect interface {
	// parse takes the arguments; an error is one of its usage.
	parse(t *turn, args []string) error
	// unknown says that the session does not exist, and returns the exit code.
	unknown(t *turn) int
	begin(t *turn)
	// history is the file below HOME in which the program keeps its session, and the line that it writes there of a message; both may be "".
	history(t *turn, who, text string) (file string, line object)
	say(t *turn, text string)
	think(t *turn, text string)
	tool(t *turn, text string, ended bool)
	// other writes an event that no version of the format has.
	other(t *turn)
	// end writes the final event of a turn that ended well, and fail of one that did not; fail returns the exit code.
	end(t *turn)
	fail(t *turn, text string) int
}

// Main is the program: its first argument names the format (text, claude, codex or cursor), and the arguments of that program follow. It
// returns the exit code. The variable CLIAGENT_SESSION is the id of a new session.
func Main() int {
	if len(os.Args) > 1 && os.Args[1] == "--version" {
		fmt.Println("cliagent 1.0")
		return 0
	}
	t := &turn{home: os.Getenv("HOME"), args: os.Args[1:]}
	dialects := map[string]dialect{"text": plain{}, "claude": claude{}, "codex": codex{}, "cursor": cursor{}}
	if len(os.Args) < 2 || dialects[os.Args[1]] == nil || !filepath.IsAbs(t.home) {
		fmt.Fprintln(os.Stderr, "usage: cliagent text|claude|codex|cursor ARGUMENTS, with HOME")
		return 2
	}
	t.dialect = dialects[os.Args[1]]
	if err := t.parse(t, os.Args[2:]); err != nil {
		t.note(Line{Event: Fault, Text: err.Error()})
		fmt.Fprintln(os.Stderr, "error:", err)
		return 2
	}
	if t.resumed {
		if _, err := os.Stat(t.path()); errors.Is(err, fs.ErrNotExist) {
			return t.unknown(t)
		}
	}
	t.keep("user", t.prompt)
	t.note(Line{Event: Prompted, Session: t.session, Text: t.prompt, Args: t.args, MCP: t.mcp})
	t.begin(t)
	if code, ended := t.play(); ended {
		return code
	}
	t.keep("agent", strings.Join(t.said, "\n"))
	t.note(Line{Event: Answered, Session: t.session, Text: strings.Join(t.said, "\n")})
	t.end(t)
	return 0
}

func (t *turn) path() string { return filepath.Join(t.home, "sessions", t.session+".txt") }

// keep writes into the session's file.
func (t *turn) keep(who, text string) {
	err := os.MkdirAll(filepath.Dir(t.path()), 0o700)
	if err == nil {
		err = appendTo(t.path(), []byte(who+": "+text+"\n"))
	}
	if file, line := t.history(t, who, text); err == nil && file != "" {
		file = filepath.Join(t.home, file)
		record, _ := json.Marshal(line) // of our own making
		err = errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), appendTo(file, append(record, '\n')))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cliagent: the session cannot be kept:", err)
		os.Exit(4)
	}
}

// note writes a line into the log, and returns when it is on the disk.
func (t *turn) note(l Line) {
	l.At, l.PID = time.Now(), os.Getpid()
	text, err := json.Marshal(l)
	if err == nil {
		err = appendTo(filepath.Join(t.home, LogName), append(text, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cliagent: the log cannot be written:", err)
		os.Exit(4)
	}
}

func appendTo(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}

// emit writes one event.
func emit(event object) {
	text, err := json.Marshal(event)
	if err != nil {
		panic(err) // of our own making
	}
	_, _ = os.Stdout.Write(append(text, '\n')) // a caller that is gone ends us
}

// options reads arguments as the real programs do: flags with and without a value, "--", and the rest.
func options(args []string, flags map[string]bool) (values map[string][]string, rest []string, err error) {
	values = map[string][]string{}
	for i := 0; i < len(args); i++ {
		takes, known := flags[args[i]]
		switch {
		case args[i] == "--":
			return values, append(rest, args[i+1:]...), nil
		case known && takes && i+1 < len(args):
			values[args[i]] = append(values[args[i]], args[i+1])
			i++
		case known && !takes:
			values[args[i]] = append(values[args[i]], "")
		case strings.HasPrefix(args[i], "-") && args[i] != "-":
			return nil, nil, fmt.Errorf("unexpected argument %q", args[i])
		default:
			rest = append(rest, args[i])
		}
	}
	return values, rest, nil
}

// take sets the prompt from the only positional argument, or from standard input.
func (t *turn) take(rest []string) error {
	switch {
	case len(rest) > 1:
		return fmt.Errorf("%d prompts", len(rest))
	case len(rest) == 1 && rest[0] != "-":
		t.prompt = rest[0]
		return nil
	}
	text, err := io.ReadAll(os.Stdin)
	t.prompt = string(text)
	if err == nil && t.prompt == "" {
		err = errors.New("neither an argument nor standard input holds a prompt")
	}
	return err
}

// open chooses the session.
func (t *turn) open(resume, chosen []string) {
	switch {
	case len(resume) > 0:
		t.session, t.resumed = resume[0], true
	case len(chosen) > 0:
		t.session = chosen[0]
	case os.Getenv("CLIAGENT_SESSION") != "":
		t.session = os.Getenv("CLIAGENT_SESSION")
	default:
		t.session = fmt.Sprintf("%x-0000-4000-8000-000000000000", []byte(rand.Text())[:4])
	}
}

// want reports an error when one of some flags is missing.
func want(values map[string][]string, flags ...string) error {
	for _, flag := range flags {
		if _, found := values[flag]; !found {
			return fmt.Errorf("%s is missing", flag)
		}
	}
	return nil
}

func has(values map[string][]string, flag, value string) bool {
	return slices.Contains(values[flag], value)
}
