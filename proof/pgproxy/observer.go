package pgproxy

import (
	"bytes"
	"encoding/binary"
	"strings"
	"sync"
)

// observer reads one connection's messages (PostgreSQL's frontend/backend protocol 3) and finds its COMMITs. The client must not ask for TLS.
// Safe for concurrent use.
type observer struct {
	mu     sync.Mutex // guards the fields below
	client splitter
	server splitter
	// ready is true after the log-in.
	ready bool
	// owed counts the ReadyForQuery that the server still owes.
	owed int
	// prepared and portals are texts by the name of a prepared statement and of a portal.
	prepared, portals map[string]string
	// loss is the proxy's. mine is true when the COMMIT to lose is this connection's, cut once the connection is to end.
	loss      *loss
	mine, cut bool
}

func newObserver(l *loss) *observer {
	return &observer{loss: l, client: splitter{untyped: true}, prepared: map[string]string{}, portals: map[string]string{}}
}

func (o *observer) fromClient(data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.client.feed(data, o.clientSays)
}

func (o *observer) fromServer(data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.server.feed(data, o.serverSays)
}

func (o *observer) clientSays(kind byte, body []byte) {
	if !o.ready {
		return
	}
	name, rest := word(body)
	switch kind {
	case 'Q':
		o.statement(name)
		o.owed++
	case 'P':
		o.prepared[name], _ = word(rest)
	case 'B':
		from, _ := word(rest)
		o.portals[name] = o.prepared[from]
	case 'E':
		o.statement(o.portals[name])
	case 'S', 'F':
		o.owed++
	}
}

// statement loses a COMMIT, when it is the one: before the server sees it, or behind the server's next answer.
func (o *observer) statement(text string) {
	if !strings.EqualFold(text, "COMMIT") {
		return
	}
	if this, recorded := o.loss.next(); this {
		o.mine, o.cut = recorded, !recorded
	}
}

func (o *observer) serverSays(kind byte, _ []byte) {
	switch {
	case kind != 'Z':
	case !o.ready:
		o.ready = true
	default:
		o.owed--
		o.cut = o.mine && o.owed <= 0
	}
}

// lost reports whether the connection ends now.
func (o *observer) lost() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cut
}

// word cuts a text that ends with a zero byte off a message.
func word(body []byte) (text string, rest []byte) {
	before, rest, _ := bytes.Cut(body, []byte{0})
	return string(before), rest
}

// mostBody is how much of a message is kept, in bytes: enough for names and the word COMMIT.
const mostBody = 1 << 10

// splitter cuts a stream into messages, wherever the reads cut it.
type splitter struct {
	// untyped is true when the next message has no type, as a connection's first has not.
	untyped bool
	head    []byte
	// left is what is missing of the body, in bytes.
	left   int
	inBody bool
	kind   byte
	body   []byte
}

// feed calls each with every message that is whole now, and with its type, 0 for none. Of a body it sees the first KiB.
func (s *splitter) feed(data []byte, each func(kind byte, body []byte)) {
	for len(data) > 0 || s.inBody && s.left == 0 {
		if !s.inBody {
			data = s.readHead(data)
			continue
		}
		n := min(s.left, len(data))
		s.body = append(s.body, data[:min(n, mostBody-len(s.body))]...)
		data, s.left = data[n:], s.left-n
		if s.left == 0 {
			s.inBody = false
			each(s.kind, s.body)
		}
	}
}

// readHead takes bytes of a message's type and length.
func (s *splitter) readHead(data []byte) []byte {
	size := 5
	if s.untyped {
		size = 4
	}
	n := min(size-len(s.head), len(data))
	s.head = append(s.head, data[:n]...)
	if len(s.head) < size {
		return nil
	}
	s.kind, s.body, s.inBody = 0, nil, true
	if !s.untyped {
		s.kind = s.head[0]
	}
	s.left = max(int(binary.BigEndian.Uint32(s.head[size-4:]))-4, 0)
	s.head, s.untyped = s.head[:0], false
	return data[n:]
}
