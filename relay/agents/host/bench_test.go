package host_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkWarmTurn compares a turn of an agent that lives already: by the driver under keeper and sandbox, and with bare lines over pipes. Its
// figure is the median in milliseconds. The agent syncs its log several times in each turn.
func BenchmarkWarmTurn(b *testing.B) {
	const prompt = "do: say one\ndo: say two"
	b.Run("driver", func(b *testing.B) {
		w := newWorld(b, nil, "sandbox: {}")
		_, s := w.start(nil)
		median(b, func() {
			if a, err := s.Prompt(b.Context(), prompt); err != nil || a.Text() != "onetwo" {
				b.Fatal(a, err)
			}
		})
	})
	b.Run("raw", func(b *testing.B) {
		r := newRaw(b)
		median(b, func() { r.turn(prompt) })
	})
}

func median(b *testing.B, do func()) {
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		do()
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
}

// raw speaks with the scripted agent by lines, as simply as it can be done.
type raw struct {
	testing.TB
	in      io.Writer
	out     *bufio.Reader
	session string
	next    int
}

func newRaw(t testing.TB) *raw {
	home := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{"HOME=" + home, "RUN_AS_AGENT=1", "PATH=/usr/bin:/bin"}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	r := &raw{TB: t, in: in, out: bufio.NewReader(out)}
	r.call("initialize", `{"protocolVersion":1,"clientCapabilities":{},"clientInfo":{"name":"raw","version":"1"}}`)
	var opened struct{ SessionID string }
	if err := json.Unmarshal(r.call("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, home)), &opened); err != nil {
		t.Fatal(err)
	}
	r.session = opened.SessionID
	return r
}

// call sends a request and reads up to its answer.
func (r *raw) call(method, params string) json.RawMessage {
	r.next++
	fmt.Fprintf(r.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", r.next, method, params)
	for {
		line, err := r.out.ReadString('\n')
		if err != nil {
			r.Fatal(err)
		}
		var m struct {
			ID     int
			Result json.RawMessage
		}
		if strings.Contains(line, `"id":`) && json.Unmarshal([]byte(line), &m) == nil && m.ID == r.next {
			return m.Result
		}
	}
}

func (r *raw) turn(prompt string) {
	r.call("session/prompt", fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"text","text":%q}]}`, r.session, prompt))
}
