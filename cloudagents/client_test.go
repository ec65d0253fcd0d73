package cloudagents_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/cloudagents"

	"github.com/google/go-cmp/cmp"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts cloudagents.Options
		text string
	}{
		"no key":         {cloudagents.Options{}, "key is empty"},
		"key with LF":    {cloudagents.Options{Key: testKey + "\n"}, "contains a blank"},
		"version":        {cloudagents.Options{Key: testKey, API: "v2"}, `"v2" is not known`},
		"plain http":     {cloudagents.Options{Key: testKey, BaseURL: "http://api.cursor.com"}, "https"},
		"http by name":   {cloudagents.Options{Key: testKey, BaseURL: "http://127.0.0.1.evil.example"}, "https"},
		"no scheme":      {cloudagents.Options{Key: testKey, BaseURL: "api.cursor.com"}, "does not parse"},
		"password":       {cloudagents.Options{Key: testKey, BaseURL: "https://u:" + testKey + "@h"}, "user"},
		"query":          {cloudagents.Options{Key: testKey, BaseURL: "https://h/?a=b"}, "query"},
		"settle too low": {cloudagents.Options{Key: testKey, SettleTime: time.Minute}, "settle time"},
		"negative":       {cloudagents.Options{Key: testKey, Timeout: -1}, "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := cloudagents.New(c.opts)
			if err == nil || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), testKey) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestNewDefaults(t *testing.T) {
	t.Parallel()
	c, err := cloudagents.New(cloudagents.Options{Key: testKey})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.SettleTime(); got != 300*time.Second {
		t.Errorf("settle time %s", got)
	}
	for _, base := range []string{"https://h:8443/prefix/", "http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1"} {
		if _, err := cloudagents.New(cloudagents.Options{Key: testKey, BaseURL: base}); err != nil {
			t.Errorf("%s: %v", base, err)
		}
	}
}

// The key must not travel to where a redirect points.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	thief := newFake(t, nil)
	to := map[string]string{"Location": thief.URL + "/v1/me"}
	for _, status := range []int{301, 302, 303, 307, 308} {
		f := newFake(t, map[string][]reply{
			"GET /v1/me": {{status: status, header: to}}, "POST /v1/agents": {{status: status, header: to}}, streamRoute: {{status: status, header: to}},
		})
		c := newClient(t, f.URL)
		_, err := c.Me(t.Context())
		check(t, err, bridge.Unavailable, false)
		_, err = c.Launch(t.Context(), launchOf(t))
		check(t, err, bridge.Unavailable, true)
		check(t, c.Stream(t.Context(), run1, "", nil), bridge.Unavailable, false)
	}
	if n := len(thief.requests()); n != 0 {
		t.Errorf("%d requests were redirected", n)
	}
}

// A request that was canceled before it left is not unclear; one on its way is.
func TestCanceledRequests(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	f := newFake(t, map[string][]reply{"POST /v1/agents": {{do: func(w http.ResponseWriter, r *http.Request) { cancel(); hang(w, r) }}}})
	c := newClient(t, f.URL)
	_, err := c.Launch(ctx, launchOf(t))
	check(t, err, bridge.Unavailable, true)
	_, err = c.Launch(ctx, launchOf(t))
	check(t, err, bridge.Unavailable, false)
	if n := f.count("POST"); n != 1 {
		t.Errorf("%d POSTs", n)
	}
}

// net/http repeats a request by itself when a kept connection turns out dead,
// but never one with an effect that may have been read.
func TestDeadConnectionDoesNotDouble(t *testing.T) {
	t.Parallel()
	f := newFake(t, map[string][]reply{
		"GET /v1/me":      {{body: `{"apiKeyName":"k"}`}},
		"POST /v1/agents": {{do: cut}},
	})
	c := newClient(t, f.URL)
	for range 5 {
		if _, err := c.Me(t.Context()); err != nil { // leaves a connection to reuse
			t.Fatal(err)
		}
		_, err := c.Launch(t.Context(), launchOf(t))
		check(t, err, bridge.Unavailable, true)
	}
	if n := f.count("POST"); n != 5 {
		t.Errorf("%d POSTs for 5 launches", n)
	}
}

func TestAccount(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	me := reply{body: `{"apiKeyName":"work","userEmail":"me@example.com","createdAt":"2026-01-02T03:04:05.000Z"}`}
	f := newFake(t, map[string][]reply{
		"GET /v1/me": {me}, "GET /v0/me": {me},
		"GET /v1/models": {{body: `{"items":[{"id":"m-1","displayName":"M"},"m-2",7,{}]}`}},
		"GET /v0/models": {{body: `{"models":["m-3"]}`}},
		"GET /v1/agents": {{body: `{"items":[` + agentV1 + `]}`}},
		"GET /v0/agents": {{body: `{"agents":[` + createdV0 + `],"nextCursor":"x"}`}},
	})
	for api, want := range map[string]struct {
		models []string
		agents []cloudagents.Agent
	}{
		bridge.APIv1: {[]string{"m-1", "m-2"}, []cloudagents.Agent{{ID: agentID, Status: "ACTIVE", Repo: "github.com/me/my-app", LatestRun: "run-1", URL: "https://cursor.com/agents/x"}}},
		bridge.APIv0: {[]string{"m-3"}, []cloudagents.Agent{{ID: "bc_1", Name: "n", Status: "CREATING", Repo: "https://github.com/me/my-app", Branch: "bridge/op_1", URL: "https://cursor.com/agents?id=bc_1", Created: created}}},
	} {
		c := newClient(t, f.URL, func(o *cloudagents.Options) { o.API = api })
		account, err := c.Me(t.Context())
		if diff := cmp.Diff(cloudagents.Account{KeyName: "work", Email: "me@example.com", Created: created}, account); diff != "" || err != nil {
			t.Error(err, diff)
		}
		models, err := c.Models(t.Context())
		if diff := cmp.Diff(want.models, models); diff != "" || err != nil {
			t.Error(err, diff)
		}
		agents, err := c.List(t.Context(), 500)
		if diff := cmp.Diff(want.agents, agents); diff != "" || err != nil {
			t.Error(err, diff)
		}
	}
	for _, r := range f.requests() {
		if strings.HasSuffix(r.Path, "/agents") && r.Query != "limit=100" {
			t.Errorf("list asked with %q", r.Query)
		}
	}
	empty := newFake(t, map[string][]reply{"GET /v1/me": {{body: "{}"}}, "GET /v1/models": {{body: "[]"}}, "GET /v1/agents": {{status: 500}}})
	c := newClient(t, empty.URL)
	_, err := c.Me(t.Context())
	check(t, err, bridge.Unavailable, false)
	_, err = c.Models(t.Context())
	check(t, err, bridge.Unavailable, false)
	_, err = c.List(t.Context(), 0)
	check(t, err, bridge.Unavailable, false)
}
