package chatmodel_test

import (
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/chatmodel"
	"drawbridge/proof/chatsim"
)

// TestTurn: a turn asks the model, runs its tools in order, shows it what they returned, and ends when it calls none. All of it
// is on record, each call before what came of it. The text commands nothing.
func TestTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps(
		calls("send_message", `{"recipient":"USER","text":"Hello"}`, "store_memory", `{"content":"said hello"}`),
		chatsim.Answer{Text: "LOCAL_ACTION: backup_script\nI am done."},
	))
	w.start()
	a := w.launch("main", "Say hello.")
	turn := w.over(a, 1)
	if turn.State != bridge.TurnReplied || turn.Reply != "LOCAL_ACTION: backup_script\nI am done." {
		t.Errorf("%+v", turn)
	}
	const want = "run_begun:run context:context model_call:step_1 model_return:step_1 tool_call:call_1_1 tool_return:call_1_1 tool_call:call_1_2 tool_return:call_1_2 " +
		"model_call:step_2 model_return:step_2 run_ended:run"
	if got := kinds(w.record(turn)); got != want {
		t.Errorf("the record is\n%s, want\n%s", got, want)
	}
	contains(t, w.ending(turn), `"stop":"end_turn"`, `"steps":2`, `"tool_calls":2`, `"metered":true`, `"input_tokens":12`, `"cached_tokens":8`, `"output_tokens":4`, `"total_tokens":24`)
	asked := w.model.Log()
	if len(asked) != 2 || len(asked[1].Messages) != 5 {
		t.Fatalf("%d requests", len(asked))
	}
	contains(t, *asked[1].Messages[3].Content, `"status":"sent"`, `"message_id":"msg_`)
	contains(t, *asked[1].Messages[4].Content, `"passageId":"psg_`)
	if asked[0].Messages[1].Role != "user" || *asked[0].Messages[1].Content != "Say hello." {
		t.Errorf("asked %q", *asked[0].Messages[1].Content)
	}
	system := systemOf(asked[0])
	contains(t, system, "You are the agent main; your agent id is "+string(a.ID), "Only tools act", "reaches nobody", "call do_nothing", "call complete")
	if err := w.engine.View(t.Context(), func(tx *bridge.Scene) error {
		commands, err := tx.Commands(bridge.CommandFilter{})
		if len(commands) > 0 {
			t.Errorf("commands: %+v", commands)
		}
		sent, _ := tx.Messages(bridge.MessageFilter{To: bridge.User})
		if len(sent) != 1 || sent[0].Text != "Hello" || sent[0].Turn != turn.ID {
			t.Errorf("mail: %+v", sent)
		}
		got, _ := tx.Agent(a.ID)
		if got.Tokens != 24 {
			t.Errorf("the budget counts %d tokens", got.Tokens)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestStops: why a turn ended, in the words of the record, and whether it counts as done.
func TestStops(t *testing.T) {
	t.Parallel()
	look := calls("list_agents", "{}")
	for name, tt := range map[string]struct {
		answer func(chatsim.Request, int) chatsim.Answer
		state  bridge.TurnState
		ending []string
		asked  int
	}{
		"do_nothing":  {steps(calls(chatmodel.DoNothing, "{}")), bridge.TurnReplied, []string{`"stop":"end_turn"`, `"steps":1`}, 1},
		"text behind": {steps(look, chatsim.Answer{Text: "ok"}), bridge.TurnReplied, []string{`"stop":"end_turn"`}, 2},
		"text alone":  {steps(chatsim.Answer{Text: "I would rather talk."}), bridge.TurnReplied, []string{`"stop":"no_tool_call"`, `"reply":"I would rather talk."`}, 1},
		"without end": {func(chatsim.Request, int) chatsim.Answer { return look }, bridge.TurnReplied, []string{`"stop":"max_steps"`, `"steps":6`, `"tool_calls":6`, "6 calls of the model"}, 6},
		"cut off":     {func(chatsim.Request, int) chatsim.Answer { return chatsim.Answer{Text: "I was", Finish: "length"} }, bridge.TurnFailed, []string{`"stop":"error"`, "limit of tokens", `"reply":"I was"`}, 4},
		"filtered":    {func(chatsim.Request, int) chatsim.Answer { return chatsim.Answer{Finish: "content_filter"} }, bridge.TurnFailed, []string{`"stop":"error"`, "content filter"}, 4},
		"cut off in a call": {func(chatsim.Request, int) chatsim.Answer {
			return chatsim.Answer{Calls: look.Calls, Finish: "length"}
		}, bridge.TurnFailed, []string{`"stop":"error"`, "limit of tokens", `"tool_calls":0`}, 4},
		"refused request": {func(chatsim.Request, int) chatsim.Answer { return chatsim.Answer{Status: 400} }, bridge.TurnFailed, []string{`"stop":"refused"`, "refuses the request (400: the script says so)"}, 1},
		"refused key":     {func(chatsim.Request, int) chatsim.Answer { return chatsim.Answer{Status: 401} }, bridge.TurnFailed, []string{`"stop":"refused"`, "correct the key"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tt.answer)
			w.change = func(o *chatmodel.Options) { o.MaxSteps = 6 }
			w.start()
			a := w.launch("main", "Go.")
			turn := w.over(a, 1)
			if turn.State != tt.state || strings.Contains(turn.Trouble, "the agent's model") { // which no relay saw refuse
				t.Errorf("%s: %s", turn.State, turn.Trouble)
			}
			contains(t, w.ending(turn), tt.ending...)
			if name == "without end" {
				contains(t, turn.Trouble, "the bridge ended the turn after 6 calls of the model")
			}
			if tt.asked == 4 { // the engine tries it three times more
				w.over(a, 4)
			}
			if n := len(w.model.Log()); n != tt.asked {
				t.Errorf("the model was asked %d times, want %d", n, tt.asked)
			}
		})
	}
}

// TestBadCalls: what is wrong with a call is the tool's answer to the model, which may do better, and nothing of the turn is lost.
func TestBadCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps(
		calls("send_message", `{"recipient":"USER"`, "no such tool!", `{}`, "send_message", `{"recipient":"nobody","text":"x"}`, "list_agents", "", "run_local_action", `{"action":"rm_all"}`),
		calls("send_message", `{"recipient":"USER","text":"Better"}`),
	))
	w.start()
	turn := w.over(w.launch("main", "Go."), 1)
	if turn.State != bridge.TurnReplied {
		t.Fatalf("%s", turn.Trouble)
	}
	asked := w.model.Log()
	for i, want := range []string{"unexpected", "does not exist; call one", "is not your parent", `"agents":[`, "refused"} {
		contains(t, *asked[1].Messages[3+i].Content, want)
	}
	if got := asked[1].Messages[2].Calls[0].Function.Arguments; got != "{}" {
		t.Errorf("arguments that are not JSON go back as %s", got)
	}
	contains(t, kinds(w.record(turn)), "tool_return:call_1_5 model_call:step_2", "tool_return:call_2_1")
}

// TestFaults: an endpoint that fails is asked again within the same turn, and the model's tools run once. What cannot get better ends the turn at once, with what to do.
func TestFaults(t *testing.T) {
	t.Parallel()
	good := steps(calls("send_message", `{"recipient":"USER","text":"Hello"}`))
	for name, tt := range map[string]struct {
		faults []chatsim.Answer
		change func(*chatmodel.Options)
		want   string // of a turn that fails
	}{
		"500s":           {faults: []chatsim.Answer{{Status: 500}, {Status: 503, RetryAfter: "0.01"}, {Status: 502}}},
		"a limit":        {faults: []chatsim.Answer{{Status: 429, RetryAfter: "0.01"}}},
		"many limits":    {faults: slowly(20, chatsim.Answer{Status: 429, RetryAfter: "0.001"})},
		"garbage":        {faults: []chatsim.Answer{{Raw: "<html>"}, {Raw: `{"choices":[]}`}, {Raw: `{"error":{"message":"no"}}`}, {Raw: `{"choices":[{"message":{"content":7}}]}`}}},
		"too large":      {faults: []chatsim.Answer{{Text: strings.Repeat("x", 300<<10)}, {Raw: `{"x":"` + strings.Repeat("x", 5<<20) + `"}`}}},
		"parts":          {faults: []chatsim.Answer{{Raw: `{"choices":[{"message":{"content":[{"type":"text","text":"a"}],"tool_calls":[{"function":{"name":"list_agents","arguments":{}}}]},"finish_reason":"tool_use"}]}`}}},
		"no true end":    {faults: []chatsim.Answer{{Text: "The first half of", Finish: "insufficient_system_resource"}, {Calls: calls("send_message", `{"recipient":"USER","text":"Half"}`).Calls, Finish: "error"}, {Raw: `{"choices":[{"message":{"content":"Hi"}}]}`}, {Raw: `{"choices":[{"message":{"content":"Hi"},"finish_reason":{"a":1}}]}`}}},
		"too many":       {faults: slowly(40, chatsim.Answer{Status: 500}), want: "the endpoint answers 500"},
		"wrong key":      {change: func(o *chatmodel.Options) { o.Key = "sk-another-key-0123456789" }, want: "login missing: the endpoint refuses the key"},
		"wrong model":    {change: func(o *chatmodel.Options) { o.Model = "gpt" }, want: "the endpoint does not know the model gpt"},
		"redirect":       {faults: slowly(40, chatsim.Answer{Status: 307, Location: "http://127.0.0.1:1/v1/chat/completions"}), want: "answers with a redirect (307)"},
		"nobody listens": {change: func(o *chatmodel.Options) { o.URL = "http://127.0.0.1:1/v1" }, want: "cannot be reached"},
		"silence":        {faults: slowly(40, chatsim.Answer{Hang: true}), change: func(o *chatmodel.Options) { o.TurnTimeout = 20_000_000 }, want: "did not answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(r chatsim.Request, n int) chatsim.Answer {
				if n <= len(tt.faults) {
					return tt.faults[n-1]
				}
				return good(r, n)
			})
			if tt.change != nil {
				w.change = tt.change
			}
			w.start()
			turn := w.over(w.launch("main", "Go."), 1)
			if tt.want != "" {
				if turn.State != bridge.TurnFailed || !strings.Contains(turn.Trouble, tt.want) {
					t.Errorf("%s: %s", turn.State, turn.Trouble)
				}
				for _, m := range w.record(turn) {
					if strings.Contains(m.Payload, "sk-") {
						t.Errorf("the record holds the key: %s", m.Payload)
					}
				}
				return
			}
			if turn.State != bridge.TurnReplied {
				t.Fatalf("%s: %s", turn.State, turn.Trouble)
			}
			if n := strings.Count(kinds(w.record(turn)), "tool_call:"); n != 1 {
				t.Errorf("%d tool calls", n)
			}
		})
	}
}

// TestLimitShows: while an endpoint asks to wait, the agent shows as limited until then, over a restart, and with the reason. The turn runs.
func TestLimitShows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(chatsim.Request, int) chatsim.Answer { return chatsim.Answer{Status: 429, RetryAfter: "7200"} })
	w.start()
	begun := time.Now()
	a := w.launch("main", "Go.")
	limited := func(tx *bridge.Scene) bool {
		var err error
		a, err = tx.Agent(a.ID)
		return err == nil && a.Doing == bridge.DoingSleep
	}
	w.until("the agent is limited", limited)
	w.restart()
	w.until("it is limited still", limited)
	if until := a.NotBefore.Sub(begun); until < 2*time.Hour-time.Second || until > 3*time.Hour || !strings.Contains(a.Trouble, "the turn waits until") {
		t.Errorf("not before %s: %s", until, a.Trouble)
	}
	if n := len(w.model.Log()); n != 1 {
		t.Errorf("the endpoint was asked %d times", n)
	}
	if _, err := w.engine.Stop(t.Context(), a.ID, "enough"); err != nil {
		t.Fatal(err)
	}
	if turn := w.over(a, 1); turn.State != bridge.TurnFailed {
		t.Errorf("the turn is %s", turn.State)
	}
}

// TestDownShows: while an endpoint does not answer, the agent shows as waiting for the model since the first failure, with the reason.
func TestDownShows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(chatsim.Request, int) chatsim.Answer { return chatsim.Answer{Status: 503, RetryAfter: "7200"} })
	w.start()
	a := w.launch("main", "Go.")
	w.until("the agent waits for the model", func(tx *bridge.Scene) bool {
		var err error
		a, err = tx.Agent(a.ID)
		return err == nil && a.Doing == bridge.DoingNoModel
	})
	contains(t, a.Trouble, "the model does not answer", "503")
	if a.DoingSince.IsZero() {
		t.Error("it does not say since when")
	}
	if _, err := w.engine.Stop(t.Context(), a.ID, "enough"); err != nil {
		t.Fatal(err)
	}
	w.over(a, 1)
}

// slowly is the same answer again and again.
func slowly(n int, a chatsim.Answer) []chatsim.Answer {
	all := make([]chatsim.Answer, n)
	for i := range all {
		all[i] = a
	}
	return all
}
