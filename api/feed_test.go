package api_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
)

// follow reads /events until a line begins with last, and returns all lines.
func (w *world) followSeed(t *testing.T, header http.Header, path, last string) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var lines []string
	for s := bufio.NewScanner(resp.Body); s.Scan(); {
		lines = append(lines, s.Text())
		if strings.HasPrefix(s.Text(), last) {
			return lines
		}
	}
	t.Fatalf("no %q in status %d:\n%s", last, resp.StatusCode, strings.Join(lines, "\n"))
	return nil
}

func TestSeedEvents(t *testing.T) {
	t.Parallel()
	keys := &keyring{}
	w := newWorld(t, func(o *api.Options) { o.Tokens = keys })
	for _, name := range []string{"other", "mine"} {
		l, err := w.client.Launch(t.Context(), api.LaunchRequest{Name: name, Repo: chatRepo, Prompt: "hello " + name})
		if err != nil {
			t.Fatal(err)
		}
		keys.agent = bridge.AgentID(l.Agent.ID)
		w.until(t, func() bool { g, err := w.client.Agent(t.Context(), name); return err == nil && g.State == "idle" })
	}
	operator := http.Header{"X-Bridge-Token": {testToken}, "Last-Event-Id": {"0"}}
	all := strings.Join(w.followSeed(t, operator, "/events", "event: agent_done"), "\n")
	if !strings.Contains(all, "event: agent_typing") || !strings.Contains(all, `"agent_name":"other"`) {
		t.Errorf("the operator sees\n%s", all)
	}
	// An agent sees its own tree, resumes where it was, and gets the seed's names beside ours.
	own := http.Header{"Authorization": {"Bearer " + agentToken}, "Last-Event-Id": {"0"}}
	lines := w.followSeed(t, own, "/events", "event: agent_done")
	seen := strings.Join(lines, "\n")
	if strings.Contains(seen, "other") || !strings.Contains(seen, "event: reply") {
		t.Errorf("the agent sees\n%s", seen)
	}
	id := ""
	for _, line := range lines {
		if rest, ok := strings.CutPrefix(line, "id: "); ok {
			id = rest
		}
	}
	// The last of an event's names carries its id, so that the one before comes again.
	own.Set("Last-Event-Id", id)
	if _, err := w.client.Say(t.Context(), "mine", "again"); err != nil {
		t.Fatal(err)
	}
	again := strings.Join(w.followSeed(t, own, "/events", "event: agent_done"), "\n")
	if strings.Contains(again, "id: "+id+"\n") || !strings.Contains(again, "event: agent_typing") {
		t.Errorf("after %s the agent sees\n%s", id, again)
	}
	for _, bad := range [][]string{{"X-Bridge-Token", agentToken}, {"X-Bridge-Token", "no", "Authorization", "Bearer " + agentToken}, {"Authorization", "Bearer dbt_y"}} {
		if code, _, _ := w.call(t, http.MethodGet, "/events", "", bad...); code != http.StatusUnauthorized {
			t.Errorf("%v: status %d", bad, code)
		}
	}
	if code, _, header := w.call(t, http.MethodPost, "/events", ""); code != http.StatusMethodNotAllowed || header.Get("Allow") == "" {
		t.Errorf("POST: status %d", code)
	}
}

// TestAgentStreamsAreCounted: an agent's stream at /events asks the door for admission under its token, and ends with it.
func TestAgentStreamsAreCounted(t *testing.T) {
	t.Parallel()
	keys := &keyring{}
	open := 0
	full := &bridge.Error{Kind: bridge.RateLimited, RetryAfter: 1500 * time.Millisecond, Message: "close one first"}
	w := newWorld(t, func(o *api.Options) {
		o.Tokens = keys
		o.Streams = func(r *http.Request, token string) (context.Context, func(), error) {
			if token != "h" {
				return nil, nil, errors.New("another token")
			}
			if open++; open > 1 {
				return nil, nil, full
			}
			ctx, cancel := context.WithCancel(r.Context())
			cancel() // the token was revoked
			return ctx, func() {}, nil
		}
	})
	l, err := w.client.Launch(t.Context(), api.LaunchRequest{Name: "mine", Repo: chatRepo, Prompt: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	keys.agent = bridge.AgentID(l.Agent.ID)
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Authorization": {"Bearer " + agentToken}, "Last-Event-Id": {"0"}}
		tr := &http.Transport{}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, resp.Body) // it ends by itself
		if err != nil || resp.StatusCode != want {
			t.Errorf("status %d, %v; want %d", resp.StatusCode, err, want)
		}
		if want == http.StatusTooManyRequests && resp.Header.Get("Retry-After") != "2" {
			t.Errorf("Retry-After %q", resp.Header.Get("Retry-After"))
		}
		_ = resp.Body.Close()
		tr.CloseIdleConnections()
	}
}
