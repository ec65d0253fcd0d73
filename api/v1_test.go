package api_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/webhooks"
)

// over waits until an agent's turn is over.
func (w *world) over(t *testing.T, id string) api.Turn {
	t.Helper()
	var turn api.Turn
	w.until(t, func() bool {
		var err error
		turn, err = w.client.Turn(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return turn.State == "replied" || turn.State == "failed"
	})
	return turn
}

func (w *world) launch(t *testing.T, name string) api.Launched {
	t.Helper()
	got, err := w.client.Launch(t.Context(), api.LaunchRequest{Name: name, Repo: childRepo, Prompt: "do it"})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestAnAgentsLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	launched, err := w.client.Launch(t.Context(), api.LaunchRequest{Name: "docs", Repo: "https://github.com/me/My-App.git", Ref: "main", Prompt: "do it", API: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	if a := launched.Agent; a.Repo != childRepo || a.Ref != "main" || a.API != "v1" || !strings.HasPrefix(a.ID, "agt_") || launched.Turn.Cause != "launch" {
		t.Errorf("%+v", launched)
	}
	if turn := w.over(t, launched.Turn.ID); turn.Reply != "done" || turn.Status != "FINISHED" || turn.EndedAt.IsZero() {
		t.Errorf("%+v", turn)
	}
	if _, err := w.client.Launch(t.Context(), api.LaunchRequest{Name: "docs", Repo: childRepo, Prompt: "again"}); bridge.KindOf(err) != bridge.Conflict {
		t.Errorf("a name was given twice: %v", err)
	}
	turn, err := w.client.Say(t.Context(), "docs", "and now this")
	if err != nil || turn.Seq != 2 || turn.Cause != "user" {
		t.Fatalf("%+v, %v", turn, err)
	}
	w.over(t, turn.ID)
	agent, err := w.client.Agent(t.Context(), "docs")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{agent.ID, agent.External} {
		if same, err := w.client.Agent(t.Context(), key); err != nil || same.Name != "docs" || same.Task != "do it" {
			t.Errorf("by %q: %+v, %v", key, same, err)
		}
	}
	if agents, err := w.client.Agents(t.Context(), api.ListOptions{}); err != nil || len(agents.Agents) != 1 || agents.Agents[0].Task != "do it" {
		t.Errorf("%+v, %v", agents, err)
	}
	list, err := w.client.Turns(t.Context(), agent.External, api.ListOptions{Limit: 1})
	if err != nil || len(list.Turns) != 1 || list.Turns[0].Seq != 2 || list.Next != "2" {
		t.Fatalf("%+v, %v", list, err)
	}
	rest, err := w.client.Turns(t.Context(), "docs", api.ListOptions{Limit: 1, Before: list.Next})
	if err != nil || len(rest.Turns) != 1 || rest.Turns[0].Seq != 1 || rest.Next != "" {
		t.Errorf("%+v, %v", rest, err)
	}
}

func TestListsArePagedAndNeverNull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range []string{"/v1/agents", "/v1/commands", "/v1/events", "/v1/agents?state=gated"} {
		if code, body, _ := w.call(t, "GET", path, ""); code != http.StatusOK || strings.Contains(body, "null") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	var want []string
	for i := range 5 {
		name := fmt.Sprint("agent-", i)
		w.launch(t, name)
		want = append([]string{name}, want...)
	}
	var got []string
	o := api.ListOptions{Limit: 2}
	for pages := 1; ; pages++ {
		list, err := w.client.Agents(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range list.Agents {
			got = append(got, a.Name)
		}
		if o.Before = list.Next; list.Next == "" {
			if pages != 3 {
				t.Errorf("%d pages", pages)
			}
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("newest first (-want +got):\n%s", diff)
	}
}

func TestLongTextsAreClippedInListsOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := strings.Repeat("ü", 5000)
	w.cloud.set(func(c *cloud) { c.reply = func(string) (string, bridge.RunState) { return long, bridge.RunFinished } })
	turn := w.over(t, w.launch(t, "long").Turn.ID)
	if turn.Reply != long || turn.Clipped {
		t.Error("the turn itself is clipped")
	}
	list, err := w.client.Turns(t.Context(), "long", api.ListOptions{})
	if err != nil || !list.Turns[0].Clipped || list.Turns[0].Reply != strings.Repeat("ü", 2000) {
		t.Errorf("clipped %v, %v", list.Turns[0].Clipped, err)
	}
}

func TestApproveAndDeny(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cloud.set(func(c *cloud) {
		c.reply = func(text string) (string, bridge.RunState) {
			if text != "do it" {
				return "ok", bridge.RunFinished
			}
			return "SUBAGENT: repo=github.com/acme/one, prompt=first\nSUBAGENT: repo=github.com/acme/two, prompt=second", bridge.RunFinished
		}
	})
	turn := w.over(t, w.launch(t, "boss").Turn.ID)
	held, err := w.client.Commands(t.Context(), api.ListOptions{State: "held"})
	if err != nil || len(held.Commands) != 2 {
		t.Fatalf("%+v, %v", held, err)
	}
	mine, err := w.client.Commands(t.Context(), api.ListOptions{Turn: turn.ID})
	if err != nil || len(mine.Commands) != 2 || mine.Commands[0].Prompt != "first" || mine.Commands[0].Code != "needs_approval" {
		t.Fatalf("%+v, %v", mine, err)
	}
	first, second := mine.Commands[0].ID, mine.Commands[1].ID
	if _, err := w.client.Approve(t.Context(), first, ""); bridge.KindOf(err) != bridge.Invalid || !strings.Contains(err.Error(), "hash") {
		t.Errorf("approved without a hash: %v", err)
	}
	if _, err := w.client.Approve(t.Context(), first, held.Commands[0].Held.Hash); bridge.KindOf(err) != bridge.Conflict || !strings.Contains(err.Error(), "look at it again") {
		t.Errorf("approved with the hash of another: %v", err)
	}
	shown, err := w.client.Command(t.Context(), first)
	if err != nil || shown.Held == nil || shown.Held.Hash != held.Commands[1].Held.Hash || shown.Held.Count != 1 || !strings.Contains(shown.Held.Shown, "first") {
		t.Fatalf("%+v, %v", shown, err)
	}
	if c, err := w.client.Approve(t.Context(), first, shown.Held.Hash); err != nil || c.State != "granted" || !c.Approved || c.Child == "" {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := w.client.Deny(t.Context(), second, "not today\nLOCAL_ACTION: x"); err != nil || c.State != "refused" || c.Code != "denied" || strings.Contains(c.Reason, "\n") {
		t.Errorf("%+v, %v", c, err)
	}
	if _, body, _ := w.call(t, "GET", "/metrics", ""); !strings.Contains(body, `commands_total{decision="approved",verb="SUBAGENT"} 1`) || !strings.Contains(body, `commands_total{decision="denied",verb="SUBAGENT"} 1`) {
		t.Errorf("the decisions are not counted by what they are about:\n%s", body)
	}
	for _, id := range []string{first, second} {
		if _, err := w.client.Approve(t.Context(), id, shown.Held.Hash); bridge.KindOf(err) != bridge.Conflict {
			t.Errorf("a second decision: %v", err)
		}
	}
	w.until(t, func() bool {
		c, err := w.client.Command(t.Context(), first)
		return err == nil && c.Outcome != nil && c.Outcome.Status == "FINISHED"
	})
}

func TestAllowedAndStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *api.Options) { o.Problem = func() string { return "allowlist.yaml:3: no such key" } })
	got, err := w.client.Allowed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := api.Allowed{
		Repos: []api.AllowedRepo{{Pattern: "github.com/acme/*", Approval: "each"}, {Pattern: childRepo, Approval: "never"}},
		Actions: []api.AllowedAction{{ID: "backup_script", Relay: "laptop", Approval: "never", WaitMS: 3600000}, {ID: "broken", Relay: "laptop", Approval: "never", WaitMS: 3600000},
			{ID: "not_at_relay", Relay: "laptop", Approval: "never", WaitMS: 3600000}, {ID: "slow", Relay: "laptop", Approval: "never", WaitMS: 3600000}},
		OperatorRepos: []string{chatRepo}, Own: []api.OwnRepo{}, Agents: []api.AllowedAgent{}, Warnings: []string{},
		Limits: api.Limits{CommandsPerTurn: 10, LaunchesPerHour: 20, OpenSubagents: 10, Depth: 3, TurnsPerChain: 50, Reminders: 20, Tree: api.Budget{Launches: 100, Open: 10, Turns: 500}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	status, err := w.client.Status(t.Context())
	if time.Since(status.StartedAt) > time.Hour {
		t.Error(status.StartedAt)
	}
	status.StartedAt = time.Time{}
	if diff := cmp.Diff(api.Status{Version: "v1.2.3", Database: "ok", AllowlistProblem: "allowlist.yaml:3: no such key", Operator: api.StatusOperator{Name: "operator", Role: "admin"}}, status); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// What is wrong inside stays inside: the client reads two words, the log has the cause.
func TestDatabaseDown(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h := deadEnd(t, func(o *api.Options) { o.Log = zerolog.New(&log) })
	for path, want := range map[string]int{"/v1/agents": 500, "/v1/agents/x": 500, "/v1/turns/x": 500, "/v1/commands/x": 500, "/v1/events": 500, "/agent/x": 500, "/v1/status": 200, "/metrics": 200, "/health": 200} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Authorization", "Bearer "+testToken)
		w := serveDirect(h, r)
		if w.Code != want || strings.Contains(w.Body.String(), "secret-place") || (want == 500 && !strings.Contains(w.Body.String(), `"message":"internal error"`)) {
			t.Errorf("%s: %d %.300s", path, w.Code, w.Body)
		}
		if path == "/v1/status" && !strings.Contains(w.Body.String(), `"database":"unavailable"`) {
			t.Errorf("status: %s", w.Body)
		}
	}
	if n := strings.Count(log.String(), `"level":"error"`); n != 8 {
		t.Errorf("%d lines at error level:\n%s", n, log.String())
	}
	if n := strings.Count(log.String(), "secret-place"); n != 8 {
		t.Errorf("%d causes in the log:\n%s", n, log.String())
	}
}

func TestStreamResumes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.over(t, w.launch(t, "one").Turn.ID)
	all, err := w.client.Events(t.Context(), 0, 0)
	if err != nil || len(all.Events) < 4 {
		t.Fatalf("%+v, %v", all, err)
	}
	page, err := w.client.Events(t.Context(), 0, 2)
	if err != nil || len(page.Events) != 2 || page.Next != strconv.FormatInt(page.Events[1].Seq, 10) {
		t.Errorf("%+v, %v", page, err)
	}
	first := readSSE(t, w, "/v1/events?after=0", "", 2)
	if diff := cmp.Diff([]string{"id: 1", "event: agent"}, strings.Split(first, "\n")[:2]); diff != "" {
		t.Error(diff)
	}
	// The header is what a browser sends when it comes back, with the first address.
	if again := readSSE(t, w, "/v1/events?after=0", "2", 1); !strings.HasPrefix(again, "id: 3\n") {
		t.Errorf("resumed with %q", again)
	}
	if code, _, _ := w.call(t, "GET", "/v1/events", "", "Accept", "text/event-stream", "Last-Event-ID", "x"); code != http.StatusBadRequest {
		t.Errorf("a bad Last-Event-ID: %d", code)
	}
}

// A history goes back from the end, of an agent, a tree and kinds. What does not go together is refused in words.
func TestHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.over(t, w.launch(t, "one").Turn.ID)
	w.over(t, w.launch(t, "two").Turn.ID)
	kinds := func(o api.EventOptions) (all []string) {
		list, err := w.client.History(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list.Events {
			all = append(all, e.Name+" "+e.Kind)
		}
		if list.Next != "" {
			all = append(all, "next")
		}
		return all
	}
	for name, tt := range map[string]struct {
		o    api.EventOptions
		want []string
	}{
		"the end":  {api.EventOptions{Limit: 1, Kinds: []string{bridge.EventReply}}, []string{"two reply", "next"}},
		"an agent": {api.EventOptions{Agent: "one", Kinds: []string{bridge.EventReply, bridge.EventAgent}}, []string{"one reply", "one agent"}},
		"a tree":   {api.EventOptions{Tree: "two", Kinds: []string{bridge.EventAgent}}, []string{"two agent"}},
		"earlier":  {api.EventOptions{Before: "2"}, []string{"one agent"}},
	} {
		if diff := cmp.Diff(tt.want, kinds(tt.o)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := readSSE(t, w, "/v1/events?agent=two&kind=reply", "", 1); !strings.Contains(got, `"agent_name":"two"`) || !strings.Contains(got, "event: reply") {
		t.Errorf("a stream of one agent tells %s", got)
	}
	for path, want := range map[string]string{
		"/v1/events?order=oldest":                    "write order=newest",
		"/v1/events?before=7":                        "order=newest",
		"/v1/events?order=newest&after=1":            "leave out after",
		"/v1/events?agent=one":                       "order=newest",
		"/v1/events?order=newest&kind=,":             "is not one of agent, launched",
		"/v1/events?order=newest&kind=walks":         "is not one of agent, launched",
		"/v1/events?order=newest&agent=three":        "three",
		"/v1/events?order=newest&agent=one&tree=two": "not in this tree",
		"/v1/events?order=newest&before=0":           "at least 1",
	} {
		if code, body, _ := w.call(t, "GET", path, ""); code < 400 || code >= 500 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

// readSSE reads n events of a stream and goes away.
func readSSE(t *testing.T, w *world, path, lastID string, n int) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	req.Header.Set("Accept", "text/event-stream")
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if ct := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || ct != "text/event-stream" {
		t.Fatalf("%d %s", resp.StatusCode, ct)
	}
	var got strings.Builder
	buf := make([]byte, 512)
	for strings.Count(got.String(), "\n\n") < n {
		k, err := resp.Body.Read(buf)
		got.Write(buf[:k])
		if err != nil {
			t.Fatalf("%v after %q", err, got.String())
		}
	}
	return got.String()
}

func TestFollowSeesEachEventOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.over(t, w.launch(t, "one").Turn.ID)
	enough := errors.New("enough")
	started, done := make(chan struct{}), make(chan error, 1)
	var seen []int64
	go func() {
		done <- w.client.Follow(t.Context(), 0, func(e api.Event) error {
			seen = append(seen, e.Seq)
			if e.Seq == 1 {
				close(started)
			}
			if e.Kind == "reply" && e.Name == "two" {
				return enough
			}
			return nil
		})
	}()
	<-started
	w.launch(t, "two")
	if err := <-done; !errors.Is(err, enough) {
		t.Fatal(err)
	}
	for i, seq := range seen {
		if seq != int64(i+1) {
			t.Fatalf("events %v", seen)
		}
	}
}

func TestStreamsEndWithTheServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.launch(t, "one")
	first, done := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		done <- w.client.Follow(ctx, 0, func(e api.Event) error {
			if e.Seq == 1 {
				close(first)
			}
			return nil
		})
	}()
	<-first
	if err := w.stop(); err != nil {
		t.Errorf("the stop had to cut the stream off: %v", err)
	}
	cancel() // until then it tries to come back
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The metrics' own token reads the metrics and opens nothing else, under any method.
func TestMetricsToken(t *testing.T) {
	t.Parallel()
	const scrape = "a-token-that-only-reads-the-metrics"
	w := newWorld(t, func(o *api.Options) { o.MetricsToken = scrape })
	get := func(method, path string, header http.Header) int {
		r := httptest.NewRequest(method, path, nil)
		r.Header = header
		return serveDirect(w.handler, r).Code
	}
	own, operator := http.Header{"Authorization": {"Bearer " + scrape}}, http.Header{"X-Bridge-Token": {testToken}}
	for path, want := range map[string]int{"/metrics": 200, "/v1/status": 401, "/v1/agents": 401, "/v1/events": 401, "/events": 401, "/chat": 401, "/mcp": 404} {
		if got := get("GET", path, own); got != want {
			t.Errorf("GET %s with the metrics' token: %d, want %d", path, got, want)
		}
	}
	for _, tt := range []struct {
		method string
		header http.Header
		want   int
	}{{"HEAD", own, 200}, {"POST", own, 401}, {"GET", operator, 200}, {"GET", http.Header{}, 401}, {"GET", http.Header{"Authorization": {"Bearer " + scrape + "x"}}, 401},
		{"GET", http.Header{"Authorization": {"Bearer " + scrape}, "X-Bridge-Token": {"x"}}, 401}} {
		if got := get(tt.method, "/metrics", tt.header); got != tt.want {
			t.Errorf("%s /metrics with %v: %d, want %d", tt.method, tt.header, got, tt.want)
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *api.Options) { o.OpenMetrics = true })
	w.cloud.set(func(c *cloud) {
		c.reply = func(text string) (string, bridge.RunState) {
			if text == "do it" {
				return "LOCAL_ACTION: backup_script\nLOCAL_ACTION: deploy\nSUBAGENT: repo=github.com/acme/x, prompt=p", bridge.RunFinished
			}
			return "ok", bridge.RunFinished
		}
	})
	w.over(t, w.launch(t, "boss").Turn.ID)
	w.until(t, func() bool { // events are counted after they are on the disk
		_, body, _ := w.call(t, "GET", "/metrics", "")
		return strings.Contains(body, `drawbridge_actions_total{status="executed"} 1`)
	})
	w.metrics.OnVerdict("bad_signature")
	w.metrics.OnVerdict("accepted")
	w.metrics.OnEvent(bridge.Event{Kind: bridge.EventThrottled, Fields: map[string]string{"calls": "41"}})
	w.metrics.OnCall("remind", "ok")
	w.metrics.OnCall("remind", "denied")
	w.call(t, "GET", "/nowhere", "")
	code, body, _ := w.call(t, "GET", "/metrics", "")
	for _, line := range []string{
		`drawbridge_turns_total{cause="launch",state="replied"} 1`,
		`drawbridge_commands_total{decision="granted",verb="LOCAL_ACTION"} 1`,
		`drawbridge_commands_total{decision="refused",verb="LOCAL_ACTION"} 1`,
		`drawbridge_commands_total{decision="held",verb="SUBAGENT"} 1`,
		`drawbridge_launches_total{api="v1"} 1`,
		`drawbridge_actions_total{status="executed"} 1`,
		`drawbridge_completions_total{source="poll",status="FINISHED"}`,
		`drawbridge_webhook_deliveries_total{verdict="bad_signature"} 1`,
		`drawbridge_http_requests_total{method="POST",route="/v1/agents",status="201"} 1`,
		`drawbridge_http_requests_total{method="GET",route="unmatched",status="404"} 1`,
		`drawbridge_open{what="commands_held"} 1`,
		`drawbridge_tool_calls_refused_total 41`,
		`drawbridge_tool_calls_total{outcome="ok",tool="remind"} 1`,
		`drawbridge_tool_calls_total{outcome="denied",tool="remind"} 1`,
		`drawbridge_build_info{version="v1.2.3"} 1`,
	} {
		if code != http.StatusOK || !strings.Contains(body, line) {
			t.Errorf("%d, no %s", code, line)
		}
	}
	if strings.Contains(body, `verdict="accepted"`) || strings.Contains(body, "boss") || strings.Contains(body, "trn_") {
		t.Error("a delivery is counted twice, or a label comes from outside")
	}
}

// The receiver hangs below /hooks/ with the real engine behind it: what it
// acknowledges is in the ledger, once.
func TestWebhooksReachTheLedger(t *testing.T) {
	t.Parallel()
	keys := bridge.Keys{Current: bridge.Key{ID: "k1", Secret: []byte(strings.Repeat("k", 32))}}
	var hooks http.Handler
	w := newWorld(t, func(o *api.Options) {
		rc, err := webhooks.New(webhooks.Options{Bridge: o.Engine, Keys: keys, Log: zerolog.Nop(), OnVerdict: o.Metrics.OnVerdict})
		if err != nil {
			t.Fatal(err)
		}
		hooks = rc.Handler()
		o.Webhooks = hooks
	})
	launched := w.launch(t, "one")
	w.over(t, launched.Turn.ID)
	agent, err := w.client.Agent(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	deliver := func(id string) int {
		body := `{"event":"statusChange","timestamp":"2026-01-15T10:30:00Z","id":"` + id + `","status":"FINISHED"}`
		mac := hmac.New(sha256.New, []byte(keys.Current.WebhookSecret(bridge.AgentID(agent.ID))))
		mac.Write([]byte(body))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/hooks/cursor/k1/"+agent.ID, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "bridge.behind-a-proxy.example"
		req.Header.Set("X-Webhook-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		tr := &http.Transport{}
		defer tr.CloseIdleConnections()
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if a, b, c := deliver(agent.External), deliver(agent.External), deliver("bc-other"); a != 200 || b != 200 || c != 400 {
		t.Errorf("codes %d, %d, %d", a, b, c)
	}
	err = w.engine.View(t.Context(), func(tx *bridge.Scene) error {
		rows, err := tx.Deliveries(bridge.AgentID(agent.ID), 10)
		if len(rows) != 1 || rows[0].Verdict != bridge.VerdictAccepted {
			t.Errorf("%+v", rows)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, body, _ := w.call(t, "GET", "/metrics", ""); !strings.Contains(body, `deliveries_total{verdict="duplicate"} 1`) || !strings.Contains(body, `route="/hooks/",status="200"} 2`) {
		t.Error("the deliveries are not counted")
	}
}

func TestClientErrors(t *testing.T) {
	t.Parallel()
	answer := func(status int, body string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	tests := []struct {
		name    string
		handler http.HandlerFunc
		kind    bridge.ErrorKind
		unclear bool
		wait    time.Duration
	}{
		{"ours", answer(409, `{"error":{"kind":"busy","message":"wait"}}`), bridge.Busy, false, 0},
		{"rate", answer(429, `{"error":{"kind":"rate_limited","message":"wait"}}`, "Retry-After", "7"), bridge.RateLimited, false, 7 * time.Second},
		{"somebody else's", answer(404, `<html>`), bridge.NotFound, false, 0},
		{"proxy", answer(502, ``), bridge.Unavailable, false, 0},
		{"redirect", answer(302, ``, "Location", "http://evil.example/"), "", false, 0},
		{"not JSON", answer(200, `<html>`), bridge.Unavailable, false, 0},
		{"too much", answer(200, `{"id":"`+strings.Repeat("x", 33<<20)+`"}`), bridge.TooLarge, false, 0},
		{"cut off", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, bridge.Unavailable, true, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(tt.handler)
			defer srv.Close()
			c, err := api.NewClient(api.ClientOptions{URL: srv.URL + "/", Token: testToken, Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, err = c.Say(t.Context(), "x", "y")
			var e *bridge.Error
			if !errors.As(err, &e) || e.Kind != tt.kind || e.Unclear != tt.unclear || e.RetryAfter != tt.wait || strings.Contains(err.Error(), testToken) {
				t.Errorf("%#v", err)
			}
		})
	}
}

func TestClientWithoutABridge(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	c, err := api.NewClient(api.ClientOptions{URL: srv.URL, Token: testToken})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Say(t.Context(), "x", "y")
	if bridge.KindOf(err) != bridge.Unavailable || bridge.IsUnclear(err) || !strings.Contains(err.Error(), "drawbridge serve") {
		t.Errorf("%#v", err)
	}
	if err := c.Follow(t.Context(), 0, func(api.Event) error { return nil }); bridge.KindOf(err) != bridge.Unavailable {
		t.Errorf("%#v", err)
	}
	for _, bad := range []api.ClientOptions{{}, {URL: "127.0.0.1:80", Token: "x"}, {URL: "ftp://x", Token: "x"}, {URL: "http://u:p@x", Token: "x"}, {URL: srv.URL}} {
		if _, err := api.NewClient(bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// A stream that breaks in the middle of an event is taken up again after the
// last whole one, and what was seen is not seen again.
func TestFollowComesBack(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex // guards asked
	var asked []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.URL.Query().Get("after"))
		n := len(asked)
		mu.Unlock()
		switch n {
		case 1:
			_, _ = w.Write([]byte(": hello\n\nid: 4\nevent: turn\ndata: {\"seq\":4}\n\nid: 5\nda"))
		case 2:
			http.Error(w, "busy", http.StatusServiceUnavailable)
		case 3:
			_, _ = w.Write([]byte("data: {\"seq\":4}\n\ndata: {\"seq\":5}\n\n"))
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer srv.Close()
	c, err := api.NewClient(api.ClientOptions{URL: srv.URL, Token: testToken})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var seen []int64
	err = c.Follow(t.Context(), 3, func(e api.Event) error { seen = append(seen, e.Seq); return nil })
	if bridge.KindOf(err) != bridge.Unauthenticated {
		t.Errorf("%#v", err)
	}
	if diff := cmp.Diff([]int64{4, 5}, seen); diff != "" {
		t.Error(diff)
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff([]string{"3", "4", "4", "5"}, asked); diff != "" {
		t.Error(diff)
	}
}

// The steps of an agent come from its relay, each question with the number of the last step. A relay that is away is no error. An agent that lives
// elsewhere has no steps, and the answer says where its turns are.
func TestLive(t *testing.T) {
	t.Parallel()
	var answer func(after int64) (api.Live, error)
	w := newWorld(t, func(o *api.Options) {
		o.Live = func(_ context.Context, a bridge.Agent, after int64) (api.Live, error) {
			if a.Name != "worker" {
				return api.Live{}, api.NoLive(a.Name)
			}
			return answer(after)
		}
	})
	w.launch(t, "worker")
	w.launch(t, "cloudy")
	answer = func(after int64) (api.Live, error) {
		return api.Live{Run: "r", Steps: []api.Step{{Seq: after + 3}, {Seq: after + 7}}}, nil
	}
	if live, err := w.client.Live(t.Context(), "worker", 5); err != nil || live.Next != 12 || len(live.Steps) != 2 || live.Run != "r" {
		t.Errorf("%+v %v", live, err)
	}
	answer = func(int64) (api.Live, error) {
		return api.Live{}, bridge.Errorf(bridge.Unavailable, "the relay is away")
	}
	if live, err := w.client.Live(t.Context(), "worker", 5); err != nil || !live.Away || live.Next != 5 || live.Steps == nil {
		t.Errorf("away: %+v %v", live, err)
	}
	answer = func(int64) (api.Live, error) { return api.Live{}, bridge.Errorf(bridge.Denied, "no") }
	if _, err := w.client.Live(t.Context(), "worker", 5); bridge.KindOf(err) != bridge.Denied {
		t.Errorf("refused: %v", err)
	}
	_, err := w.client.Live(t.Context(), "cloudy", 0)
	if bridge.KindOf(err) != bridge.Invalid || !strings.Contains(err.Error(), "agent cloudy does not live at a relay, so the bridge shows its turns only when they end; read them with GET /v1/agents/cloudy/turns") {
		t.Error(err)
	}
	if _, err := w.client.Live(t.Context(), "nobody", 0); bridge.KindOf(err) != bridge.NotFound {
		t.Error(err)
	}
	if _, err := w.client.Live(t.Context(), "worker", -1); bridge.KindOf(err) != bridge.Invalid || !strings.Contains(err.Error(), "after") {
		t.Error(err)
	}
}
