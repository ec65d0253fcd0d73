package runner_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/relay/runner"
	"drawbridge/relay/runner/approval"
	"drawbridge/relay/runner/audit"
	"drawbridge/relay/runner/control"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/settings"
	"drawbridge/relay/wire"
)

// recorder is an executor that runs nothing and remembers what it was told to run.
type recorder struct {
	mu       sync.Mutex
	commands []keeper.Command
}

func (r *recorder) Run(_ context.Context, c keeper.Command) (keeper.End, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commands = append(r.commands, c)
	return keeper.End{}, nil
}

func (*recorder) String() string { return "recorder" }

// handled is a relay without a door, an audit log, and a desk.
type handled struct {
	*runner.Relay
	config settings.Config
	desk   *approval.Desk
	audit  string
}

func handle(t *testing.T, actions string, executor runner.Executor) handled {
	t.Helper()
	dir := t.TempDir()
	config, err := settings.Load(write(t, filepath.Join(dir, "relay.yaml"), "listen: none\n"+actions, 0o600), noEnv)
	must(t, err)
	h := handled{config: config, audit: filepath.Join(dir, runner.AuditName)}
	log, err := audit.Open(h.audit, time.Now, nil)
	must(t, err)
	t.Cleanup(func() { must(t, log.Close()) })
	h.desk, err = approval.Open(approval.Options{Path: filepath.Join(dir, "approvals"), Now: time.Now, Wait: config.Limits.ApprovalWait})
	must(t, err)
	h.Relay, err = runner.Listen(t.Context(), runner.Options{
		Config: config, Executor: executor, Audit: log, Desk: h.desk, Key: []byte("key"), Log: zerolog.Nop(),
	})
	must(t, err)
	return h
}

func (h handled) ask(t *testing.T, r wire.Request) wire.Outcome {
	t.Helper()
	out, err := h.Run(t.Context(), r, nil)
	must(t, err)
	return out
}

// A web page can send many things to an address of the machine, and none is let in.
func TestWebPages(t *testing.T) {
	t.Parallel()
	relay := serveActions(t, hello)
	port := relay.addr[strings.LastIndex(relay.addr, ":"):]
	var variants []call
	for _, host := range []string{
		"localhost" + port, "evil.example", "evil.example" + port, "127.0.0.1", "127.0.0.1:1", "127.1" + port, "2130706433" + port, "0x7f.1" + port,
		"[::1]" + port, "0.0.0.0" + port, "127.0.0.1.nip.io" + port, "LOCALHOST" + port, "127.0.0.1" + port + ".", "127.0.0.2" + port, "localhost.", "a@127.0.0.1" + port,
	} {
		variants = append(variants, call{host: host})
	}
	for name, values := range map[string][]string{
		"Origin":         {"http://evil.example", "null", "http://127.0.0.1" + port, "http://localhost", "file://", "chrome-extension://x", "", "https://127.0.0.1"},
		"Sec-Fetch-Site": {"same-origin", "cross-site", "none", "same-site", ""},
		"Sec-Fetch-Mode": {"navigate", "cors", "no-cors", "websocket", "same-origin"},
		"Sec-Fetch-Dest": {"empty", "document", "iframe", "script"},
		"Sec-Fetch-User": {"?1"},
	} {
		for _, value := range values {
			variants = append(variants, call{header: http.Header{name: {value}}}, call{method: http.MethodOptions, header: http.Header{name: {value}}})
		}
	}
	for i, c := range variants {
		if c.body = `{"action":"hello"}`; c.method == http.MethodOptions {
			c.body = ""
		}
		if got := relay.call(c); got.status != 403 || got.answer.Status != wire.StatusRefused || got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("variant %d, %s host %q %v: HTTP %d %s", i, c.method, c.host, c.header, got.status, got.body)
		}
	}
	if len(variants) < 50 {
		t.Errorf("only %d variants", len(variants))
	}
	// What a form or a beacon can send without a preflight is no request either.
	for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "text/json", "application/json, text/plain"} {
		if got := relay.call(call{body: `{"action":"hello"}`, header: http.Header{"Content-Type": {media}}}); got.status != 415 {
			t.Errorf("%q: HTTP %d", media, got.status)
		}
	}
}

// An id stands for one body: the same action for another agent or line is another request.
func TestOtherBody(t *testing.T) {
	t.Parallel()
	rec := &recorder{}
	h := handle(t, "actions:\n"+hello, rec)
	first := wire.Request{ID: "1", Action: "hello", BodyHash: strings.Repeat("a", 64)}
	if out := h.ask(t, first); out.Status != wire.StatusExecuted || out.Replayed {
		t.Errorf("first: %+v", out)
	}
	if out := h.ask(t, first); out.Status != wire.StatusExecuted || !out.Replayed {
		t.Errorf("again: %+v", out)
	}
	second := first
	second.BodyHash = strings.Repeat("b", 64)
	if out := h.ask(t, second); out.Refusal != wire.RefusedConflict {
		t.Errorf("another body: %+v", out)
	}
	if len(rec.commands) != 1 || !strings.Contains(auditText(t, h), `"event":"alarm","request":"1","action":"hello"`) {
		t.Errorf("%d ran; audit:\n%s", len(rec.commands), auditText(t, h))
	}
}

func auditText(t *testing.T, h handled) string {
	t.Helper()
	text, err := os.ReadFile(h.audit)
	must(t, err)
	return string(text)
}

// The operator's word at the bridge counts where the relay's own file says so, and for the definition that he saw.
func TestApprovalAtTheBridge(t *testing.T) {
	t.Parallel()
	rec := &recorder{}
	secret := write(t, filepath.Join(t.TempDir(), "secret"), "hunter2-hunter2", 0o600)
	h := handle(t, `
limits: { approval_wait: 1ms }
actions:
  here:   { argv: [/bin/echo, 1], approval: each }
  there:  { argv: [/bin/echo, 2, "${file:`+secret+`}", "\u202e"], env: { A: b }, approval: each, approve_by: bridge }
  long:   { argv: [/bin/echo, `+strings.Repeat("x", wire.MaxShows)+`], approval: each, approve_by: bridge }
  either: { argv: [/bin/echo, 3], approval: each, approve_by: either }
`, rec)
	definitions, shows := map[string]string{}, map[string]string{}
	places := map[string]string{"here": wire.AtMachine, "there": wire.AtBridge, "long": wire.AtBridge, "either": wire.AtEither}
	for _, offer := range h.Offers() {
		definitions[offer.Action] = offer.Definition
		if offer.Approval != "each" || offer.Bridge != (offer.Action != "here") || offer.ApproveBy != places[offer.Action] || len(offer.Definition) != 64 || offer.Bridge != (offer.Shows != "") {
			t.Errorf("offers %+v", offer)
		}
		shows[offer.Action] = offer.Shows
	}
	n := 0
	ask := func(action string, approved *wire.Approval) wire.Outcome {
		n++
		return h.ask(t, wire.Request{ID: fmt.Sprint(n), Action: action, Approved: approved})
	}
	if out := ask("there", nil); out.Refusal != wire.RefusedApproval || out.Definition != definitions["there"] {
		t.Errorf("not approved: %+v", out)
	}
	for _, action := range []string{"there", "either"} {
		if out := ask(action, &wire.Approval{Definition: definitions[action]}); out.Status != wire.StatusExecuted {
			t.Errorf("approved: %+v", out)
		}
	}
	if out := ask("here", &wire.Approval{Definition: definitions["here"]}); out.Refusal != wire.RefusedDenied {
		t.Errorf("approved at the bridge, but only a word at the machine counts: %+v", out)
	}
	if out := ask("there", &wire.Approval{Definition: definitions["either"]}); out.Refusal != wire.RefusedApproval {
		t.Errorf("approved for another definition: %+v", out)
	}
	if out := ask("there", &wire.Approval{}); out.Refusal != wire.RefusedApproval {
		t.Errorf("approved for nothing: %+v", out)
	}
	if len(rec.commands) != 2 {
		t.Errorf("%d ran", len(rec.commands))
	}
	if out := ask("there", nil); out.Shows != `it would run "/bin/echo" "2" "[redacted]" "\u202e" in /, environment PATH A, sandbox none` || shows["there"] != out.Shows {
		t.Errorf("the operator sees %s, and before %s", out.Shows, shows["there"])
	}
	if out := ask("long", nil); !strings.Contains(out.Shows, "too long") || len(out.Shows) > wire.MaxShows || shows["long"] != out.Shows {
		t.Errorf("the operator sees %s, and before %s", out.Shows, shows["long"])
	}
	// The same id may come again with the word that was missing.
	if out := h.ask(t, wire.Request{ID: "late", Action: "there"}); out.Refusal != wire.RefusedApproval {
		t.Errorf("%+v", out)
	}
	if out := h.ask(t, wire.Request{ID: "late", Action: "there", Approved: &wire.Approval{Definition: definitions["there"]}}); out.Status != wire.StatusExecuted {
		t.Errorf("%+v", out)
	}
}

// The tail comes while the action runs, without its secrets.
func TestProgress(t *testing.T) {
	t.Parallel()
	pipe := fifo(t)
	h := handle(t, "redact: [ { pattern: 'pin-\\d+' } ]\nactions:\n"+shell("a", "echo pin-1234; echo begun; cat "+pipe), newPool(t, true))
	seen := make(chan wire.Output, 100)
	finished := make(chan wire.Outcome, 1)
	go func() {
		out, err := h.Run(context.WithoutCancel(t.Context()), wire.Request{ID: "1", Action: "a"}, func(o wire.Output) { seen <- o })
		if err != nil {
			t.Error(err)
		}
		finished <- out
	}()
	// A look may come when only a part is written; the next one shows all of it.
	const begun = "[redacted]\nbegun\n"
	for got := ""; got != begun; {
		o := <-seen
		if got = string(o.Stdout); !strings.HasPrefix(begun, got) || len(o.Stderr) != 0 {
			t.Errorf("progress %q", o)
			break
		}
	}
	must(t, os.WriteFile(pipe, []byte("end\n"), 0o600))
	if out := <-finished; out.Stdout != "[redacted]\nbegun\nend\n" {
		t.Errorf("%+v", out)
	}
}

// An action that its owner calls idempotent may run again when nobody knows whether it did.
func TestIdempotentRunsAgain(t *testing.T) {
	t.Parallel()
	for _, idempotent := range []bool{false, true} {
		dir := t.TempDir()
		path := filepath.Join(dir, "journal")
		j := openJournal(t, path)
		if _, err := j.Begin(t.Context(), runner.Claim{ID: "1", Action: "a"}); err != nil {
			t.Fatal(err)
		}
		j = reopen(t, j, path)
		rec := &recorder{}
		text := fmt.Sprintf("listen: none\nactions: { a: { argv: [/bin/true], idempotent: %t } }\n", idempotent)
		config, err := settings.Load(write(t, filepath.Join(dir, "relay.yaml"), text, 0o600), noEnv)
		must(t, err)
		relay, err := runner.Listen(t.Context(), runner.Options{Config: config, Executor: rec, Journal: j})
		must(t, err)
		out, err := relay.Run(t.Context(), wire.Request{ID: "1", Action: "a"}, nil)
		must(t, err)
		want := map[bool]wire.Status{false: wire.StatusInterrupted, true: wire.StatusExecuted}[idempotent]
		if out.Status != want || len(rec.commands) != map[bool]int{true: 1}[idempotent] {
			t.Errorf("idempotent %t: %+v, %d ran", idempotent, out, len(rec.commands))
		}
		again, err := relay.Run(t.Context(), wire.Request{ID: "1", Action: "a"}, nil)
		must(t, err)
		if again.Status != want || !again.Replayed || len(rec.commands) > 1 {
			t.Errorf("idempotent %t, again: %+v, %d ran", idempotent, again, len(rec.commands))
		}
	}
}

// paused is a recorder whose programs end when the test says so.
type paused struct {
	recorder
	end chan struct{}
}

func (h *paused) Run(ctx context.Context, c keeper.Command) (keeper.End, error) {
	defer func() { <-h.end }()
	return h.recorder.Run(ctx, c)
}

// A request may wait for another one of its action, and its program is digested when it is about to start.
func TestProgramChangesWhileTheRequestWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		program := write(t, filepath.Join(t.TempDir(), "program"), "#!/bin/true\n", 0o700)
		digest := fmt.Sprintf("%x", sha256.Sum256([]byte("#!/bin/true\n")))
		executor := &paused{end: make(chan struct{})}
		h := handle(t, fmt.Sprintf("actions: { a: { argv: [%q], sha256: %s } }", program, digest), executor)
		ask := func(id string) <-chan wire.Outcome {
			out := make(chan wire.Outcome, 1)
			go func() { out <- h.ask(t, wire.Request{ID: id, Action: "a"}) }()
			synctest.Wait()
			return out
		}
		runs, waits := ask("first"), ask("second")
		write(t, program, "#!/bin/false", 0o700)
		close(executor.end)
		if first := <-runs; first.Status != wire.StatusExecuted {
			t.Errorf("the first: %+v", first)
		}
		if second := <-waits; second.Refusal != wire.RefusedUnsafe || len(executor.commands) != 1 {
			t.Errorf("the second: %+v, %d ran", second, len(executor.commands))
		}
	})
}

// A word at the bridge lasts as long as one at the machine would, over a restart too, and for one definition.
func TestApprovalAtTheBridgeLasts(t *testing.T) {
	t.Parallel()
	for _, by := range []string{settings.AtBridge, settings.AtEither} {
		synctest.Test(t, func(t *testing.T) { approvedAtTheBridge(t, by) })
	}
}

func approvedAtTheBridge(t *testing.T, by string) {
	rec := &recorder{}
	h := handle(t, "limits: { approval_wait: 1m }\nactions:\n  a: { argv: [/bin/true], approval: once per 1h, approve_by: "+by+" }\n", rec)
	offer := h.Offers()[0]
	if !strings.HasSuffix(offer.Shows, ", and your approval lasts 1h0m0s") {
		t.Errorf("%s: the operator sees %s", by, offer.Shows)
	}
	ask := func(id string, approved *wire.Approval) wire.Outcome {
		return h.ask(t, wire.Request{ID: id, Action: "a", Approved: approved, KeyID: "bridge"})
	}
	if out := ask("1", nil); out.Refusal != wire.RefusedApproval {
		t.Errorf("%s, not approved: %+v", by, out)
	}
	if out := ask("1", &wire.Approval{Definition: offer.Definition}); out.Status != wire.StatusExecuted {
		t.Errorf("%s, approved: %+v", by, out)
	}
	if out := ask("2", nil); out.Status != wire.StatusExecuted {
		t.Errorf("%s, approved before: %+v", by, out)
	}
	restarted, err := approval.Open(approval.Options{Path: filepath.Join(h.config.State, "approvals"), Now: time.Now, Wait: time.Minute})
	must(t, err)
	for definition, want := range map[string]bool{offer.Definition: true, strings.Repeat("0", 64): false} {
		if restarted.Stands(approval.Question{Action: "a", Definition: definition, Once: time.Hour}) != want {
			t.Errorf("%s, after a restart: want %t for %s", by, want, definition)
		}
	}
	first, end := context.WithTimeout(t.Context(), 2*time.Minute) // of the bubble: then the first question is over, and nobody is asked
	defer end()
	<-first.Done()
	must(t, h.desk.DenyAll("kill switch"))
	if out := ask("3", nil); out.Refusal != wire.RefusedApproval {
		t.Errorf("%s, after the kill switch: %+v", by, out)
	}
	if out := ask("3", &wire.Approval{Definition: offer.Definition}); out.Status != wire.StatusExecuted {
		t.Errorf("%s, approved again: %+v", by, out)
	}
}

// Where a machine has no sandbox the action runs all the same, and the record says so.
func TestSandboxOfNothingIsOnRecord(t *testing.T) {
	t.Parallel()
	h := handle(t, "actions: { a: { argv: [/bin/true], sandbox: { network: false } } }", &recorder{})
	if out := h.ask(t, wire.Request{ID: "1", Action: "a"}); out.Status != wire.StatusExecuted {
		t.Errorf("%+v", out)
	}
	const want = `"sandbox":"files: none; network: none (files are not limited, the network is not cut off, the relay's control socket is within reach on this machine)"`
	if text := auditText(t, h); strings.Count(text, want) != 2 { // accepted, ran
		t.Errorf("no %s in\n%s", want, text)
	}
}

// A Unix socket is a door as well, for its owner only.
func TestUnixDoor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := "listen: unix:door\ntoken: " + token + "\nactions:\n" + hello
	config, err := settings.Load(write(t, filepath.Join(dir, "relay.yaml"), text, 0o600), noEnv)
	must(t, err)
	relay := serve(t, runner.Options{Config: config})
	stat, err := os.Stat(filepath.Join(dir, "door"))
	if err != nil || stat.Mode().Perm() != 0o600 || relay.addr != "unix:"+dir+"/door" {
		t.Fatalf("%v, %v, %s", stat.Mode(), err, relay.addr)
	}
	var dialer net.Dialer
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "unix", dir+"/door")
	}}}
	for origin, want := range map[string]int{"": 200, "http://evil.example": 403} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://relay/run", strings.NewReader(`{"action":"hello"}`))
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		response, err := client.Do(req)
		must(t, err)
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("origin %q: HTTP %d", origin, response.StatusCode)
		}
	}
}

// The switch is a file, so that it works without the relay being asked, and it never takes back what ran.
func TestKillSwitch(t *testing.T) {
	t.Parallel()
	rec := &recorder{}
	h := handle(t, "actions:\n"+hello, rec)
	ran := h.ask(t, wire.Request{ID: "1", Action: "hello"})
	on, changed := h.Stopped()
	must(t, control.Switch(h.config.State, true))
	must(t, h.SwitchOff())
	<-changed
	if now, _ := h.Stopped(); on || !now {
		t.Errorf("the kill switch says %t before and %t after it was turned on", on, now)
	}
	if out := h.ask(t, wire.Request{ID: "2", Action: "hello"}); out.Refusal != wire.RefusedStopped {
		t.Errorf("stopped: %+v", out)
	}
	if out := h.ask(t, wire.Request{ID: "1", Action: "hello"}); out.Status != ran.Status || !out.Replayed {
		t.Errorf("what ran before: %+v", out)
	}
	must(t, h.SwitchOn())
	if out := h.ask(t, wire.Request{ID: "2", Action: "hello"}); out.Refusal != wire.RefusedStopped {
		t.Errorf("nobody turned it off: %+v", out)
	}
	_, changed = h.Stopped()
	must(t, control.Switch(h.config.State, false))
	must(t, h.SwitchOn())
	<-changed
	if now, _ := h.Stopped(); now {
		t.Error("the kill switch says on after it was turned off")
	}
	if out := h.ask(t, wire.Request{ID: "2", Action: "hello"}); out.Status != wire.StatusExecuted || out.Replayed {
		t.Errorf("turned off: %+v", out)
	}
	if text := auditText(t, h); !strings.Contains(text, `"event":"stopped"`) || !strings.Contains(text, `"event":"resumed"`) {
		t.Error(text)
	}
}

// held is an executor whose programs end late, although they are told to.
type held struct {
	begun, free chan struct{}
}

func (h held) Run(ctx context.Context, _ keeper.Command) (keeper.End, error) {
	close(h.begun)
	<-ctx.Done()
	<-h.free
	return keeper.End{Cut: true}, nil
}

func (held) String() string { return "held" }

// Whoever turns the kill switch is told that nothing runs when nothing runs, also when somebody else turned it just before.
func TestKillSwitchTwice(t *testing.T) {
	t.Parallel()
	executor := held{make(chan struct{}), make(chan struct{})}
	h := handle(t, "actions:\n"+hello, executor)
	ran := make(chan error, 1)
	go func() {
		_, err := h.Run(context.WithoutCancel(t.Context()), wire.Request{ID: "1", Action: "hello"}, nil)
		ran <- err
	}()
	<-executor.begun
	must(t, control.Switch(h.config.State, true))
	over := make(chan error, 2)
	for range 2 {
		go func() { over <- h.SwitchOff() }()
	}
	select {
	case err := <-over:
		t.Error("told that nothing runs while something does")
		over <- err
	case <-time.After(50 * time.Millisecond):
	}
	close(executor.free)
	must(t, errors.Join(<-ran, <-over, <-over))
}

// A yes does not outlive a kill switch that was turned while no relay ran.
func TestKillSwitchWithoutRelay(t *testing.T) {
	t.Parallel()
	h := handle(t, "actions:\n  a: { argv: [/bin/true], approval: once per 1h }\n", &recorder{})
	asked := make(chan wire.Outcome, 1)
	again := func(id string) {
		out, _ := h.Run(context.WithoutCancel(t.Context()), wire.Request{ID: id, Action: "a"}, nil)
		asked <- out
	}
	go again("1")
	decide(t, h.desk)
	if out := <-asked; out.Status != wire.StatusExecuted {
		t.Fatalf("%+v", out)
	}
	must(t, control.Switch(h.config.State, true))
	relay, err := runner.Listen(t.Context(), runner.Options{Config: h.config, Executor: &recorder{}, Desk: h.desk, Key: []byte("key"), Log: zerolog.Nop()})
	must(t, err)
	must(t, control.Switch(h.config.State, false))
	must(t, relay.SwitchOn())
	go again("2")
	decide(t, h.desk)
	if out := <-asked; out.Status != wire.StatusExecuted {
		t.Errorf("%+v", out)
	}
}

// decide waits for a question, which has to come, and says yes to it.
func decide(t *testing.T, desk *approval.Desk) {
	t.Helper()
	deadline, tick := time.After(2*time.Minute), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for len(desk.Pending()) == 0 {
		select {
		case <-deadline:
			t.Fatal("nobody was asked")
		case <-tick.C:
		}
	}
	must(t, desk.Decide(desk.Pending()[0].ID, true, "test"))
}

func BenchmarkTrue(b *testing.B) {
	dir := b.TempDir()
	path := filepath.Join(dir, "relay.yaml")
	if err := os.WriteFile(path, []byte("listen: none\nlimits: { per_minute: 600, per_day: 50000 }\nactions: { t: { argv: [/bin/true] } }\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	config, err := settings.Load(path, noEnv)
	if err != nil {
		b.Fatal(err)
	}
	log, err := audit.Open(filepath.Join(dir, "audit"), time.Now, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	journal, err := runner.OpenJournal(config.Journal, time.Now)
	if err != nil {
		b.Fatal(err)
	}
	defer journal.Close()
	pool, err := keeper.NewPool(true)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	// Every run takes a minute by this clock, so that no rate is used up.
	now := time.Now()
	tick := func() time.Time { now = now.Add(time.Minute); return now }
	relay, err := runner.Listen(b.Context(), runner.Options{Config: config, Executor: pool, Audit: log, Journal: journal, Now: tick})
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	var took []time.Duration
	for b.Loop() {
		n++
		began := time.Now()
		out, err := relay.Run(b.Context(), wire.Request{ID: fmt.Sprint(n), Action: "t"}, nil)
		if err != nil || out.Status != wire.StatusExecuted {
			b.Fatal(out, err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "ms-p95")
}

// The log says once that a change of relay.yaml waits for the next start, and again after the change was taken back.
func TestOutdated(t *testing.T) {
	t.Parallel()
	config := load(t, "actions: {}\n")
	var log bytes.Buffer
	relay, err := runner.Listen(t.Context(), runner.Options{Config: config, Env: noEnv, Executor: &recorder{}, Log: zerolog.New(&log)})
	must(t, err)
	defer relay.Close()
	text, err := os.ReadFile(config.File)
	must(t, err)
	for n, step := range []struct {
		more     string
		outdated bool
		logged   int
	}{{"", false, 0}, {"# a note", false, 0}, {"limits: { queue: 1 }", true, 1}, {"limits: { queue: 2 }", true, 1}, {"", false, 1}, {"limits: { queue: 1 }", true, 2}} {
		must(t, os.WriteFile(config.File, []byte(string(text)+"\n"+step.more+"\n"), 0o600))
		if got, logged := relay.Outdated(), strings.Count(log.String(), "that waits for a restart"); got != step.outdated || logged != step.logged {
			t.Errorf("step %d: outdated %t, logged %d times:\n%s", n, got, logged, log.String())
		}
	}
}
