package chatmodel_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"drawbridge/bridge"
	"drawbridge/chatmodel"
	"drawbridge/proof/chatsim"
)

// onceEach checks what the turn of TestKilledAnywhere did.
func (w *world) onceEach(turn bridge.Turn) {
	w.Helper()
	all := kinds(w.record(turn))
	for _, once := range []string{"run_begun:run", "context:context", "run_ended:run", "tool_return:call_1_1", "tool_return:call_1_2", "tool_return:call_2_1", "tool_return:call_2_2", "tool_return:call_3_1"} {
		if n := strings.Count(all, once); n != 1 {
			w.Errorf("%s stands %d times in the record: %s", once, n, all)
		}
	}
	unsure := 0
	for _, m := range w.record(turn) {
		if m.Kind == bridge.ToolReturnMessage && strings.Contains(m.Payload, "may have happened") {
			if unsure++; m.Name != "store_memory" {
				w.Errorf("%s: %s", m.Name, m.Payload)
			}
		}
	}
	if err := w.engine.View(w.Context(), func(tx *bridge.Scene) error {
		sent, err := tx.Messages(bridge.MessageFilter{To: bridge.User})
		if err != nil || len(sent) != 2 {
			w.Errorf("%d messages: %+v", len(sent), sent)
		}
		reminders, err := tx.Commands(bridge.CommandFilter{Agent: turn.Agent})
		if len(reminders) != 1 {
			w.Errorf("%d reminders", len(reminders))
		}
		noted, _ := tx.CountPassages(turn.Agent)
		if noted != 1 && (unsure != 1 || noted > 1) {
			w.Errorf("%d passages, unsure %d", noted, unsure)
		}
		ends, _ := tx.Completions(turn.Agent)
		if len(ends) != 1 {
			w.Errorf("%d completions", len(ends))
		}
		return err
	}); err != nil {
		w.Fatal(err)
	}
}

// TestTwoReplicas: two processes on one database play one turn once.
func TestTwoReplicas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps(calls("send_message", `{"recipient":"USER","text":"one"}`), calls("send_message", `{"recipient":"USER","text":"two"}`)))
	w.start()
	first := w.life
	w.start()
	second := w.life
	first.peer.Store(second)
	second.peer.Store(first)
	t.Cleanup(first.stop)
	var agents []bridge.Agent
	for i := range 5 {
		agents = append(agents, w.launch(fmt.Sprintf("main%d", i), "Go."))
		first.engine.Wake()
	}
	for _, a := range agents {
		if turn := w.over(a, 1); turn.State != bridge.TurnReplied {
			t.Errorf("%s", turn.Trouble)
		}
	}
	if err := second.engine.View(t.Context(), func(tx *bridge.Scene) error {
		sent, err := tx.Messages(bridge.MessageFilter{To: bridge.User})
		if len(sent) != 10 {
			t.Errorf("%d messages", len(sent))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if n := len(w.model.Log()); n != 15 {
		t.Errorf("the model was asked %d times, want 15", n)
	}
}

// TestStopped: a bridge that stops in the middle of a call of the model leaves the turn to the next one, which asks again.
func TestStopped(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 100)
	hang := true
	var mu sync.Mutex
	w := newWorld(t, func(r chatsim.Request, n int) chatsim.Answer {
		asked <- struct{}{}
		mu.Lock()
		defer mu.Unlock()
		return chatsim.Answer{Hang: hang, Text: "Done."}
	})
	w.start()
	a := w.launch("main", "Go.")
	<-asked
	mu.Lock()
	hang = false
	mu.Unlock()
	w.restart()
	turn := w.over(a, 1)
	contains(t, kinds(w.record(turn)), "model_call:step_1 model_call:step_1_2 model_return:step_1 run_ended:run")
}

// TestCancelled: the operator's stop ends a turn in the middle of a call of the model, and nothing of its answer runs.
func TestCancelled(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 100)
	w := newWorld(t, func(chatsim.Request, int) chatsim.Answer {
		asked <- struct{}{}
		return chatsim.Answer{Hang: true}
	})
	w.start()
	a := w.launch("main", "Go.")
	<-asked
	if _, err := w.engine.Stop(t.Context(), a.ID, "enough"); err != nil {
		t.Fatal(err)
	}
	turn := w.over(a, 1)
	if turn.Status != bridge.RunCancelled {
		t.Errorf("%s %s", turn.Status, turn.Trouble)
	}
	contains(t, w.ending(turn), `"stop":"cancelled"`)
	w.until("the work is gone", func(tx *bridge.Scene) bool {
		works := 0
		for _, m := range w.record(turn) {
			if m.Kind == bridge.RunEndedMessage {
				works++
			}
		}
		return works == 1
	})
}

// TestGoneRuntime: the turns of a runtime that the configuration lost wait, and go on when it is back.
func TestGoneRuntime(t *testing.T) {
	t.Parallel()
	gone := chatmodel.Runtimes{}
	w := newWorld(t, steps())
	w.start()
	turn := w.over(w.launch("main", "Go."), 1)
	work := bridge.Work{Ref: string(turn.ID)}
	if err := gone.Work(t.Context(), lateSteps{w.life}, work); err == nil { // it is over, and the work is nobody's
		t.Error("work that nobody holds was finished")
	}
}
