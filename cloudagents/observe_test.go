package cloudagents_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/cloudagents"

	"github.com/google/go-cmp/cmp"
)

// talk is a v0 conversation: "u:" for a user's message, "a:" for the agent's,
// "A:" for the agent's in the older words.
func talk(messages ...string) reply {
	list := []map[string]any{}
	for i, m := range messages {
		kind, text, _ := strings.Cut(m, ":")
		entry := map[string]any{"id": i, "type": map[string]string{"u": "user_message", "a": "assistant_message"}[kind], "text": text}
		if kind == "A" {
			entry = map[string]any{"role": "assistant", "text": text}
		}
		list = append(list, entry)
	}
	b, _ := json.Marshal(map[string]any{"id": "bc_1", "messages": list})
	return reply{body: string(b)}
}

func TestObserveV1(t *testing.T) {
	t.Parallel()
	run := func(fields string) string { return `{"id":"run-1","agentId":"` + agentID + `",` + fields + `}` }
	for name, c := range map[string]struct {
		body string
		want bridge.Observation
	}{
		"creating": {run(`"status":"CREATING"`), bridge.Observation{State: bridge.RunCreating}},
		"running":  {run(`"status":"RUNNING","result":"not yet"`), bridge.Observation{State: bridge.RunRunning}},
		"finished": {run(`"status":"FINISHED","result":"line 1\nline 2","durationMs":1500,"git":{"branches":[{"repoUrl":"github.com/me/my-app","branch":"cursor/x","prUrl":"https://github.com/me/my-app/pull/1"}]}`),
			bridge.Observation{State: bridge.RunFinished, Reply: "line 1\nline 2", Duration: 1500 * time.Millisecond, Repo: "github.com/me/my-app", Branch: "cursor/x", PR: "https://github.com/me/my-app/pull/1"}},
		"error with detail":    {run(`"status":"ERROR","error":{"code":"oom","message":"out of\u001b memory"}`), bridge.Observation{State: bridge.RunError, Detail: `oom: out of\x1b memory`}},
		"error without":        {run(`"status":"ERROR"`), bridge.Observation{State: bridge.RunError}},
		"cancelled with words": {run(`"status":"CANCELLED","result":"half"`), bridge.Observation{State: bridge.RunCancelled, Reply: "half"}},
		"expired":              {run(`"status":"EXPIRED"`), bridge.Observation{State: bridge.RunExpired}},
		"old word":             {run(`"status":"completed","result":"r"`), bridge.Observation{State: bridge.RunFinished, Reply: "r"}},
		"unknown word":         {run(`"status":"PONDERING"`), bridge.Observation{State: bridge.RunRunning, Detail: `unknown status "PONDERING", taken as running`}},
		"no word":              {run(`"result":"r"`), bridge.Observation{State: bridge.RunRunning, Detail: `unknown status "", taken as running`}},
		"many branches":        {run(`"status":"ERROR","git":{"branches":[{"branch":"first"}` + strings.Repeat(`,{"branch":"x"}`, 99) + `,7]}`), bridge.Observation{State: bridge.RunError, Branch: "first"}},
		"no branches":          {run(`"status":"ERROR","git":{"branches":null}`), bridge.Observation{State: bridge.RunError}},
		"unsafe link":          {run(`"status":"ERROR","git":{"branches":[{"prUrl":"javascript:alert(1)"}]}`), bridge.Observation{State: bridge.RunError}},
		"negative duration":    {run(`"status":"ERROR","durationMs":-1e300,"git":{"branches":[]}`), bridge.Observation{State: bridge.RunError}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, map[string][]reply{"GET /v1/agents/" + agentID + "/runs/run-1": {{body: c.body}}})
			got, err := newClient(t, f.URL).Observe(t.Context(), bridge.RunRef{API: bridge.APIv1, Agent: agentID, Run: "run-1"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestObserveErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer reply
		kind   bridge.ErrorKind
	}{
		"gone":                {reply{status: 404, body: `{"error":{"code":"run_not_found"}}`}, bridge.NotFound},
		"5xx is plain":        {reply{status: 503}, bridge.Unavailable},
		"another agent's run": {reply{body: `{"id":"run-1","agentId":"bc-2","status":"FINISHED","result":"r"}`}, bridge.Unavailable},
		"another run":         {reply{body: `{"id":"run-2","status":"FINISHED","result":"r"}`}, bridge.Unavailable},
		"garbage":             {reply{body: "<html>"}, bridge.Unavailable},
		"reply too big":       {reply{body: `{"id":"run-1","status":"FINISHED","result":"` + strings.Repeat("x", 1025) + `"}`}, bridge.TooLarge},
		"endless":             {reply{do: flood(200)}, bridge.TooLarge},
		"hang":                {reply{do: hang}, bridge.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, map[string][]reply{"GET /v1/agents/" + agentID + "/runs/run-1": {c.answer}})
			client := newClient(t, f.URL, hasty(name == "hang"), func(o *cloudagents.Options) { o.MaxReply = 1024 })
			got, err := client.Observe(t.Context(), bridge.RunRef{API: bridge.APIv1, Agent: agentID, Run: "run-1"})
			check(t, err, c.kind, false)
			if got != (bridge.Observation{}) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A finished run without a result gets its text from the stream.
func TestObserveRecoversReply(t *testing.T) {
	t.Parallel()
	const run = "GET /v1/agents/" + agentID + "/runs/run-1"
	text := func(s string) string {
		b, _ := json.Marshal(map[string]string{"text": s})
		return "assistant " + string(b)
	}
	doubled := `interaction_update {"type":"text-delta","text":"Hello"}`
	broken := reply{header: map[string]string{"Content-Type": "text/event-stream"}, body: "event: assistant\ndata: {\"text\":\"half a co\"}\n\n"}
	unavailable := sseReply(text("half"), `error {"code":"stream_unavailable","message":"again"}`, "done {}")
	for name, c := range map[string]struct {
		streams []reply
		reply   string
		detail  string
		kind    bridge.ErrorKind
	}{
		"deltas":                {streams: []reply{sseReply(text("Hel"), doubled, text("lo"), "heartbeat {}", `result {"runId":"run-1","status":"FINISHED"}`, "done {}")}, reply: "Hello"},
		"result wins":           {streams: []reply{sseReply(text("Hel"), `result {"text":"Hello, whole"}`, "done {}")}, reply: "Hello, whole"},
		"closed after result":   {streams: []reply{sseReply(text("Hello"), `result {}`)}, reply: "Hello"},
		"a tool call parts":     {streams: []reply{sseReply(text("Looking."), `tool_call {"status":"running"}`, `tool_call {"status":"completed"}`, text(""), text("LOCAL_ACTION: x"), text("y"), "done {}")}, reply: "Looking.\nLOCAL_ACTION: xy"},
		"no second line end":    {streams: []reply{sseReply(text("Looking.\n"), `tool_call {}`, text("Done"), "done {}")}, reply: "Looking.\nDone"},
		"half a character":      {streams: []reply{sseReply(`assistant {"text":"hi \ud83d"}`, `assistant {"text":"\ude00"}`, "done {}")}, reply: "hi 😀"},
		"tool call first":       {streams: []reply{sseReply(`tool_call {}`, text("Done"), "done {}")}, reply: "Done"},
		"broken once":           {streams: []reply{broken, sseReply(text("Hello"), "done {}")}, reply: "Hello"},
		"unavailable once":      {streams: []reply{unavailable, sseReply(text("Hello"), "done {}")}, reply: "Hello"},
		"never whole":           {streams: []reply{broken}, detail: "broke off"},
		"expired":               {streams: []reply{{status: 410, body: `{"error":{"code":"stream_expired","message":"Stream expired"}}`}}, detail: "stream_expired"},
		"not there":             {streams: []reply{{status: 404, body: `{"error":{"code":"run_not_found","message":"m"}}`}}, detail: "run_not_found"},
		"no text at all":        {streams: []reply{sseReply("done {}")}, detail: "no text"},
		"not JSON":              {streams: []reply{sseReply("assistant {", "done {}")}, detail: "not JSON"},
		"not a stream":          {streams: []reply{{body: "{}"}}, detail: "could not read its stream"},
		"too much text":         {streams: []reply{sseReply(text(strings.Repeat("x", 600)), text(strings.Repeat("x", 600)), "done {}")}, kind: bridge.TooLarge},
		"result too large":      {streams: []reply{sseReply(`result {"text":"`+strings.Repeat("x", 1025)+`"}`, "done {}")}, kind: bridge.TooLarge},
		"rate limited":          {streams: []reply{{status: 429}}, kind: bridge.RateLimited},
		"key refused meanwhile": {streams: []reply{{status: 401}}, kind: bridge.Unauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, map[string][]reply{run: {{body: `{"id":"run-1","status":"FINISHED"}`}}, run + "/stream": c.streams})
			client := newClient(t, f.URL, func(o *cloudagents.Options) { o.MaxReply = 1024 })
			got, err := client.Observe(t.Context(), bridge.RunRef{API: bridge.APIv1, Agent: agentID, Run: "run-1"})
			check(t, err, c.kind, false)
			if got.Reply != c.reply || !strings.Contains(got.Detail, c.detail) || c.detail == "" && got.Detail != "" {
				t.Errorf("reply %q, detail %q", got.Reply, got.Detail)
			}
			if err == nil && got.State != bridge.RunFinished {
				t.Errorf("state %q", got.State)
			}
		})
	}
}

// The caller's own end must not turn a reply into an empty one, whichever
// attempt at the stream it meets.
func TestObserveEndsWithItsContext(t *testing.T) {
	t.Parallel()
	const run = "GET /v1/agents/" + agentID + "/runs/run-1"
	broken := sseReply(`assistant {"text":"half"}`)
	for before := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stop := reply{do: func(w http.ResponseWriter, r *http.Request) { cancel(); hang(w, r) }}
		streams := append(slices.Repeat([]reply{broken}, before), stop)
		f := newFake(t, map[string][]reply{run: {{body: `{"id":"run-1","status":"FINISHED"}`}}, run + "/stream": streams})
		_, err := newClient(t, f.URL).Observe(ctx, bridge.RunRef{API: bridge.APIv1, Agent: agentID, Run: "run-1"})
		check(t, err, bridge.Unavailable, false)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}

func TestObserveV0(t *testing.T) {
	t.Parallel()
	agent := func(status string) reply {
		return reply{body: `{"id":"bc_1","status":"` + status + `","source":{"repository":"https://github.com/me/my-app"},"target":{"branchName":"bridge/op_1","prUrl":"https://github.com/me/my-app/pull/2"}}`}
	}
	old := []string{"u:first", "a:old answer"}
	asked := append(append([]string{}, old...), "u:"+marker+"\ngo on")
	partly := append(append([]string{}, asked...), "a:new")
	whole := append(append([]string{}, partly...), "a:answer")
	later := append(append([]string{}, whole...), "u:[bridge trn_8]\nmore", "a:later")
	for name, c := range map[string]struct {
		marker string
		status []reply
		talk   []reply
		state  bridge.RunState
		reply  string
		detail string
	}{
		"first turn runs":              {status: []reply{agent("RUNNING")}, state: bridge.RunRunning},
		"first turn is created":        {status: []reply{agent("CREATING")}, state: bridge.RunCreating},
		"first turn":                   {status: []reply{agent("FINISHED")}, talk: []reply{talk("u:first", "a:one", "a:two")}, state: bridge.RunFinished, reply: "one\n\ntwo"},
		"first turn in old words":      {status: []reply{agent("completed")}, talk: []reply{talk("u:first", "A:one")}, state: bridge.RunFinished, reply: "one"},
		"first turn, person between":   {status: []reply{agent("FINISHED")}, talk: []reply{talk("u:first", "a:one", "u:and this?", "a:two")}, state: bridge.RunFinished, reply: "one\n\ntwo"},
		"first turn, seen late":        {status: []reply{agent("FINISHED")}, talk: []reply{talk(later...)}, state: bridge.RunFinished, reply: "old answer"},
		"first turn failed":            {status: []reply{agent("ERROR")}, talk: []reply{talk("u:first")}, state: bridge.RunError, detail: "no reply"},
		"stopped in old words":         {status: []reply{agent("stopped")}, talk: []reply{talk("u:first", "a:half")}, state: bridge.RunCancelled, reply: "half"},
		"unknown word":                 {status: []reply{agent("PONDERING")}, state: bridge.RunRunning, detail: "PONDERING"},
		"stale, not visible":           {marker: marker, status: []reply{agent("FINISHED")}, talk: []reply{talk(old...)}, state: bridge.RunRunning, detail: "not in the conversation"},
		"stale, no reply":              {marker: marker, status: []reply{agent("FINISHED")}, talk: []reply{talk(asked...)}, state: bridge.RunRunning, detail: "no reply yet"},
		"stale, then runs":             {marker: marker, status: []reply{agent("FINISHED"), agent("RUNNING")}, talk: []reply{talk(partly...)}, state: bridge.RunRunning},
		"over":                         {marker: marker, status: []reply{agent("FINISHED")}, talk: []reply{talk(whole...)}, state: bridge.RunFinished, reply: "new\n\nanswer"},
		"over while we read":           {marker: marker, status: []reply{agent("FINISHED")}, talk: []reply{talk(partly...), talk(whole...)}, state: bridge.RunFinished, reply: "new\n\nanswer"},
		"over, seen late":              {marker: marker, status: []reply{agent("FINISHED")}, talk: []reply{talk(later...)}, state: bridge.RunFinished, reply: "new\n\nanswer"},
		"failed without a word":        {marker: marker, status: []reply{agent("ERROR")}, talk: []reply{talk(asked...)}, state: bridge.RunError, detail: "no reply"},
		"expired without a word":       {marker: marker, status: []reply{agent("EXPIRED")}, talk: []reply{talk(asked...)}, state: bridge.RunExpired, detail: "no reply"},
		"failed, not visible":          {marker: marker, status: []reply{agent("ERROR")}, talk: []reply{talk(old...)}, state: bridge.RunRunning, detail: "not in the conversation"},
		"the agent repeats our marker": {marker: marker, status: []reply{agent("FINISHED")}, talk: []reply{talk("u:first", "a:"+marker+"\nfake", "a:x")}, state: bridge.RunRunning, detail: "not in the conversation"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, map[string][]reply{"GET /v0/agents/bc_1": c.status, "GET /v0/agents/bc_1/conversation": c.talk})
			got, err := newClient(t, f.URL).Observe(t.Context(), bridge.RunRef{API: bridge.APIv0, Agent: "bc_1", Marker: c.marker})
			if err != nil {
				t.Fatal(err)
			}
			if got.State != c.state || got.Reply != c.reply || !strings.Contains(got.Detail, c.detail) || c.detail == "" && got.Detail != "" {
				t.Errorf("got %+v", got)
			}
			if got.State.Terminal() && (got.Branch != "bridge/op_1" || got.PR == "" || got.Repo == "") {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestObserveV0Errors(t *testing.T) {
	t.Parallel()
	finished := reply{body: `{"id":"bc_1","status":"FINISHED"}`}
	for name, c := range map[string]struct {
		status, talk reply
		kind         bridge.ErrorKind
	}{
		"no conversation": {finished, reply{status: 500}, bridge.Unavailable},
		"empty answer":    {finished, reply{body: "{}"}, bridge.Unavailable},
		"another agent":   {reply{body: `{"id":"bc_2","status":"FINISHED"}`}, talk(), bridge.Unavailable},
		"too large":       {finished, talk("a:" + strings.Repeat("x", 1025)), bridge.TooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, map[string][]reply{"GET /v0/agents/bc_1": {c.status}, "GET /v0/agents/bc_1/conversation": {c.talk}})
			client := newClient(t, f.URL, func(o *cloudagents.Options) { o.MaxReply = 1024 })
			_, err := client.Observe(t.Context(), bridge.RunRef{API: bridge.APIv0, Agent: "bc_1"})
			check(t, err, c.kind, false)
		})
	}
}
