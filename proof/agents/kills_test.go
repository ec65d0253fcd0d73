//go:build deep

package agents_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// kills is how many kills of each program the test makes: 3, or DRAWBRIDGE_KILLS.
func kills(t *testing.T) int {
	t.Helper()
	text := os.Getenv("DRAWBRIDGE_KILLS")
	if text == "" {
		return 3
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("DRAWBRIDGE_KILLS is %q", text)
	}
	return n
}

// Real agents, each in the middle of a turn while the agent, the relay or the bridge is killed. Each turn is answered by itself, or a person is asked
// what to do about it. No conversation has the words of a turn twice, and at the end each one has the words of all turns.
func TestKillsInMidTurn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"opencode", "claude-acp", "codex-acp"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProduct(t, name)
			p.w.cli("launch", "local/env", "[turn 1] Begin.", "--name", "lap")
			p.replied("lap", "[turn 1]", "All done.")
			n, asked := 1, 0
			for range kills(t) {
				for _, victim := range []string{"agent", "relay", "bridge"} {
					n++
					mark := fmt.Sprintf("[turn %d]", n)
					if !p.survives(victim, mark) {
						asked++
					}
				}
			}
			n++
			p.w.cli("say", "lap", fmt.Sprintf("[turn %d] Go on.", n))
			p.replied("lap", fmt.Sprintf("[turn %d]", n), "All done.")
			for i := range n {
				mark := fmt.Sprintf("[turn %d]", i+1)
				if times := p.model.repeated(mark); times != 1 {
					t.Errorf("one conversation has %s %d times", mark, times)
				}
			}
			t.Logf("%d kills: %d turns went on by themselves, a person was asked about %d", n-2, n-2-asked, asked)
		})
	}
}

// survives kills a program while a turn waits for the model. It reports whether the turn was answered by itself.
func (p *product) survives(victim, mark string) bool {
	p.Helper()
	release := p.model.holds()
	p.w.cli("say", "lap", mark+" Wait.")
	p.until("the turn reaches the model", func() bool { return p.model.times(mark) > 0 })
	switch victim {
	case "agent":
		if p.kill() == 0 {
			p.Error("no process of the agent was found")
		}
	case "relay":
		p.relay.crash()
		p.beginRelay()
	case "bridge":
		p.w.crash()
		p.beginBridge()
	}
	release()
	var t told
	p.until(mark+" ended", func() bool {
		t = p.turn("lap", mark)
		return t.State == "replied" || t.State == "failed" || t.State == "uncertain"
	})
	switch {
	case t.State == "replied" && strings.HasSuffix(t.Reply, "All done."): // Codex warns of an unknown model first
		return true
	case strings.Contains(t.Trouble, "continue") && strings.Contains(t.Trouble, "say-again") && strings.Contains(t.Trouble, "give-up"):
		p.w.cli("continue", t.ID)
		p.replied("lap", mark, "All done.")
	default:
		p.Fatalf("after a kill of the %s: %+v", victim, t)
	}
	return false
}
