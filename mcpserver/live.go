package mcpserver

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// live knows what is open under each token (by its hash), sessions and streams,
// so that it ends with the token: a stream may hang for hours.
type live struct {
	mu   sync.Mutex // guards the fields below
	open map[string]map[any]opened
	// nth counts what was ever opened, and added sessions since the last look at
	// which of them are over.
	nth, added int
}

// opened is one thing that is open: what ends it, and its place in the order.
type opened struct {
	end func()
	nth int
}

// The bounds of sessions: how many of one token are open at a time, and after how
// many new ones those that ended are forgotten.
const (
	maxSessions = 64
	pruneEvery  = 64
)

func (l *live) add(token string, key any, end func()) {
	if l.open == nil {
		l.open = map[string]map[any]opened{}
	}
	if l.open[token] == nil {
		l.open[token] = map[any]opened{}
	}
	l.nth++
	l.open[token][key] = opened{end, l.nth}
}

func (l *live) remove(token string, key any) {
	if delete(l.open[token], key); len(l.open[token]) == 0 {
		delete(l.open, token)
	}
}

// session remembers a session, and returns what ends the token's oldest one when
// there is one too many: a client that opens them without end would fill the memory.
// The SDK tells nobody that one is over, so those that a server does not have any
// more are looked for now and then.
func (l *live) session(token string, s *mcp.ServerSession, servers []*mcp.Server, end func(*mcp.ServerSession)) (tooMany func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(token, s, func() { end(s) })
	l.added++
	if n, _ := l.oldest(token); l.added >= pruneEvery || n > maxSessions {
		l.prune(servers)
	}
	n, first := l.oldest(token)
	if n <= maxSessions {
		return func() {}
	}
	defer l.remove(token, first)
	return l.open[token][first].end
}

// oldest returns how many sessions of a token are open, and the first of them.
func (l *live) oldest(token string) (n int, first any) {
	for key, o := range l.open[token] {
		if _, ok := key.(*mcp.ServerSession); !ok {
			continue
		}
		if n++; first == nil || o.nth < l.open[token][first].nth {
			first = key
		}
	}
	return n, first
}

func (l *live) prune(servers []*mcp.Server) {
	l.added = 0
	alive := map[any]bool{}
	for _, server := range servers {
		for s := range server.Sessions() {
			alive[s] = true
		}
	}
	for token, all := range l.open {
		for key := range all {
			if s, ok := key.(*mcp.ServerSession); ok && !alive[s] {
				l.remove(token, key)
			}
		}
	}
}

// enter returns the context for a request. That of a stream ends with its token
// and when the HTTP server begins to stop; the others return at once by themselves.
// RateLimited when the token has maxStreams open.
func (l *live) enter(r *http.Request, token string) (context.Context, func(), error) {
	if r.Method != http.MethodGet {
		return r.Context(), func() {}, nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	key := new(int)
	if !l.stream(token, key, cancel) {
		cancel()
		return nil, nil, &bridge.Error{Kind: bridge.RateLimited, RetryAfter: streamPatience,
			Message: fmt.Sprintf("this token has %d event streams open, which is the limit; close one first", maxStreams)}
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-httpx.Draining(ctx):
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel()
		<-watched
		l.mu.Lock()
		defer l.mu.Unlock()
		l.remove(token, key)
	}, nil
}

// EnterStream admits an event stream outside of /mcp under a token's hash. It
// counts with those at /mcp, and ends with the token. The caller calls the returned function
// when the stream is over. RateLimited when the token has 16 streams open.
func (d *Door) EnterStream(r *http.Request, token string) (context.Context, func(), error) {
	return d.live.enter(r, token)
}

// maxStreams is how many event streams of one token are open at a time.
const maxStreams = 16

// stream remembers a stream, unless the token has maxStreams.
func (l *live) stream(token string, key *int, end func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for other := range l.open[token] {
		if _, ok := other.(*int); ok {
			n++
		}
	}
	if n >= maxStreams {
		return false
	}
	l.add(token, key, end)
	return true
}

// tokens lists the tokens under which something is open.
func (l *live) tokens() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]string, 0, len(l.open))
	for token := range l.open {
		list = append(list, token)
	}
	return list
}

// end ends everything that is open under a token. Closing a session waits for
// its calls, so that it happens outside of the lock.
func (l *live) end(token string) {
	l.mu.Lock()
	ends := make([]func(), 0, len(l.open[token]))
	for key, o := range l.open[token] {
		ends = append(ends, o.end)
		if _, ok := key.(*mcp.ServerSession); ok {
			l.remove(token, key)
		}
	}
	l.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// recheck is how often the tokens of what is open are looked at again, for
// those that another replica revoked.
const recheck = 15 * time.Second

// Run ends what is open under tokens that were revoked, tells those who watch
// others, and counts on the timeline what was refused, until ctx ends; then it
// ends everything. It is called once.
func (d *Door) Run(ctx context.Context) error {
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	watched, stop := d.o.Engine.Watch()
	defer stop()
	changes := watched
	soon := time.NewTimer(0) // what came to rest while nobody ran
	defer soon.Stop()
	for {
		select {
		case <-ctx.Done():
			for _, token := range d.live.tokens() {
				d.live.end(token)
			}
			return nil
		case <-tick.C:
			d.endRevoked(ctx)
			d.tellRefused(ctx)
		case <-changes:
			changes = nil // the rest of them count as one
			soon.Reset(watchPause)
		case <-soon.C:
			changes = watched
			d.tellWatchers(ctx)
		}
	}
}

func (d *Door) endRevoked(ctx context.Context) {
	for _, token := range d.live.tokens() {
		if isGuest(token) {
			continue // what admits a guest proves it again for each request, and its sessions end when nobody uses them
		}
		valid, err := d.o.Tokens.Valid(ctx, token)
		if err != nil && ctx.Err() == nil {
			d.o.Log.Warn().Err(err).Msg("a token could not be looked at again; what it opened stays open")
		}
		if err == nil && !valid {
			d.live.end(token)
		}
	}
}

// streamPatience is how long a client may take to read one write.
const streamPatience = 15 * time.Second

// patientWriter gives each write its own deadline, so that a stream may outlive
// the server's write timeout and a reader that stands still may not.
type patientWriter struct{ http.ResponseWriter }

// Unwrap lets http.ResponseController reach the connection.
func (w patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements io.Writer.
func (w patientWriter) Write(p []byte) (int, error) {
	httpx.Linger(w.ResponseWriter, streamPatience)
	return w.ResponseWriter.Write(p)
}
