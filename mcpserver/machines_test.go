package mcpserver_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"drawbridge/bridge"
	"drawbridge/mcpserver"
)

// machine is a relay that hosts all agents once look is set.
type machine struct {
	look atomic.Pointer[func() (string, error)]
}

// Hosts implements mcpserver.Machines.
func (m *machine) Hosts(bridge.Agent) bool { return m.look.Load() != nil }

// Uncommitted implements mcpserver.Machines.
func (m *machine) Uncommitted(context.Context, bridge.Agent) (string, error) {
	return (*m.look.Load())()
}

// File implements mcpserver.Machines.
func (m *machine) File(context.Context, bridge.Agent, string) ([]byte, error) {
	text, err := (*m.look.Load())()
	return []byte(text), err
}

// TestCompleteWithoutACommit: what is in no commit, and what nobody can look at, keeps an agent from completing until it says why. A word
// why needs no look, so that no agent is stuck.
func TestCompleteWithoutACommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = []string{mcpserver.SetTeam}
	w.launch("main")
	main := w.connect("main", newEra, "")
	for _, c := range []struct {
		left    string
		err     error
		refusal string
	}{
		{"U plan.txt", nil, "Commit it and call complete again"},
		{"", bridge.Errorf(bridge.Unavailable, "the relay is slow"), "the relay is slow"},
		{"", nil, ""},
	} {
		look := func() (string, error) { return c.left, c.err }
		w.machine.look.Store(&look)
		r := w.call(main, "complete", args{"result": "Done."})
		if r.IsError != (c.refusal != "") || r.IsError && (!strings.Contains(words(r), c.refusal) || !strings.Contains(words(r), "why_uncommitted")) {
			t.Errorf("%+v: %s", c, words(r))
		}
		good[mcpserver.MessageSent](w, main, "complete", args{"result": "Done.", "why_uncommitted": "a draft"})
	}
}

// TestFileThatTheRelayRefuses: the relay's reason reaches the agent, and nothing is handed over.
func TestFileThatTheRelayRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = []string{mcpserver.SetThreads}
	w.launch("main")
	look := func() (string, error) { return "", bridge.Errorf(bridge.Denied, "it is a link") }
	w.machine.look.Store(&look)
	r := w.call(w.connect("main", newEra, ""), "transfer_file", args{"sender_id": "main", "recipient_id": "main", "source_path": "link"})
	if !r.IsError || !strings.Contains(words(r), "it is a link") {
		t.Errorf("%s", words(r))
	}
}
