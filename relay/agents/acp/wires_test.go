package acp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"drawbridge/internal/pause"
	"drawbridge/proof/wires"
	"drawbridge/relay/agents"
	"drawbridge/relay/agents/acp"
)

// playing is how the recorded output of an agent comes to the driver.
type playing struct {
	// piece is how many bytes are written at once, 0 for a whole line.
	piece int
	// pause is how long the agent waits before each line of a turn and each answer, in the virtual time of play.
	pause time.Duration
	// cut ends the connection after so many bytes, 0 never.
	cut int
	// line changes what stands around a message, and twice writes what tells of work or answers a call once more.
	line  func(string) string
	twice bool
	// steps gets what the agent does, and spent what each turn took; nil for nobody.
	steps *[]agents.Step
	spent *[]string
}

// message is what the player looks at in a recorded line.
type message struct {
	ID     json.RawMessage
	Method string
	Result json.RawMessage
	Params struct {
		Update struct{ SessionUpdate string }
	}
}

// heldBack are updates that an agent sends in a turn alone.
var heldBack = []string{"agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update"}

// perform plays the recorded output. It waits for the request that an answer belongs to, and for the answer to each of the agent's own requests.
func perform(f *fake, lines []string, w playing) {
	written, asked := 0, 0
	write := func(text string) bool {
		if w.cut > 0 && written+len(text) > w.cut {
			text = text[:w.cut-written]
		}
		written += len(text)
		for len(text) > 0 {
			n := len(text)
			if w.piece > 0 {
				n = min(n, w.piece)
			}
			if _, err := f.conn.Write([]byte(text[:n])); err != nil {
				return false
			}
			text = text[n:]
		}
		return w.cut == 0 || written < w.cut
	}
	until := func(requests int, answer string) bool {
		for asked < requests || answer != "" {
			h, ok := f.hear()
			if !ok {
				return false
			}
			if h.Method != "" && h.ID != nil {
				asked++
			} else if string(h.ID) == answer {
				return true
			}
		}
		return true
	}
	next := func(from int) (id int) { // the request that the next answer belongs to
		for _, line := range lines[from:] {
			var m message
			if json.Unmarshal([]byte(line), &m) == nil && m.Method == "" && json.Unmarshal(m.ID, &id) == nil {
				return id
			}
		}
		return 0
	}
	for n, line := range lines {
		var m message
		_ = json.Unmarshal([]byte(line), &m)
		if m.Method != "" && m.ID != nil || m.Method == "" && m.ID != nil || slices.Contains(heldBack, m.Params.Update.SessionUpdate) {
			if !until(next(n), "") {
				return
			}
			_ = pause.For(f.t.Context(), w.pause) // the player has read what the driver wrote
		}
		if w.line != nil {
			line = w.line(line)
		}
		copies := 1
		if w.twice && m.Params.Update.SessionUpdate != "agent_message_chunk" && (m.Method == "" || m.ID == nil) {
			copies = 2
		}
		for range copies {
			if !write(line + "\n") { // the process has ended
				f.conn.Over(&agents.Error{Cause: agents.Crashed, Reason: "the agent ended"})
				return
			}
		}
		if m.Method != "" && m.ID != nil && !until(0, string(m.ID)) {
			return
		}
	}
}

// turnsOf plays the output against the driver, and returns what each turn came to.
func turnsOf(t *testing.T, lines []string, o acp.Options, w playing) (out []string) {
	yes := true
	o.Ask = func(context.Context, acp.Question) acp.Reply {
		defer func() { yes = false }()
		if yes {
			return acp.Allow
		}
		return acp.Refuse
	}
	play(t, o, func(f *fake) { perform(f, lines, w) }, func(ctx context.Context, c *acp.Conn) {
		ctx, done := context.WithTimeout(ctx, 24*time.Hour)
		defer done()
		note := func(text string, err error) bool {
			var why *agents.Error
			if err != nil && (!errors.As(err, &why) || why.Reason == "" || ctx.Err() != nil) {
				t.Errorf("%+v ends with %v, which is no clear error", w, err)
			}
			if err != nil {
				text = fmt.Sprintf("%s, and said %q", agents.CauseOf(err), text)
			}
			out = append(out, text)
			return err == nil
		}
		if _, err := c.Initialize(ctx); err != nil {
			note("", err)
			return
		}
		s, err := c.NewSession(ctx, acp.Start{Dir: "/work", Tell: func(s agents.Step) {
			if w.steps != nil {
				*w.steps = append(*w.steps, s)
			}
		}})
		if err != nil {
			note("", err)
			return
		}
		for n := range 3 {
			a, err := s.Prompt(ctx, fmt.Sprintf("[turn %d] Do it.", n+1))
			if w.spent != nil {
				*w.spent = append(*w.spent, spentText(a))
			}
			if !note(a.Text(), err) && n < 2 {
				return
			}
		}
	})
	return out
}

// TestWires: what real agents wrote is read the same however it comes: in pieces of any length, with something around each message, and with
// reports and answers that come twice. Where the wire ends in the middle, the turns before stand, and the open one fails with a reason.
func TestWires(t *testing.T) {
	t.Parallel()
	modes := map[string]string{"codex-acp": "read-only", "qwen": "default"}
	wires.Each(t, "acp", func(t *testing.T, name string, lines []string) {
		size := len(strings.Join(lines, "\n"))
		o := acp.Options{Mode: modes[name]}
		var steps []agents.Step
		var spent []string
		want := turnsOf(t, lines, o, playing{steps: &steps, spent: &spent})
		if len(want) != 3 || !strings.Contains(want[0], "schön 日本 😀.") || !strings.Contains(want[1], "größer → 日.") {
			t.Fatalf("%q", want)
		}
		t.Logf("%q", want)
		if got := strings.Join(spent, "; "); got != takes[name] {
			t.Errorf("the turns took %s, want %s", got, takes[name])
		}
		checkSteps(t, steps, want[:2], name != "gemini") // Gemini does not say what becomes of a call that a person refused
		same := func(what string, w playing) {
			t.Helper()
			var did []agents.Step
			w.steps = &did
			if got := turnsOf(t, lines, o, w); !slices.Equal(got, want) || !slices.Equal(did, steps) {
				t.Errorf("%s: %q, want %q; steps %q, want %q", what, got, want, did, steps)
			}
		}
		for _, piece := range []int{1, 2, 3, 5, 64, 1000} {
			same(fmt.Sprint("pieces of ", piece), playing{piece: piece})
		}
		same("twice", playing{twice: true})
		same("slowly", playing{pause: time.Minute})
		for around, line := range map[string]func(string) string{
			"a title":   func(l string) string { return "\x1b]0;" + name + ": ready\x07" + l },
			"colors":    func(l string) string { return "\x1b[32m" + l + "\x1b[0m" },
			"a mark":    func(l string) string { return "\ufeff" + l },
			"CR":        func(l string) string { return l + "\r" },
			"a banner":  func(l string) string { return "npm warn {deprecated} [x]\n\n" + l },
			"a timeout": func(l string) string { return l + "\n(node:7) Warning: {\"x\":1}" },
		} {
			same(around, playing{line: line, piece: 7})
		}
		for cut := 1; cut < size; cut += 61 {
			got := turnsOf(t, lines, o, playing{cut: cut})
			for n, text := range got {
				if open := n == len(got)-1; !open && text != want[n] || open && text != want[n] && !strings.HasPrefix(text, string(agents.Crashed)+", ") {
					t.Errorf("cut after %d bytes: turn %d is %s, want %s", cut, n+1, text, want[n])
				}
			}
		}
	})
}

// takes is what the three turns of each agent took, as it says, and what its session cost so far. Each answer of the scripted model counts 3 tokens in, of which codex has one from a
// cache, and 2 out. The second turn has two answers, and so has the third of Claude and Gemini. OpenCode counts the last answer alone.
var takes = map[string]string{
	"claude-acp": `{"tokens":{"input":3,"output":2},"model":"default"} {"cost_micros":65}; {"tokens":{"input":6,"output":4},"model":"default"} {"cost_micros":195}; ` +
		`{"tokens":{"input":6,"output":4},"model":"default"} {"cost_micros":325}`,
	"codex-acp": `{"tokens":{"input":2,"output":2,"cache_read":1},"model":"scripted"}; {"tokens":{"input":4,"output":4,"cache_read":2},"model":"scripted"}; ` +
		`{"tokens":{"input":2,"output":2,"cache_read":1},"model":"scripted"}`,
	"gemini":   `{"tokens":{"input":3,"output":2},"model":"auto"}; {"tokens":{"input":6,"output":4},"model":"auto"}; {"tokens":{"input":6,"output":4},"model":"auto"}`,
	"opencode": `{"tokens":{"input":3,"output":2},"model":"scripted/m"}; {"tokens":{"input":3,"output":2},"model":"scripted/m"}; {"tokens":{"input":3,"output":2},"model":"scripted/m"}`,
	"qwen": `{"tokens":{"input":3,"output":2},"model":"$runtime|openai|scripted(openai)"}; {"tokens":{"input":6,"output":4},"model":"$runtime|openai|scripted(openai)"}; ` +
		`{"tokens":{"input":3,"output":2},"model":"$runtime|openai|scripted(openai)"}`,
}

// spentText is what a turn took, and where the agent says more, what its session took so far.
func spentText(a acp.Answer) string {
	turn, _ := json.Marshal(a.Spent)
	if a.Total == nil {
		return string(turn)
	}
	total, _ := json.Marshal(a.Total)
	return string(turn) + " " + string(total)
}

// checkSteps checks what people saw of the recorded turns: every word of the answers in its order, the two commands, and that the second, which was
// refused, failed, if the agent says so.
func checkSteps(t *testing.T, steps []agents.Step, answers []string, fails bool) {
	t.Helper()
	var words, tools []string
	for _, s := range steps {
		if s.Kind == agents.StepSays {
			words = append(words, strings.Fields(s.Text)...)
			continue
		}
		tools = append(tools, fmt.Sprintf("%s %s %s", s.Kind, s.Tool, s.Text))
	}
	if said := strings.Fields(strings.Join(answers, "\n")); len(words) < len(said) || !slices.Equal(words[:len(said)], said) {
		t.Errorf("people saw the words %q, and the agent said %q", words, said)
	}
	want := []string{"uses execute echo one > /work/made0.txt", "uses execute echo one > /work/made1.txt", "fails execute echo one > /work/made1.txt"}
	if !fails {
		want = want[:2]
	}
	if !slices.Equal(tools, want) {
		t.Errorf("tools %q, want %q", tools, want)
	}
}
