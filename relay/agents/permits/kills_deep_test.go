//go:build deep

package permits_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"drawbridge/proof/acpagent"
	"drawbridge/relay/agents/permits"
	"drawbridge/relay/wire"
)

// TestKillsWhileAsking kills agent and relay by turns while a person is asked, 20 times each. The agent's own log is the oracle: each question is
// answered once, with what the person said.
func TestKillsWhileAsking(t *testing.T) {
	t.Parallel()
	dir := folder(t, "permissions: ask, ask_hold: 1s")
	kills := 40
	if sampled {
		kills = 4
	}
	want := []string{}
	for i := range kills {
		session, ask := fmt.Sprintf("s%d", i%3), fmt.Sprintf("do: ask execute make %d", i)
		killWhileAsking(t, dir, turnOf(session, fmt.Sprintf("t%d", i), ask), i%2 == 0)
		r, err := openRelay(t.Context(), dir)
		must(t, err)
		open := r.book.Pending()
		if len(open) != 1 || !strings.Contains(open[0].Permission.Arguments, fmt.Sprintf("make %d", i)) {
			t.Fatalf("kill %d: %d questions are open; want the one that was asked", i, len(open))
		}
		allow := i%4 < 2
		must(t, r.book.Decide(permits.Answer{ID: open[0].ID, Allow: allow, By: "test"}))
		end := r.RunTurn(t.Context(), turnOf(session, fmt.Sprintf("u%d", i), ask))
		word, told := "reject_once", "A person said no."
		if allow {
			word, told = "allow_once", "A person said yes."
		}
		want = append(want, word)
		if end.Cause != wire.TurnAnswered || !strings.Contains(end.Text, fmt.Sprintf("asked for make %d: %s", i, word)) {
			t.Errorf("kill %d: the next turn ended %s%s with %q %q", i, end.Cause, end.Refusal, end.Text, end.Error)
		}
		if left := len(r.book.Pending()); left != 0 {
			t.Errorf("kill %d: %d questions are open after the answer", i, left)
		}
		r.close()
		prompts := 0
		for _, l := range agentLog(t, dir) {
			if l.Event == acpagent.Prompted && strings.Contains(l.Text, fmt.Sprintf("[bridge u%d]", i)) && strings.Contains(l.Text, told) && strings.Contains(l.Text, fmt.Sprintf("make %d", i)) {
				prompts++
			}
		}
		if prompts != 1 {
			t.Errorf("kill %d: %d turns say what the person said; want 1", i, prompts)
		}
	}
	var got []string
	for _, l := range agentLog(t, dir) {
		if l.Event == acpagent.Replied && l.Text != "cancelled" {
			got = append(got, l.Text)
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the agent got %v; want %v", got, want)
	}
}

// TestEachCharacter puts each byte in each place of a command that matches.
func TestEachCharacter(t *testing.T) {
	t.Parallel()
	run := stage(t)
	stride := 1
	if sampled {
		stride = 5 // which meets quotes, separators and letters alike
	}
	for c := 0; c < 256; c += stride {
		for _, form := range []string{"maker a%sb", "maker %s", "maker %sx", "maker x%s", "maker 'a%sb'", "maker%s", "%smaker"} {
			agree(t, run, fmt.Sprintf(form, string([]byte{byte(c)})))
		}
	}
}

func TestWhatMatchesRunsAsItIsRead(t *testing.T) {
	t.Parallel()
	run := stage(t)
	random, matched := rand.New(rand.NewPCG(1, 2)), 0
	starts := []string{"gotool test", "maker", "gitlike status", "exactly run all", ""}
	most := 300 // each starts three shells
	if sampled {
		most = 110
	}
	for range 4000 {
		command := starts[random.IntN(len(starts))]
		for range random.IntN(5) {
			command += pieces[random.IntN(len(pieces))]
		}
		if matched < most && agree(t, run, command) {
			matched++
		}
	}
	if matched < 100 {
		t.Errorf("only %d commands matched a rule, so that the test shows little", matched)
	}
}
