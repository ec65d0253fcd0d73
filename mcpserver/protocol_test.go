package mcpserver_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"drawbridge/mcpserver"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// rpc is an answer of JSON-RPC over HTTP.
type rpc struct {
	status int
	ID     any `json:"id"`
	Error  struct {
		Code    int
		Message string
	}
	Result json.RawMessage
}

// speak posts one raw body and reads what comes back, from a stream, too.
func (w *world) speak(header http.Header, path, body string) (got rpc, said string) {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), http.MethodPost, w.url+path, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	req.Header = header.Clone()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	said = string(data)
	got.status = resp.StatusCode
	if _, event, ok := strings.Cut(said, "data: {"); ok {
		data = []byte("{" + event)
	}
	_ = json.Unmarshal(data, &got)
	return got, said
}

// openSession begins a session of the older protocols and returns its headers.
func (w *world) openSession(name string) http.Header {
	w.Helper()
	h := http.Header{"Authorization": {"Bearer " + w.secret(name)}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	req, err := http.NewRequestWithContext(w.Context(), http.MethodPost, w.url,
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+oldEra+`","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`))
	if err != nil {
		w.Fatal(err)
	}
	req.Header = h.Clone()
	resp, _ := w.send(req)
	h.Set("Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id"))
	h.Set("Mcp-Protocol-Version", oldEra)
	w.speak(h, "", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return h
}

// The protocol has codes for messages that cannot be read, that are not requests,
// and for methods that are not there. Plain text in their place leaves a client
// without an answer to its id.
func TestErrorsHaveTheProtocolsCodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.launch("main")
	h := w.openSession("main")
	for name, tt := range map[string]struct {
		body         string
		status, code int
		id           any
	}{
		"not JSON":                {`hello`, 400, -32700, nil},
		"half JSON":               {`{"jsonrpc":"2.0","id":7`, 400, -32700, nil},
		"two messages":            {`{"jsonrpc":"2.0","id":7,"method":"ping"}{"jsonrpc":"2.0","id":8,"method":"ping"}`, 400, -32700, nil},
		"a number":                {`7`, 400, -32600, nil},
		"an empty object":         {`{}`, 400, -32600, nil},
		"the wrong version":       {`{"jsonrpc":"1.0","id":7,"method":"ping"}`, 400, -32600, 7.0},
		"an id that cannot be":    {`{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}`, 400, -32600, nil},
		"an unknown method":       {`{"jsonrpc":"2.0","id":7,"method":"no/such"}`, 200, -32601, 7.0},
		"an unknown method, text": {`{"jsonrpc":"2.0","id":"a","method":"tasks/list","params":{}}`, 200, -32601, "a"},
		"prompts/list":            {`{"jsonrpc":"2.0","id":7,"method":"prompts/list"}`, 200, -32601, 7.0},
		"prompts/get":             {`{"jsonrpc":"2.0","id":7,"method":"prompts/get","params":{"name":"x"}}`, 200, -32601, 7.0},
		"resources/list":          {`{"jsonrpc":"2.0","id":7,"method":"resources/list"}`, 200, -32601, 7.0},
		"resources/templates":     {`{"jsonrpc":"2.0","id":7,"method":"resources/templates/list"}`, 200, -32601, 7.0},
		"resources/read":          {`{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"file:///x"}}`, 200, -32601, 7.0},
		"resources/subscribe":     {`{"jsonrpc":"2.0","id":7,"method":"resources/subscribe","params":{"uri":"file:///x"}}`, 200, -32601, 7.0},
		"completion/complete":     {`{"jsonrpc":"2.0","id":7,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":"b"}}}`, 200, -32601, 7.0},
		"logging/setLevel":        {`{"jsonrpc":"2.0","id":7,"method":"logging/setLevel","params":{"level":"info"}}`, 200, -32601, 7.0},
		"ping":                    {`{"jsonrpc":"2.0","id":7,"method":"ping"}`, 200, 0, 7.0},
		"tools/list":              {`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, 200, 0, 7.0},
	} {
		got, said := w.speak(h, "", tt.body)
		if got.status != tt.status || got.Error.Code != tt.code || got.ID != tt.id || (tt.code == 0) != (got.Result != nil) {
			t.Errorf("%s: %d %.300s, want status %d, code %d, id %v", name, got.status, said, tt.status, tt.code, tt.id)
		}
	}
	// The newer era has the same codes; there an unknown method is status 404.
	modern := http.Header{"Authorization": h["Authorization"], "Content-Type": h["Content-Type"], "Accept": h["Accept"], "Mcp-Protocol-Version": {newEra}}
	for method, want := range map[string]int{"no/such": -32601, "prompts/list": -32601, "resources/list": -32601, "tools/list": 0} {
		modern.Set("Mcp-Method", method)
		got, said := w.speak(modern, "", `{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":{`+strings.TrimSuffix(meta, ",")+`}}`)
		if got.Error.Code != want || got.ID != 7.0 || (want != 0) != (got.status == 404) {
			t.Errorf("%s %s: %d %.300s, want code %d", newEra, method, got.status, said, want)
		}
	}
	for header, want := range map[string][]string{oldEra: {oldEra, newEra}, "": {"header is required"}, "2027-01-01": {"2027-01-01", newEra}} { // two places say what the version is
		modern.Set("Mcp-Method", "tools/list")
		modern.Set("Mcp-Protocol-Version", header)
		if header == "" {
			modern.Del("Mcp-Protocol-Version")
		}
		got, said := w.speak(modern, "", `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{`+strings.TrimSuffix(meta, ",")+`}}`)
		if got.status != 400 || got.Error.Code != mcp.CodeHeaderMismatch || got.ID != 7.0 || slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(string(said), w) }) {
			t.Errorf("a header of version %q: %d %.400s, want both versions", header, got.status, said)
		}
	}
	modern.Set("Mcp-Protocol-Version", newEra)
	modern.Del("Mcp-Method")
	if got, said := w.speak(modern, "", `nonsense`); got.status != 400 || got.Error.Code != -32700 {
		t.Errorf("%s: %d %s", newEra, got.status, said)
	}
}

// What the door does not serve is not there for any caller; clients look for OAuth at such paths.
func TestPathsBelowTheDoor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = []string{mcpserver.SetBridge}
	w.launch("main")
	for path, want := range map[string]int{
		"/.well-known/oauth-protected-resource": 404, "/.well-known/openid-configuration": 404, "/register": 404, "/nosuch": 404, "/bridge/x": 404,
		"": 401, "/": 401, "/bridge": 401, "/team": 401, "/files/fil_1": 401,
	} {
		for _, token := range []string{"", "guessed"} {
			header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
			if token != "" {
				header.Set("Authorization", "Bearer "+token)
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+path, strings.NewReader(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = header
			resp, body := w.send(req)
			challenge := resp.Header.Get("WWW-Authenticate")
			if resp.StatusCode != want || (challenge != "") != (want == 401) || strings.Contains(challenge, "invalid_token") != (want == 401 && token != "") {
				t.Errorf("%s with the token %q: %d, challenge %q: %s", path, token, resp.StatusCode, challenge, body)
			}
		}
	}
	if got := w.post("/team", http.Header{"Authorization": {"Bearer " + w.secret("main")}}, `{}`); got != 404 {
		t.Errorf("a toolset that is another agent's: status %d", got)
	}
}

// A client that did not replace a variable hears so.
func TestATokenThatIsAVariable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, sent := range []string{"${DRAWBRIDGE_AGENT_TOKEN}", "${env:DRAWBRIDGE_AGENT_TOKEN}", "{env:DRAWBRIDGE_AGENT_TOKEN}", "$DRAWBRIDGE_AGENT_TOKEN"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url, strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+sent)
		resp, body := w.send(req)
		if resp.StatusCode != 401 || !strings.Contains(string(body), "the variable DRAWBRIDGE_AGENT_TOKEN") || !strings.Contains(string(body), "did not replace the variable") {
			t.Errorf("%s: %d %s", sent, resp.StatusCode, body)
		}
	}
}

// meta is what each request of the newer era carries.
const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},`
