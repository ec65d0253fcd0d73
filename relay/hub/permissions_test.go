package hub_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"drawbridge/bridge"
	"drawbridge/proof/memstore"
	"drawbridge/relay/hub"
	"drawbridge/relay/wire"
)

// curious is a relay with one question of an agent.
type curious struct {
	*script

	mu      sync.Mutex // guards what follows
	q       wire.Permission
	changed chan struct{}
	words   []wire.Permit
}

func newCurious() *curious {
	return &curious{script: newScript(echo), changed: make(chan struct{}), q: wire.Permission{
		ID: "apr_1", Hash: strings.Repeat("ab", 32), Agent: "opencode", Session: "bc-1", Turn: "t1", Kind: "execute", Tool: "bash",
		Arguments: `{"command":"make"}`, Workspace: "/w", Reason: "no rule", Bridge: true, State: wire.PermissionOpen,
	}}
}

// Permissions implements wire.PermissionAsker.
func (a *curious) Permissions() ([]wire.Permission, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return []wire.Permission{a.q}, a.changed
}

// PermissionHeard implements wire.PermissionAsker.
func (a *curious) PermissionHeard(id string, state wire.PermissionState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.q.Heard = id == a.q.ID && state == a.q.State
}

// Permit implements wire.PermissionAsker.
func (a *curious) Permit(p wire.Permit) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.words = append(a.words, p)
	if p.ID == a.q.ID && p.Hash == a.q.Hash && a.q.State == wire.PermissionOpen {
		a.q.State, a.q.Heard = wire.PermissionGiven, false
		close(a.changed)
		a.changed = make(chan struct{})
	}
	return nil
}

// ledger is what every replica records.
type ledger struct {
	mu    sync.Mutex // guards what follows
	deny  bool
	asked map[string]bridge.PermissionState
	tries int
	word  *bridge.PermissionWord
}

// PermissionAsked implements hub.Permissions.
func (l *ledger) PermissionAsked(_ context.Context, p bridge.Permission) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tries++
	if l.deny || p.Relay != "laptop" || p.Entry != "opencode" {
		return bridge.Errorf(bridge.Denied, "not hosted there")
	}
	l.asked[p.ID] = p.State
	return nil
}

// PermissionWord implements hub.Permissions.
func (l *ledger) PermissionWord(_ context.Context, relay string, ids []string) ([]bridge.PermissionWord, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.word == nil || relay != "laptop" || len(ids) != 1 || ids[0] != l.word.ID {
		return nil, nil
	}
	return []bridge.PermissionWord{*l.word}, nil
}

func (l *ledger) state(id string) bridge.PermissionState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked[id]
}

func (l *ledger) say(allow bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.word = &bridge.PermissionWord{ID: "apr_1", Hash: strings.Repeat("ab", 32), Allow: allow}
}

// TestQuestionsOfHostedAgents: a question is recorded, the word reaches the relay over whatever connection it has then, and the bridge
// hears what came of it.
func TestQuestionsOfHostedAgents(t *testing.T) {
	t.Parallel()
	l, disk := &ledger{asked: map[string]bridge.PermissionState{}}, memstore.NewDisk()
	first := siteOn(t, disk, func(o *hub.Options) { o.Permissions = l })
	path, a := joined(t, first, "laptop"), newCurious()
	stop := connect(t, path, a, nil)
	eventually(t, "the question is recorded", func() bool { return l.state("apr_1") == bridge.PermissionOpen })
	stop()
	l.say(true) // while the relay is away
	connect(t, path, a, nil)
	eventually(t, "the relay has the word, and the bridge knows", func() bool { return l.state("apr_1") == bridge.PermissionGiven })
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.words {
		if want := (wire.Permit{ID: "apr_1", Hash: strings.Repeat("ab", 32), Allow: true}); w != want {
			t.Errorf("the relay got %+v", w)
		}
	}
}

// TestQuestionsThatAreNotTaken: a question of an agent that is not the relay's is not confirmed, and the connection goes on.
func TestQuestionsThatAreNotTaken(t *testing.T) {
	t.Parallel()
	l, disk := &ledger{asked: map[string]bridge.PermissionState{}, deny: true}, memstore.NewDisk()
	s := siteOn(t, disk, func(o *hub.Options) { o.Permissions = l })
	a := newCurious()
	connect(t, joined(t, s, "laptop"), a, nil)
	eventually(t, "the question came twice", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.tries >= 2 })
	a.mu.Lock()
	heard := a.q.Heard
	a.mu.Unlock()
	if heard || l.state("apr_1") != "" {
		t.Error("a question was confirmed that was not recorded")
	}
	s.online(t, "laptop")
	l.mu.Lock()
	l.deny = false
	l.mu.Unlock()
	eventually(t, "the question is recorded later", func() bool { return l.state("apr_1") == bridge.PermissionOpen })
}
