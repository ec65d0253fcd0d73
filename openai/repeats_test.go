package openai_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"drawbridge/openai"
	"drawbridge/openai/upstream"
)

// frozen stops the door's clock, so that a slow machine changes nothing.
func frozen(o *openai.Options) {
	at := time.Now()
	o.Now = func() time.Time { return at }
}

// broken records a turn of a body whose connection broke a moment ago, begun so long before.
func broken(t *testing.T, w *world, id, body string, ago time.Duration) {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	row := openai.Turn{ID: id, Session: "ses_" + id, Token: "all", Model: "m", State: openai.TurnEnded, Body: sum(body), StartedAt: now.Add(-ago), BrokenAt: now, EndedAt: now, Answer: []byte(`{"text":"first","finish":"stop"}`)}
	if err := w.records.Save(t.Context(), openai.Change{Turns: []openai.Turn{row}}); err != nil {
		t.Fatal(err)
	}
}

// TestOneRepeatForOneBreak: of several requests of the same body that come at once after a connection broke, one gets its answer, and each
// of the others is a turn of its own, whether they say that they are repeats or not.
func TestOneRepeatForOneBreak(t *testing.T) {
	t.Parallel()
	f := &fake{}
	w := newWorld(t, f, frozen)
	body := ask(false, said("user", "once"))
	broken(t, w, "chatcmpl-1", body, time.Second)
	var all sync.WaitGroup
	got := make([]string, 8)
	for i := range got {
		all.Go(func() { _, got[i] = w.post("/v1/chat/completions", body) })
	}
	all.Wait()
	if n := strings.Count(strings.Join(got, " "), `"first"`); n != 1 || f.starts() != len(got)-1 {
		t.Errorf("%d requests got the first answer, and %d began a turn: %s", n, f.starts(), got)
	}
}

// TestRepeatAfterTheClientsTimeout: clients wait ten minutes and more for an answer before they repeat.
func TestRepeatAfterTheClientsTimeout(t *testing.T) {
	t.Parallel()
	f := &fake{}
	w := newWorld(t, f)
	body := ask(false, said("user", "slow"))
	broken(t, w, "chatcmpl-1", body, 25*time.Minute)
	if status, answer := w.post("/v1/chat/completions", body, "X-Stainless-Retry-Count", "2"); status != 200 || !strings.Contains(answer, `"first"`) || f.starts() != 0 {
		t.Errorf("%d %s, %d starts", status, answer, f.starts())
	}
}

// TestARepeatedResultIsRefused: while other calls wait, the first result of a call stays.
func TestARepeatedResultIsRefused(t *testing.T) {
	t.Parallel()
	f := &fake{say: func(upstream.Request) []upstream.Event {
		return append(calls("ls", "pwd"), upstream.Event{Kind: upstream.Text, Text: "Done"}, upstream.Event{Kind: upstream.Ended, Finish: "stop"})
	}}
	w := newWorld(t, f)
	_, body := w.post("/v1/chat/completions", ask(false, said("user", "go")))
	m := read(t, body).Choices[0].Message
	result := func(n int, text string) (int, string) {
		return w.post("/v1/tool_results", fmt.Sprintf(`{"tool_call_id":%q,"content":%q,"stream":false}`, m.ToolCalls[n].ID, text))
	}
	if status, body := result(0, "one"); status != 200 || !strings.Contains(body, `"waiting"`) {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := result(0, "two"); status != 422 || !strings.Contains(body, "already_answered") {
		t.Errorf("%d %s", status, body)
	}
	if status, body := result(1, "three"); status != 200 || !strings.Contains(body, "Done") {
		t.Fatalf("%d %s", status, body)
	}
	turn := f.turns[f.started[0].Turn]
	turn.mu.Lock()
	defer turn.mu.Unlock()
	for _, r := range turn.got {
		if r.Text == "two" {
			t.Errorf("the second result of a call replaced the first: %+v", turn.got)
		}
	}
}

// TestResultsInTheMessagesEndTheCall: where the backend keeps nothing, a result counts once, by whichever of the two ways it came first.
func TestResultsInTheMessagesEndTheCall(t *testing.T) {
	t.Parallel()
	f := &fake{say: func(r upstream.Request) []upstream.Event {
		if len(r.Messages) > 1 {
			return []upstream.Event{{Kind: upstream.Text, Text: "Done"}, {Kind: upstream.Ended, Finish: "stop"}}
		}
		out := calls("ls")
		out[len(out)-1] = upstream.Event{Kind: upstream.Ended, Finish: "tool_calls"}
		return out
	}}
	w := newWorld(t, f, func(o *openai.Options) { o.Backends[0].Stateless = true })
	_, body := w.post("/v1/chat/completions", ask(false, said("user", "go")))
	id := read(t, body).Choices[0].Message.ToolCalls[0].ID
	asked := fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}]}`, id)
	if status, body := w.post("/v1/chat/completions", ask(false, said("user", "go"), asked, fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":"x"}`, id))); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := w.post("/v1/tool_results", fmt.Sprintf(`{"tool_call_id":%q,"content":"y","stream":false}`, id)); status != 422 || !strings.Contains(body, "already_answered") || f.starts() != 2 {
		t.Errorf("%d %s, %d starts", status, body, f.starts())
	}
}

// TestRateAtOnce: requests that come at once do not pass the token's rate together.
func TestRateAtOnce(t *testing.T) {
	t.Parallel()
	f := &fake{}
	w := newWorld(t, f, frozen)
	w.mint(openai.Token{Name: "three", Models: []string{"m"}, PerMinute: 3})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { w.post("/v1/chat/completions", ask(false, said("user", fmt.Sprint(i)))) })
	}
	all.Wait()
	if f.starts() != 3 {
		t.Errorf("%d turns began", f.starts())
	}
}

// TestCallWithoutArguments: its pieces together are {} in a stream, too.
func TestCallWithoutArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &fake{say: func(upstream.Request) []upstream.Event {
		return []upstream.Event{{Kind: upstream.CallPiece, ID: "a", Name: "bash"}, {Kind: upstream.Parked}}
	}})
	_, body := w.post("/v1/chat/completions", ask(true, said("user", "go")))
	if strings.Count(body, `"arguments":"{}"`) != 1 {
		t.Error(body)
	}
}
