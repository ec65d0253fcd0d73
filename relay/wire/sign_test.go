package wire_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/relay/wire"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// key returns a key pair that is the same in every run.
func key(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

func keys(list ...ed25519.PrivateKey) map[string]ed25519.PublicKey {
	out := map[string]ed25519.PublicKey{}
	for _, k := range list {
		out[wire.KeyID(public(k))] = public(k)
	}
	return out
}

func order() wire.Order {
	return wire.Order{ID: "op-1", Relay: "laptop", Created: now, For: wire.MaxAge, Ask: wire.Ask{
		Action: "backup", Line: "LOCAL_ACTION: backup", Agent: "main",
		Approved: &wire.Approval{Definition: strings.Repeat("ab", 32), By: "operator", At: now.Unix()},
	}}
}

func signed(t *testing.T, k ed25519.PrivateKey, o wire.Order) wire.Signed {
	t.Helper()
	s, err := wire.Sign(k, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func verifier(list ...ed25519.PrivateKey) wire.Verifier {
	return wire.Verifier{Relay: "laptop", Keys: keys(list...), Now: now}
}

func TestSignedRequestArrives(t *testing.T) {
	t.Parallel()
	k := key("bridge")
	got, err := verifier(k, key("older")).Verify(signed(t, k, order()))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.BodyHash) != 64 {
		t.Errorf("body hash %q", got.BodyHash)
	}
	want := wire.Request{ID: "op-1", Action: "backup", Line: "LOCAL_ACTION: backup", Agent: "main", KeyID: wire.KeyID(public(k)), BodyHash: got.BodyHash,
		Approved: order().Ask.Approved, Created: now, Expires: now.Add(wire.MaxAge)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The hash binds an id to what it asks for, and leaves out the approval, which may come later.
func TestBodyHash(t *testing.T) {
	t.Parallel()
	k := key("bridge")
	hash := func(ask wire.Ask) string {
		o := order()
		o.Ask = ask
		r, err := verifier(k).Verify(signed(t, k, o))
		if err != nil {
			t.Fatal(err)
		}
		return r.BodyHash
	}
	base := wire.Ask{Action: "a", Line: "b", Agent: "c"}
	approved := base
	approved.Approved = order().Ask.Approved
	if hash(base) != hash(approved) {
		t.Error("an approval changes the hash")
	}
	for _, other := range []wire.Ask{{Action: "b", Line: "b", Agent: "c"}, {Action: "a", Line: "bc"}, {Action: "a", Line: "c", Agent: "b"}, {Action: "a", Agent: "bc"}} {
		if hash(base) == hash(other) {
			t.Errorf("%+v has the hash of %+v", other, base)
		}
	}
}

// Every field of the envelope is under the signature.
func TestTamperedRequests(t *testing.T) {
	t.Parallel()
	k, other := key("bridge"), key("other")
	tests := map[string]func(*wire.Signed, *wire.Verifier){
		"id":                  func(s *wire.Signed, _ *wire.Verifier) { s.ID = "op-2" },
		"key":                 func(s *wire.Signed, _ *wire.Verifier) { s.Key = wire.KeyID(public(other)) },
		"unknown key":         func(s *wire.Signed, _ *wire.Verifier) { s.Key = "0123456789abcdef" },
		"no key":              func(s *wire.Signed, _ *wire.Verifier) { s.Key = "" },
		"created":             func(s *wire.Signed, _ *wire.Verifier) { s.Created++ },
		"expires":             func(s *wire.Signed, _ *wire.Verifier) { s.Expires-- },
		"body":                func(s *wire.Signed, _ *wire.Verifier) { s.Body = strings.Replace(s.Body, "backup", "format", 1) },
		"blank in the body":   func(s *wire.Signed, _ *wire.Verifier) { s.Body += " " },
		"signature":           func(s *wire.Signed, _ *wire.Verifier) { s.Sig = "A" + s.Sig[1:] },
		"no signature":        func(s *wire.Signed, _ *wire.Verifier) { s.Sig = "" },
		"cut signature":       func(s *wire.Signed, _ *wire.Verifier) { s.Sig = s.Sig[:len(s.Sig)-2] },
		"signature not text":  func(s *wire.Signed, _ *wire.Verifier) { s.Sig = "!" + s.Sig[1:] },
		"line end in the id":  func(s *wire.Signed, _ *wire.Verifier) { s.ID = "op\n-1" },
		"another relay":       func(_ *wire.Signed, v *wire.Verifier) { v.Relay = "desk" },
		"relay with line end": func(_ *wire.Signed, v *wire.Verifier) { v.Relay = "laptop\n" },
		"key not trusted":     func(_ *wire.Signed, v *wire.Verifier) { v.Keys = keys(other) },
		"no keys":             func(_ *wire.Signed, v *wire.Verifier) { v.Keys = nil },
		"other key's content": func(s *wire.Signed, v *wire.Verifier) { v.Keys = map[string]ed25519.PublicKey{s.Key: public(other)} },
	}
	for name, tamper := range tests {
		s, v := signed(t, k, order()), verifier(k, other)
		if _, err := v.Verify(s); err != nil {
			t.Fatal(err)
		}
		tamper(&s, &v)
		if r, err := v.Verify(s); err == nil {
			t.Errorf("%s: verified as %+v", name, r)
		}
	}
}

// A signature proves origin, not sense: what the true key signed is checked all the same.
func TestSignedNonsense(t *testing.T) {
	t.Parallel()
	k := key("bridge")
	tests := map[string]struct {
		change func(*wire.Order)
		now    time.Time
	}{
		"late":               {nil, now.Add(wire.MaxAge + wire.MaxSkew + time.Second)},
		"early":              {nil, now.Add(-wire.MaxSkew - time.Second)},
		"lives too long":     {func(o *wire.Order) { o.For = wire.MaxAge + time.Second }, now},
		"lives not at all":   {func(o *wire.Order) { o.For = 0 }, now},
		"lives backwards":    {func(o *wire.Order) { o.For = -time.Second }, now},
		"no action":          {func(o *wire.Order) { o.Ask.Action = "" }, now},
		"action with a path": {func(o *wire.Order) { o.Ask.Action = "../sh" }, now},
		"action with words":  {func(o *wire.Order) { o.Ask.Action = "backup --x" }, now},
		"line too long":      {func(o *wire.Order) { o.Ask.Line = strings.Repeat("x", wire.MaxLine+1) }, now},
		"name too long":      {func(o *wire.Order) { o.Ask.Agent = strings.Repeat("x", wire.MaxAgent+1) }, now},
		"approval of less":   {func(o *wire.Order) { o.Ask.Approved.Definition = "" }, now},
	}
	for name, tt := range tests {
		o := order()
		if tt.change != nil {
			tt.change(&o)
		}
		v := verifier(k)
		v.Now = tt.now
		if r, err := v.Verify(signed(t, k, o)); err == nil {
			t.Errorf("%s: verified as %+v", name, r)
		}
	}
	for _, skew := range []time.Duration{-wire.MaxSkew, wire.MaxSkew, wire.MaxAge} {
		v := verifier(k)
		v.Now = now.Add(skew)
		if _, err := v.Verify(signed(t, k, order())); err != nil {
			t.Errorf("a clock that is %s off: %v", skew, err)
		}
	}
	for _, o := range []wire.Order{{ID: "", Relay: "laptop"}, {ID: "a b", Relay: "laptop"}, {ID: "a", Relay: ""}, {ID: "a", Relay: "lap\ntop"}} {
		if s, err := wire.Sign(k, o); err == nil {
			t.Errorf("signed %+v", s)
		}
	}
}

// What a bridge with the true key might write into the body besides an action does not get by.
func TestSignedBodiesAreExact(t *testing.T) {
	t.Parallel()
	k := key("bridge")
	for _, body := range []string{
		``, `null`, `[]`, `{}`, `{"action":"a","argv":["/bin/sh"]}`, `{"action":"a","Action":"b"}`, `{"action":"a","action":"b"}`,
		`{"action":"a"}{"action":"b"}`, `{"action":["a"]}`, `{"action":"a","env":{"PATH":"/tmp"}}`, "{\"action\":\"a\xff\"}",
	} {
		s := wire.Resign(k, "laptop", wire.Signed{ID: "x", Created: now.UnixMilli(), Expires: now.UnixMilli() + 1000, Body: body})
		if r, err := verifier(k).Verify(s); err == nil {
			t.Errorf("%s: verified as %+v", body, r)
		}
	}
	good := wire.Resign(k, "laptop", wire.Signed{ID: "x", Created: now.UnixMilli(), Expires: now.UnixMilli() + 1000, Body: `{"action":"a"}`})
	if _, err := verifier(k).Verify(good); err != nil {
		t.Error(err)
	}
}

// The base string is a published contract, made of hex digits here so that a change of it fails.
func TestBaseString(t *testing.T) {
	t.Parallel()
	s := wire.Signed{ID: "op-1", Key: "k", Created: 1000, Expires: 2000, Body: `{"action":"a"}`}
	sum := sha256.Sum256([]byte(s.Body))
	want := "relay-v1\nPOST\n/run\nlaptop\nk\n1000\n2000\nop-1\n" + hex.EncodeToString(sum[:])
	if diff := cmp.Diff(want, string(wire.Base(s, "laptop"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func BenchmarkSignVerify(b *testing.B) {
	k := key("bridge")
	v := verifier(k)
	for b.Loop() {
		s, err := wire.Sign(k, order())
		if err != nil {
			b.Fatal(err)
		}
		if _, err := v.Verify(s); err != nil {
			b.Fatal(err)
		}
	}
}
