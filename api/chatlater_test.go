package api_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/parser"
)

// later reads a user's turns after a number.
func later(t *testing.T, w *world, user string, after int64) api.ChatAgent {
	t.Helper()
	got, err := w.client.ChatLater(t.Context(), user, after)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// follow gets a path that an answer named.
func follow(t *testing.T, w *world, path string) api.ChatAgent {
	t.Helper()
	code, body, _ := w.call(t, "GET", path, "")
	if code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, code, body)
	}
	return decode[api.ChatAgent](t, body)
}

func seqs(turns []api.ChatAnswer) (list []int64) {
	for _, a := range turns {
		list = append(list, a.Seq)
	}
	return list
}

// aParent is a cloud whose user's agent delegates, and answers what its subagent says.
func aParent(text string) (string, bridge.RunState) {
	switch {
	case text == "delegate":
		return "SUBAGENT: repo=github.com/me/my-app, prompt=the work", bridge.RunFinished
	case text == "the work":
		return "the work is done", bridge.RunFinished
	case strings.Contains(text, "the work is done"):
		return "LOCAL_ACTION: backup_script", bridge.RunFinished
	}
	return "noted", bridge.RunFinished
}

// TestChatShowsLaterResults: what a subagent and an action brought about after /chat had answered could not be seen at /chat's surface.
func TestChatShowsLaterResults(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *api.Options) { o.Chat.Prompt = "the protocol" })
	w.cloud.set(func(c *cloud) {
		c.reply = func(text string) (string, bridge.RunState) {
			return aParent(strings.TrimPrefix(text, "the protocol\n\n"))
		}
	})
	first, err := w.client.Chat(t.Context(), api.ChatRequest{UserID: "a/b", Message: "delegate"})
	if err != nil || first.Seq != 1 || first.State != "FINISHED" {
		t.Fatalf("%+v, %v", first, err)
	}
	var got api.ChatAgent
	w.until(t, func() bool {
		got = follow(t, w, first.Later)
		return len(got.Turns) == 2 && got.Turns[1].State == "FINISHED" && got.Turns[0].State == "FINISHED"
	})
	if got.Turns[0].Cause != "completion" || len(got.Turns[0].Dispatched.LocalActions) != 1 || got.Turns[0].Dispatched.LocalActions[0].Status != "executed" {
		t.Errorf("the subagent's result: %+v", got.Turns[0])
	}
	if got.Turns[1].Cause != "action_outcome" || got.Turns[1].Reply != "noted" || got.Turns[1].AgentID != first.AgentID || got.Turns[1].Message != "" {
		t.Errorf("the action's: %+v", got.Turns[1])
	}
	if again := follow(t, w, got.Later); len(again.Turns) != 0 || again.Turns == nil || again.Later != got.Later || got.More {
		t.Errorf("after the end: %+v", again)
	}
	all := later(t, w, "a/b", 0)
	if diff := cmp.Diff(append([]api.ChatAnswer{first}, got.Turns...), all.Turns); diff != "" {
		t.Errorf("a turn reads otherwise later (-first +later):\n%s", diff)
	}
	if plain := follow(t, w, "/agent/a%2Fb"); plain.Turns != nil || plain.Seq != 3 || plain.Later != got.Later {
		t.Errorf("without after: %+v", plain)
	}
}

// TestChatAsync: the answer is there while the run goes on, and its path shows the reply.
func TestChatAsync(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := bridge.RunRunning
	w.cloud.set(func(c *cloud) { c.reply = func(string) (string, bridge.RunState) { return "at last", run } })
	code, body, header := w.call(t, "POST", "/chat?async=true", `{"user_id":"u","message":"m"}`)
	got := decode[api.ChatAnswer](t, body)
	if code != http.StatusAccepted || got.State != "running" || got.Seq != 1 || got.Reply != "" || got.AgentID == "" || header.Get("Location") != got.Later {
		t.Fatalf("%d %s %v", code, body, header)
	}
	while := follow(t, w, got.Later)
	if len(while.Turns) != 1 || while.Turns[0].State != "running" || while.Turns[0].Message != "m" || while.Later != got.Later {
		t.Errorf("while it runs: %+v", while)
	}
	second, err := w.client.ChatAsync(t.Context(), api.ChatRequest{UserID: "u", Message: "n"})
	if err != nil || second.Seq != 2 || second.State != "running" {
		t.Errorf("a second message: %+v, %v", second, err)
	}
	w.cloud.set(func(*cloud) { run = bridge.RunFinished })
	var end api.ChatAgent
	w.until(t, func() bool { end = follow(t, w, got.Later); return end.Turns[1].State == "FINISHED" })
	if end.Turns[0].Reply != "at last" || end.Turns[1].Message != "n" || end.Later != "/agent/u?after=2" {
		t.Errorf("at the end: %+v", end)
	}
}

// TestChatLaterWaitsForCommands: a turn whose action has no answer yet is shown again, and turns behind it are not kept back.
func TestChatLaterWaitsForCommands(t *testing.T) {
	t.Parallel()
	block := make(chan struct{})
	w := newWorld(t)
	w.cloud.set(func(c *cloud) {
		c.reply = func(text string) (string, bridge.RunState) {
			if text == "launch" {
				return "SUBAGENT: repo=github.com/me/my-app, prompt=hang", bridge.RunFinished
			}
			return "ok", bridge.RunFinished
		}
		c.hang = func(prompt string) {
			if prompt == "hang" {
				<-block
			}
		}
	})
	for _, message := range []string{"hello", "launch", "and then"} {
		if _, err := w.client.ChatAsync(t.Context(), api.ChatRequest{UserID: "u", Message: message}); err != nil {
			t.Fatal(err)
		}
	}
	var got api.ChatAgent
	w.until(t, func() bool {
		got = later(t, w, "u", 0)
		return len(got.Turns) == 3 && got.Turns[2].State == "FINISHED"
	})
	if got.Turns[1].State != "running" || len(got.Turns[1].Parsed.Subagents) != 1 || len(got.Turns[1].Dispatched.Subagents) != 0 || got.Later != "/agent/u?after=1" {
		t.Errorf("%+v", got)
	}
	close(block)
	w.until(t, func() bool { got = follow(t, w, got.Later); return got.Turns[0].State == "FINISHED" })
	if d := got.Turns[0].Dispatched.Subagents; len(d) != 1 || d[0].Status != "launched" {
		t.Errorf("%+v", got.Turns[0])
	}
}

// TestChatLaterPages: a page has at most limit turns, and reading on finds each turn once.
func TestChatLaterPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 19 {
		if _, err := w.client.ChatAsync(t.Context(), api.ChatRequest{UserID: "u", Message: "m"}); err != nil {
			t.Fatal(err)
		}
	}
	w.until(t, func() bool { return follow(t, w, "/agent/u").State == "FINISHED" })
	var seen []int64
	at, pages := "/agent/u?after=0", 0
	for more := true; more; pages++ {
		page := follow(t, w, at+"&limit=9")
		seen, at, more = append(seen, seqs(page.Turns)...), page.Later, page.More
	}
	want := make([]int64, 19)
	for i := range want {
		want[i] = int64(i + 1)
	}
	if diff := cmp.Diff(want, seen); diff != "" || pages != 3 {
		t.Errorf("%d pages (-want +got):\n%s", pages, diff)
	}
}

// TestChatLaterBoundsItsAnswer: long replies end a page early, and none is lost.
func TestChatLaterBoundsItsAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cloud.set(func(c *cloud) {
		c.reply = func(string) (string, bridge.RunState) { return strings.Repeat("x", 1<<20), bridge.RunFinished }
	})
	for range 6 {
		if _, err := w.client.ChatAsync(t.Context(), api.ChatRequest{UserID: "u", Message: "m"}); err != nil {
			t.Fatal(err)
		}
	}
	w.until(t, func() bool { return follow(t, w, "/agent/u").State == "FINISHED" })
	var seen []int64
	for page := (api.ChatAgent{Later: "/agent/u?after=0", More: true}); page.More; {
		page = follow(t, w, page.Later)
		if len(page.Turns) > 2 {
			t.Fatalf("%d turns of a megabyte in one answer", len(page.Turns))
		}
		seen = append(seen, seqs(page.Turns)...)
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 4, 5, 6}, seen); diff != "" {
		t.Error(diff)
	}
}

// TestChatLaterOutlivesAnAgent: a user whose agent is gone gets another; numbers go on, and the failure stays readable.
func TestChatLaterOutlivesAnAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	say := func(message string) api.ChatAnswer {
		t.Helper()
		got, err := w.client.Chat(t.Context(), api.ChatRequest{UserID: "u", Message: message})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	w.cloud.set(func(c *cloud) { c.launchErr = bridge.Errorf(bridge.UsageLimited, "the usage limit is reached") })
	failed := say("one")
	if got := follow(t, w, "/agent/u?after=0"); len(got.Turns) != 1 || !strings.Contains(got.Turns[0].Reply, "usage limit") || got.State != "ERROR" || got.Seq != failed.Seq {
		t.Errorf("after a launch that failed: %+v", got)
	}
	w.cloud.set(func(c *cloud) { c.launchErr = nil })
	second := say("two")
	if got := follow(t, w, failed.Later); len(got.Turns) != 1 || got.Turns[0].Seq != second.Seq || got.Turns[0].Message != "two" || second.Seq <= failed.Seq {
		t.Errorf("the next agent's turns: %+v", got)
	}
	a, err := w.client.Agent(t.Context(), chatName(t, w, "u"))
	if err != nil {
		t.Fatal(err)
	}
	w.forget(t, a.Name)
	if code, body, _ := w.call(t, "GET", "/agent/u?after=0", ""); code != http.StatusNotFound {
		t.Errorf("a forgotten agent: %d %s", code, body)
	}
	third := say("three")
	got := follow(t, w, second.Later)
	if diff := cmp.Diff([]int64{third.Seq}, seqs(got.Turns)); diff != "" || third.Seq <= second.Seq || third.AgentID == second.AgentID {
		t.Errorf("after the operator forgot an agent: %s\n%+v", diff, got)
	}
	// Forgetting the first one, which failed, once hid all that came after it.
	again := say("four")
	if again.AgentID != third.AgentID {
		t.Errorf("the user has another agent: %+v", again)
	}
}

// forget ends an agent and gives its name back.
func (w *world) forget(t *testing.T, name string) {
	t.Helper()
	if _, err := w.client.Stop(t.Context(), name, "enough"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.ForgetAgent(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

// TestAForgottenFailureHidesNobody: the operator tidies up a launch that failed, and the user keeps the agent that came after it.
func TestAForgottenFailureHidesNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cloud.set(func(c *cloud) { c.launchErr = bridge.Errorf(bridge.UsageLimited, "the usage limit is reached") })
	ask := func() api.ChatAnswer {
		t.Helper()
		got, err := w.client.Chat(t.Context(), api.ChatRequest{UserID: "u", Message: "m"})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	ask()
	failed := chatName(t, w, "u")
	w.cloud.set(func(c *cloud) { c.launchErr = nil })
	first := ask()
	w.forget(t, failed)
	if second := ask(); second.AgentID != first.AgentID {
		t.Errorf("the user lost its agent: %s, then %s", first.AgentID, second.AgentID)
	}
}

// TestChatRefusesWrongQueries: a query that is not understood makes no turn and shows none.
func TestChatRefusesWrongQueries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.client.Chat(t.Context(), api.ChatRequest{UserID: "u", Message: "m"}); err != nil {
		t.Fatal(err)
	}
	for _, async := range []string{"", "1", "yes", "TRUE", "true ", "true&async=true", "true&async=false", "%zz", "true&wait=1"} {
		if code, body, _ := w.call(t, "POST", "/chat?async="+async, `{"user_id":"u","message":"m"}`); code != http.StatusBadRequest {
			t.Errorf("async=%s: %d %s", async, code, body)
		}
	}
	for _, query := range []string{"after=", "after=-1", "after=x", "after=1.5", "after=2", "after=1000001", "after=99999999999999999999", "after=9223372036854775807", "after=0&after=0",
		"after=0&limit=0", "limit=3", "after=0&until=3", "after=trn_1"} {
		if code, body, _ := w.call(t, "GET", "/agent/u?"+query, ""); code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, code, body)
		}
	}
	if got := later(t, w, "u", 0); len(got.Turns) != 1 {
		t.Errorf("%d turns; one message was good", len(got.Turns))
	}
	for _, path := range []string{"/agent/nobody?after=0", "/agent/nobody", "/agent/U?after=0", "/agent/u%20?after=0"} {
		if code, body, _ := w.call(t, "GET", path, ""); code != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if code, _, _ := w.call(t, "POST", "/chat?async=false", `{"user_id":"u","message":"m"}`); code != http.StatusOK {
		t.Errorf("async=false: %d", code)
	}
}

// TestChatAsyncHasTheSameLimit: a message that need not be waited for counts as any other.
func TestChatAsyncHasTheSameLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *api.Options) {
		o.Chat.PerMinute = 3
		o.Now = func() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }
	})
	for i, want := range []int{202, 202, 202, 429} {
		if code, body, _ := w.call(t, "POST", "/chat?async=true", `{"user_id":"u","message":"m"}`); code != want {
			t.Errorf("request %d: %d %s", i+1, code, body)
		}
	}
	if got := later(t, w, "u", 0); len(got.Turns) != 3 {
		t.Errorf("%d turns", len(got.Turns))
	}
}

// TestUsersStayApart: no user id reads or moves another user's agent, in whatever form it is written.
func TestUsersStayApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := []string{"ann", "Ann", "ann ", " ann", "ann%20", "a/nn", "..", ".", "ann?after=0", "ann#", "änn", "a\u0308nn", "ann\u200b", "ann&x=1", "1", "ann+"}
	for _, user := range users {
		got, err := w.client.Chat(t.Context(), api.ChatRequest{UserID: user, Message: "I am " + user})
		if err != nil {
			t.Fatalf("%q: %v", user, err)
		}
		mine := follow(t, w, strings.Replace(got.Later, "after=1", "after=0", 1))
		if len(mine.Turns) != 1 || mine.UserID != user || mine.Turns[0].Message != "I am "+user || mine.AgentID != got.AgentID {
			t.Errorf("%q reads %+v", user, mine)
		}
	}
	for _, user := range []string{`ann\u001f1`, `ann\u0000`, `ann\ud800`, `ann\udfff`, "ann\xff", `ann\ufffd`, `ann\n`, `ann\u2028`, strings.Repeat("a", 257)} {
		if code, body, _ := w.call(t, "POST", "/chat?async=true", `{"user_id":"`+user+`","message":"m"}`); code != http.StatusBadRequest {
			t.Errorf("%q: %d %s", user, code, body)
		}
	}
	for _, user := range []string{"ann\x1f1", "ann\x00", "ann\xff", "ann\ufffd", "ann\n"} {
		if code, body, _ := w.call(t, "GET", "/agent/"+url.PathEscape(user)+"?after=0", ""); code != http.StatusBadRequest {
			t.Errorf("GET %q: %d %s", user, code, body)
		}
	}
	w.cloud.set(func(c *cloud) {
		if len(c.agents) != len(users) {
			t.Errorf("%d agents for %d users", len(c.agents), len(users))
		}
	})
}

// TestUserNamesAreNotAgents: names, ids and commands of other trees are not users, and a child cannot take a user's place.
func TestUserNamesAreNotAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got, err := w.client.Chat(t.Context(), api.ChatRequest{UserID: "ann", Message: "m"})
	if err != nil {
		t.Fatal(err)
	}
	launched, err := w.client.Launch(t.Context(), api.LaunchRequest{Name: "boss", Repo: chatRepo, Prompt: "p"})
	if err != nil {
		t.Fatal(err)
	}
	ann, err := w.client.ChatAgent(t.Context(), "ann")
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, user := range []string{"nobody", "boss", launched.Agent.ID, launched.Turn.ID, got.AgentID, ann.Name} {
		code, body, _ := w.call(t, "GET", "/agent/"+user+"?after=0", "")
		if want == "" {
			want = body
		}
		if code != http.StatusNotFound || body != want {
			t.Errorf("%s: %d %s", user, code, body)
		}
	}
}

// TestAChildTakesNoUsersPlace: a subagent of another tree that has the name of a user's future agent keeps nobody from /chat, and
// answers for nobody.
func TestAChildTakesNoUsersPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sum := sha256.Sum256([]byte("victim"))
	name := "chat-" + hex.EncodeToString(sum[:8])
	boss, err := w.client.Launch(t.Context(), api.LaunchRequest{Name: "boss", Repo: chatRepo, Prompt: "p"})
	if err != nil {
		t.Fatal(err)
	}
	w.until(t, func() bool {
		turn, err := w.client.Turn(t.Context(), boss.Turn.ID)
		return err == nil && turn.State == "replied"
	})
	c, err := w.engine.Ask(t.Context(), bridge.AgentID(boss.Agent.ID), bridge.Once{}, parser.Command{Verb: parser.Subagent, Repo: childRepo, Prompt: "take it", Name: name})
	if err != nil || c.Child == "" {
		t.Fatalf("%+v, %v", c, err)
	}
	if code, body, _ := w.call(t, "GET", "/agent/victim?after=0", ""); code != http.StatusNotFound {
		t.Errorf("before the user came: %d %s", code, body)
	}
	got, err := w.client.Chat(t.Context(), api.ChatRequest{UserID: "victim", Message: "it is me"})
	if err != nil || got.State != "FINISHED" || got.Message != "it is me" {
		t.Fatalf("%+v, %v", got, err)
	}
	mine, err := w.client.ChatAgent(t.Context(), "victim")
	if err != nil || mine.Name != name || mine.AgentID != got.AgentID {
		t.Errorf("%+v, %v", mine, err)
	}
	child, err := w.client.Agent(t.Context(), string(c.Child))
	if err != nil || child.Name != name || child.External == got.AgentID || child.ChatUser != "" {
		t.Errorf("%+v, %v", child, err)
	}
	if all := later(t, w, "victim", 0); len(all.Turns) != 1 {
		t.Errorf("the user reads another's turns: %+v", all)
	}
}
