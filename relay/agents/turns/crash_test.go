package turns_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drawbridge/internal/linelog"
	"drawbridge/proof/acpagent"
	"drawbridge/relay/agents/turns"
	"drawbridge/relay/wire"
)

// recordFile is the only record of a world.
func (w *world) recordFile() string {
	w.Helper()
	list, err := filepath.Glob(filepath.Join(w.config.State, turns.Folder, "*.session"))
	if err != nil || len(list) != 1 {
		w.Fatalf("%v, %v", list, err)
	}
	return list[0]
}

// rewrite writes a record again as if a crash had cut it off: edit gets its lines and returns those that were on the disk.
func (w *world) rewrite(edit func([]map[string]any) []map[string]any) {
	w.Helper()
	path := w.recordFile()
	file, err := os.Open(path)
	w.must(err)
	var lines []map[string]any
	o := linelog.Options{Path: path, Header: `{"journal":"drawbridge-relay-session","version":1}`, MaxRecord: 16 << 20, Keep: func(text []byte) error {
		var l map[string]any
		err := json.Unmarshal(text, &l)
		lines = append(lines, l)
		return err
	}}
	w.must(linelog.Read(file, o))
	w.must(file.Close())
	lines = edit(lines)
	o.Needed = func(emit func([]byte) error) error {
		for _, l := range lines {
			text, err := json.Marshal(l)
			w.must(err)
			w.must(emit(text))
		}
		return nil
	}
	out, err := os.Create(path)
	w.must(err)
	_, _, err = linelog.Write(out, o)
	w.must(err)
	w.must(out.Close())
}

// until keeps the lines up to the first one of a step of a turn.
func until(turn, step string) func([]map[string]any) []map[string]any {
	return func(lines []map[string]any) []map[string]any {
		at := slices.IndexFunc(lines, func(l map[string]any) bool { return l["turn"] == turn && l["step"] == step })
		return lines[:at+1]
	}
}

// agentForgets removes from the agent's own session files everything from the last line on that holds some words.
func (w *world) agentForgets(words string) {
	w.Helper()
	list, err := filepath.Glob(filepath.Join(w.config.AgentHome("fake"), "sessions", "*.jsonl"))
	w.must(err)
	for _, path := range list {
		data, err := os.ReadFile(path)
		w.must(err)
		lines := strings.SplitAfter(string(data), "\n")
		for i := len(lines) - 1; i >= 0; i-- {
			if strings.Contains(lines[i], words) {
				w.must(os.WriteFile(path, []byte(strings.Join(lines[:i], "")), 0o600))
				break
			}
		}
	}
}

// What a relay finds after a crash decides what becomes of the turn that it cut off. Nothing is said twice, and each turn has one end.
func TestAfterACrash(t *testing.T) {
	t.Parallel()
	t1 := turn("ada", "t1", "do: say Hello")
	for name, c := range map[string]struct {
		sessions string
		step     string
		// forgets is what the agent's own file lost, "" for nothing.
		forgets string
		cause   wire.TurnCause
		text    string
		unclear bool
		said    int
		// absent means that a look-up shows that the agent does not have the turn.
		absent bool
	}{
		"answered in the record":               {"", "answered", "", wire.TurnAnswered, "Hello", false, 1, false},
		"answered, and the agent forgot it":    {"", "answered", "Hello\"}", wire.TurnAnswered, "Hello", false, 1, false},
		"said, and the agent has the answer":   {"", "said", "", wire.TurnAnswered, "Hello", false, 2, false},
		"said, and the agent did not answer":   {"", "said", `"role":"agent"`, wire.TurnAnswered, "Hello", false, 2, false},
		"said, and the agent does not have it": {"", "said", `"role":"user"`, wire.TurnAnswered, "Hello", false, 2, true},
		"said to an agent that loads alone":    {"load", "said", `"role":"user"`, wire.TurnAnswered, "Hello", false, 2, true},
		"said to an agent that cannot say":     {"resume", "said", `"role":"user"`, wire.TurnCrashed, "", true, 1, false},
		"said to an agent without sessions":    {"none", "said", "", wire.TurnSessionGone, "", false, 1, false},
		"opened, and not said":                 {"", "opened", "", wire.TurnAnswered, "Hello", false, 2, false},
	} {
		for _, way := range []string{"asked again", "looked up"} {
			t.Run(name+", "+way, func(t *testing.T) {
				t.Parallel()
				env := map[string]string{}
				if c.sessions != "" {
					env["ACPAGENT_SESSIONS"] = c.sessions
				}
				w := newWorld(t, map[string]entry{"fake": {env: env}}, nil)
				w.answers(turn("ada", "t0", "do: say first"), "first")
				w.answers(t1, "Hello")
				w.close()
				switch c.step {
				case "opened":
					w.rewrite(until("t0", "ended"))
				default:
					w.rewrite(until("t1", c.step))
				}
				if c.forgets != "" {
					w.agentForgets(c.forgets)
				}
				w.open()
				if way == "looked up" && c.step != "opened" {
					w.eventually("the look-up has an answer", func() bool {
						found := w.LookupTurn(t1)
						return c.absent && found.Known == wire.TurnKnownAbsent || !c.absent && found.Known == wire.TurnKnownEnded
					})
				}
				end := w.run(t1)
				if end.Cause != c.cause || end.Text != c.text || end.Unclear != c.unclear {
					t.Errorf("%+v", end)
				}
				if n := w.said(t1.Marker); n != c.said {
					t.Errorf("it was said %d times", n)
				}
				if again := w.run(t1); again.Cause != end.Cause || again.Text != end.Text || !again.Replayed {
					t.Errorf("asked again: %+v", again)
				}
				w.answers(turn("ada", "t2", "do: say on"), "on")
			})
		}
	}
}

// The agent's own file lost an answer. The next turn quotes it, once.
func TestLostAnswerIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	w.answers(turn("ada", "t1", "do: say SUBAGENT: one", "do: tool ls", "do: say and more"), "SUBAGENT: one\nand more")
	w.killAgent()
	w.eventually("the process is gone", func() bool { return w.Processes() == 0 })
	w.agentForgets(`"role":"agent"`)
	w.answers(turn("ada", "t2", "do: say yes"), "yes")
	w.answers(turn("ada", "t3", "do: say yes"), "yes")
	var told []string
	for _, l := range w.log("fake") {
		if l.Event == acpagent.Prompted && strings.Contains(l.Text, "ended right after your last answer") {
			told = append(told, l.Text)
		}
	}
	if len(told) != 1 || !strings.Contains(told[0], "> SUBAGENT: one\n> and more\n\n[bridge t2]") {
		t.Errorf("told %q", told)
	}
}

// A turn with the marker of an earlier one repeats it: the agent that has it continues, the agent that lacks it gets it, and an answer is
// given again without a word.
func TestRepeats(t *testing.T) {
	t.Parallel()
	again := func(id string, of wire.Turn) wire.Turn {
		of.ID, of.BodyHash = id, "body of "+id
		return of
	}
	for name, c := range map[string]struct {
		sessions, first, forgets string
		cause                    wire.TurnCause
		text                     string
		said, continued          int
		unclear                  bool
	}{
		"an answer":                       {"", "do: say Hello", "", wire.TurnAnswered, "Hello", 1, 0, false},
		"a limit":                         {"", "do: error -32603 You've hit your usage limit", "", wire.TurnAnswered, "done", 2, 1, false},
		"a limit before the agent had it": {"", "do: error -32603 You've hit your usage limit", `"role":"user"`, wire.TurnLimited, "", 2, 0, false},
		"a crash that did not end":        {"", "do: kill 4\ndo: say done", "", wire.TurnAnswered, "done", 5, 1, false},
		"a crash of one that cannot say":  {"resume", "do: kill", "", wire.TurnCrashed, "", 1, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{}
			if c.sessions != "" {
				env["ACPAGENT_SESSIONS"] = c.sessions
			}
			w := newWorld(t, map[string]entry{"fake": {env: env}}, nil)
			first := turn("ada", "t1", c.first)
			w.run(first)
			if c.forgets != "" {
				w.again()
				w.agentForgets(c.forgets)
			}
			end := w.run(again("t2", first))
			if end.Cause != c.cause || end.Text != c.text || end.Unclear != c.unclear {
				t.Errorf("%+v", end)
			}
			if n, continued := w.said(first.Marker), w.said("[continue t2]"); n != c.said || continued != c.continued {
				t.Errorf("said %d times, %d of them to continue", n, continued)
			}
		})
	}
}

// A repeat counts from the turn that the agent has, also where a repeat between the two never reached it.
func TestRepeatOfARepeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	first := turn("ada", "t1", "do: error -32603 You've hit your usage limit")
	again := func(id string) wire.Turn {
		of := first
		of.ID, of.BodyHash = id, "body of "+id
		return of
	}
	w.run(first)
	w.run(again("t2"))
	w.close()
	w.rewrite(func(lines []map[string]any) []map[string]any { // t2 was said and withdrawn
		lines = until("t2", "said")(lines)
		withdrawn := map[string]any{"step": "withdrawn", "turn": "t2", "at": lines[0]["at"]}
		return append(lines, withdrawn)
	})
	w.agentForgets("[continue t2]")
	w.open()
	if end := w.run(again("t3")); end.Cause != wire.TurnAnswered || end.Text != "done" {
		t.Errorf("%+v", end)
	}
	if n := w.said("[continue t3]"); n != 1 {
		t.Errorf("asked %d times to continue", n)
	}
}

// A first turn that waits for a slot when its relay ends is not lost: its session is known afterwards, and the turn can be said.
func TestWaitsThroughARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan wire.TurnEnded, 2)
	run := func(t wire.Turn) { ended <- w.RunTurn(ctx, t) }
	go run(turn("s0", "t0", "do: sleep 1h"))
	w.eventually("the first one runs", func() bool { return w.LookupTurn(turn("s0", "t0")).State == wire.TurnWorking })
	first := turn("s1", "t1", "do: say Hello")
	go run(first)
	w.eventually("the other one waits", func() bool { return w.Waiting("fake") == 1 })
	end()
	<-ended
	<-ended
	w.again()
	if found := w.LookupTurn(first); found.Known != wire.TurnKnownAbsent {
		t.Errorf("after the restart: %+v", found)
	}
	later := first
	later.ID, later.BodyHash, later.Home = "t2", "body of t2", wire.Home{}
	w.answers(later, "Hello")
}

// A turn that a crash cut off stays unknown when its agent is not listed any more, and the relay goes on.
func TestAgentIsNotListedAnyMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]entry{"fake": {}, "other": {}}, nil)
	t1 := turn("ada", "t1", "do: say Hello")
	w.answers(t1, "Hello")
	w.close()
	w.rewrite(until("t1", "said"))
	text, err := os.ReadFile(w.config.File)
	w.must(err)
	w.must(os.WriteFile(w.config.File, []byte(strings.ReplaceAll(string(text), "fake", "renamed")), 0o600))
	w.open()
	if found := w.LookupTurn(t1); found.Known != wire.TurnKnownNot {
		t.Errorf("%+v", found)
	}
	if found := w.StopTurn(t1); found.Known != wire.TurnKnownNot {
		t.Errorf("%+v", found)
	}
	if end := w.run(t1); end.Refusal != wire.RefusedUnlisted {
		t.Errorf("%+v", end)
	}
}

// A record whose last line a crash cut off goes on. Any other damage takes that session out of use and says what to do; others go on.
func TestDamagedRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	w.answers(turn("ada", "t1", "do: say Hello"), "Hello")
	path := w.recordFile()
	w.close()
	whole, err := os.ReadFile(path)
	w.must(err)
	if stat, err := os.Stat(path); err != nil || stat.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", stat, err)
	}
	for name, c := range map[string]struct {
		data    string
		refused bool
	}{
		"torn":           {string(whole) + `{"crc32":"0000`, false},
		"changed":        {strings.Replace(string(whole), "Hello", "Hallo", 1), true},
		"another file":   {"hello\n", true},
		"a line missing": {strings.Join(slices.Delete(strings.SplitAfter(string(whole), "\n"), 1, 2), ""), true},
	} {
		w.must(os.WriteFile(path, []byte(c.data), 0o600))
		w.open()
		end, found := w.run(turn("ada", "t1", "do: say Hello")), w.LookupTurn(turn("ada", "t1"))
		if c.refused && (end.Refusal != wire.RefusedUnsafe || !strings.Contains(end.Error, path) || found.Known != wire.TurnKnownNot) {
			t.Errorf("%s: %+v, %+v", name, end, found)
		}
		if !c.refused && (!end.Replayed || found.Known != wire.TurnKnownEnded) {
			t.Errorf("%s: %+v, %+v", name, end, found)
		}
		w.answers(turn("bob", fmt.Sprintf("b-%d", len(c.data)), "do: say fine"), "fine")
		w.close()
		if data, err := os.ReadFile(path); err != nil || c.refused && string(data) != c.data {
			t.Errorf("%s: the file was changed, %v", name, err)
		}
	}
	if n := w.said("[bridge t1]"); n != 1 {
		t.Errorf("said %d times", n)
	}
}
