package cliagent

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// forever is longer than any test.
const forever = 24 * time.Hour

// final is the last message.
func (t *turn) final() string {
	if len(t.said) == 0 {
		return ""
	}
	return t.said[len(t.said)-1]
}

// play does what the lines of the prompt that begin with "do: " say, one after the other:
//
//	say TEXT, think TEXT, tool TEXT      events of these kinds; "start TEXT" is a tool that does not end
//	unknown                              events that no version of the format has
//	garbage N, line BYTES, events N      too much of something
//	forge TEXT                           a line of TEXT as it stands
//	stderr BYTES, complain TEXT          writes to standard error
//	sleep DURATION, hang                 does nothing for a time, or without an end
//	linger                               writes the final event and does not end
//	silent                               ends with exit code 0 and without a final event
//	fail TEXT                            reports a failure as the program does
//	exit CODE, kill, spawn SECONDS       ends the process; or starts one that leaves the process group and the session
//
// A prompt without such a line is answered with "done". ended is true when the process has to end with this code and without an answer.
func (t *turn) play() (code int, ended bool) {
	scripted := false
	for line := range strings.Lines(t.prompt) {
		order, found := strings.CutPrefix(strings.TrimRight(line, "\n"), "do: ")
		if !found {
			continue
		}
		scripted = true
		word, rest, _ := strings.Cut(order, " ")
		if code, ended := t.do(word, rest); ended {
			return code, true
		}
	}
	if !scripted {
		t.speak("done")
	}
	return 0, false
}

func (t *turn) speak(text string) {
	t.said = append(t.said, text)
	t.say(t, text)
}

func (t *turn) do(word, rest string) (code int, ended bool) {
	number, _ := strconv.Atoi(rest)
	switch word {
	case "say":
		t.speak(strings.ReplaceAll(rest, `\n`, "\n"))
	case "think":
		t.think(t, rest)
	case "tool", "start":
		t.calls++
		t.tool(t, rest, word == "tool")
	case "unknown":
		t.other(t)
	case "events":
		for range number {
			t.think(t, "still")
		}
	case "exit":
		return number, true
	case "silent":
		return 0, true
	case "fail":
		return t.fail(t, rest), true
	case "linger":
		t.end(t)
		<-time.After(forever)
	default:
		t.misbehave(word, rest, number)
	}
	return 0, false
}

func (t *turn) misbehave(word, rest string, number int) {
	switch word {
	case "garbage":
		for range number {
			fmt.Println("Welcome! This is not JSON.")
		}
	case "line":
		_, _ = io.Copy(os.Stdout, io.LimitReader(endless{}, int64(number)))
		fmt.Println()
	case "forge":
		fmt.Println(rest)
	case "stderr":
		_, _ = io.Copy(os.Stderr, io.LimitReader(endless{}, int64(number)))
	case "complain":
		fmt.Fprintln(os.Stderr, rest)
	case "sleep":
		d, _ := time.ParseDuration(rest)
		<-time.After(d)
	case "hang":
		<-time.After(forever)
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		<-time.After(forever)
	case "spawn":
		cmd := exec.Command("sleep", rest)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			t.note(Line{Event: Fault, Text: err.Error()})
		}
	default:
		t.note(Line{Event: Fault, Text: "an order that is not known: " + word})
	}
}

// endless is output without an end.
type endless struct{}

// Read implements io.Reader.
func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
