package webhooks_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/proof/fields"
	"drawbridge/webhooks"
)

const (
	op       = bridge.AgentID("agt_0000000000000000000000000a")
	external = "bc-00000000-0000-5000-8000-000000000001"
)

var testKeys = bridge.Keys{
	Current: bridge.Key{ID: "k2", Secret: bytes.Repeat([]byte("n"), 32)},
	Old:     []bridge.Key{{ID: "k1", Secret: bytes.Repeat([]byte("o"), 32)}},
}

// recorder is a strict stand-in for the engine: it knows one operation and
// remembers what it was told.
type recorder struct {
	mu         sync.Mutex // guards the fields below
	looked     int
	deliveries []bridge.Delivery
	down       error
	bound      string
}

func (r *recorder) RecordDelivery(_ context.Context, d bridge.Delivery) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looked++
	switch {
	case r.down != nil:
		return "", r.down
	case d.Op != op:
		return "", bridge.Errorf(bridge.NotFound, "no operation %q", d.Op)
	case r.bound != "" && r.bound != d.External:
		return "", bridge.Errorf(bridge.Conflict, "another agent's")
	}
	for _, old := range r.deliveries {
		if old.Status == d.Status && old.SentAt == d.SentAt && old.External == d.External {
			return bridge.VerdictDuplicate, nil
		}
	}
	r.deliveries = append(r.deliveries, d)
	if d.Event != "statusChange" || !bridge.RunState(d.Status).Terminal() {
		return bridge.VerdictStored, nil
	}
	return bridge.VerdictAccepted, nil
}

func (r *recorder) state() (looked, recorded int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.looked, len(r.deliveries)
}

func receiver(t testing.TB, r *recorder, log io.Writer) http.Handler {
	t.Helper()
	return receiverOf(t, r, log)
}

func receiverOf(t testing.TB, r webhooks.Recorder, log io.Writer) http.Handler {
	t.Helper()
	rc, err := webhooks.New(webhooks.Options{Bridge: r, Keys: testKeys, Log: zerolog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	return rc.Handler()
}

func sign(key bridge.Key, id bridge.AgentID, body string) string {
	mac := hmac.New(sha256.New, []byte(key.WebhookSecret(id)))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// delivery is a request that is right; tests make it wrong.
type delivery struct {
	method, path, body string
	header             http.Header
	chunked            bool
}

const goodBody = `{"event":"statusChange","timestamp":"2026-01-15T10:30:00Z","id":"` + external + `","status":"FINISHED","summary":"done","source":{"repository":"https://github.com/o/r"}}`

func good() delivery { return signed(goodBody) }

func signed(body string) delivery {
	return delivery{method: http.MethodPost, path: "/hooks/cursor/k2/" + string(op), body: body, header: http.Header{
		"X-Webhook-Signature": {sign(testKeys.Current, op, body)}, "X-Webhook-Id": {"wh_1"}, "X-Webhook-Event": {"statusChange"}, "User-Agent": {"Cursor-Agent-Webhook/1.0"}}}
}

func with(change func(*delivery)) delivery {
	d := good()
	change(&d)
	return d
}

func send(h http.Handler, d delivery) *httptest.ResponseRecorder {
	var body io.Reader = strings.NewReader(d.body)
	if d.chunked {
		body = struct{ io.Reader }{body} // hides the length
	}
	r := httptest.NewRequest(d.method, d.path, body)
	r.Header = d.header.Clone()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestRecordsBeforeItAcknowledges(t *testing.T) {
	t.Parallel()
	r := &recorder{bound: external}
	h := receiver(t, r, io.Discard)
	d := good()
	d.header.Set("Authorization", "Bearer of-a-proxy")
	w := send(h, d)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), bridge.VerdictAccepted) {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	want := []bridge.Delivery{{
		Op: op, External: external, Event: "statusChange", Status: "FINISHED", SentAt: "2026-01-15T10:30:00Z", WebhookID: "wh_1", Body: []byte(goodBody),
		Headers: map[string][]string{"X-Webhook-Signature": d.header["X-Webhook-Signature"], "X-Webhook-Id": {"wh_1"}, "X-Webhook-Event": {"statusChange"}, "User-Agent": {"Cursor-Agent-Webhook/1.0"}},
	}}
	if diff := cmp.Diff(want, r.deliveries); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if w := send(h, good()); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), bridge.VerdictDuplicate) {
		t.Errorf("a replay got %d %s", w.Code, w.Body)
	}
}

// TestWebhookIDIsText: an id that only informs never keeps a delivery from a database that takes valid UTF-8 alone.
func TestWebhookIDIsText(t *testing.T) {
	t.Parallel()
	r := &recorder{bound: external}
	d := good()
	d.header.Set("X-Webhook-Id", "wh_\xff")
	if w := send(receiver(t, r, io.Discard), d); w.Code != http.StatusOK || len(r.deliveries) != 1 || r.deliveries[0].WebhookID != "wh_?" {
		t.Errorf("%d %s, recorded %+v", w.Code, w.Body, r.deliveries)
	}
}

// TestTimestampDecidesNothing: whatever form a sender gives it, the delivery is recorded, and other timestamps make other deliveries.
func TestTimestampDecidesNothing(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		`1764306000`: "1764306000", `1764306000.5`: "1764306000.5", `"2026-01-15T10:30:00Z"`: "2026-01-15T10:30:00Z", `null`: "", `true`: "true",
		`{"at":1}`: `{"at":1}`, `[1]`: "[1]", `"a\u0000b"`: "sha256:9db18af7360cd5d0", `"` + strings.Repeat("9", 100) + `"`: "sha256:8cf7e7d9c39b316e",
	} {
		r := &recorder{bound: external}
		w := send(receiver(t, r, io.Discard), signed(`{"event":"statusChange","timestamp":`+written+`,"id":"`+external+`","status":"FINISHED"}`))
		if w.Code != http.StatusOK || len(r.deliveries) != 1 || r.deliveries[0].SentAt != want {
			t.Errorf("%s: %d %s, recorded %+v", written, w.Code, w.Body, r.deliveries)
		}
	}
}

// TestFieldsThatInform: no form of a field that only informs refuses a delivery.
func TestFieldsThatInform(t *testing.T) {
	t.Parallel()
	for _, b := range fields.Break(`{"event":"statusChange","timestamp":"2026-01-01T00:00:00Z","id":"`+external+`","status":"FINISHED","source":{"repository":"r","ref":"main"},"target":{"url":"u","branchName":"b","prUrl":"p"},
		"summary":"s","name":"n","createdAt":"2026-01-01T00:00:00Z","runs":[{"id":"run-1","durationMs":1}]}`, "event", "timestamp", "id", "status") {
		r := &recorder{}
		if w := send(receiver(t, r, io.Discard), signed(b.JSON)); w.Code != http.StatusOK {
			t.Errorf("%s is %s: %d %s", b.Path, b.Form, w.Code, w.Body)
		}
	}
}

func TestAttacks(t *testing.T) {
	t.Parallel()
	right := good().header.Get("X-Webhook-Signature")
	setSignature := func(values ...string) delivery {
		return with(func(d *delivery) { d.header["X-Webhook-Signature"] = values })
	}
	setPath := func(path string) delivery { return with(func(d *delivery) { d.path = path }) }
	big := `{"id":"` + external + `","event":"statusChange","status":"FINISHED","summary":"`
	fill := func(n int) string { return big + strings.Repeat("x", n-len(big)-2) + `"}` }
	tests := []struct {
		name string
		d    delivery
		want int
	}{
		{"no signature", setSignature(), 401},
		{"two signatures, both right", setSignature(right, right), 401},
		{"two signatures, first right", setSignature(right, "sha256="+strings.Repeat("0", 64)), 401},
		{"two signatures in one header", setSignature(right + ", " + right), 401},
		{"empty signature", setSignature(""), 401},
		{"prefix alone", setSignature("sha256="), 401},
		{"no prefix", setSignature(strings.TrimPrefix(right, "sha256=")), 401},
		{"sha1", setSignature("sha1=" + strings.Repeat("0", 40)), 401},
		{"sha1 prefix on the right digits", setSignature(strings.Replace(right, "sha256", "sha1", 1)), 401},
		{"prefix in capitals", setSignature(strings.Replace(right, "sha256", "SHA256", 1)), 401},
		{"prefix twice", setSignature("sha256=" + right), 401},
		{"blank behind the prefix", setSignature("sha256= " + right[7:]), 401},
		{"blank at the end", setSignature(right + " "), 401},
		{"truncated by one digit", setSignature(right[:len(right)-1]), 401},
		{"truncated by one byte", setSignature(right[:len(right)-2]), 401},
		{"one digit more", setSignature(right + "0"), 401},
		{"not hex", setSignature("sha256=" + strings.Repeat("g", 64)), 401},
		{"all zero", setSignature("sha256=" + strings.Repeat("0", 64)), 401},
		{"hex digits in capitals name the same bytes", setSignature("sha256=" + strings.ToUpper(right[7:])), 200},
		{"body altered by one byte", with(func(d *delivery) { d.body = strings.Replace(d.body, "FINISHED", "FINISHEE", 1) }), 401},
		{"body with one byte more", with(func(d *delivery) { d.body += "\n" }), 401},
		{"empty body", with(func(d *delivery) { d.body = "" }), 401},
		{"signed with the raw key", setSignature(func() string {
			m := hmac.New(sha256.New, testKeys.Current.Secret)
			m.Write([]byte(goodBody))
			return "sha256=" + hex.EncodeToString(m.Sum(nil))
		}()), 401},
		{"other operation", setPath("/hooks/cursor/k2/agt_0000000000000000000000000b"), 401},
		{"operation in other case", setPath("/hooks/cursor/k2/AGT_0000000000000000000000000A"), 401},
		{"unknown key version", setPath("/hooks/cursor/k9/" + string(op)), 401},
		{"key version of another key", setPath("/hooks/cursor/k1/" + string(op)), 401},
		{"encoded letter in the key version", setPath("/hooks/cursor/%6b2/" + string(op)), 401},
		{"encoded slash", setPath("/hooks/cursor/k2%2f" + string(op)), 404},
		{"encoded dots", setPath("/hooks/cursor/k2/%2e%2e/" + string(op)), 404},
		{"dots", setPath("/hooks/cursor/k2/../k2/" + string(op)), 404},
		{"dots for the operation", setPath("/hooks/cursor/k2/.."), 401},
		{"two slashes", setPath("/hooks/cursor//k2/" + string(op)), 404},
		{"slash at the end", setPath("/hooks/cursor/k2/" + string(op) + "/"), 404},
		{"path in capitals", setPath("/HOOKS/cursor/k2/" + string(op)), 404},
		{"GET", with(func(d *delivery) { d.method = http.MethodGet }), 405},
		{"old key version", with(func(d *delivery) {
			d.path = "/hooks/cursor/k1/" + string(op)
			d.header.Set("X-Webhook-Signature", sign(testKeys.Old[0], op, d.body))
		}), 200},
		{"content encoding is not undone", with(func(d *delivery) { d.header.Set("Content-Encoding", "gzip") }), 200},
		{"gzip bytes, signed as sent", signed("\x1f\x8b\x08\x00 not json"), 400},
		{"chunked", with(func(d *delivery) { d.chunked = true }), 200},
		{"1 MiB", signed(fill(1 << 20)), 200},
		{"1 MiB and a byte", signed(fill(1<<20 + 1)), 413},
		{"1 MiB and a byte, chunked", func() delivery { d := signed(fill(1<<20 + 1)); d.chunked = true; return d }(), 413},
		{"duplicate key", signed(`{"event":"statusChange","status":"FINISHED","id":"` + external + `","id":"b"}`), 400},
		{"case-variant key", signed(`{"event":"statusChange","status":"FINISHED","id":"a","ID":"` + external + `"}`), 400},
		{"case-variant key alone", signed(`{"event":"statusChange","status":"FINISHED","ID":"` + external + `"}`), 400},
		{"deep duplicate key", signed(`{"event":"statusChange","status":"FINISHED","id":"` + external + `","source":{"ref":1,"Ref":2}}`), 400},
		{"id is a number", signed(`{"event":"statusChange","status":"FINISHED","id":5}`), 400},
		{"no id", signed(`{"event":"statusChange","status":"FINISHED"}`), 400},
		{"no event", signed(`{"status":"FINISHED","id":"` + external + `"}`), 400},
		{"no status", signed(`{"event":"statusChange","id":"` + external + `"}`), 400},
		{"null", signed(`null`), 400},
		{"array", signed(`[` + goodBody + `]`), 400},
		{"two documents", signed(goodBody + goodBody), 400},
		{"invalid UTF-8", signed(`{"event":"statusChange","status":"` + "\xff" + `","id":"` + external + `"}`), 400},
		{"line break in the status", signed(`{"event":"statusChange","status":"A\nB","id":"` + external + `"}`), 400},
		{"foreign agent", signed(`{"event":"statusChange","status":"FINISHED","id":"bc-other"}`), 400},
		{"path in the id", signed(`{"event":"statusChange","status":"FINISHED","id":"../../v1/me"}`), 400},
		{"unknown key", signed(`{"event":"statusChange","status":"FINISHED","id":"` + external + `","new":[1]}`), 200},
		{"unknown event", signed(`{"event":"archived","id":"` + external + `"}`), 200},
		{"unknown status", signed(`{"event":"statusChange","status":"PAUSED","id":"` + external + `"}`), 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := &recorder{bound: external}
			w := send(receiver(t, r, io.Discard), tt.d)
			if w.Code != tt.want {
				t.Fatalf("status %d, want %d: %s", w.Code, tt.want, w.Body)
			}
			if w.Header().Get("Location") != "" {
				t.Error("a delivery was redirected")
			}
			looked, recorded := r.state()
			if (recorded == 1) != (tt.want == http.StatusOK) {
				t.Errorf("%d deliveries were recorded", recorded)
			}
			if tt.want == http.StatusUnauthorized && looked > 0 {
				t.Error("the operation was looked up before the signature was right")
			}
			if tt.want == http.StatusMethodNotAllowed && w.Header().Get("Allow") != http.MethodPost {
				t.Errorf("Allow: %q", w.Header().Get("Allow"))
			}
		})
	}
}

// An operation that we signed for and have lost, as after a restored backup,
// must look like a bad signature to the byte.
func TestUnknownOperationLooksLikeABadSignature(t *testing.T) {
	t.Parallel()
	const lost = bridge.AgentID("agt_0000000000000000000000000z")
	r := &recorder{}
	h := receiver(t, r, io.Discard)
	d := good()
	d.path = "/hooks/cursor/k2/" + string(lost)
	bad := send(h, d)
	d.header.Set("X-Webhook-Signature", sign(testKeys.Current, lost, d.body))
	unknown := send(h, d)
	if bad.Code != http.StatusUnauthorized || unknown.Code != bad.Code {
		t.Errorf("codes %d and %d", bad.Code, unknown.Code)
	}
	if diff := cmp.Diff(bad.Body.String(), unknown.Body.String()); diff != "" {
		t.Errorf("bodies differ:\n%s", diff)
	}
	if diff := cmp.Diff(bad.Header(), unknown.Header()); diff != "" {
		t.Errorf("headers differ:\n%s", diff)
	}
}

func TestStorageDownIsNeverAcknowledged(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]error{
		"no kind": errors.New("disk I/O error"), "unavailable": bridge.Errorf(bridge.Unavailable, "x"), "timeout": context.DeadlineExceeded, "canceled": context.Canceled,
	} {
		r := &recorder{bound: external, down: down}
		w := send(receiver(t, r, io.Discard), good())
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %d, Retry-After %q", name, w.Code, w.Header().Get("Retry-After"))
		}
		if strings.Contains(w.Body.String(), "disk") {
			t.Errorf("%s: the cause was shown: %s", name, w.Body)
		}
	}
}

func TestUnboundOperationIsBoundByTheEngine(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	if w := send(receiver(t, r, io.Discard), good()); w.Code != http.StatusOK || r.deliveries[0].External != external {
		t.Errorf("%d %v", w.Code, r.deliveries)
	}
}

func TestOneLogLineWithoutBodiesAndSecrets(t *testing.T) {
	t.Parallel()
	secret := testKeys.Current.WebhookSecret(op)
	for name, d := range map[string]delivery{
		"accepted": good(), "refused": with(func(d *delivery) { d.body += " " }), "malformed": signed(`{"id":"hidden"`),
		"no route": with(func(d *delivery) { d.path = "/hooks/x" }), "long path": with(func(d *delivery) { d.path = "/hooks/cursor/" + strings.Repeat("k", 5000) + "/x" }),
	} {
		var out bytes.Buffer
		send(receiver(t, &recorder{bound: external}, &out), d)
		var line map[string]any
		if err := json.Unmarshal(out.Bytes(), &line); err != nil || strings.Count(out.String(), "\n") != 1 {
			t.Fatalf("%s: %v: %s", name, err, out.String())
		}
		for _, hidden := range []string{secret, "summary", "done", "hidden", d.header.Get("X-Webhook-Signature")} {
			if strings.Contains(out.String(), hidden) {
				t.Errorf("%s: %q is in the log", name, hidden)
			}
		}
		if line["verdict"] == nil || out.Len() > 1000 {
			t.Errorf("%s: %s", name, out.String())
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	ok := testKeys.Current
	tests := []struct {
		name string
		o    webhooks.Options
	}{
		{"no recorder", webhooks.Options{Keys: testKeys}},
		{"no key", webhooks.Options{Bridge: &recorder{}}},
		{"short key", webhooks.Options{Bridge: &recorder{}, Keys: bridge.Keys{Current: bridge.Key{ID: "k", Secret: make([]byte, 31)}}}},
		{"short old key", webhooks.Options{Bridge: &recorder{}, Keys: bridge.Keys{Current: ok, Old: []bridge.Key{{ID: "k1"}}}}},
		{"key id with a slash", webhooks.Options{Bridge: &recorder{}, Keys: bridge.Keys{Current: bridge.Key{ID: "a/b", Secret: ok.Secret}}}},
		{"key id of dots", webhooks.Options{Bridge: &recorder{}, Keys: bridge.Keys{Current: bridge.Key{ID: "..", Secret: ok.Secret}}}},
		{"one id twice", webhooks.Options{Bridge: &recorder{}, Keys: bridge.Keys{Current: ok, Old: []bridge.Key{ok}}}},
	}
	for _, tt := range tests {
		if _, err := webhooks.New(tt.o); err == nil {
			t.Errorf("%s: a receiver was made", tt.name)
		}
	}
}

func TestVerdictsAreTold(t *testing.T) {
	t.Parallel()
	var got []string
	rc, err := webhooks.New(webhooks.Options{Bridge: &recorder{bound: external}, Keys: testKeys, Log: zerolog.Nop(), OnVerdict: func(v string) { got = append(got, v) }})
	if err != nil {
		t.Fatal(err)
	}
	h := rc.Handler()
	for _, d := range []delivery{good(), good(), with(func(d *delivery) { d.header.Del("X-Webhook-Signature") }), signed("{}")} {
		send(h, d)
	}
	if diff := cmp.Diff([]string{"accepted", "duplicate", "bad_signature", "malformed"}, got); diff != "" {
		t.Error(diff)
	}
}

// A signature header other than the right one is never accepted, whatever it is.
func FuzzSignatureHeader(f *testing.F) {
	right := good().header.Get("X-Webhook-Signature")
	for _, seed := range []string{right, "", "sha256=", strings.ToUpper(right), right + "0", "sha1=" + right[7:], "sha256=" + strings.Repeat("0", 64), right[:70], "\x00" + right} {
		f.Add(seed)
	}
	r := &recorder{bound: external}
	h := receiver(f, r, io.Discard)
	f.Fuzz(func(t *testing.T, header string) {
		d := good()
		d.header["X-Webhook-Signature"] = []string{header}
		w := send(h, d)
		same := len(header) == len(right) && strings.HasPrefix(header, "sha256=") && strings.EqualFold(header, right) && isASCII(header)
		if same != (w.Code == http.StatusOK) || (!same && w.Code != http.StatusUnauthorized) {
			t.Errorf("%q: %d", header, w.Code)
		}
	})
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > 127 }) < 0
}

// Whatever is signed, what is acknowledged is what the standard decoder reads
// from that body too, and was recorded raw.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{goodBody, `{"id":"a","ID":"b"}`, `{}`, `null`, `[]`, `{"id":"` + external + `","event":"x"}`, "\xef\xbb\xbf{}", `{"id":"` + external + `","event":"statusChange","status":"ERROR","x":{"a":1,"A":2}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		r := &recorder{}
		w := send(receiver(t, r, io.Discard), signed(body))
		if w.Code != http.StatusOK {
			if _, recorded := r.state(); w.Code < 400 || w.Code >= 500 || recorded > 0 {
				t.Errorf("%q: %d with %d recorded", body, w.Code, recorded)
			}
			return
		}
		d := r.deliveries[0]
		var plain struct{ Event, ID, Status, Timestamp string }
		if err := json.Unmarshal([]byte(body), &plain); err != nil || plain.ID != d.External || plain.Event != d.Event && d.Event != "" || string(d.Body) != body {
			t.Errorf("%q was read as %+v (%v), and %+v was recorded", body, plain, err, d)
		}
	})
}
