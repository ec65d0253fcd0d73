package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"drawbridge/mcpserver"
	"drawbridge/proof/wires"
)

// replayed sends the requests of a file to a world of its own, and returns what came of each: the status, and whether it was an error. With
// sloppy it sends each in pieces, before that cut short in several places, and twice where it is no call of a tool.
func replayed(t *testing.T, requests []wires.Recorded, sloppy bool) (out []string) {
	w := newWorld(t)
	w.sets = mcpserver.SetNames()
	w.launch("main")
	address, session := strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/mcp"), ""
	for _, q := range requests {
		header := http.Header{"Authorization": {"Bearer " + w.secret("main")}}
		for name, value := range q.Headers {
			header.Set(name, strings.ReplaceAll(value, "SESSION", session))
		}
		body := string(q.Body)
		sent := wires.Request{Address: address, Path: q.Path, Header: header, Body: body, Cut: -1}
		for cut := 1; sloppy && cut < len(body)-1; cut += 1 + len(body)/5 {
			short := sent
			short.Cut = cut
			if status, _, said := wires.Post(t, short); status != http.StatusBadRequest || strings.Contains(said, `"result"`) {
				t.Errorf("cut after %d bytes of %.120s: %d %s", cut, body, status, said)
			}
		}
		if sloppy {
			sent.Piece = 100
			if session != "" && !strings.Contains(body, `"tools/call"`) { // a second session, or a second agent, would be another one
				wires.Post(t, sent)
			}
		}
		status, got, said := wires.Post(t, sent)
		if id := got.Get("Mcp-Session-Id"); id != "" {
			session = id
		}
		if _, event, stream := strings.Cut(said, "data: {"); stream {
			said = "{" + event
		}
		var answer struct {
			ID     json.RawMessage
			Error  *struct{ Code int }
			Result *struct{ IsError bool }
		}
		_ = json.NewDecoder(strings.NewReader(said)).Decode(&answer)
		line := fmt.Sprint(status, " id ", string(answer.ID), ", result ", answer.Result != nil)
		if answer.Error != nil {
			line += fmt.Sprint(", code ", answer.Error.Code)
		}
		if answer.Result != nil {
			line += fmt.Sprint(", error ", answer.Result.IsError)
		}
		out = append(out, line)
	}
	return out
}

// TestWires: what real agents send is taken, and a request that does not arrive whole does nothing.
func TestWires(t *testing.T) {
	t.Parallel()
	wires.Each(t, "mcp", func(t *testing.T, _ string, lines []string) {
		var requests []wires.Recorded
		for _, line := range lines {
			var q wires.Recorded
			if err := json.Unmarshal([]byte(line), &q); err != nil {
				t.Fatal(err)
			}
			requests = append(requests, q)
		}
		want := replayed(t, requests, false)
		good := 0
		for n, line := range want {
			if !strings.HasPrefix(line, "200 ") && !strings.HasPrefix(line, "202 ") {
				t.Errorf("request %d: %s: %.200s", n, line, requests[n].Body)
			}
			if strings.Contains(line, "result true") && !strings.Contains(line, "error true") {
				good++
			}
		}
		if good < len(requests)/3 {
			t.Errorf("%d of %d requests have a result: %q", good, len(requests), want)
		}
		if got := replayed(t, requests, true); !slices.Equal(got, want) {
			t.Errorf("in pieces, some twice, and between requests that did not arrive whole: %q\nwant %q", got, want)
		}
	})
}
