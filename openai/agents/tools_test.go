package agents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drawbridge/bridge"
	"drawbridge/openai/upstream"
)

// bash is a tool of the caller.
var bash = upstream.Tool{Name: "bash", Description: "Run a command.", Parameters: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}}}`)}

// offer is a request with tools.
func (w *world) offer(turn string, tools ...upstream.Tool) upstream.Request {
	r := w.ask(turn, "run the tests")
	r.Tools = tools
	return r
}

// running begins a turn whose run goes on until busy is false, and returns it when it runs.
func (w *world) running(r upstream.Request) (upstream.Turn, bridge.Agent) {
	w.Helper()
	a := w.launch()
	w.busy.Store(true)
	turn := w.begin(w.agents, r)
	w.untilTurn(bridge.TurnID(turn.Ref()), bridge.TurnRunning)
	return turn, a
}

type returned struct {
	upstream.Result
	err error
}

// called has the agent call a tool, beside what goes on.
func (w *world) called(ctx context.Context, a bridge.Agent, id, name, args string) <-chan returned {
	out := make(chan returned, 1)
	go func() {
		r, err := w.tools.Call(ctx, a.ID, bridge.ToolCall{ID: id, Name: name, Args: json.RawMessage(args)})
		out <- returned{r, err}
	}()
	synctest.Wait()
	return out
}

// parked reads an answer up to its park, and returns the calls by their arguments.
func (w *world) parked(t upstream.Turn) map[string]upstream.Event {
	w.Helper()
	all, err := w.read(t)
	if err != nil || all[len(all)-1].Kind != upstream.Parked {
		w.Fatalf("%+v, %v", all, err)
	}
	calls := map[string]upstream.Event{}
	for _, e := range all {
		if e.Kind == upstream.CallPiece {
			if e.Index != len(calls) || e.ID == "" {
				w.Errorf("call %+v is the %dth", e, len(calls))
			}
			calls[e.Arguments] = e
		}
	}
	return calls
}

func (w *world) deliver(t upstream.Turn, results ...upstream.Result) {
	w.Helper()
	if err := t.Deliver(w.Context(), results); err != nil {
		w.Fatal(err)
	}
}

// TestCallersTools: an agent sees the caller's tools while its turn lasts, calls several at once, and gets each result; the answer goes on.
func TestCallersTools(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		changes := 0
		w.tools.OnChange(func() { changes++ })
		turn, a := w.running(w.offer("chatcmpl-1", bash, upstream.Tool{Name: "web fetch"}, upstream.Tool{Name: "web_fetch", Parameters: json.RawMessage(`{"type":"string"}`)}))
		if sent := w.turn(bridge.TurnID(turn.Ref())).Sent; !strings.Contains(sent, "caller_bash, caller_web_fetch, caller_web_fetch_2") {
			t.Errorf("the agent was told %q", sent)
		}
		offered, err := w.tools.Offered(w.Context(), a.ID)
		if err != nil || len(offered) != 3 || offered[0].Name != "caller_bash" || string(offered[1].Parameters) != `{"type":"object"}` || string(offered[2].Parameters) != `{"type":"object"}` {
			t.Fatalf("%+v, %v", offered, err)
		}
		one := w.called(w.Context(), a, "", "caller_bash", `{"command":"ls"}`)
		two := w.called(w.Context(), a, "", "caller_bash", `{"command":"ls"}`) // the same one, side by side: another call
		three := w.called(w.Context(), a, "", "web_fetch", "")
		all, err := w.read(turn)
		if err != nil || all[len(all)-1].Kind != upstream.Parked {
			t.Fatalf("%+v, %v", all, err)
		}
		all = slices.DeleteFunc(all, func(e upstream.Event) bool { return e.Kind != upstream.CallPiece })
		if len(all) != 3 || all[0].Name != "bash" || all[0].Arguments != `{"command":"ls"}` || all[2].Name != "web_fetch" || all[2].Arguments != "{}" || all[2].Index != 2 || all[0].ID == all[1].ID {
			t.Fatalf("%+v", all)
		}
		err = turn.Deliver(w.Context(), []upstream.Result{{CallID: all[0].ID, Text: "a"}, {CallID: "call_other", Text: "x"}})
		if e := problem(t, err); e.Status != http.StatusUnprocessableEntity {
			t.Errorf("%+v", e)
		}
		w.deliver(turn, upstream.Result{CallID: all[2].ID, Text: "not found", Failed: true}, upstream.Result{CallID: all[0].ID, Text: "a"}, upstream.Result{CallID: all[1].ID, Text: "b"})
		if e := problem(t, turn.Deliver(w.Context(), []upstream.Result{{CallID: all[0].ID, Text: "again"}})); e.Status != http.StatusUnprocessableEntity {
			t.Errorf("%+v", e)
		}
		if r := <-one; r.err != nil || r.Text != "a" {
			t.Errorf("%+v", r)
		}
		if r := <-two; r.err != nil || r.Text != "b" {
			t.Errorf("%+v", r)
		}
		if r := <-three; r.err != nil || r.Text != "not found" || !r.Failed {
			t.Errorf("%+v", r)
		}
		four := w.called(w.Context(), a, "", "caller_bash", `{"command":"ls"}`) // its result of before was taken
		for _, c := range w.parked(turn) {
			w.deliver(turn, upstream.Result{CallID: c.ID, Text: "c"})
		}
		if r := <-four; r.err != nil || r.Text != "c" {
			t.Errorf("%+v", r)
		}
		w.busy.Store(false)
		if text, _ := w.whole(turn); text != "Done." {
			t.Errorf("text %q", text)
		}
		if offered, err = w.tools.Offered(w.Context(), a.ID); err != nil || len(offered) != 0 || changes != 2 {
			t.Errorf("after the turn it sees %+v, %v, after %d changes", offered, err, changes)
		}
		if r := <-w.called(w.Context(), a, "", "caller_bash", "{}"); bridge.KindOf(r.err) != bridge.Conflict || !strings.Contains(r.err.Error(), "no caller waits") {
			t.Errorf("%+v", r)
		}
	})
}

// TestCallsThatCannotBe: each fault of a call has its own words.
func TestCallsThatCannotBe(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		turn, a := w.running(w.offer("chatcmpl-1", bash))
		for name, tt := range map[string]struct {
			tool, args string
			kind       bridge.ErrorKind
			want       string
		}{
			"unknown": {"caller_rm", "{}", bridge.NotFound, "it offers caller_bash"},
			"no JSON": {"caller_bash", "ls", bridge.Invalid, "JSON object"},
			"a list":  {"caller_bash", "[]", bridge.Invalid, "JSON object"},
		} {
			if r := <-w.called(w.Context(), a, "", tt.tool, tt.args); bridge.KindOf(r.err) != tt.kind || !strings.Contains(r.err.Error(), tt.want) {
				t.Errorf("%s: %+v", name, r)
			}
		}
		begun := time.Now()
		if r := <-w.called(w.Context(), a, "", "caller_bash", "{}"); bridge.KindOf(r.err) != bridge.Unavailable || !strings.Contains(r.err.Error(), "within 15m0s") || time.Since(begun) != 15*time.Minute {
			t.Errorf("after %s: %+v", time.Since(begun), r)
		}
		open := w.called(w.Context(), a, "", "caller_bash", `{"command":"sleep 1"}`)
		if err := turn.Cancel(w.Context()); err != nil {
			t.Fatal(err)
		}
		if r := <-open; bridge.KindOf(r.err) != bridge.Conflict {
			t.Errorf("after the caller left: %+v", r)
		}
	})
}

// TestCallEndsWithItsTurn: a call does not outlive the turn of the agent that made it. A result that comes then is taken, and the answer ends.
func TestCallEndsWithItsTurn(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		turn, a := w.running(w.offer("chatcmpl-1", bash))
		open := w.called(w.Context(), a, "", "caller_bash", `{"command":"sleep 1"}`)
		calls := w.parked(turn)
		w.busy.Store(false)
		if r := <-open; bridge.KindOf(r.err) != bridge.Conflict {
			t.Errorf("%+v", r)
		}
		for _, c := range calls {
			w.deliver(turn, upstream.Result{CallID: c.ID, Text: "late"})
		}
		if text, _ := w.whole(turn); text != "Done." {
			t.Errorf("text %q", text)
		}
	})
}

// TestCallMeetsTheFirstOne: an agent whose connection broke makes the same call again and gets the one result, also after a restart that came before or
// behind the result, and before the door took the turn up again. The caller is asked once.
func TestCallMeetsTheFirstOne(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "step 1"} {
		for _, restart := range []string{"none", "before the result", "behind the result", "before the park"} {
			t.Run(fmt.Sprintf("%q %s", id, restart), func(t *testing.T) {
				t.Parallel()
				bubble(t, func(w *world) { meets(w, id, restart) })
			})
		}
	}
}

func meets(w *world, id, restart string) {
	r := w.offer("chatcmpl-1", bash)
	turn, a := w.running(r)
	ctx, breaks := context.WithCancel(w.Context())
	first := w.called(ctx, a, id, "caller_bash", `{"command":"make"}`)
	var calls map[string]upstream.Event
	if restart != "before the park" {
		calls = w.parked(turn)
	}
	breaks()
	if got := <-first; !errors.Is(got.err, context.Canceled) {
		w.Fatalf("%+v", got)
	}
	if restart == "behind the result" {
		w.deliver(turn, upstream.Result{CallID: calls[`{"command":"make"}`].ID, Text: "built"})
	}
	var again <-chan returned
	if restart == "none" {
		again = w.called(w.Context(), a, id, "caller_bash", `{"command":"make"}`)
	} else {
		w.restart()
		again = w.called(w.Context(), a, id, "caller_bash", `{"command":"make"}`)
		var err error
		if turn, err = w.agents.Resume(w.Context(), upstream.Request{Turn: r.Turn, Session: r.Session, Token: r.Token, Model: r.Model, State: w.state}, turn.Ref()); err != nil {
			w.Fatal(err)
		}
	}
	if restart == "before the park" {
		calls = w.parked(turn)
	}
	if restart != "behind the result" {
		w.deliver(turn, upstream.Result{CallID: calls[`{"command":"make"}`].ID, Text: "built"})
	}
	if got := <-again; got.err != nil || got.Text != "built" {
		w.Errorf("%+v", got)
	}
	w.busy.Store(false)
	all, err := w.read(turn)
	if err != nil || slices.ContainsFunc(all, func(e upstream.Event) bool { return e.Kind == upstream.CallPiece }) {
		w.Errorf("then comes %+v, %v", all, err)
	}
}

// TestResultThatIsNotRecorded: a result counts when it is safe, so the agent does not get one that could be lost.
func TestResultThatIsNotRecorded(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		turn, a := w.running(w.offer("chatcmpl-1", bash))
		open := w.called(w.Context(), a, "", "caller_bash", "{}")
		id := w.parked(turn)["{}"].ID
		w.state.breakWith(errors.New("the disk is full"))
		if err := turn.Deliver(w.Context(), []upstream.Result{{CallID: id, Text: "lost"}}); err == nil {
			t.Error("it was taken")
		}
		w.state.breakWith(nil)
		w.deliver(turn, upstream.Result{CallID: id, Text: "kept"})
		if r := <-open; r.Text != "kept" {
			t.Errorf("%+v", r)
		}
		w.busy.Store(false)
		w.whole(turn)
	})
}

// TestToolsOfTheTurnAlone: two callers of one agent have their own tools, each in its turn. A request that wants no calls offers none.
func TestToolsOfTheTurnAlone(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		turn, a := w.running(w.offer("chatcmpl-1", bash))
		r := w.offer("chatcmpl-2", upstream.Tool{Name: "other"})
		r.Session, r.State = "s2", &state{}
		second := w.begin(w.agents, r)
		none := w.offer("chatcmpl-3", bash)
		none.Session, none.State, none.Choice = "s3", &state{}, "none"
		third := w.begin(w.agents, none)
		for i, want := range []string{"caller_bash", "caller_other", ""} {
			id := bridge.TurnID([]upstream.Turn{turn, second, third}[i].Ref())
			w.untilTurn(id, bridge.TurnRunning)
			offered, err := w.tools.Offered(w.Context(), a.ID)
			if got := slices.Collect(func(yield func(string) bool) {
				for _, o := range offered {
					yield(o.Name)
				}
			}); err != nil || strings.Join(got, " ") != want {
				t.Errorf("turn %d offers %q, %v", i, got, err)
			}
			w.busy.Store(false)
			w.whole([]upstream.Turn{turn, second, third}[i])
			w.busy.Store(true)
		}
		w.busy.Store(false)
	})
}
