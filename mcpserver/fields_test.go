package mcpserver_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"drawbridge/proof/fields"
)

// TestFieldsThatInform: a session begins and a call is served, whatever form a field has that only informs. Two things are refused as errors: a
// number that no program can hold, and null in the newer era where the protocol wants a client's name and capabilities.
func TestFieldsThatInform(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.launch("main")
	open := w.openSession("main")
	first := http.Header{"Authorization": open["Authorization"], "Content-Type": open["Content-Type"], "Accept": open["Accept"]}
	newer := first.Clone()
	newer.Set("Mcp-Protocol-Version", newEra)
	newer.Set("Mcp-Method", "tools/call")
	newer.Set("Mcp-Name", "list_allowed")
	const meta = "params._meta"
	refused := map[string]string{meta + ".a": "1e999", meta + ".progressToken": "1e999", meta + "." + mcp.MetaKeyClientInfo: "null", meta + "." + mcp.MetaKeyClientCapabilities: "null"}
	for _, c := range []struct {
		name    string
		header  http.Header
		json    string
		decides []string
		want    string
	}{
		{"call", open, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_allowed","arguments":{},"_meta":{"progressToken":"p","a":1},"extra":1}}`,
			[]string{"jsonrpc", "id", "method", "params", "params.name", "params.arguments"}, `"structuredContent"`},
		{"newer call", newer, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"list_allowed","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"` + newEra + `",
			"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}},"progressToken":"p"}}}`,
			[]string{"jsonrpc", "id", "method", "params", "params.name", "params.arguments", meta, meta + ".io.modelcontextprotocol/protocolVersion"}, `"structuredContent"`},
		// Last: the door ends the oldest sessions when there are many.
		{"initialize", first, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + oldEra + `","clientInfo":{"name":"c","title":"C","version":"1","websiteUrl":"https://x","icons":[{"src":"https://x/i.png","mimeType":"image/png","sizes":["48x48"]}]},
			"capabilities":{"roots":{"listChanged":true},"sampling":{"tools":{}},"elicitation":{"form":{}},"experimental":{"a":{"b":1}}},"_meta":{"progressToken":"p","a":1}}}`,
			[]string{"jsonrpc", "id", "method", "params", "params.protocolVersion"}, `"serverInfo"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, b := range fields.Break(c.json, c.decides...) {
				want := c.want
				if refused[b.Path] == b.Form {
					want = `"error"`
				}
				if _, said := w.speak(c.header, "", b.JSON); !strings.Contains(said, want) {
					t.Errorf("%s is %s: %s", b.Path, b.Form, said)
				}
			}
		})
	}
}
