package mcpserver_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"drawbridge/mcpserver"
)

// fastWorld has two doors: one that only the SDK answers at, and one with the fast path.
type fastWorld struct {
	*world
	plain *world
	// sdk counts what reached the SDK at the door with the fast path.
	sdk *atomic.Int64
}

func newFastWorld(t *testing.T) *fastWorld {
	t.Helper()
	doors := [2]*world{}
	for i := range doors {
		doors[i] = newWorld(t)
		doors[i].sets = mcpserver.SetNames()
		doors[i].launch("main")
	}
	doors[0].door.SetFresh(0)
	doors[1].door.SetFresh(time.Hour) // a slow machine forgets nothing in mid-test
	return &fastWorld{world: doors[1], plain: doors[0], sdk: doors[1].door.CountSDK()}
}

// said is what an HTTP client gets.
type said struct {
	status int
	answer any
}

// raw sends one message and reads its answer, in whichever form it comes.
func (w *world) raw(header http.Header, path, body string) (said, string) {
	w.Helper()
	var sent io.Reader = strings.NewReader(body)
	if header.Get("Transfer-Encoding") != "" {
		sent = io.MultiReader(sent) // of unknown length
	}
	req, err := http.NewRequestWithContext(w.Context(), http.MethodPost, w.url+path, sent)
	if err != nil {
		w.Fatal(err)
	}
	req.Header = header.Clone()
	req.Header.Del("Transfer-Encoding")
	if req.Header.Get("Authorization") == "" {
		req.Header.Set("Authorization", "Bearer "+w.secret("main"))
	}
	resp, data := w.send(req)
	form := resp.Header.Get("Content-Type")
	if form == "text/event-stream" {
		for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
			if event, found := strings.CutPrefix(lines.Text(), "data: "); found && event != "" {
				data = []byte(event)
			}
		}
	}
	out := said{status: resp.StatusCode}
	if json.Unmarshal(data, &out.answer) != nil {
		out.answer = string(data)
	}
	return out, form
}

// headers are those of a client of an era, with a session where there are such.
func (w *world) headers(era string) http.Header {
	w.Helper()
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if era == newEra {
		h.Set("Mcp-Protocol-Version", era)
		h.Set("Mcp-Method", "tools/call")
		return h
	}
	s := w.connect("main", era, "")
	h.Set("Mcp-Protocol-Version", era)
	h.Set("Mcp-Session-Id", s.ID())
	return h
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},`

// message is a call as clients of an era send it.
func message(era, tool, args string) string {
	about := ""
	if era == newEra {
		about = meta
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":"a-1","method":"tools/call","params":{%s"name":%q,"arguments":%s}}`, about, tool, args)
}

func TestTheFastPathAnswersAsTheSDKDoes(t *testing.T) {
	t.Parallel()
	w := newFastWorld(t)
	reads := map[string]string{"do_nothing": `{}`, "list_allowed": `{}`, "search_memory": `{"query":"x"}`}
	for _, era := range []string{oldEra, newEra} {
		listed, err := w.connect("main", era, "").ListTools(t.Context(), nil)
		if err != nil || len(listed.Tools) < 34 {
			t.Fatal(len(listed.Tools), err)
		}
		headers, plain := w.headers(era), w.plain.headers(era)
		name := func(h http.Header, tool string) http.Header {
			if era == newEra {
				h.Set("Mcp-Name", tool)
			}
			return h
		}
		w.raw(name(headers, "do_nothing"), "", message(era, "do_nothing", `{}`)) // taken by the SDK
		for _, tool := range listed.Tools {
			for _, args := range []string{reads[tool.Name], `{"what":1}`, `[]`, `7`, `{"a":1,"a":2}`, `{"\u0000":"<&>` + strings.Repeat("é", 2000) + `"}`} {
				if args == "" {
					continue
				}
				before := w.sdk.Load()
				got, form := w.raw(name(headers, tool.Name), "", message(era, tool.Name, args))
				fast := w.sdk.Load() == before
				if want := (era == newEra || tool.Annotations.ReadOnlyHint) && !strings.Contains(args, `"a":1,`); fast != want {
					t.Errorf("%s %s%.20s: by the fast path: %t, want %t", era, tool.Name, args, fast, want)
				}
				if fast && form != "application/json" {
					t.Errorf("%s %s%.20s: answered as %q", era, tool.Name, args, form)
				}
				want, _ := w.plain.raw(name(plain, tool.Name), "", message(era, tool.Name, args))
				if diff := cmp.Diff(want, got, cmp.AllowUnexported(said{})); diff != "" {
					t.Errorf("%s %s%.20s (-SDK +fast path):\n%s", era, tool.Name, args, diff)
				}
			}
		}
	}
}

// What only resembles a call that the SDK took is answered by the SDK, as ever.
func TestTheFastPathLeavesTheRestToTheSDK(t *testing.T) {
	t.Parallel()
	w := newFastWorld(t)
	swap := func(from, to string) func(string) string {
		return func(body string) string { return strings.Replace(body, from, to, 1) }
	}
	type change struct {
		name   string
		header http.Header
		body   func(string) string
		path   string
	}
	changes := []change{
		{name: "no version", body: swap(`"jsonrpc":"2.0",`, ``)}, {name: "other version", body: swap(`"2.0"`, `"1.0"`)},
		{name: "no id", body: swap(`"id":"a-1",`, ``)}, {name: "id null", body: swap(`"a-1"`, `null`)}, {name: "id fraction", body: swap(`"a-1"`, `1.5`)},
		{name: "id object", body: swap(`"a-1"`, `{}`)}, {name: "id long", body: swap(`"a-1"`, `12345678901234567890`)}, {name: "id escaped", body: swap(`"a-1"`, `"\u0041"`)},
		{name: "two ids", body: swap(`"id":"a-1",`, `"id":"a-1","id":"a-2",`)}, {name: "case", body: swap(`"method"`, `"Method"`)},
		{name: "another key", body: swap(`"id"`, `"x":1,"id"`)}, {name: "another parameter", body: swap(`"name":`, `"requestState":"s","name":`)},
		{name: "another method", body: swap(`tools/call`, `tools/list`)}, {name: "method unknown", body: swap(`tools/call`, `tools/none`)},
		{name: "tool unknown", body: swap(`do_nothing`, `do_anything`)}, {name: "tool missing", body: swap(`"name":"do_nothing",`, ``)},
		{name: "progress", body: swap(`"name":`, `"_meta":{"progressToken":7},"name":`)}, {name: "meta of a newer version", body: swap(`Version":"2026-07-28"`, `Version":"2027-01-01"`)},
		{name: "capabilities wrong", body: swap(`clientCapabilities":{}`, `clientCapabilities":[]`)},
		{name: "batch", body: func(b string) string { return "[" + b + "]" }}, {name: "empty", body: func(string) string { return "" }}, {name: "cut off", body: func(b string) string { return b[:len(b)-1] }},
		{name: "more behind", body: func(b string) string { return b + b }}, {name: "not UTF-8", body: swap("a-1", "\xff")}, {name: "large", body: swap(`{}}}`, `{"a":"`+strings.Repeat("x", 70<<10)+`"}}}`)},
		{name: "too large", body: swap(`{}}}`, `{"a":"`+strings.Repeat("x", 3<<20)+`"}}}`)},
		{name: "unknown length", header: http.Header{"Transfer-Encoding": {"chunked"}}},
		{name: "method header", header: http.Header{"Mcp-Method": {"tools/list"}}}, {name: "name header", header: http.Header{"Mcp-Name": {"list_allowed"}}},
		{name: "name header coded", header: http.Header{"Mcp-Name": {"=?base64?ZG9fbm90aGluZw==?="}}}, {name: "two names", header: http.Header{"Mcp-Name": {"do_nothing", "do_nothing"}}},
		{name: "no method header", header: http.Header{"Mcp-Method": nil}}, {name: "no name header", header: http.Header{"Mcp-Name": nil}},
		{name: "empty name header", header: http.Header{"Mcp-Name": {""}}},
		{name: "parameter header", header: http.Header{"Mcp-Param-Region": {"x"}}}, {name: "event id", header: http.Header{"Last-Event-Id": {"a_1"}}},
		{name: "version header", header: http.Header{"Mcp-Protocol-Version": {"2024-01-01"}}}, {name: "later version header", header: http.Header{"Mcp-Protocol-Version": {"2027-01-01"}}},
		{name: "no version header", header: http.Header{"Mcp-Protocol-Version": {}}}, {name: "session unknown", header: http.Header{"Mcp-Session-Id": {"nobody"}}},
		{name: "accept", header: http.Header{"Accept": {"application/json"}}}, {name: "two accepts", header: http.Header{"Accept": {"application/json", "text/event-stream"}}},
		{name: "content type", header: http.Header{"Content-Type": {"text/plain"}}}, {name: "charset", header: http.Header{"Content-Type": {"application/json; charset=utf-8"}}},
		{name: "long about itself", body: swap(`"arguments"`, `"_meta":{"io.modelcontextprotocol/clientCapabilities":{},"x":"`+strings.Repeat("x", 5<<10)+`"},"arguments"`)},
		{name: "another set", path: "/memory"}, {name: "its set alone", path: "/channels"},
	}
	for _, era := range []string{oldEra, newEra} {
		headers, plain := w.headers(era), w.plain.headers(era)
		if era == newEra {
			headers.Set("Mcp-Name", "do_nothing")
			plain.Set("Mcp-Name", "do_nothing")
		}
		body := message(era, "do_nothing", `{}`)
		for range 2 {
			w.raw(headers, "", body)
		}
		before := w.sdk.Load()
		if w.raw(headers, "", body); w.sdk.Load() != before {
			t.Fatalf("%s: the plain call is not taken by the fast path", era)
		}
		for _, c := range changes {
			if c.body == nil {
				c.body = func(b string) string { return b }
			}
			with := func(h http.Header) http.Header {
				h = h.Clone()
				maps.Copy(h, c.header)
				maps.DeleteFunc(h, func(_ string, values []string) bool { return len(values) == 0 })
				return h
			}
			before := w.sdk.Load()
			got, _ := w.raw(with(headers), c.path, c.body(body))
			changed := c.path != "" || c.body(body) != body || !cmp.Equal(with(headers), headers)
			// What is not JSON is refused in front of both.
			if changed && w.sdk.Load() == before && json.Valid([]byte(c.body(body))) {
				t.Errorf("%s %s: answered by the fast path", era, c.name)
			}
			if want, _ := w.plain.raw(with(plain), c.path, c.body(body)); !cmp.Equal(want, got, cmp.AllowUnexported(said{})) {
				t.Errorf("%s %s (-SDK +fast path):\n%s", era, c.name, cmp.Diff(want, got, cmp.AllowUnexported(said{})))
			}
		}
	}
}

func TestTheFastPathEndsWithTheSession(t *testing.T) {
	t.Parallel()
	w := newFastWorld(t)
	headers, body := w.headers(oldEra), message(oldEra, "do_nothing", `{}`)
	for range 3 {
		w.raw(headers, "", body)
	}
	if w.sdk.Load() == 0 {
		t.Fatal("nothing reached the SDK")
	}
	w.launch("other")
	others := headers.Clone()
	others.Set("Authorization", "Bearer "+w.secret("other"))
	if got, _ := w.raw(others, "", body); got.status != http.StatusForbidden {
		t.Errorf("another agent's token in the session: status %d", got.status)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, w.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = headers.Clone()
	req.Header.Set("Authorization", "Bearer "+w.secret("main"))
	w.send(req)
	if got, _ := w.raw(headers, "", body); got.status != http.StatusNotFound {
		t.Errorf("a call in a session that is over: status %d, %v", got.status, got.answer)
	}
	if w.door.RemembersLate() {
		t.Error("a session that ended during a call is remembered because of it")
	}

	again := w.headers(oldEra)
	w.door.SetFresh(time.Nanosecond)
	before := w.sdk.Load()
	for range 3 {
		w.raw(again, "", body)
	}
	if n := w.sdk.Load() - before; n != 3 {
		t.Errorf("the SDK saw %d of 3 calls whose frames were long forgotten", n)
	}
}

// Whatever the fast path takes for a call is the same call to the SDK.
func FuzzSplit(f *testing.F) {
	for _, era := range []string{oldEra, newEra} {
		f.Add([]byte(message(era, "do_nothing", `{"a":[1,{"b":null}]}`)))
	}
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":-7,"method":"tools/call","params":{"name":"a\u0000b"}}`, `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}]`,
		`{"jsonrpc":"2.0","id":1e3,"method":"tools/call","params":{"name":"a","Name":"b","arguments":"x"}}`, `{"jsonrpc":"2.0","id":null,"method":"tools/call","params":null}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		id, name, args, meta, ok := mcpserver.Split(body)
		if !ok || (meta != "" && meta[0] != '{') { // about what is no object the SDK has its say
			return
		}
		read, err := jsonrpc.DecodeMessage(body)
		if err != nil {
			t.Fatalf("the SDK refuses %q: %v", body, err)
		}
		request, isRequest := read.(*jsonrpc.Request)
		if !isRequest || !request.IsCall() || request.Method != "tools/call" {
			t.Fatalf("to the SDK %q is %+v", body, read)
		}
		echoed, err := json.Marshal(request.ID.Raw())
		if err != nil || string(echoed) != string(id) {
			t.Errorf("%q: the SDK answers with the id %s, %v; the fast path with %s", body, echoed, err, id)
		}
		var params mcp.CallToolParamsRaw
		if len(request.Params) > 0 {
			if err := json.Unmarshal(request.Params, &params); err != nil {
				t.Fatalf("the SDK cannot read the parameters of %q: %v", body, err)
			}
		}
		said, err := json.Marshal(params.Meta)
		if err != nil {
			t.Fatal(err)
		}
		if params.Name != name || !sameJSON(params.Arguments, args) || (meta != "" && !sameJSON(said, json.RawMessage(meta))) {
			t.Errorf("%q: the SDK reads %q %s %s, the fast path %q %s %s", body, params.Name, params.Arguments, said, name, args, meta)
		}
	})
}

// sameJSON compares two documents; null is the same as none.
func sameJSON(a, b json.RawMessage) bool {
	var left, right any
	errLeft, errRight := json.Unmarshal(a, &left), json.Unmarshal(b, &right)
	return (len(a) == 0 || errLeft == nil) && (len(b) == 0 || errRight == nil) && cmp.Equal(left, right)
}
