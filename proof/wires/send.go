package wires

import (
	"bufio"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"
	"testing"
)

//go:embed acp chat mcp
var recorded embed.FS

// Each runs a test for each program of a folder, with the lines that it wrote, side by side.
func Each(t *testing.T, folder string, test func(t *testing.T, program string, lines []string)) {
	files, err := recorded.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ".jsonl")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, err := recorded.ReadFile(path.Join(folder, file.Name()))
			if err != nil || len(raw) == 0 {
				t.Fatal(len(raw), err)
			}
			test(t, name, strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n"))
		})
	}
}

// Recorded is a request as the files in mcp have it.
type Recorded struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    json.RawMessage   `json:"body,omitempty"`
}

// Request is a POST request. Post stops after Cut bytes of the body where Cut is not negative, and writes Piece bytes at a time where Piece is
// not 0.
type Request struct {
	Address, Path string
	Header        http.Header
	Body          string
	Cut, Piece    int
}

// Post sends a request on a connection of its own. Where it is cut the server sees the end of the input, and can still answer. It returns the
// status, the headers and the body of the answer.
func Post(t testing.TB, q Request) (int, http.Header, string) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", q.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var head strings.Builder
	fmt.Fprintf(&head, "POST %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %d\r\n", q.Path, q.Address, len(q.Body))
	if err := q.Header.Write(&head); err != nil {
		t.Fatal(err)
	}
	body := q.Body
	if q.Cut >= 0 {
		body = body[:q.Cut]
	}
	for rest := head.String() + "\r\n" + body; rest != ""; {
		n := len(rest)
		if q.Piece > 0 {
			n = min(n, q.Piece)
		}
		if _, err := io.WriteString(conn, rest[:n]); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if tcp, ok := conn.(*net.TCPConn); ok && q.Cut >= 0 {
		_ = tcp.CloseWrite()
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("after %d bytes of the body: %v", len(body), err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(answer)
}
