package pgproxy

import (
	"bytes"
	"encoding/binary"
	"strings"
	"sync"
)

// Counts is what went over one kind of connections. Logging in counts as a connection alone.
type Counts struct {
	// Connections counts those that were opened.
	Connections int
	// RoundTrips counts how often the client sent something and then needed an answer
	// before it sent more. Messages that it sends without waiting are one round trip, and so is a COPY.
	RoundTrips int
	// Prepares counts those round trips that executed nothing: a connection prepares a statement at its first use.
	Prepares int
	// Statements counts the statements that were executed, BEGIN and COMMIT too.
	Statements int
	// Transactions counts transactions with at least one statement. A statement outside of BEGIN and COMMIT is one.
	Transactions int
	// Notifies counts statements that call pg_notify or NOTIFY, Notifications what the server told a listener.
	Notifies, Notifications int
	// Largest is the transaction with the most round trips that executed something.
	Largest Transaction
}

// Transaction is what one transaction took.
type Transaction struct{ RoundTrips, Prepares, Statements int }

// Trips counts the round trips that executed something.
func (t Transaction) Trips() int { return t.RoundTrips - t.Prepares }

// Snapshot is what a Proxy counted.
type Snapshot struct {
	// Total leaves out Listeners, the connections that executed LISTEN.
	Total, Listeners Counts
	// Connections are the connections one by one, in the order in which they were opened. Those that ended before the last
	// Reset are left out.
	Connections []Counts
	// Statements tells how often each text was executed; a text is cut after 1 KiB.
	Statements map[string]int
	// Unread counts connections with TLS: nothing on them was counted.
	Unread int
}

func (c *Counts) add(d Counts) {
	c.Connections += d.Connections
	c.RoundTrips += d.RoundTrips
	c.Prepares += d.Prepares
	c.Statements += d.Statements
	c.Transactions += d.Transactions
	c.Notifies += d.Notifies
	c.Notifications += d.Notifications
	if d.Largest.Trips() > c.Largest.Trips() {
		c.Largest = d.Largest
	}
}

// observer reads one connection's messages (PostgreSQL's frontend/backend protocol 3). Safe for concurrent use.
type observer struct {
	mu       sync.Mutex // guards the fields below
	client   splitter
	server   splitter
	counts   Counts
	said     map[string]int
	listener bool
	ended    bool
	// sealed is true once TLS was agreed upon; bare counts answers of one byte that the server owes.
	sealed bool
	bare   int
	// ready is true after the log-in.
	ready bool
	// waiting is true while a round trip goes on, answered once the client knows something that it may have waited for.
	waiting, answered bool
	// ran is true once the round trip has executed something.
	ran bool
	// flushed is true when the client asked for answers without a Sync.
	flushed bool
	// cycles are what the server still owes a ReadyForQuery for.
	cycles []cycle
	// current is the transaction that goes on.
	current Transaction
	// prepared and portals are texts by the name of a prepared statement and of a portal.
	prepared, portals map[string]string
	// loss is the proxy's. mine is true when the COMMIT to lose is this connection's, cut once the connection is to end.
	loss      *loss
	mine, cut bool
}

// cycle is a Query or a Sync. Of a Query, which may hold several statements, complete counts those that are over.
type cycle struct {
	query    bool
	complete int
}

func newObserver(l *loss) *observer {
	return &observer{loss: l, client: splitter{untyped: true}, counts: Counts{Connections: 1}, said: map[string]int{}, prepared: map[string]string{}, portals: map[string]string{}}
}

func (o *observer) addTo(s *Snapshot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s.Connections = append(s.Connections, o.counts)
	if o.sealed {
		s.Unread++
	}
	if o.listener {
		s.Listeners.add(o.counts)
		return
	}
	s.Total.add(o.counts)
	for text, n := range o.said {
		s.Statements[text] += n
	}
}

// reset forgets what was counted and reports whether the connection has ended.
func (o *observer) reset() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts, o.said, o.current = Counts{}, map[string]int{}, Transaction{}
	return o.ended
}

func (o *observer) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
}

func (o *observer) fromClient(data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.sealed {
		o.client.feed(data, o.clientSays)
	}
}

func (o *observer) fromServer(data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.bare > 0 && len(data) > 0 && !o.sealed {
		o.sealed = data[0] != 'N'
		o.bare--
		data = data[1:]
	}
	if !o.sealed {
		o.server.feed(data, o.serverSays)
	}
}

// The codes of messages without a type: requests for TLS and for GSS encryption.
const (
	codeTLS = 80877103
	codeGSS = 80877104
)

func (o *observer) clientSays(kind byte, body []byte) {
	if kind == 0 {
		if code := binary.BigEndian.Uint32(append(body, 0, 0, 0, 0)); code == codeTLS || code == codeGSS {
			o.bare++
			o.client.untyped = true
		}
		return
	}
	if !o.ready || kind == 'X' {
		return
	}
	o.trip()
	name, rest := word(body)
	switch kind {
	case 'Q':
		o.statement(name)
		o.cycles = append(o.cycles, cycle{query: true, complete: 0})
	case 'P':
		o.prepared[name], _ = word(rest)
	case 'B':
		from, _ := word(rest)
		o.portals[name] = o.prepared[from]
	case 'E':
		o.statement(o.portals[name])
	case 'S':
		o.cycles = append(o.cycles, cycle{})
	case 'F':
		o.statement("a function call")
		o.cycles = append(o.cycles, cycle{})
	case 'H':
		o.flushed = true
	}
}

// trip counts a round trip when the client may have waited for what it knows now.
func (o *observer) trip() {
	if o.waiting && !o.answered {
		return
	}
	o.waiting, o.answered, o.flushed, o.ran = true, false, false, false
	o.counts.RoundTrips++
	o.current.RoundTrips++
}

func (o *observer) statement(text string) {
	o.executed()
	o.said[text]++
	if strings.EqualFold(text, "COMMIT") {
		o.commit()
	}
	upper := strings.ToUpper(strings.TrimSpace(text))
	if strings.HasPrefix(upper, "LISTEN") {
		o.listener = true
	}
	if strings.HasPrefix(upper, "NOTIFY") || strings.Contains(upper, "PG_NOTIFY") {
		o.counts.Notifies++
	}
}

func (o *observer) executed() {
	o.ran = true
	o.counts.Statements++
	o.current.Statements++
}

func (o *observer) serverSays(kind byte, body []byte) {
	switch kind {
	case 'A':
		o.counts.Notifications++
		return
	case 'N', 'S': // a notice or a parameter's new value answers nothing
		return
	case 'C':
		o.complete()
	case 'Z':
		o.readyForQuery(body)
	}
	o.answered = o.answered || o.flushed
}

// complete counts the second and further statements of one Query message, of which the client's message tells nothing.
func (o *observer) complete() {
	if len(o.cycles) == 0 || !o.cycles[0].query {
		return
	}
	if o.cycles[0].complete++; o.cycles[0].complete > 1 {
		o.executed()
	}
}

func (o *observer) readyForQuery(status []byte) {
	if !o.ready {
		o.ready = true
		return
	}
	o.answered = true
	if len(o.cycles) > 0 {
		o.cycles = o.cycles[1:]
	}
	if len(o.cycles) > 0 {
		return
	}
	o.waiting = false
	o.cut = o.mine
	if !o.ran {
		o.counts.Prepares++
		o.current.Prepares++
	}
	if len(status) > 0 && status[0] == 'I' && o.current.Statements > 0 {
		o.counts.Transactions++
		if o.current.Trips() > o.counts.Largest.Trips() {
			o.counts.Largest = o.current
		}
		o.current = Transaction{}
	}
}

// word cuts a text that ends with a zero byte off a message.
func word(body []byte) (text string, rest []byte) {
	before, rest, _ := bytes.Cut(body, []byte{0})
	return string(before), rest
}

// mostBody is how much of a message is kept: enough for names and statements.
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
