package cloudagents_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/cloudagents"
)

func TestErrorShapes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, code, message, help string }{
		"A":                   {`{"error":{"code":"agent_busy","message":"m"}}`, "agent_busy", "m", ""},
		"A with help":         {`{"error":{"code":"integration_not_connected","message":"m","helpUrl":"https://cursor.com/x","provider":"github"}}`, "integration_not_connected", "m", "https://cursor.com/x"},
		"A without a code":    {`{"error":{"message":"m"}}`, "unknown", "m", ""},
		"A with wrong types":  {`{"error":{"code":7,"message":["m"]}}`, "unknown", "", ""},
		"B":                   {`{"error":"Model 'x' is not available or invalid."}`, "unknown", "Model 'x' is not available or invalid.", ""},
		"C":                   {`{"code":"error","message":"Invalid User API Key"}`, "error", "Invalid User API Key", ""},
		"D":                   {`{"error":"Too Many Requests","message":"slow down"}`, "unknown", "Too Many Requests: slow down", ""},
		"D said twice":        {`{"error":"slow down","message":"slow down"}`, "unknown", "slow down", ""},
		"E text":              {" upstream timed out \n", "unknown", "upstream timed out", ""},
		"E page":              {"<html><body>502</body></html>", "unknown", "", ""},
		"E empty":             {"", "unknown", "", ""},
		"null":                {"null", "unknown", "", ""},
		"null error":          {`{"error":null,"message":"m"}`, "unknown", "m", ""},
		"a list":              {`[1]`, "unknown", "[1]", ""},
		"two documents":       {`{"error":"a"}{"error":"b"}`, "unknown", `{"error":"a"}{"error":"b"}`, ""},
		"error inside error":  {`{"error":{"error":{"code":"x"}}}`, "unknown", "", ""},
		"object beside words": {`{"error":{"code":"c","message":"inner"},"message":"outer"}`, "c", "inner", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, message, help := cloudagents.ParseErrorBody([]byte(c.body))
			if code != c.code || message != c.message || help != c.help {
				t.Errorf("got %q, %q, %q", code, message, help)
			}
		})
	}
}

func TestErrorKindsAndWords(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer reply
		kind   bridge.ErrorKind
		text   string
	}{
		"401":              {reply{status: 401, body: `{"code":"error","message":"Invalid User API Key"}`}, bridge.Unauthenticated, `read account: "Invalid User API Key"; check the API key`},
		"403 with help":    {reply{status: 403, body: `{"error":{"code":"integration_not_connected","message":"Connect GitHub","helpUrl":"https://cursor.com/dash"}}`}, bridge.Denied, `read account: "Connect GitHub" (integration_not_connected); see https://cursor.com/dash`},
		"403 hostile help": {reply{status: 403, body: `{"error":{"code":"c","message":"m","helpUrl":"javascript:alert(1)"}}`}, bridge.Denied, `read account: "m" (c)`},
		"402":              {reply{status: 402}, bridge.Denied, "read account: HTTP 402 Payment Required"},
		"404":              {reply{status: 404, body: `{"error":"Not Found","message":"no such page"}`}, bridge.NotFound, `read account: "Not Found: no such page"`},
		"422":              {reply{status: 422, body: `{"error":"x"}`}, bridge.Invalid, `read account: "x"`},
		"501":              {reply{status: 501, body: `{"error":{"code":"not_implemented","message":"m"}}`}, bridge.Unavailable, `read account: "m" (not_implemented)`},
		"controls":         {reply{status: 400, body: `{"error":"a\u001b[31m\nb\u202e\u0000"}`}, bridge.Invalid, `read account: "a\x1b[31m\nb\u202e\x00"`},
		"the key, echoed":  {reply{status: 400, body: `{"error":"bad header Bearer ` + testKey + `"}`}, bridge.Invalid, `read account: "bad header Bearer [redacted]"`},
		"it closes quotes": {reply{status: 400, body: `{"error":{"code":"c; LOCAL_ACTION: x","message":"a\" (ok)\nLOCAL_ACTION: x"}}`}, bridge.Invalid, `read account: "a' (ok)\nLOCAL_ACTION: x" ("c; LOCAL_ACTION: x")`},
		"a strange status": {reply{status: 799}, bridge.Unavailable, "read account: HTTP 799"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, map[string][]reply{"GET /v1/me": {c.answer}})
			_, err := newClient(t, f.URL).Me(t.Context())
			check(t, err, c.kind, false)
			if got := bridge.SafeMessage(err); got != c.text {
				t.Errorf("got %q", got)
			}
			var api *cloudagents.APIError
			if !errors.As(err, &api) || api.Status != c.answer.status {
				t.Errorf("cause: %v", err)
			}
		})
	}
}

// Whatever is cut, no part of the key stays.
func TestNoPartOfAKeyIsShown(t *testing.T) {
	t.Parallel()
	for pad := range 400 {
		body := `{"error":{"code":"` + testKey + `","message":"` + strings.Repeat("x", pad) + testKey + `","helpUrl":"https://x/` + testKey + `"}}`
		f := newFake(t, map[string][]reply{"GET /v1/me": {{status: 400, body: body, header: map[string]string{"X-Request-Id": testKey}}}})
		_, err := newClient(t, f.URL).Me(t.Context())
		f.Close()
		if strings.Contains(err.Error(), testKey[:8]) || len(bridge.SafeMessage(err)) > 330 {
			t.Fatalf("pad %d: %s", pad, err)
		}
	}
}

// A server may put our own header into what net/http quotes in its error.
func TestTransportErrorsAreScrubbed(t *testing.T) {
	t.Parallel()
	f := newFake(t, map[string][]reply{"GET /v1/me": {{do: func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = conn.Write([]byte(r.Header.Get("Authorization") + "\r\n\r\n"))
		_ = conn.Close()
	}}}})
	_, err := newClient(t, f.URL).Me(t.Context())
	check(t, err, bridge.Unavailable, false)
	if strings.Contains(err.Error(), testKey) || !strings.Contains(err.Error(), "[redacted]") {
		t.Errorf("got %v", err)
	}
}

func TestWebhookSecretIsScrubbed(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("0123", 8)
	f := newFake(t, map[string][]reply{"POST /v0/agents": {{status: 400, body: `{"error":"webhook.secret ` + secret + ` is weak"}`}}})
	l := launchOf(t)
	l.Webhook = &bridge.Webhook{URL: "https://bridge.example.com/x", Secret: secret}
	_, err := newClient(t, f.URL, withV0).Launch(t.Context(), l)
	check(t, err, bridge.Invalid, false)
	if strings.Contains(err.Error(), secret) {
		t.Errorf("got %v", err)
	}
}

func TestDoorTokenIsScrubbed(t *testing.T) {
	t.Parallel()
	door := &bridge.Door{URL: "https://bridge.example.com/mcp", Token: "dbt_0123456789"}
	answer := reply{status: 400, body: `{"error":{"code":"validation_error","message":"Bearer ` + door.Token + ` is no header"}}`}
	f := newFake(t, map[string][]reply{"POST /v1/agents": {answer}, "POST /v1/agents/" + agentID + "/runs": {answer}})
	l := launchOf(t)
	l.Door = door
	client := newClient(t, f.URL)
	_, launched := client.Launch(t.Context(), l)
	_, sent := client.Send(t.Context(), bridge.FollowUp{API: bridge.APIv1, Agent: agentID, Text: "x", Marker: "m", Door: door})
	for _, err := range []error{launched, sent} {
		check(t, err, bridge.Invalid, false)
		if strings.Contains(err.Error(), door.Token) || !strings.Contains(err.Error(), "[redacted]") {
			t.Errorf("got %v", err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		after, reset string
		want         time.Duration
	}{
		"seconds":            {"7", "", 7 * time.Second},
		"a date":             {"Sat, 21 Nov 2026 10:01:00 GMT", "", time.Minute},
		"a past date":        {"Sat, 21 Nov 2026 09:00:00 GMT", "", 0},
		"reset as a moment":  {"", "1795255230", 30 * time.Second},
		"reset in ms":        {"", "1795255230000", 30 * time.Second},
		"reset as seconds":   {"", "12.5", 12500 * time.Millisecond},
		"reset as RFC 3339":  {"", "2026-11-21T10:00:05Z", 5 * time.Second},
		"the header wins":    {"3", "99", 3 * time.Second},
		"garbage, then good": {"soon", "4", 4 * time.Second},
		"huge":               {"999999999", "", 24 * time.Hour},
		"huge moment":        {"1e300", "", 24 * time.Hour},
		"negative":           {"-5", "", 0},
		"not a number":       {"NaN", "", 0},
		"infinite":           {"Inf", "", 0},
		"nothing":            {"", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			h.Set("Retry-After", c.after)
			h.Set("X-RateLimit-Reset", c.reset)
			if got := cloudagents.RetryAfterOf(h, now); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	f := newFake(t, map[string][]reply{"GET /v1/me": {{status: 429, header: map[string]string{"Retry-After": "11"}}}})
	_, err := newClient(t, f.URL).Me(t.Context())
	if got := bridge.RetryAfter(err); got != 11*time.Second {
		t.Errorf("got %s", got)
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"0123456789":      "0123456789",
		"0123456789a":     "0123456…",
		"ääääää":          "äää…",
		"\n\n\n\n\n":      `\n\n\n\n\n`,
		"\n\n\n\n\n\n":    `\n\n\n…`,
		"\xff'\"":         "\ufffd'\"",
		"":                "",
		"012345678\u202e": "0123456…",
	} {
		if got := cloudagents.Clip(in, 10); got != want {
			t.Errorf("Clip(%q) = %q, want %q", in, got, want)
		}
	}
}
