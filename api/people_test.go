package api_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/policy"
)

// people are operators besides the owner.
func people(o *api.Options) {
	o.Operators = []api.Operator{
		{Name: "ann", Role: bridge.RoleApprover, Token: "the-token-of-ann"},
		{Name: "vic", Role: bridge.RoleViewer, Token: "the-token-of-vic"},
		{Name: "zoe", Role: bridge.RoleAdmin, Token: "the-token-of-zoe"},
	}
}

// TestRoles: each route takes the people of its role, and refuses the others before it does anything.
func TestRoles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people)
	// What somebody besides an admin may send. Everybody may read.
	viewers := []string{"/v1/allowed/try", "/v1/allowed/compare", "/v1/page/links"}
	approvers := []string{
		"/v1/agents/{id}/stop", "/v1/agents/{id}/resume", "/v1/restored", "/v1/commands/{id}/approve", "/v1/commands/{id}/deny", "/v1/commands/{id}/resolve", "/v1/commands/{id}/cancel",
		"/v1/turns/{id}/stop", "/v1/turns/{id}/resolve", "/v1/turns/{id}/continue", "/v1/turns/{id}/say-again", "/v1/turns/{id}/give-up",
	}
	refused := map[string]int{}
	for _, route := range routes(t, w.handler) {
		if route.template == "/events" || route.template == "/v1/events" {
			continue // streams; they are read like other routes
		}
		reads := route.method != http.MethodPost || slices.Contains(viewers, route.template)
		for name, may := range map[string]bool{"vic": reads, "ann": reads || slices.Contains(approvers, route.template), "zoe": true, "nobody": false} {
			r := httptest.NewRequest(route.method, route.path(), strings.NewReader("x"))
			r.Header.Set("X-Bridge-Token", "the-token-of-"+name)
			rec := serveDirect(w.handler, r)
			switch no := rec.Code == http.StatusForbidden && strings.Contains(rec.Body.String(), name+" has the role"); {
			case name == "nobody":
				if rec.Code != http.StatusUnauthorized && !strings.HasPrefix(route.template, "/health") {
					t.Errorf("%+v of nobody: %d", route, rec.Code)
				}
			case no == may:
				t.Errorf("%+v of %s: %d %s", route, name, rec.Code, rec.Body)
			case no:
				refused[name]++
			}
		}
	}
	if refused["vic"] <= refused["ann"] || refused["ann"] == 0 || refused["zoe"] != 0 {
		t.Errorf("refused: %v", refused)
	}
}

// TestWhoseWord: the record says who asked, and from where. Status says it to the person.
func TestWhoseWord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people)
	as := func(name string) *api.Client {
		c, err := api.NewClient(api.ClientOptions{URL: w.url, Token: "the-token-of-" + name})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	launched, err := as("zoe").Launch(t.Context(), api.LaunchRequest{Name: "one", Repo: chatRepo, Prompt: "p"})
	if err != nil {
		t.Fatal(err)
	}
	w.over(t, launched.Turn.ID)
	if _, err := as("ann").Stop(t.Context(), "one", "enough"); err != nil {
		t.Fatal(err)
	}
	list, err := w.client.History(t.Context(), api.EventOptions{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]string{}
	for _, e := range list.Events {
		by[e.Kind] = e.Fields["by"] + " " + e.Fields["address"]
	}
	if by[bridge.EventAgent] != "zoe 127.0.0.1" || by[bridge.EventStopped] != "ann 127.0.0.1" {
		t.Errorf("%v", by)
	}
	for _, act := range []func() error{
		func() error { _, err := as("zoe").Resume(t.Context(), "one"); return err },
		func() error { _, err := as("zoe").Say(t.Context(), "one", "hello"); return err },
		func() error { _, err := as("zoe").Join(t.Context(), "one", api.JoinRequest{Join: "all"}); return err },
	} {
		if err := act(); err != nil {
			t.Fatal(err)
		}
	}
	list, err = w.client.History(t.Context(), api.EventOptions{Kinds: []string{bridge.EventOperator}, Limit: 10})
	if err != nil || len(list.Events) != 2 || list.Events[1].Text != "zoe said something to one" || list.Events[0].Text != "zoe changed something by POST /v1/agents/one/join" || list.Events[0].Fields["by"] != "zoe" {
		t.Errorf("%+v, %v", list, err)
	}
	if s, err := as("vic").Status(t.Context()); err != nil || s.Operator != (api.StatusOperator{Name: "vic", Role: "viewer"}) {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := as("vic").Say(t.Context(), "one", "hello"); bridge.KindOf(err) != bridge.Denied || !strings.Contains(err.Error(), "this needs the role admin") {
		t.Errorf("%v", err)
	}
}

// TestOddPeople: two people with one name or one token, and somebody without a role, open nothing.
func TestOddPeople(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := testPolicy(t)
	for name, o := range map[string]api.Operator{
		"the owner's token": {Name: "ann", Role: bridge.RoleViewer, Token: testToken}, "the owner's name": {Name: bridge.OwnerName, Role: bridge.RoleViewer, Token: "t"},
		"no role": {Name: "ann", Token: "t"}, "no token": {Name: "ann", Role: bridge.RoleViewer}, "an odd role": {Name: "ann", Role: "root", Token: "t"},
	} {
		if _, err := api.New(api.Options{Engine: w.engine, Policy: func() *policy.Policy { return p }, Token: testToken, Operators: []api.Operator{o}}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
