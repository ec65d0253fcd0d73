package acp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"drawbridge/relay/agents"
	"drawbridge/relay/agents/acp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is an agent in this process that does what a test writes down. It knows the wire and nothing of the driver.
type fake struct {
	t    *testing.T
	conn *acp.Conn
	in   *bufio.Reader
	raw  net.Conn
}

// heard is a message as it came over the wire.
type heard struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

// hear reads the next message; ok is false when the input has ended.
func (f *fake) hear() (h heard, ok bool) {
	line, err := f.in.ReadBytes('\n')
	if err != nil {
		return heard{}, false
	}
	if err := json.Unmarshal(line, &h); err != nil {
		f.t.Errorf("the driver wrote %q: %v", line, err)
	}
	return h, true
}

// want reads the next message, which has to be a request or a notification of this method.
func (f *fake) want(method string) heard {
	h, ok := f.hear()
	if !ok || h.Method != method {
		f.t.Errorf("the driver sent %q %s; want %s (input open: %t)", h.Method, h.Result, method, ok)
	}
	return h
}

// write writes raw output.
func (f *fake) write(text string) {
	if n, err := f.conn.Write([]byte(text)); n != len(text) || err != nil {
		f.t.Errorf("Write took %d of %d bytes: %v", n, len(text), err)
	}
}

func (f *fake) answer(h heard, result string) {
	f.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", h.ID, result))
}

func (f *fake) fail(h heard, code int, message string) {
	text, _ := json.Marshal(message)
	f.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`+"\n", h.ID, code, text))
}

func (f *fake) update(session, update string) {
	f.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":%s}}`+"\n", session, update))
}

func (f *fake) chunk(session, text string) {
	f.update(session, fmt.Sprintf(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%q}}`, text))
}

// whole is what an agent says of itself that can do everything.
const whole = `{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"resume":{},"list":{},"close":{}}},"agentInfo":{"name":"fake","version":"7"},"authMethods":[]}`

// begin plays the start up to an open session s1.
func (f *fake) begin() {
	f.answer(f.want("initialize"), whole)
	f.answer(f.want("session/new"), `{"sessionId":"s1"}`)
}

// rest takes what the driver sends until it closes the input.
func (f *fake) rest() {
	for {
		if _, ok := f.hear(); !ok {
			return
		}
	}
}

// play runs a script of an agent against a client, in a bubble: time passes at once, and a goroutine that is left fails the test.
func play(t *testing.T, o acp.Options, script func(*fake), client func(ctx context.Context, c *acp.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		o.Input, o.Name, o.Version = ours, "test", "1"
		c := acp.New(t.Context(), o)
		f := &fake{t: t, conn: c, in: bufio.NewReader(theirs), raw: theirs}
		over := make(chan struct{})
		go func() {
			defer close(over)
			defer theirs.Close()
			script(f)
			f.rest()
		}()
		client(t.Context(), c)
		_ = c.Close()
		<-over
	})
}

// open initializes and opens the session s1.
func open(t *testing.T, ctx context.Context, c *acp.Conn) *acp.Session {
	t.Helper()
	if _, err := c.Initialize(ctx); err != nil {
		t.Fatalf("initialize: %v", err)
	}
	s, err := c.NewSession(ctx, acp.Start{Dir: "/work"})
	if err != nil {
		t.Fatalf("session/new: %v", err)
	}
	return s
}

// wantCause fails unless err has a cause and a reason that holds a text.
func wantCause(t *testing.T, err error, cause agents.Cause, reason string) {
	t.Helper()
	if err == nil || agents.CauseOf(err) != cause || !strings.Contains(err.Error(), reason) {
		t.Errorf("%v; want %q with %q", err, cause, reason)
	}
}

// exited is what a host says of a process that ended.
var exited = &agents.Error{Cause: agents.Crashed, Reason: "the agent ended with exit code 1"}

var _ io.Writer = (*acp.Conn)(nil)

const moment = 50 * time.Millisecond
