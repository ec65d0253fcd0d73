package cloudagents_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/bridge"
	"drawbridge/cloudagents"
)

// streams answers each request for a stream with the next of its answers, and remembers where each was to go on. The last stays.
type streams struct {
	answers []answered
	behind  []string
}

type answered struct {
	status int
	header http.Header
	body   string
}

func (s *streams) RoundTrip(r *http.Request) (*http.Response, error) {
	s.behind = append(s.behind, r.Header.Get("Last-Event-Id"))
	a := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	h := a.header.Clone()
	if h == nil {
		h = http.Header{"Content-Type": {"text/event-stream"}}
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return &http.Response{StatusCode: a.status, Header: h, Body: io.NopCloser(strings.NewReader(a.body)), Request: r}, nil
}

func event(id, name, data string) string {
	return fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", id, name, data)
}

// TestFollow: a stream that breaks is taken up behind its last event, and given up when it breaks again and again without a word.
func TestFollow(t *testing.T) {
	t.Parallel()
	const status = "event: status\ndata: {\"status\":\"FINISHED\"}\n\n" // replayed at each start, never to be believed
	done := answered{body: status + event("9-0", "done", "{}")}
	cut := answered{body: status}
	refused := func(status int, code string) answered {
		return answered{status: status, body: `{"error":{"code":"` + code + `","message":"m"}}`, header: http.Header{"Retry-After": {"45"}}}
	}
	for _, tt := range []struct {
		name    string
		answers []answered
		behind  []string
		kind    bridge.ErrorKind
		atLeast time.Duration
	}{
		{"whole", []answered{done}, []string{""}, "", 0},
		{"cut", []answered{{body: status + event("1-0", "assistant", "{}") + event("2-0", "heartbeat", "{}")}, done}, []string{"", "2-0"}, "", time.Second / 2},
		{"unavailable", []answered{{body: event("1-0", "error", `{"code":"stream_unavailable"}`) + event("2-0", "done", "{}")}, done}, []string{"", "1-0"}, "", time.Second / 2},
		{"an id that is not known any more", []answered{{body: event("1-0", "thinking", "{}")}, refused(400, "invalid_last_event_id"), done}, []string{"", "1-0", ""}, "", time.Second},
		{"a bad request from the top", []answered{refused(400, "validation_error")}, []string{""}, bridge.Invalid, 0},
		{"expired", []answered{refused(410, "stream_expired")}, []string{""}, bridge.NotFound, 0},
		{"key refused", []answered{refused(401, "unauthorized")}, []string{""}, bridge.Unauthenticated, 0},
		{"too many requests", []answered{refused(429, "rate_limit_exceeded"), done}, []string{"", ""}, "", 45 * time.Second},
		{"never a word", []answered{cut}, []string{"", "", "", "", "", "", ""}, bridge.Unavailable, 30 * time.Second},
		{"always a word", []answered{{body: event("1-0", "x", "{}")}, {body: event("2-0", "x", "{}")}, {body: event("3-0", "x", "{}")}, {body: event("4-0", "x", "{}")},
			{body: event("5-0", "x", "{}")}, {body: event("6-0", "x", "{}")}, {body: event("7-0", "x", "{}")}, {body: event("8-0", "x", "{}")}, done},
			[]string{"", "1-0", "2-0", "3-0", "4-0", "5-0", "6-0", "7-0", "8-0"}, "", 4 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, start := &streams{answers: tt.answers}, time.Now()
				client := newClient(t, cloudagents.DefaultBaseURL)
				client.Through(s)
				err := client.Follow(t.Context(), run1)
				if bridge.KindOf(err) != tt.kind || (err == nil) != (tt.kind == "") {
					t.Errorf("%v of kind %q, want %q", err, bridge.KindOf(err), tt.kind)
				}
				if diff := cmp.Diff(tt.behind, s.behind); diff != "" {
					t.Errorf("asked to go on behind (-want +got):\n%s", diff)
				}
				if took := time.Since(start); took < tt.atLeast || took > 3*time.Minute {
					t.Errorf("took %s, want %s at least", took, tt.atLeast)
				}
			})
		})
	}
}
