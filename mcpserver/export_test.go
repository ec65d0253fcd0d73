package mcpserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"
)

// CountSDK counts the messages (POST) that the SDK gets from now on. A client opens
// its stream (GET) beside them, at a moment of its own.
func (d *Door) CountSDK() *atomic.Int64 {
	n := new(atomic.Int64)
	for _, h := range []*http.Handler{&d.brief, &d.stateless, &d.stateful} {
		next := *h
		*h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				n.Add(1)
			}
			next.ServeHTTP(w, r)
		})
	}
	return n
}

// SetBeat says how often a call that is held says that it goes on.
func (d *Door) SetBeat(beat time.Duration) { d.beat = beat }

// SetFresh says for how long the fast path believes what the SDK took.
func (d *Door) SetFresh(fresh time.Duration) { d.fast.fresh = fresh }

// RemembersLate plays a call that is under way when its session ends, and
// reports whether another one would then be answered without the SDK.
func (d *Door) RemembersLate() bool {
	f, now := frame{session: "late"}, time.Now()
	_, ended := d.fast.has(f, now)
	d.fast.end(f.session)
	d.fast.put(f, ended, now)
	fresh, _ := d.fast.has(f, now)
	return fresh
}

// Split is what the fast path reads in a body; not ok when it leaves that to the SDK.
func Split(body []byte) (id json.RawMessage, name string, args json.RawMessage, meta string, ok bool) {
	f, k, ok := split(httptest.NewRequest(http.MethodPost, "/mcp", bytes.NewReader(body)), &caller{})
	return k.id, k.name, k.args, f.meta, ok
}

// SeedState is the word for an agent's state in inspect_agent.
var SeedState = seedState

// TellRefused is what Run does from time to time.
var TellRefused = (*Door).tellRefused

// Streams returns how a door admits requests.
func Streams() func(r *http.Request, token string) (func(), error) {
	l := &live{}
	return func(r *http.Request, token string) (func(), error) {
		_, done, err := l.enter(r, token)
		return done, err
	}
}

// EndRevoked is what Run does from time to time.
var EndRevoked = (*Door).endRevoked
