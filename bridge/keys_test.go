package bridge_test

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"drawbridge/bridge"
	"drawbridge/parser"
)

func keysOf(secret byte) bridge.Keys {
	return bridge.Keys{Current: bridge.Key{ID: "k1", Secret: slices.Repeat([]byte{secret}, 32)}}
}

// operation is everything that an operation key is made from.
type operation struct {
	secret  byte
	agent   bridge.Agent
	turn    bridge.Turn
	ordinal int
	command parser.Command
}

func (o operation) key() string {
	return keysOf(o.secret).OperationKey(o.agent, o.turn, o.ordinal, o.command)
}

func plainOperation() operation {
	return operation{secret: 1, agent: bridge.Agent{ID: "agt_1", External: "bc-1"}, turn: bridge.Turn{ID: "trn_1", Run: "run-1"}, ordinal: 1,
		command: parser.Command{Verb: parser.Subagent, Line: 3, Repo: "github.com/me/my-app", Prompt: "fix it", Raw: "SUBAGENT: …"}}
}

func TestOperationKeyDependsOnEveryPart(t *testing.T) {
	t.Parallel()
	plain := plainOperation().key()
	if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(plain) {
		t.Fatalf("operation key %q, want 64 hex digits", plain)
	}
	seen := map[string]string{plain: "nothing"}
	for part, change := range map[string]func(*operation){
		"bridge key":   func(o *operation) { o.secret = 2 },
		"external id":  func(o *operation) { o.agent.External = "bc-2" },
		"no external":  func(o *operation) { o.agent.External = "" },
		"run":          func(o *operation) { o.turn.Run = "run-2" },
		"no run":       func(o *operation) { o.turn.Run = "" },
		"ordinal":      func(o *operation) { o.ordinal = 2 },
		"verb":         func(o *operation) { o.command.Verb = parser.LocalAction },
		"repo":         func(o *operation) { o.command.Repo += "2" },
		"prompt":       func(o *operation) { o.command.Prompt += " " },
		"action":       func(o *operation) { o.command.Action = "a" },
		"when":         func(o *operation) { o.command.When = "1h" },
		"message":      func(o *operation) { o.command.Message = "m" },
		"agent id":     func(o *operation) { o.command.AgentID = "bc-9" },
		"status":       func(o *operation) { o.command.Status = "FINISHED" },
		"field border": func(o *operation) { o.command.Repo, o.command.Prompt = "github.com/me/my-appfix", " it" },
		"run border":   func(o *operation) { o.agent.External, o.turn.Run = "bc-1r", "un-1" },
		"number":       func(o *operation) { o.turn.Run, o.ordinal = "run-11", 0 },
	} {
		o := plainOperation()
		change(&o)
		key := o.key()
		if other, taken := seen[key]; taken {
			t.Errorf("a change of %s gives the key of a change of %s", part, other)
		}
		seen[key] = part
	}
}

// TestOperationKeyIsStable: what may differ between two looks at the same
// command does not change its key.
func TestOperationKeyIsStable(t *testing.T) {
	t.Parallel()
	plain := plainOperation().key()
	for what, change := range map[string]func(*operation){
		"our own id of the turn":  func(o *operation) { o.turn.ID = "trn_2" }, // a restored backup
		"our own id of the agent": func(o *operation) { o.agent.ID = "agt_2" },
		"the agent's state":       func(o *operation) { o.agent.State, o.agent.Trouble = bridge.AgentFailed, "x" },
		"attempts":                func(o *operation) { o.turn.Attempts = 7 },
		"how the line was typed":  func(o *operation) { o.command.Raw, o.command.Line = "SUBAGENT:  …", 9 },
	} {
		o := plainOperation()
		change(&o)
		if o.key() != plain {
			t.Errorf("%s changes the operation key", what)
		}
	}
}

// TestOperationKeyIsInjective shifts text over the borders of the parts.
func TestOperationKeyIsInjective(t *testing.T) {
	t.Parallel()
	text := rapid.StringMatching(`[ab1:|]{0,4}`)
	draw := func(t *rapid.T) operation {
		o := operation{secret: 1, ordinal: rapid.IntRange(0, 12).Draw(t, "ordinal")}
		o.agent.External, o.turn.Run = "x"+text.Draw(t, "agent"), "x"+text.Draw(t, "run")
		o.command = parser.Command{Verb: parser.Verb(text.Draw(t, "verb")), Repo: text.Draw(t, "repo"), Prompt: text.Draw(t, "prompt"), Action: text.Draw(t, "action"), Message: text.Draw(t, "message")}
		return o
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw(t), draw(t)
		if (a.key() == b.key()) != reflect.DeepEqual(a, b) {
			t.Fatalf("same key: %t, same operation: %t\n%+v\n%+v", a.key() == b.key(), reflect.DeepEqual(a, b), a, b)
		}
	})
}

func TestExternalID(t *testing.T) {
	t.Parallel()
	shape := regexp.MustCompile(`^bc-[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for n := range 200 {
		o := plainOperation()
		o.ordinal = n
		id := bridge.ExternalID(o.key())
		if !shape.MatchString(id) || seen[id] {
			t.Fatalf("external id %q: wrong shape or seen before", id)
		}
		if id != bridge.ExternalID(o.key()) {
			t.Fatal("the same operation has two external ids")
		}
		seen[id] = true
	}
	if id := bridge.ExternalID(""); !shape.MatchString(id) {
		t.Errorf("external id of no key: %q", id)
	}
}

func TestWebhookSecret(t *testing.T) {
	t.Parallel()
	one, two := keysOf(1).Current, keysOf(2).Current
	secret := one.WebhookSecret("agt_1")
	if len(secret) < 32 || len(secret) > 256 {
		t.Errorf("a secret of %d characters; the API takes 32 to 256", len(secret))
	}
	if secret != one.WebhookSecret("agt_1") {
		t.Error("the secret of one operation changes")
	}
	if secret == one.WebhookSecret("agt_2") || secret == two.WebhookSecret("agt_1") {
		t.Error("two operations or two keys share a secret")
	}
	if strings.Contains(secret, "agt_1") || strings.Contains(secret, string(one.Secret)) {
		t.Error("the secret shows what it is made from")
	}
}

func TestKeyByID(t *testing.T) {
	t.Parallel()
	keys := bridge.Keys{Current: bridge.Key{ID: "k3"}, Old: []bridge.Key{{ID: "k2"}, {ID: "k1"}}}
	for id, want := range map[string]bool{"k1": true, "k2": true, "k3": true, "k4": false, "": false, "K1": false} {
		if got, ok := keys.ByID(id); ok != want || (ok && got.ID != id) {
			t.Errorf("key %q: %q, %t, want %t", id, got.ID, ok, want)
		}
	}
}

// TestNewID: ids are unique and sort by the time they were made, whoever makes them.
func TestNewID(t *testing.T) {
	t.Parallel()
	const makers, each = 16, 500
	shape := regexp.MustCompile(`^agt_[0-9a-hjkmnp-tv-z]{26}$`)
	made := make([][]string, makers)
	var all sync.WaitGroup
	for i := range made {
		all.Go(func() {
			for range each {
				made[i] = append(made[i], bridge.NewID("agt_"))
			}
		})
	}
	all.Wait()
	seen := map[string]bool{}
	for _, ids := range made {
		if !slices.IsSorted(ids) {
			t.Fatal("ids of one maker do not sort by the time they were made")
		}
		for _, id := range ids {
			if seen[id] || !shape.MatchString(id) {
				t.Fatalf("id %q: wrong shape or seen before", id)
			}
			seen[id] = true
		}
	}
	if first, second := bridge.NewID("trn_"), bridge.NewID("trn_"); first[:17] >= second[:17] {
		t.Errorf("the time in %q is not before that in %q", first, second)
	}
}
