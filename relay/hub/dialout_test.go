package hub_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"drawbridge/bridge"
	"drawbridge/proof/memstore"
	"drawbridge/relay/hub"
	"drawbridge/relay/link"
	"drawbridge/relay/wire"
)

func TestDialOut(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	path := joined(t, s, "laptop")
	m := newDiary("backup", "lock")
	connect(t, path, m, nil)
	s.online(t, "laptop")

	got, err := s.RunAction(t.Context(), ask(t, "backup", "laptop", "op-1"))
	if err != nil {
		t.Fatal(err)
	}
	want := bridge.ActionOutcome{Status: bridge.ActionExecuted, ExitCode: 3, Stdout: "out of backup", Stderr: "err", Omitted: 3, Duration: 7 * time.Millisecond, HTTPStatus: 200}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Asked again it meets the journal.
	if again, err := s.RunAction(t.Context(), ask(t, "backup", "laptop", "op-1")); err != nil || again != got || m.ran["op-1"] != 1 {
		t.Errorf("again: %+v, %v, ran %d times", again, err, m.ran["op-1"])
	}
	asked := m.requests()[0]
	if asked.Line != "LOCAL_ACTION: backup" || asked.Agent != "main" || asked.Approved != nil || asked.KeyID == "" {
		t.Errorf("the relay was asked %+v", asked)
	}
	v, err := s.RelayByName(t.Context(), "laptop")
	if err != nil {
		t.Fatal(err)
	}
	offers := []bridge.RelayOffer{{Relay: "laptop", Action: "backup", Approval: "never", Definition: strings.Repeat("d", 64)}, {Relay: "laptop", Action: "lock", Approval: "never", Definition: strings.Repeat("d", 64)}}
	if diff := cmp.Diff(offers, v.Offers); diff != "" || v.ConnectedAt.IsZero() || v.Pin != asked.KeyID {
		t.Errorf("%+v, offers (-want +got):\n%s", v, diff)
	}
}

// A refusal of the relay is an answer; what is about the moment and not the action is an error that says when to come back.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	m := newDiary("a")
	connect(t, joined(t, s, "laptop"), m, nil)
	s.online(t, "laptop")
	tests := map[wire.Refusal]struct {
		kind  bridge.ErrorKind
		wants string
	}{
		wire.RefusedUnlisted: {}, wire.RefusedDenied: {}, wire.RefusedStopped: {}, wire.RefusedUnsafe: {},
		wire.RefusedApproval: {"", "def"}, wire.RefusedBusy: {bridge.Unavailable, ""}, wire.RefusedRate: {bridge.RateLimited, ""},
		wire.RefusedConflict: {bridge.Conflict, ""}, wire.RefusedInvalid: {bridge.Invalid, ""},
	}
	for refusal, want := range tests {
		m.set("a", func(context.Context, wire.Request, func(wire.Output)) wire.Outcome {
			return wire.Outcome{Answer: wire.Refused("a", "why not"), Refusal: refusal, RetryMS: 1500, Definition: "def", Shows: "what would run"}
		})
		out, err := s.RunAction(t.Context(), ask(t, "a", "laptop", "op-1"))
		if bridge.KindOf(err) != want.kind || bridge.IsUnclear(err) || out.Wants != want.wants || err == nil && out.Shows != "what would run" {
			t.Errorf("%s: %+v, %v", refusal, out, err)
		}
		if want.kind != "" && bridge.RetryAfter(err) != 1500*time.Millisecond {
			t.Errorf("%s: retry after %s", refusal, bridge.RetryAfter(err))
		}
		if want.kind == "" && (out.Status != bridge.ActionRefused || out.HTTPStatus != 403 || out.Error != "why not") {
			t.Errorf("%s: %+v", refusal, out)
		}
	}
	m.set("a", func(context.Context, wire.Request, func(wire.Output)) wire.Outcome {
		return wire.Outcome{Answer: wire.Interrupted("a", "killed")}
	})
	if _, err := s.RunAction(t.Context(), ask(t, "a", "laptop", "op-1")); bridge.KindOf(err) != bridge.Conflict || !bridge.IsUnclear(err) {
		t.Errorf("interrupted: %v", err)
	}
}

// A relay whose clock is off refuses before it reads what it is asked for. Nothing ran, and its words say what to do.
func TestClockOff(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	m := newDiary("a")
	connect(t, joined(t, s, "laptop"), m, func(o *link.Options) { o.Now = func() time.Time { return time.Now().Add(-5 * time.Minute) } })
	s.online(t, "laptop")
	_, err := s.RunAction(t.Context(), ask(t, "a", "laptop", "op-1"))
	if bridge.KindOf(err) != bridge.Invalid || bridge.IsUnclear(err) || !strings.Contains(err.Error(), "compare the clocks") || len(m.requests()) != 0 {
		t.Errorf("%v, asked %+v", err, m.requests())
	}
}

func TestWhoIsNotThere(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), func(o *hub.Options) { o.Relays = map[string]hub.Relay{"static": {"http://127.0.0.1:1", token}} })
	joined(t, s, "laptop")
	for name, want := range map[string]bridge.ErrorKind{"laptop": bridge.Unavailable, "nobody": bridge.NotFound, "static": bridge.Unavailable} {
		_, err := s.RunAction(t.Context(), ask(t, "a", name, "op-1"))
		if bridge.KindOf(err) != want || bridge.IsUnclear(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.NewToken(t.Context(), "static", 0); bridge.KindOf(err) != bridge.Conflict {
		t.Errorf("a token for a relay of the configuration: %v", err)
	}
}

// An action that names no relay goes to the only one that offers it, and stays with that one.
func TestOnlyOneOffersIt(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	laptop, desk := newDiary("backup", "both"), newDiary("lock", "both")
	stop := connect(t, joined(t, s, "laptop"), laptop, nil)
	connect(t, joined(t, s, "desk"), desk, nil)
	s.online(t, "laptop")
	s.online(t, "desk")
	for action, want := range map[string]string{"backup": "out of backup", "lock": "out of lock"} {
		if out, err := s.RunAction(t.Context(), ask(t, action, "", "op-"+action)); err != nil || out.Stdout != want {
			t.Errorf("%s: %+v, %v", action, out, err)
		}
	}
	if _, err := s.RunAction(t.Context(), ask(t, "both", "", "op-3")); bridge.KindOf(err) != bridge.NotFound || !strings.Contains(err.Error(), "desk, laptop") {
		t.Errorf("offered twice: %v", err)
	}
	if _, err := s.RunAction(t.Context(), ask(t, "none", "", "op-4")); bridge.KindOf(err) != bridge.NotFound {
		t.Errorf("offered by nobody: %v", err)
	}
	// The desk offers the backup from now on, and the laptop is away: the first request stays with the laptop.
	stop()
	s.offline(t, "laptop")
	if _, err := s.RunAction(t.Context(), ask(t, "backup", "", "op-backup")); bridge.KindOf(err) != bridge.Unavailable || bridge.IsUnclear(err) {
		t.Errorf("asked again: %v", err)
	}
	if desk.ran["op-backup"] != 0 {
		t.Error("the request went to two relays")
	}
}

// The answer is lost after the request left: the action may have run, and asking again finds out.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	m := newDiary("a")
	began, free := make(chan struct{}, 4), make(chan struct{})
	m.set("a", func(context.Context, wire.Request, func(wire.Output)) wire.Outcome {
		began <- struct{}{}
		<-free
		return wire.Outcome{Answer: wire.Answer{Status: wire.StatusExecuted, Stdout: "done"}}
	})
	path := joined(t, s, "laptop")
	connect(t, path, m, nil)
	s.online(t, "laptop")

	// The caller gives up.
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-began; cancel() }()
	if _, err := s.RunAction(ctx, ask(t, "a", "laptop", "op-1")); !bridge.IsUnclear(err) || !errors.Is(err, context.Canceled) {
		t.Errorf("caller gone: %v", err)
	}
	// Asking again while it runs joins it, and the connection goes down: unclear again.
	result := make(chan error, 1)
	go func() {
		_, err := s.RunAction(t.Context(), ask(t, "a", "laptop", "op-1"))
		result <- err
	}()
	eventually(t, "the request is waited for", func() bool {
		v, err := s.RelayByName(t.Context(), "laptop")
		return err == nil && len(v.Running) == 1
	})
	second := connect(t, path, m, nil) // another connection of the same relay takes over
	if err := <-result; bridge.KindOf(err) != bridge.Unavailable || !bridge.IsUnclear(err) {
		t.Errorf("connection lost: %v", err)
	}
	close(free)
	eventually(t, "the journal has the answer", func() bool {
		out, err := s.RunAction(t.Context(), ask(t, "a", "laptop", "op-1"))
		return err == nil && out.Stdout == "done"
	})
	second()
	if m.ran["op-1"] != 1 {
		t.Errorf("it ran %d times", m.ran["op-1"])
	}
}

func TestRunningOutput(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	m := newDiary("a")
	free := make(chan struct{})
	m.set("a", func(_ context.Context, _ wire.Request, progress func(wire.Output)) wire.Outcome {
		progress(wire.Output{Stdout: []byte("so far"), Stderr: []byte(strings.Repeat("e", wire.MaxProgress) + "end")})
		<-free
		return wire.Outcome{Answer: wire.Answer{Status: wire.StatusExecuted}}
	})
	connect(t, joined(t, s, "laptop"), m, nil)
	s.online(t, "laptop")
	done := make(chan error, 1)
	go func() {
		_, err := s.RunAction(t.Context(), ask(t, "a", "laptop", "op-1"))
		done <- err
	}()
	var run bridge.RelayRun
	eventually(t, "output while it runs", func() bool {
		v, err := s.RelayByName(t.Context(), "laptop")
		if err != nil || len(v.Running) != 1 {
			return false
		}
		run = v.Running[0]
		return run.Stdout != ""
	})
	want := bridge.RelayRun{Request: "op-1", Action: "a", Stdout: "so far", Stderr: strings.Repeat("e", wire.MaxProgress-3) + "end"}
	if diff := cmp.Diff(want, run, cmpopts.IgnoreFields(bridge.RelayRun{}, "Since")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	close(free)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestJoinTokens(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	dir := t.TempDir()
	join := func(file string, in link.Invitation) error {
		_, err := link.Join(t.Context(), filepath.Join(dir, file), in, s.clock.now)
		return err
	}
	invite := func(name string, life time.Duration) link.Invitation {
		token, err := s.NewToken(t.Context(), name, life)
		if err != nil {
			t.Fatal(err)
		}
		in, err := link.ReadInvitation("drawbridge+" + s.url + "/" + token.Text)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	older := invite("laptop", 0)
	first := invite("laptop", 0)
	if err := join("older", older); err == nil || !strings.Contains(err.Error(), "was withdrawn") {
		t.Errorf("a token that a newer one followed: %v", err)
	}
	evil := first
	evil.Token.Secret = strings.Repeat("x", 43)
	if err := join("evil", evil); err == nil {
		t.Error("a guessed secret joins")
	}
	late := invite("late", time.Minute)
	s.clock.forward(2 * time.Minute)
	if err := join("late", late); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("an expired token: %v", err)
	}
	if err := join("laptop", first); err != nil {
		t.Fatal(err)
	}
	if err := join("laptop", first); !errors.Is(err, link.ErrJoined) {
		t.Errorf("joined twice: %v", err)
	}
	if err := join("other", first); err == nil {
		t.Error("a token works twice")
	}
	if _, err := s.NewToken(t.Context(), "laptop", 0); bridge.KindOf(err) != bridge.Conflict {
		t.Errorf("a token for a name that is taken: %v", err)
	}
	for _, name := range []string{"", "Laptop", "a b", strings.Repeat("a", 65)} {
		if _, err := s.NewToken(t.Context(), name, 0); bridge.KindOf(err) != bridge.Invalid {
			t.Errorf("a token for %q: %v", name, err)
		}
	}
	for _, name := range []string{"operator", "0perator", "the-operator", "user", "system-2", "drawbridge"} {
		if _, err := s.NewToken(t.Context(), name, 0); bridge.KindOf(err) != bridge.Invalid || !strings.Contains(err.Error(), "name the relay after its machine") {
			t.Errorf("a token for %q: %v", name, err)
		}
	}
	for _, name := range []string{"relay-2", "user-laptop", "build-system", "kims-bridge"} {
		if _, err := s.NewToken(t.Context(), name, 0); err != nil {
			t.Errorf("a token for %q: %v", name, err)
		}
	}
	for _, life := range []time.Duration{time.Second, 25 * time.Hour, -time.Minute} {
		if _, err := s.NewToken(t.Context(), "x", life); bridge.KindOf(err) != bridge.Invalid {
			t.Errorf("a token for %s: %v", life, err)
		}
	}
	if _, err := s.Revoke(t.Context(), "laptop"); err != nil {
		t.Fatal(err)
	}
	if err := join("fresh", invite("laptop", 0)); err != nil {
		t.Errorf("a token from after the relay was revoked: %v", err)
	}
	// Another bridge that got hold of the token's id cannot answer for ours.
	other := siteOn(t, memstore.NewDisk(), func(o *hub.Options) { o.Keys = bridgeKeys("key two ") })
	wrong := invite("elsewhere", 0)
	wrong.Bridge = other.url
	if err := join("elsewhere", wrong); err == nil {
		t.Error("joined another bridge")
	}
}

// The answer to a join was lost: the same key may ask again.
func TestJoinAgain(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	token, err := s.NewToken(t.Context(), "laptop", 0)
	if err != nil {
		t.Fatal(err)
	}
	in, err := link.NewInvitation(s.url, token.Text)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), link.DefaultFile)
	unheard := in
	unheard.Bridge = deaf(t, s.url)
	if _, err := link.Join(t.Context(), path, unheard, s.clock.now); err == nil {
		t.Fatal("joined without an answer")
	}
	if _, err := link.Join(t.Context(), path, in, s.clock.now); err != nil {
		t.Fatal(err)
	}
	connect(t, path, newDiary("a"), nil)
	s.online(t, "laptop")
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	path := joined(t, s, "laptop")
	stop := connect(t, path, newDiary("a"), nil)
	s.online(t, "laptop")
	for range 2 {
		v, err := s.Revoke(t.Context(), "laptop")
		if err != nil || v.State != bridge.RelayRevoked || v.Connected {
			t.Errorf("%+v, %v", v, err)
		}
	}
	if _, err := s.RunAction(t.Context(), ask(t, "a", "laptop", "op-1")); bridge.KindOf(err) != bridge.Denied {
		t.Errorf("asked a revoked relay: %v", err)
	}
	if _, err := s.RunAction(t.Context(), ask(t, "a", "", "op-2")); bridge.KindOf(err) != bridge.NotFound {
		t.Errorf("a revoked relay's offer counts: %v", err)
	}
	stop()
	if got := trouble(t, path); !strings.Contains(got, "revoked") {
		t.Errorf("a revoked relay connects: %s", got)
	}
	if _, err := s.Revoke(t.Context(), "nobody"); bridge.KindOf(err) != bridge.NotFound {
		t.Error(err)
	}
	// The name can be given to a new key; the old one stays out.
	connect(t, joined(t, s, "laptop"), newDiary("a"), nil)
	s.online(t, "laptop")
	if got := trouble(t, path); !strings.Contains(got, "not enrolled") {
		t.Errorf("the old key connects: %s", got)
	}
}

// The bridge's key changes while the relay is connected, and again while it is away; both directions go on.
func TestRotateBridge(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	path, m := joined(t, s, "laptop"), newDiary("a")
	stop := connect(t, path, m, nil)
	s.online(t, "laptop")
	keyUsed := func(id string) string {
		t.Helper()
		if _, err := s.RunAction(t.Context(), ask(t, "a", "laptop", id)); err != nil {
			t.Fatal(err)
		}
		list := m.requests()
		return list[len(list)-1].KeyID
	}
	first := keyUsed("op-1")
	before, err := s.RelayByName(t.Context(), "laptop")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := 0
	eventually(t, "the new key signs", func() bool { n++; return keyUsed("op-2-"+strings.Repeat("x", n%100)) != first })
	eventually(t, "the operator sees the new key", func() bool {
		v, err := s.RelayByName(t.Context(), "laptop")
		return err == nil && v.Pin != before.Pin && v.Connected && v.Session == before.Session
	})
	stop()
	s.offline(t, "laptop")
	second := keyOf(t, path)
	for range 2 {
		if _, err := s.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	connect(t, path, m, nil)
	s.online(t, "laptop")
	if third := keyUsed("op-3"); third == second || third == first {
		t.Error("a relay that was away does not learn the key")
	}
	i, err := link.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, now := i.KeyIDs(time.Now()); len(now) != 3 {
		t.Errorf("in the overlap %d keys count", len(now))
	}
	if _, later := i.KeyIDs(time.Now().Add(link.Overlap + time.Minute)); len(later) != 1 {
		t.Errorf("after the overlap %d keys count", len(later))
	}
}

func keyOf(t *testing.T, path string) string {
	t.Helper()
	i, err := link.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	_, bridge := i.KeyIDs(time.Now())
	return bridge[len(bridge)-1]
}

// A new bridge key in the configuration gives the relays a new signing key, as long as the old one is listed.
func TestNewBridgeKey(t *testing.T) {
	t.Parallel()
	disk := memstore.NewDisk()
	s := siteOn(t, disk, nil)
	path, m := joined(t, s, "laptop"), newDiary("a")
	s.stop()
	keys := bridgeKeys("key two ")
	keys.Old = []bridge.Key{bridgeKeys("key one ").Current}
	keys.Current.ID, keys.Old[0].ID = "two", "key "
	both := siteOn(t, disk, func(o *hub.Options) { o.Keys = keys })
	moved := func(i *link.Options, s *site) { i.URL = s.url }
	stop := connect(t, path, m, func(o *link.Options) { moved(o, both) })
	both.online(t, "laptop")
	stop()
	both.stop()
	keys.Old = nil
	alone := siteOn(t, disk, func(o *hub.Options) { o.Keys = keys })
	connect(t, path, m, func(o *link.Options) { moved(o, alone) })
	alone.online(t, "laptop")
}

func TestRotateRelay(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	path, m := joined(t, s, "laptop"), newDiary("a")
	copied := filepath.Join(t.TempDir(), "copy")
	data, err := os.ReadFile(path)
	if err = errors.Join(err, os.WriteFile(copied, data, 0o600)); err != nil {
		t.Fatal(err)
	}
	stop := connect(t, path, m, nil)
	s.online(t, "laptop")
	before, err := link.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	after, err := link.Rotate(t.Context(), path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if before.Key.Equal(after.Key) || after.Next != nil {
		t.Error("the key did not change")
	}
	if _, err := s.RunAction(t.Context(), ask(t, "a", "laptop", "op-1")); err != nil {
		t.Errorf("the connection that was there: %v", err)
	}
	// Until the new key is used, the old one works; from then on it is refused. Asking for another key uses it, too.
	stop()
	s.offline(t, "laptop")
	stopOld := connect(t, copied, m, nil)
	s.online(t, "laptop")
	stopOld()
	s.offline(t, "laptop")
	connect(t, path, m, nil)
	s.online(t, "laptop")
	if got := trouble(t, copied); !strings.Contains(got, "not enrolled") {
		t.Errorf("the old key still works: %s", got)
	}
	for range 2 {
		if _, err := link.Rotate(t.Context(), path, time.Now); err != nil {
			t.Errorf("twice without a connection between: %v", err)
		}
	}
	connect(t, path, m, nil) // takes over
	eventually(t, "the newest key is in use", func() bool {
		v, err := s.RelayByName(t.Context(), "laptop")
		i, _ := loaded(t, path)
		return err == nil && v.NextKey == "" && v.Key == wire.KeyText(i.Key.Public().(ed25519.PublicKey))
	})
}

func TestDoorKeepsWebPagesOut(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	upgrade := func() http.Header {
		return http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}, "Sec-Websocket-Protocol": {wire.Subprotocol}}
	}
	if got := get(t, s.url+wire.ConnectPath, upgrade()); got != http.StatusSwitchingProtocols {
		t.Fatalf("a relay gets %d", got)
	}
	for name, value := range map[string]string{"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "websocket"} {
		h := upgrade()
		h.Set(name, value)
		if got := get(t, s.url+wire.ConnectPath, h); got != http.StatusForbidden {
			t.Errorf("%s: %d", name, got)
		}
	}
	for path, want := range map[string]int{wire.ConnectPath: http.StatusUpgradeRequired, wire.ConnectPath + "?a=b": 400, "/relay/": 404, wire.JoinPath: 405, wire.RekeyPath: 405, "/relay/connect/": 404} {
		if got := get(t, s.url+path, nil); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}
