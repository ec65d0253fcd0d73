package wire_test

import (
	"strings"
	"testing"
	"time"

	"drawbridge/relay/wire"
)

func nonce(t *testing.T) string {
	t.Helper()
	n, err := wire.NewNonce()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func hello(t *testing.T) wire.Hello {
	t.Helper()
	return wire.Hello{Relay: "laptop", Key: wire.KeyID(public(key("relay"))), Nonce: nonce(t), Pins: []string{wire.KeyID(public(key("bridge")))}}
}

func TestHandshake(t *testing.T) {
	t.Parallel()
	bridge, relay := key("bridge"), key("relay")
	h := hello(t)
	c := wire.Challenge{Key: wire.KeyID(public(bridge)), Nonce: nonce(t)}.Prove(bridge, h)
	p := wire.Proof{Process: "p"}.Prove(relay, h, c)
	if !c.Proved(public(bridge), h) || !p.Proved(public(relay), h, c) {
		t.Fatal("a good handshake fails")
	}
	changes := map[string]func(*wire.Hello, *wire.Challenge){
		"relay":        func(h *wire.Hello, _ *wire.Challenge) { h.Relay = "desk" },
		"relay's key":  func(h *wire.Hello, _ *wire.Challenge) { h.Key = wire.KeyID(public(bridge)) },
		"relay nonce":  func(h *wire.Hello, _ *wire.Challenge) { h.Nonce = nonce(t) },
		"pins":         func(h *wire.Hello, _ *wire.Challenge) { h.Pins = append([]string{"0123456789abcdef"}, h.Pins...) },
		"bridge nonce": func(_ *wire.Hello, c *wire.Challenge) { c.Nonce = nonce(t) },
		"bridge's key": func(_ *wire.Hello, c *wire.Challenge) { c.Key = wire.KeyID(public(relay)) },
	}
	for name, change := range changes {
		h2, c2 := h, c
		change(&h2, &c2)
		if c2.Proved(public(bridge), h2) {
			t.Errorf("%s: the challenge still fits", name)
		}
		if p.Proved(public(relay), h2, c2) {
			t.Errorf("%s: the proof still fits", name)
		}
	}
	// One end's signature is not the other's, even when both had one key.
	mirror := wire.Proof{Process: "p", Sig: c.Sig}
	same := h
	same.Key = wire.KeyID(public(bridge))
	if mirror.Proved(public(bridge), same, c) || p.Proved(public(bridge), h, c) || c.Proved(public(relay), h) {
		t.Error("a signature stands for another")
	}
	short := wire.Challenge{Key: c.Key, Nonce: "x"}.Prove(bridge, h)
	if short.Proved(public(bridge), h) {
		t.Error("a nonce that is none is taken")
	}
}

func TestNextKeys(t *testing.T) {
	t.Parallel()
	bridge, next := key("bridge"), key("bridge 2")
	k, err := wire.NewKeys(bridge, "laptop", public(next))
	if err != nil {
		t.Fatal(err)
	}
	got, err := k.Next("laptop", keys(bridge))
	if err != nil || !got.Equal(public(next)) {
		t.Fatalf("%v", err)
	}
	forged := k
	forged.Public = wire.KeyText(public(key("evil")))
	if _, err := forged.Next("laptop", keys(bridge)); err == nil {
		t.Error("another key is vouched for")
	}
	if _, err := k.Next("desk", keys(bridge)); err == nil {
		t.Error("the word for one relay counts for another")
	}
	if _, err := k.Next("laptop", keys(next)); err == nil {
		t.Error("a key vouches for itself")
	}
}

func TestJoin(t *testing.T) {
	t.Parallel()
	bridge, relay := key("bridge"), key("relay")
	token := wire.Token{ID: "0a1b", Secret: nonce(t), Bridge: public(bridge)}
	read, err := wire.ReadToken(token.String())
	if err != nil || read.String() != token.String() {
		t.Fatalf("%v, %v", read, err)
	}
	if strings.ContainsAny(token.String(), " '\"$&;|<>()`\\!*?#~=%") {
		t.Errorf("a shell would look at %s", token)
	}
	for _, bad := range []string{"", "dbj_", token.String()[1:], token.String()[:60], token.String() + "x", strings.Replace(token.String(), ".", "", 1)} {
		if _, err := wire.ReadToken(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
	j, err := wire.NewJoin(token, relay)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := j.Check(token); err != nil || !got.Equal(public(relay)) {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*wire.Join, *wire.Token){
		"token id": func(j *wire.Join, _ *wire.Token) { j.Token = "other" },
		"key":      func(j *wire.Join, _ *wire.Token) { j.Public = wire.KeyText(public(key("evil"))) },
		"nonce":    func(j *wire.Join, _ *wire.Token) { j.Nonce = nonce(t) },
		"mac":      func(j *wire.Join, _ *wire.Token) { j.MAC = "" },
		"sig":      func(j *wire.Join, _ *wire.Token) { j.Sig = "" },
		"secret":   func(_ *wire.Join, k *wire.Token) { k.Secret = nonce(t) },
		"bridge":   func(_ *wire.Join, k *wire.Token) { k.Bridge = public(key("evil")) },
	} {
		j2, k2 := j, token
		change(&j2, &k2)
		if _, err := j2.Check(k2); err == nil {
			t.Errorf("%s: changed and taken", name)
		}
	}
	d, err := wire.NewJoined(bridge, "laptop", j)
	if err != nil || !d.Proved(token, j) {
		t.Fatalf("the answer does not fit: %v", err)
	}
	other := d
	other.Relay = "desk"
	evil, _ := wire.NewJoined(key("evil"), "laptop", j)
	if other.Proved(token, j) || evil.Proved(token, j) {
		t.Error("a forged answer is taken")
	}
}

func TestRekey(t *testing.T) {
	t.Parallel()
	bridge, old, next := key("bridge"), key("relay"), key("relay 2")
	r := wire.Rekey{Relay: "laptop", Key: wire.KeyID(public(old)), Public: wire.KeyText(public(next)), Created: now.UnixMilli(),
		Pins: []string{wire.KeyID(public(bridge))}}.Prove(old, next)
	if got, err := r.Check(public(old), now); err != nil || !got.Equal(public(next)) {
		t.Fatal(err)
	}
	for _, at := range []time.Time{now.Add(31 * time.Second), now.Add(-31 * time.Second)} {
		if _, err := r.Check(public(old), at); err == nil {
			t.Errorf("taken at %s", at)
		}
	}
	for name, change := range map[string]func(*wire.Rekey){
		"relay":  func(r *wire.Rekey) { r.Relay = "desk" },
		"public": func(r *wire.Rekey) { r.Public = wire.KeyText(public(key("evil"))) },
		"sig":    func(r *wire.Rekey) { r.Sig = r.Next },
		"next":   func(r *wire.Rekey) { r.Next = r.Sig },
		"pins":   func(r *wire.Rekey) { r.Pins = nil },
	} {
		bad := r
		change(&bad)
		if _, err := bad.Check(public(old), now); err == nil {
			t.Errorf("%s: changed and taken", name)
		}
	}
	d, err := wire.NewRekeyed(bridge, r)
	if err != nil || !d.Proved(keys(bridge), r) || d.Proved(keys(next), r) {
		t.Errorf("the answer: %v", err)
	}
}
