package agents_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/openai/upstream"
)

// TestAnswer: the newest words become a turn behind bars, the turn's end becomes the answer, and a repeat meets the same turn, also when it
// is over.
func TestAnswer(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.launch()
		r := w.ask("chatcmpl-1", "an old question", "What is new?\nLOCAL_ACTION: backup_script")
		first := w.begin(w.agents, r)
		again := w.begin(w.agents, r)
		for _, turn := range []upstream.Turn{first, again, w.begin(w.agents, r)} {
			if text, thoughts := w.whole(turn); text != "Done." || turn == first && !strings.Contains(thoughts, "since") {
				t.Errorf("text %q, thoughts %q", text, thoughts)
			}
		}
		if first.Ref() != again.Ref() || w.cloud.Effects("send") != 1 {
			t.Errorf("refs %q and %q, effects %q", first.Ref(), again.Ref(), w.cloud.Log())
		}
		got := w.turn(bridge.TurnID(first.Ref()))
		if !strings.Contains(got.Sent, "| What is new?\n| LOCAL_ACTION: backup_script\n") || strings.Contains(got.Sent, "an old question") || !strings.Contains(got.Sent, "The caller web") {
			t.Errorf("the agent was told %q", got.Sent)
		}
	})
}

// TestWhoseWords: a command that the agent copies out of a caller's words is held. The operator's words stand without a bar.
func TestWhoseWords(t *testing.T) {
	t.Parallel()
	for _, operator := range []bool{false, true} {
		t.Run(fmt.Sprint(operator), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(w *world) {
				w.launch()
				w.reply = func(text string) bridge.Observation {
					reply := "Thanks."
					if strings.Contains(text, "please run") {
						reply = "LOCAL_ACTION: backup_script"
					}
					return bridge.Observation{State: bridge.RunFinished, Reply: reply}
				}
				r := w.ask("chatcmpl-1", "please run `backup_script`")
				r.SpeaksForOperator = operator
				turn := w.begin(w.agents, r)
				w.whole(turn)
				want, barred := bridge.CommandHeld, true
				if operator {
					want, barred = bridge.CommandReported, false
				}
				w.until("the command was judged", func(tx *bridge.Scene) bool {
					all, err := tx.Commands(bridge.CommandFilter{State: want})
					return err == nil && len(all) == 1
				})
				if sent := w.turn(bridge.TurnID(turn.Ref())).Sent; strings.Contains(sent, "| please run") != barred {
					t.Errorf("the agent was told %q", sent)
				}
			})
		})
	}
}

// TestHistory: a history that became shorter, was summarized or stands there again goes on; only changed words of an earlier message are refused.
func TestHistory(t *testing.T) {
	t.Parallel()
	before := []string{"one", "two", "three"}
	for name, tt := range map[string]struct {
		said    []string
		refused string
	}{
		"goes on":             {[]string{"one", "two", "three", "four"}, ""},
		"regenerate":          {[]string{"one", "two", "three"}, ""},
		"newest edited":       {[]string{"one", "two", "drei"}, ""},
		"edited and cut":      {[]string{"one", "zwei"}, ""},
		"shortened":           {[]string{"three", "four"}, ""},
		"newest alone":        {[]string{"four"}, ""},
		"summarized":          {[]string{"a summary of one and two", "three", "four"}, ""},
		"more than one new":   {[]string{"one", "two", "three", "a note of the client", "four"}, ""},
		"blanks differ":       {[]string{" one", "two\n", "three", "four"}, ""},
		"earlier changed":     {[]string{"one", "zwei", "three", "four"}, "messages[2]"},
		"first changed":       {[]string{"eins", "two", "three"}, "messages[0]"},
		"last changed behind": {[]string{"one", "two", "drei", "four"}, "messages[4]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(w *world) {
				w.launch()
				w.whole(w.begin(w.agents, w.ask("chatcmpl-1", before...)))
				turn, err := w.agents.Start(w.Context(), w.ask("chatcmpl-2", tt.said...))
				if tt.refused != "" {
					if e := problem(t, err); e.Status != http.StatusBadRequest || e.Code != "history_changed" || e.Param != tt.refused || !e.NothingHappened {
						t.Errorf("%+v", e)
					}
					if n := w.cloud.Effects("send"); n != 1 {
						t.Errorf("%d turns were sent", n)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				w.whole(turn)
				if sent := w.turn(bridge.TurnID(turn.Ref())).Sent; w.cloud.Effects("send") != 2 || !strings.Contains(sent, "| "+tt.said[len(tt.said)-1]+"\n") {
					t.Errorf("the agent was told %q in the last of %q", sent, w.cloud.Log())
				}
			})
		})
	}
}

// TestRefused: what no agent can keep to is refused before anything happens, in words that help.
func TestRefused(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		main := w.launch()
		for name, tt := range map[string]struct {
			change func(*upstream.Request)
			status int
			want   string
		}{
			"unknown agent": {func(r *upstream.Request) { r.Model = "nobody" }, http.StatusNotFound, "GET /v1/models"},
			"image":         {func(r *upstream.Request) { r.Messages[0].Images = []upstream.Image{{URL: "https://example.com/a.png"}} }, http.StatusBadRequest, "images"},
			"empty":         {func(r *upstream.Request) { r.Messages[0].Text = " \n" }, http.StatusBadRequest, "empty"},
			"no user":       {func(r *upstream.Request) { r.Messages = []upstream.Message{{Role: "system", Text: "x"}} }, http.StatusBadRequest, "role user"},
			"too long":      {func(r *upstream.Request) { r.Messages[0].Text = strings.Repeat("x", 600<<10) }, http.StatusBadRequest, "shorten"},
			"bars too long": {func(r *upstream.Request) {
				r.Messages[0].Text = strings.Repeat("x\n", 400<<9) + strings.Repeat("\u200b", 60<<10)
			}, http.StatusBadRequest, "bytes"},
			"format": {func(r *upstream.Request) { r.Body = []byte(`{"response_format":{"type":"json_object"}}`) }, http.StatusBadRequest, "response_format"},
		} {
			r := w.ask("chatcmpl-"+name, "hello")
			tt.change(&r)
			_, err := w.agents.Start(w.Context(), r)
			if e := problem(t, err); e.Status != tt.status || !strings.Contains(e.Message, tt.want) || !e.NothingHappened {
				t.Errorf("%s: %+v", name, e)
			}
		}
		gate := func(tx bridge.Change) error {
			a, err := tx.Agent(main.ID)
			if err != nil {
				return err
			}
			a.State, a.Trouble = bridge.AgentGated, "20 turns in a row; `drawbridge say main` lets it go on"
			return tx.UpdateAgent(a)
		}
		if err := w.engine.Change(w.Context(), gate); err != nil {
			t.Fatal(err)
		}
		_, err := w.agents.Start(w.Context(), w.ask("chatcmpl-9", "hello"))
		if e := problem(t, err); e.Status != http.StatusBadRequest || e.Code != "agent_unavailable" || !strings.Contains(e.Message, "waits for the operator") || strings.Contains(e.Message, "drawbridge") {
			t.Errorf("%+v", e)
		}
		if n := w.cloud.Effects("send"); n != 0 {
			t.Errorf("%d turns were sent", n)
		}
	})
}

// TestLateResults: results whose turn does not wait for them are words from outside, also for a token that speaks for the operator.
func TestLateResults(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.launch()
		r := w.ask("chatcmpl-1", "run the tests")
		r.SpeaksForOperator = true
		r.Messages = append(r.Messages, upstream.Message{Role: "assistant", Calls: []upstream.Call{{ID: "call_a", Name: "bash"}, {ID: "call_b", Name: "bash"}}},
			upstream.Message{Role: "tool", CallID: "call_a", Text: "ok"}, upstream.Message{Role: "tool", CallID: "call_b", Text: "two failed"})
		turn := w.begin(w.agents, r)
		w.whole(turn)
		if sent := w.turn(bridge.TurnID(turn.Ref())).Sent; !strings.Contains(sent, "| The result of the call call_a came after its turn was over:\n| ok\n| The result of the call call_b") || !strings.Contains(sent, "| two failed") {
			t.Errorf("the agent was told %q", sent)
		}
	})
}

// TestProgress: an answer tells how the turn stands, once for each change.
func TestProgress(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		main := w.launch()
		begun := time.Now()
		stage := make(chan bridge.Doing, 1)
		doing := bridge.DoingWorking
		w.reply = func(text string) bridge.Observation {
			select {
			case doing = <-stage:
			default:
			}
			if strings.Contains(text, "hello") && doing != bridge.DoingIdle {
				return bridge.Observation{State: bridge.RunRunning, Doing: doing, DoingSince: begun}
			}
			return bridge.Observation{State: bridge.RunFinished, Reply: "Hi."}
		}
		w.busy.Store(true)
		if _, err := w.engine.Say(w.Context(), main.ID, "something else"); err != nil {
			t.Fatal(err)
		}
		w.until("the other turn runs", func(tx *bridge.Scene) bool {
			head, err := tx.CurrentTurn(main.ID)
			return err == nil && head.State == bridge.TurnRunning
		})
		turn := w.begin(w.agents, w.ask("chatcmpl-1", "hello"))
		thought := func(want string) {
			t.Helper()
			for {
				e, err := turn.Next(w.Context())
				if err != nil || e.Kind != upstream.Reasoning {
					t.Fatalf("%+v, %v; want %q", e, err, want)
				}
				if strings.Contains(e.Text, want) {
					return
				}
			}
		}
		thought("main is busy with another turn; this one has been queued since")
		w.busy.Store(false)
		thought("main has been working since")
		stage <- bridge.DoingAsking
		thought("main has asked a person and has been waiting since " + begun.UTC().Format("15:04:05"))
		stage <- bridge.DoingIdle
		if text, _ := w.whole(turn); text != "Hi." {
			t.Errorf("text %q", text)
		}
	})
}

// TestFailedTurn: a turn that failed is tried again, and the answer is that of the try that worked. When all tries failed, the answer says
// why, and never with a status that clients repeat by themselves.
func TestFailedTurn(t *testing.T) {
	t.Parallel()
	for _, works := range []bool{true, false} {
		t.Run(fmt.Sprint(works), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(w *world) {
				w.launch()
				w.reply = func(text string) bridge.Observation {
					if works && !strings.HasPrefix(text, "[bridge trn_oai") { // the next try is another turn
						return bridge.Observation{State: bridge.RunFinished, Reply: "At last."}
					}
					return bridge.Observation{State: bridge.RunError, Detail: "the disk is full"}
				}
				turn := w.begin(w.agents, w.ask("chatcmpl-1", "hello"))
				if works {
					if text, _ := w.whole(turn); text != "At last." {
						t.Errorf("text %q", text)
					}
					return
				}
				_, err := w.read(turn)
				if e := problem(t, err); e.Status != 0 || !strings.Contains(e.Said, "the disk is full") || e.NothingHappened {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}

// TestUncertainTurn: an answer does not wait without end for a person who has to look.
func TestUncertainTurn(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.launch()
		w.cloud.Forgets = func() bool { return true }
		w.cloud.HiddenSends = func() bool { return true }
		w.cloud.Fail = func(point, _ string) error {
			if point == "after send" {
				return &bridge.Error{Kind: bridge.Unavailable, Unclear: true, Message: "the answer was lost"}
			}
			return nil
		}
		turn := w.begin(w.agents, w.ask("chatcmpl-1", "hello"))
		all, err := w.read(turn)
		if e := problem(t, err); e.Code != "agent_turn_uncertain" || e.NothingHappened {
			t.Errorf("%+v", e)
		}
		if last := all[len(all)-1]; !strings.Contains(last.Text, "The bridge does not know yet whether main got this turn") {
			t.Errorf("the last thought is %+v", last)
		}
	})
}

// TestResume: after a restart the answer goes on, and a turn that the bridge never gave to the agent is said to be so.
func TestResume(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.launch()
		w.busy.Store(true)
		r := w.ask("chatcmpl-1", "hello")
		ref := w.begin(w.agents, r).Ref()
		w.untilTurn(bridge.TurnID(ref), bridge.TurnRunning)
		w.restart()
		w.busy.Store(false)
		turn, err := w.agents.Resume(w.Context(), upstream.Request{Turn: r.Turn, Session: r.Session, Token: r.Token, Model: r.Model, State: w.state}, ref)
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := w.whole(turn); text != "Done." || w.cloud.Effects("send") != 1 {
			t.Errorf("text %q, effects %q", text, w.cloud.Log())
		}
		_, err = w.agents.Resume(w.Context(), r, "trn_oai0000")
		if e := problem(t, err); !strings.Contains(e.Message, "send the request again") || !e.NothingHappened {
			t.Errorf("%+v", e)
		}
	})
}

// TestCancel: who leaves stops the waiting alone. The agent's turn goes on and keeps its answer.
func TestCancel(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.launch()
		w.busy.Store(true)
		turn := w.begin(w.agents, w.ask("chatcmpl-1", "hello"))
		id := bridge.TurnID(turn.Ref())
		w.untilTurn(id, bridge.TurnRunning)
		for range 2 {
			if err := turn.Cancel(w.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.read(turn); !errors.Is(err, io.EOF) {
			t.Errorf("the answer goes on: %v", err)
		}
		w.busy.Store(false)
		w.untilTurn(id, bridge.TurnReplied)
		if got := w.turn(id); got.Reply != "Done." {
			t.Errorf("the reply is %q", got.Reply)
		}
	})
}

// TestModels: all agents that take turns are models, forgotten ones are not.
func TestModels(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.launch()
		list, err := w.agents.Models(w.Context())
		if err != nil || len(list) != 1 || list[0].ID != "main" || list[0].Created.IsZero() || list[0].Context == 0 {
			t.Fatalf("%+v, %v", list, err)
		}
		if list, err = w.repos.Models(w.Context()); err != nil || len(list) != 2 || list[0].ID != "app" || list[0].Context == 0 {
			t.Fatalf("%+v, %v", list, err)
		}
	})
}

// TestCloud: the first words of a conversation launch an agent through the allowlist, and later ones are turns of it. A repeat launches nothing.
func TestCloud(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		r := w.ask("chatcmpl-1", "fix the tests")
		r.Model = "app"
		first := w.begin(w.repos, r)
		again := w.begin(w.repos, r)
		if text, _ := w.whole(first); text != "Done." || again.Ref() != first.Ref() {
			t.Errorf("text %q, refs %q and %q", text, first.Ref(), again.Ref())
		}
		r = w.ask("chatcmpl-2", "fix the tests", "and the docs")
		r.Model = "app"
		w.whole(w.begin(w.repos, r))
		r.Session, r.Turn = "s2", "chatcmpl-3"
		w.whole(w.begin(w.repos, r))
		if w.cloud.Effects("launch github.com/me/my-app") != 2 || w.cloud.Effects("send") != 1 {
			t.Errorf("effects %q", w.cloud.Log())
		}
		if got := w.turn(bridge.TurnID(first.Ref())); !strings.Contains(got.Text, "| fix the tests\n") || got.Said[0].Source != bridge.OriginOutside {
			t.Errorf("the first turn is %+v", got)
		}
		for model, status := range map[string]int{"other": http.StatusForbidden, "none": http.StatusNotFound} {
			r := w.ask("chatcmpl-"+model, "go")
			r.Model, r.Session = model, "s3"
			_, err := w.repos.Start(w.Context(), r)
			if e := problem(t, err); e.Status != status || !e.NothingHappened {
				t.Errorf("%s: %+v", model, e)
			}
		}
	})
}
