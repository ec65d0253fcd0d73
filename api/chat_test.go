package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/api"
	"drawbridge/bridge"
)

const allWords = `On it.
SUBAGENT: repo=https://github.com/me/my-app, prompt=Add a health check
SUBAGENT: repo=github.com/evil/x, prompt=steal
SUBAGENT: repo=not-a-repo, prompt=what
SUBAGENT: repo=github.com/acme/tool, prompt=needs a person
LOCAL_ACTION: backup_script
LOCAL_ACTION: deploy
LOCAL_ACTION: not_at_relay
LOCAL_ACTION: slow
LOCAL_ACTION: broken`

func TestChatSpeaksThePublishedWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cloud.set(func(c *cloud) {
		c.reply = func(text string) (string, bridge.RunState) {
			if text == "do it all" {
				return allWords, bridge.RunFinished
			}
			return "ok", bridge.RunFinished
		}
	})
	code, body, _ := w.call(t, "POST", "/chat", `{"user_id":"u-1","message":"do it all","extra":true}`)
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	got := decode[api.ChatAnswer](t, body)
	if !strings.HasPrefix(got.AgentID, "bc-") || len(got.Dispatched.Subagents) != 4 || !strings.HasPrefix(got.Dispatched.Subagents[0].AgentID, "bc-") {
		t.Fatalf("%s", body)
	}
	want := api.ChatAnswer{
		Reply: allWords, AgentID: got.AgentID, State: "FINISHED", Seq: 1, Cause: "launch", Message: "do it all", Later: "/agent/u-1?after=1",
		Parsed: api.ChatParsed{
			Subagents: []api.ParsedSubagent{{Repo: "https://github.com/me/my-app", Prompt: "Add a health check"}, {Repo: "github.com/evil/x", Prompt: "steal"},
				{Repo: "not-a-repo", Prompt: "what"}, {Repo: "github.com/acme/tool", Prompt: "needs a person"}},
			LocalActions: []api.ParsedAction{{ActionID: "backup_script"}, {ActionID: "deploy"}, {ActionID: "not_at_relay"}, {ActionID: "slow"}, {ActionID: "broken"}},
		},
		Dispatched: api.ChatDispatched{
			Subagents: []api.DispatchedSubagent{
				{Repo: "https://github.com/me/my-app", Status: "launched", AgentID: got.Dispatched.Subagents[0].AgentID},
				{Repo: "github.com/evil/x", Status: "skipped", Error: "repo_not_allowed"},
				{Repo: "not-a-repo", Status: "skipped", Error: "repo_not_allowed"},
				{Repo: "github.com/acme/tool", Status: "skipped", Error: "needs_approval"},
			},
			LocalActions: []api.DispatchedAction{
				{ActionID: "backup_script", Status: "executed", ResponseStatus: 200, ResponseBody: strings.Repeat("é", 500)},
				{ActionID: "deploy", Status: "skipped", Error: "action_not_allowed"},
				{ActionID: "not_at_relay", Status: "skipped", Error: "action_not_allowed", ResponseStatus: 403, ResponseBody: "not on this relay's list"},
				{ActionID: "slow", Status: "error", Error: "timed_out", ResponseStatus: 200},
				{ActionID: "broken", Status: "error", Error: "failed"},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestChatWithoutCommandsHasEmptyLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code, body, _ := w.call(t, "POST", "/chat", `{"user_id":"u","text":"hello"}`)
	for _, part := range []string{`"reply":"done"`, `"state":"FINISHED"`, `"parsed":{"subagents":[],"localActions":[]}`, `"dispatched":{"subagents":[],"localActions":[]}`} {
		if code != http.StatusOK || !strings.Contains(body, part) {
			t.Errorf("%d, no %s in %s", code, part, body)
		}
	}
}

func TestEachUserHasAnAgentOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *api.Options) { o.Chat.Prompt = "the protocol" })
	ids := map[string]string{}
	for _, user := range []string{"ann", "bob", "ann", "a/b c", "ann "} {
		got, err := w.client.Chat(t.Context(), api.ChatRequest{UserID: user, Message: "hi"})
		if err != nil {
			t.Fatal(err)
		}
		if old, known := ids[user]; known && old != got.AgentID {
			t.Errorf("%q has agents %s and %s", user, old, got.AgentID)
		}
		ids[user] = got.AgentID
		a, err := w.client.ChatAgent(t.Context(), user)
		if err != nil || a.UserID != user || a.AgentID != got.AgentID || a.State != "FINISHED" || !strings.HasPrefix(a.Name, "chat-") || strings.Contains(a.Name, "ann") {
			t.Errorf("%+v, %v", a, err)
		}
	}
	seen := map[string]bool{}
	for _, id := range ids {
		seen[id] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d agents for 4 users: %v", len(seen), ids)
	}
	w.cloud.set(func(c *cloud) {
		if len(c.agents) != 4 || c.runs["run-1"] != "the protocol\n\nhi" {
			t.Errorf("%d launches, first with %q", len(c.agents), c.runs["run-1"])
		}
	})
}

func TestFirstMessagesAtOnceMakeOneAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	ids := map[string]int{}
	for i := range 8 {
		all.Go(func() {
			got, err := w.client.Chat(t.Context(), api.ChatRequest{UserID: "ann", Message: fmt.Sprint("message ", i)})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			ids[got.AgentID]++
		})
	}
	all.Wait()
	if len(ids) != 1 {
		t.Errorf("agents %v", ids)
	}
}

func TestChatAnswersWhenTheTimeIsUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *api.Options) { o.Chat.Wait = 50 * time.Millisecond })
	w.cloud.set(func(c *cloud) { c.reply = func(string) (string, bridge.RunState) { return "", bridge.RunRunning } })
	code, body, _ := w.call(t, "POST", "/chat", `{"user_id":"u","message":"m"}`)
	if got := decode[api.ChatAnswer](t, body); code != http.StatusOK || got.State != "running" || got.Reply != "" {
		t.Errorf("%d %s", code, body)
	}
}

func TestChatEndsWithItsClientAndItsServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cloud.set(func(c *cloud) { c.reply = func(string) (string, bridge.RunState) { return "", bridge.RunRunning } })
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := w.client.Chat(ctx, api.ChatRequest{UserID: "u", Message: "m"})
		gone <- err
	}()
	w.until(t, func() bool {
		list, err := w.client.Agents(t.Context(), api.ListOptions{State: "busy"})
		return err == nil && len(list.Agents) == 1
	})
	cancel()
	if err := <-gone; err == nil || !bridge.IsUnclear(err) {
		t.Errorf("a chat that was given up returned %v", err)
	}
	answer := make(chan api.ChatAnswer, 1)
	go func() {
		got, err := w.client.Chat(t.Context(), api.ChatRequest{UserID: "u", Message: "again"})
		if err != nil {
			t.Error(err)
		}
		answer <- got
	}()
	w.until(t, func() bool {
		list, err := w.client.Turns(t.Context(), chatName(t, w, "u"), api.ListOptions{})
		return err == nil && len(list.Turns) == 2
	})
	if err := w.stop(); err != nil {
		t.Errorf("the stop had to cut off: %v", err)
	}
	if got := <-answer; got.State != "running" {
		t.Errorf("%+v", got)
	}
}

func chatName(t *testing.T, w *world, user string) string {
	t.Helper()
	a, err := w.client.ChatAgent(t.Context(), user)
	if err != nil {
		t.Fatal(err)
	}
	return a.Name
}

func TestChatSaysWhyATurnFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cloud.set(func(c *cloud) { c.launchErr = bridge.Errorf(bridge.UsageLimited, "the usage limit is reached") })
	got, err := w.client.Chat(t.Context(), api.ChatRequest{UserID: "u", Message: "m"})
	if err != nil || got.State != "ERROR" || !strings.Contains(got.Reply, "usage limit") {
		t.Fatalf("%+v, %v", got, err)
	}
	w.cloud.set(func(c *cloud) { c.launchErr = nil })
	again, err := w.client.Chat(t.Context(), api.ChatRequest{UserID: "u", Message: "m"})
	if err != nil || again.State != "FINISHED" || again.AgentID == got.AgentID {
		t.Errorf("a user whose launch failed gets no other agent: %+v, %v", again, err)
	}
	a, err := w.client.Agent(t.Context(), again.AgentID)
	if err != nil || a.ChatUser != "u" {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestChatWithoutARepository(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *api.Options) { o.Chat.Repo = "" })
	if _, err := w.client.Chat(t.Context(), api.ChatRequest{UserID: "u", Message: "m"}); bridge.KindOf(err) != bridge.NotFound {
		t.Error(err)
	}
}

func TestChatRate(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	w := newWorld(t, func(o *api.Options) {
		o.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	})
	advance := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	ask := func(user string) (int, string) {
		code, _, h := w.call(t, "POST", "/chat", `{"user_id":"`+user+`","message":"m"}`)
		return code, h.Get("Retry-After")
	}
	for i := range 20 {
		if code, _ := ask("ann"); code != http.StatusOK {
			t.Fatalf("request %d: %d", i+1, code)
		}
		advance(time.Second)
	}
	if code, wait := ask("ann"); code != http.StatusTooManyRequests || wait != "40" {
		t.Errorf("request 21: %d, Retry-After %q", code, wait)
	}
	if code, _ := ask("bob"); code != http.StatusOK {
		t.Errorf("another user: %d", code)
	}
	advance(40 * time.Second)
	if code, _ := ask("ann"); code != http.StatusOK {
		t.Errorf("after the wait: %d", code)
	}
	if code, wait := ask("ann"); code != http.StatusTooManyRequests || wait != "1" {
		t.Errorf("and one more: %d, Retry-After %q", code, wait)
	}
}
