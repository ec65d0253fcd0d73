package mcpstdio_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"drawbridge/internal/mcpstdio"
)

// carry runs the pipe over some lines, with a token that cannot be had, and returns what it wrote.
func carry(t *testing.T, in string) (out, log string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	err := mcpstdio.Run(t.Context(), mcpstdio.Options{Agent: "main", In: strings.NewReader(in), Out: &stdout, Log: &stderr,
		Open: func(context.Context) (mcpstdio.Door, error) {
			return mcpstdio.Door{}, errors.New("no bridge answers; start it")
		}})
	if err != nil {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String()
}

// A request that is too long to be carried is answered under its own id, wherever
// an SDK writes it, so that nobody waits without end; the next line is read as usual.
func TestTooLongMessages(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 5<<20)
	for name, tt := range map[string]struct{ line, id string }{
		"first":          {`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"x":"` + long + `"}}`, `7`},
		"last":           {`{"method":"tools/call","params":{"x":"` + long + `"},"jsonrpc":"2.0","id":"seven"}`, `"seven"`},
		"before the end": {`{"method":"tools/call","params":{"x":"` + long + `"}, "id": 8, "jsonrpc": "2.0"} `, `8`},
		"in the text":    {`{"method":"tools/call","params":{"x":"` + long + `,\"id\":9}"}}`, `null`},
		"of a parameter": {`{"method":"tools/call","params":{"x":"` + long + `","id":9}}`, `null`},
		"none":           {long, `null`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, _ := carry(t, tt.line+"\n"+`{"jsonrpc":"2.0","id":10,"method":"ping"}`+"\n")
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if len(lines) != 2 || !strings.Contains(lines[0], `"id":`+tt.id+`,`) || !strings.Contains(lines[0], "more than 4194304 bytes") {
				t.Errorf("answers: %.300q", lines)
			}
			if !strings.Contains(lines[len(lines)-1], `"id":10,`) || !strings.Contains(lines[len(lines)-1], "no bridge answers; start it") {
				t.Errorf("the next line: %.300q", lines)
			}
		})
	}
}

// An answer may be longer than a request: what a tool gave counts as fetched.
func TestLongAnswers(t *testing.T) {
	t.Parallel()
	answer := `{"jsonrpc":"2.0","id":1,"result":{"x":"` + strings.Repeat("a", 5<<20) + `"}}`
	for kind, form := range map[string]string{"application/json": answer, "text/event-stream": "event: message\ndata: " + answer + "\n\n"} {
		var got string
		mcpstdio.EachMessage(kind, strings.NewReader(form), func(data []byte) bool { got = strings.TrimSpace(string(data)); return true })
		if got != answer {
			t.Errorf("%s: %d bytes of %d", kind, len(got), len(answer))
		}
	}
}
