package cloudagents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/cloudagents"
	"drawbridge/cloudagents/cloudsim"
	"drawbridge/cloudagents/cloudsim/script"
	"drawbridge/internal/strictjson"

	"github.com/google/go-cmp/cmp"
)

const (
	artifactsPath = "GET /v1/agents/" + agentID + "/artifacts"
	usagePath     = "GET /v1/agents/" + agentID + "/usage"
	noArtifacts   = `{"items":[]}`
	someTokens    = `{"inputTokens":1,"outputTokens":2,"cacheWriteTokens":3,"cacheReadTokens":4,"totalTokens":10}`
	noTokens      = `{"inputTokens":0,"outputTokens":0,"cacheWriteTokens":0,"cacheReadTokens":0,"totalTokens":0}`
)

var noUsage = reply{status: 403, body: `{"error":{"code":"feature_unavailable","message":"early access"}}`}

func usageBody(tokens, cost string) reply {
	if cost != "" {
		cost = `,"cost":` + cost
	}
	return reply{body: `{"totalUsage":` + tokens + cost + `,"runs":[{"id":"run-1","usage":` + someTokens + `}]}`}
}

func inspectV1(t *testing.T, artifacts, usage reply, with ...func(*cloudagents.Options)) (bridge.Evidence, *fake, error) {
	t.Helper()
	f := newFake(t, map[string][]reply{artifactsPath: {artifacts}, usagePath: {usage}})
	e, err := newClient(t, f.URL, with...).Inspect(t.Context(), bridge.RunRef{API: bridge.APIv1, Agent: agentID})
	return e, f, err
}

func TestInspectArtifacts(t *testing.T) {
	t.Parallel()
	many := func(n int) string {
		items := make([]string, n)
		for i := range items {
			items[i] = fmt.Sprintf(`{"path":"artifacts/%d","sizeBytes":%d}`, i, i)
		}
		return `{"items":[` + strings.Join(items, ",") + `]}`
	}
	one := func(path, size string) string {
		b, _ := json.Marshal(path)
		return `{"items":[{"path":` + string(b) + `,"sizeBytes":` + size + `,"updatedAt":"x"},{"path":"artifacts/b","sizeBytes":2}]}`
	}
	b := bridge.Artifact{Path: "artifacts/b", Size: 2}
	with := func(path string, size int64) []bridge.Artifact { return []bridge.Artifact{{Path: path, Size: size}, b} }
	const oneBad = "artifacts: entries of the list without a usable path or size: 1"
	for name, c := range map[string]struct {
		body   string
		want   []bridge.Artifact
		unread string
	}{
		"none":                   {body: noArtifacts},
		"two":                    {body: one("artifacts/a", "1"), want: with("artifacts/a", 1)},
		"empty file":             {body: one("artifacts/a", "0"), want: with("artifacts/a", 0)},
		"largest size":           {body: one("artifacts/a", "9007199254740992"), want: with("artifacts/a", 1<<53)},
		"control characters":     {body: one("a\nSUBAGENT: x\x1b[2J\u202e\u200b", "1"), want: with(`a\nSUBAGENT: x\x1b[2J\u202e\u200b`, 1)},
		"not UTF-8":              {body: strings.Replace(one("?", "1"), "?", "\xff", 1), unread: "artifacts: the Cloud Agents API sent"},
		"a long path":            {body: one(strings.Repeat("é", 300), "1"), want: with(strings.Repeat("é", 254)+"…", 1)},
		"no path":                {body: one("", "1"), want: []bridge.Artifact{b}, unread: oneBad},
		"negative":               {body: one("a", "-1"), want: []bridge.Artifact{b}, unread: oneBad},
		"too large to be exact":  {body: one("a", "9007199254740993"), want: []bridge.Artifact{b}, unread: oneBad},
		"too large for anything": {body: one("a", "1e999"), want: []bridge.Artifact{b}, unread: oneBad},
		"half a byte":            {body: one("a", "0.5"), want: []bridge.Artifact{b}, unread: oneBad},
		"a size in words":        {body: one("a", `"12"`), want: []bridge.Artifact{b}, unread: oneBad},
		"no size":                {body: one("a", "null"), want: []bridge.Artifact{b}, unread: oneBad},
		"an entry of no kind":    {body: `{"items":[7,{"path":"artifacts/b","sizeBytes":2}]}`, want: []bridge.Artifact{b}, unread: oneBad},
		"the other version":      {body: `{"artifacts":[]}`, unread: "artifacts: the Cloud Agents API sent"},
		"a list of no kind":      {body: `{"items":{}}`, unread: "artifacts: the Cloud Agents API sent"},
		"said twice":             {body: `{"items":[],"items":[{"path":"a","sizeBytes":1}]}`, unread: "artifacts: the Cloud Agents API sent"},
		"too large an answer":    {body: `{"items":[],"x":"` + strings.Repeat("x", strictjson.MaxBytes) + `"}`, unread: "artifacts: the answer is larger than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, err := inspectV1(t, reply{body: c.body}, usageBody(someTokens, ""))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got.Artifacts); diff != "" {
				t.Error(diff)
			}
			if !strings.HasPrefix(got.Unread, c.unread) || c.unread == "" && got.Unread != "" || got.Usage == nil {
				t.Errorf("unread %q, usage %v", got.Unread, got.Usage)
			}
		})
	}
	for n, unread := range map[int]string{100: "", 101: "artifacts: the API lists 101, only the first 100 were looked at"} {
		got, _, err := inspectV1(t, reply{body: many(n)}, noUsage)
		if err != nil || len(got.Artifacts) != 100 || got.Artifacts[99].Path != "artifacts/99" || got.Unread != unread {
			t.Errorf("of %d: %d artifacts, unread %q, %v", n, len(got.Artifacts), got.Unread, err)
		}
	}
}

func TestInspectUsage(t *testing.T) {
	t.Parallel()
	tokens := func(total string) string { return strings.Replace(someTokens, `:10}`, ":"+total+"}", 1) }
	const garbled = "usage: the Cloud Agents API sent an answer that the bridge does not understand"
	const badCost = "cost: the API's answer is not an amount"
	plain := &bridge.Usage{Tokens: 10}
	charged := func(micros int64) *bridge.Usage {
		return &bridge.Usage{Tokens: 10, CostMicros: micros, CostKnown: true}
	}
	for name, c := range map[string]struct {
		usage  reply
		want   *bridge.Usage
		unread string
	}{
		"no cost told":          {usage: usageBody(someTokens, ""), want: plain},
		"cost null":             {usage: usageBody(someTokens, "null"), want: plain},
		"charged":               {usage: usageBody(someTokens, `{"rawCostCents":99,"chargedCents":12.34}`), want: charged(123_400)},
		"charged nothing":       {usage: usageBody(someTokens, `{"rawCostCents":99,"chargedCents":0}`), want: charged(0)},
		"a part of a micro":     {usage: usageBody(someTokens, `{"chargedCents":0.00005}`), want: charged(1)},
		"the largest cost":      {usage: usageBody(someTokens, `{"chargedCents":1e9}`), want: charged(1e13)},
		"too large a cost":      {usage: usageBody(someTokens, `{"chargedCents":1000000001}`), want: plain, unread: badCost},
		"endless cost":          {usage: usageBody(someTokens, `{"chargedCents":1e999}`), want: plain, unread: badCost},
		"negative cost":         {usage: usageBody(someTokens, `{"chargedCents":-0.01}`), want: plain, unread: badCost},
		"cost in words":         {usage: usageBody(someTokens, `{"chargedCents":"NaN"}`), want: plain, unread: badCost},
		"only the raw cost":     {usage: usageBody(someTokens, `{"rawCostCents":99}`), want: plain, unread: badCost},
		"cost of no kind":       {usage: usageBody(someTokens, `7`), want: plain, unread: badCost},
		"cost said twice":       {usage: usageBody(someTokens, `{"chargedCents":9,"chargedCents":1}`), unread: garbled},
		"not a number at all":   {usage: usageBody(someTokens, `{"chargedCents":NaN}`), unread: garbled},
		"nothing used yet":      {usage: usageBody(noTokens, ""), want: &bridge.Usage{}},
		"total below its parts": {usage: usageBody(tokens("9"), ""), want: plain},
		"total above its parts": {usage: usageBody(tokens("11"), ""), want: &bridge.Usage{Tokens: 11}},
		"negative tokens":       {usage: usageBody(tokens("-1"), ""), unread: garbled},
		"one negative part":     {usage: usageBody(strings.Replace(someTokens, ":1,", ":-1,", 1), ""), unread: garbled},
		"too many tokens":       {usage: usageBody(tokens("9007199254740993"), ""), unread: garbled},
		"half a token":          {usage: usageBody(tokens("9.5"), ""), unread: garbled},
		"a part is missing":     {usage: usageBody(`{"totalTokens":10}`, ""), unread: garbled},
		"no sum":                {usage: reply{body: `{"runs":[]}`}, unread: garbled},
		"not JSON":              {usage: reply{body: "<html>"}, unread: garbled},
		"endless":               {usage: reply{do: flood(200)}, unread: "usage: the answer is larger than 1048576 bytes"},
		"early access":          {usage: noUsage},
		"another refusal":       {usage: reply{status: 403, body: `{"error":{"code":"role_forbidden","message":"no\u001b[2J"}}`}, unread: `usage: "no\x1b[2J" (role_forbidden)`},
		"a refusal as a string": {usage: reply{status: 403, body: `{"error":"feature_unavailable"}`}, unread: `usage: "feature_unavailable"`},
		"that word elsewhere":   {usage: reply{status: 500, body: `{"error":{"code":"feature_unavailable","message":"m"}}`}, unread: `usage: "m" (feature_unavailable)`},
		"rate limited":          {usage: reply{status: 429, body: `{"error":{"code":"rate_limit_exceeded","message":"slow down"}}`}, unread: `usage: "slow down" (rate_limit_exceeded)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, err := inspectV1(t, reply{body: noArtifacts}, c.usage)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(bridge.Evidence{Usage: c.want, Unread: c.unread}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What one run used is read out of the list of runs. No budget hangs on it: a list that is wrong costs nothing else.
func TestInspectSpent(t *testing.T) {
	t.Parallel()
	some := &bridge.Tokens{Input: 1, Output: 2, CacheWrite: 3, CacheRead: 4}
	for name, c := range map[string]struct {
		runs, run string
		want      *bridge.Tokens
	}{
		"its run":          {`[{"id":"run-0","usage":` + noTokens + `},{"id":"run-1","usage":` + someTokens + `}]`, "run-1", some},
		"no run named":     {`[{"id":"","usage":` + someTokens + `}]`, "", nil},
		"another run":      {`[{"id":"run-1","usage":` + someTokens + `}]`, "run-2", nil},
		"nothing used yet": {`[{"id":"run-1","usage":` + noTokens + `}]`, "run-1", nil},
		"negative tokens":  {`[{"id":"run-1","usage":` + strings.Replace(someTokens, ":1,", ":-1,", 1) + `}]`, "run-1", nil},
		"no usage":         {`[{"id":"run-1"}]`, "run-1", nil},
		"not a list":       {`"run-1"`, "run-1", nil},
		"null":             {`null`, "run-1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, map[string][]reply{artifactsPath: {{body: noArtifacts}}, usagePath: {{body: `{"totalUsage":` + someTokens + `,"runs":` + c.runs + `}`}}})
			got, err := newClient(t, f.URL).Inspect(t.Context(), bridge.RunRef{API: bridge.APIv1, Agent: agentID, Run: c.run})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(bridge.Evidence{Usage: &bridge.Usage{Tokens: 10}, Spent: c.want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Only where nothing at all could be read there is an error.
func TestInspectErrors(t *testing.T) {
	t.Parallel()
	gone := reply{status: 404, body: `{"error":{"code":"agent_not_found","message":"m"}}`}
	for name, c := range map[string]struct {
		artifacts, usage reply
		kind             bridge.ErrorKind
		requests         int
		unread           string
	}{
		"no such agent":           {gone, gone, bridge.NotFound, 2, ""},
		"artifacts fail, no more": {reply{status: 500}, noUsage, bridge.Unavailable, 2, ""},
		"both fail":               {reply{body: "x"}, reply{status: 503}, bridge.Unavailable, 2, ""},
		"artifacts fail":          {gone, usageBody(someTokens, ""), "", 2, `artifacts: "m" (agent_not_found)`},
		"key refused":             {reply{status: 401}, gone, bridge.Unauthenticated, 1, ""},
		"rate limited":            {reply{status: 429, header: map[string]string{"Retry-After": "7"}}, gone, bridge.RateLimited, 1, ""},
		"hang":                    {reply{do: hang}, reply{do: hang}, bridge.Unavailable, 2, ""},
		"cut":                     {reply{do: cut}, usageBody(someTokens, ""), "", 2, "artifacts: no answer from the Cloud Agents API"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, f, err := inspectV1(t, c.artifacts, c.usage, hasty(name == "hang"))
			check(t, err, c.kind, false)
			if err != nil && (got.Artifacts != nil || got.Usage != nil || got.Unread != "") || got.Unread != c.unread {
				t.Errorf("%+v", got)
			}
			if c.kind == bridge.RateLimited && bridge.RetryAfter(err) != 7*time.Second {
				t.Errorf("wait %s", bridge.RetryAfter(err))
			}
			// net/http repeats a read whose connection was cut by itself.
			if n := len(f.requests()); n != c.requests && name != "cut" {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// An end between the two questions must not look like an account without usage.
func TestInspectEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stop := reply{do: func(w http.ResponseWriter, r *http.Request) { cancel(); hang(w, r) }}
	f := newFake(t, map[string][]reply{artifactsPath: {{body: noArtifacts}}, usagePath: {stop}})
	got, err := newClient(t, f.URL).Inspect(ctx, bridge.RunRef{API: bridge.APIv1, Agent: agentID})
	if err != nil || got.Usage != nil || !strings.HasPrefix(got.Unread, "usage: ") {
		t.Errorf("%+v %v", got, err)
	}
}

func TestInspectV0(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer reply
		want   bridge.Evidence
		kind   bridge.ErrorKind
	}{
		"listed": {answer: reply{body: `{"artifacts":[{"absolutePath":"/opt/cursor/artifacts/x.png","sizeBytes":12345,"updatedAt":"2024-01-15T11:02:00.000Z"}]}`},
			want: bridge.Evidence{Artifacts: []bridge.Artifact{{Path: "/opt/cursor/artifacts/x.png", Size: 12345}}}},
		"none":              {answer: reply{body: `{"artifacts":[]}`}},
		"partly":            {answer: reply{body: `{"artifacts":[{"path":"x","sizeBytes":1}]}`}, want: bridge.Evidence{Unread: "artifacts: entries of the list without a usable path or size: 1"}},
		"the other version": {answer: reply{body: noArtifacts}, kind: bridge.Unavailable},
		"expired":           {answer: reply{status: 400, body: `{"error":"expired"}`}, kind: bridge.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, map[string][]reply{"GET /v0/agents/bc_1/artifacts": {c.answer}})
			got, err := newClient(t, f.URL).Inspect(t.Context(), bridge.RunRef{API: bridge.APIv0, Agent: "bc_1"})
			check(t, err, c.kind, false)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if n := len(f.requests()); n != 1 {
				t.Errorf("%d requests; v0 tells no usage", n)
			}
		})
	}
}

func TestInspectRefusesBeforeSending(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	for _, r := range []bridge.RunRef{{API: "v2", Agent: agentID}, {API: bridge.APIv1, Agent: "bc-1/../x"}, {API: bridge.APIv0}} {
		_, err := newClient(t, f.URL).Inspect(t.Context(), r)
		check(t, err, bridge.Invalid, false)
	}
	if n := len(f.requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// What the service does wrong costs a part of the evidence, never all of it in silence.
func TestContractInspectFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault             cloudsim.Fault
		artifacts, tokens bool
	}{
		"usage is garbage":      {cloudsim.Fault{Kind: script.GarbageResponse, Op: script.OpUsage}, true, false},
		"usage is limited":      {cloudsim.Fault{Kind: script.RateLimit, Op: script.OpUsage}, true, false},
		"artifacts are garbage": {cloudsim.Fault{Kind: script.GarbageResponse, Op: script.OpArtifacts}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, bridge.APIv1, c.fault)
			r := w.start("leaves files")
			w.finish(r)
			got, err := w.Inspect(t.Context(), r)
			if err != nil || (len(got.Artifacts) == 2) != c.artifacts || (got.Usage != nil) != c.tokens || got.Unread == "" {
				t.Errorf("%+v %v", got, err)
			}
		})
	}
	w := newWorld(t, bridge.APIv1)
	_, err := w.Inspect(t.Context(), bridge.RunRef{API: bridge.APIv1, Agent: agentID})
	check(t, err, bridge.NotFound, false)
}
