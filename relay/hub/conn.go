package hub

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"drawbridge/bridge"
	"drawbridge/relay/chunks"
	"drawbridge/relay/wire"
)

const (
	// framesPerSecond and burst bound what one relay may say. Each of its running actions says four things a second.
	framesPerSecond = 500
	burst           = 2000
	// answeredCost is what a word that needs the store costs beyond a frame.
	answeredCost = 20
	// silence is how long a relay may say nothing at all; it pings every 20 s.
	silence = 75 * time.Second
)

// conn is one relay's connection.
type conn struct {
	hub     *Hub
	ws      *websocket.Conn
	relay   string
	key     string // the public key that it proved
	session string
	since   time.Time
	// began is when the relay dialed.
	began time.Time
	// The relay proved process and shown; epoch is the one that this connection was given.
	process      string
	shown, epoch int64
	// abort ends the reading, nil before it began; guarded by the hub's mu.
	abort context.CancelFunc
	// word is why we end the connection, "" as long as we do not; guarded by the hub's mu.
	word closing
	// signer is the newest of our keys that the relay trusts.
	signer atomic.Pointer[signer]
	// heard is when the relay last said anything, in Unix nanoseconds.
	heard atomic.Int64

	// connection names this connection in signatures.
	connection string
	// receiver takes large answers, nil before the first one.
	receiver atomic.Pointer[chunks.Receiver]
	// sender sends turns, nil before the first one.
	sender atomic.Pointer[chunks.Sender]
	// mcp serves the calls of this relay's agents, nil before the first one.
	mcp atomic.Pointer[mcpCalls]

	// Only the reading goroutine uses these.
	allowance float64
	allowed   time.Time
	offered   time.Time

	mu    sync.Mutex // guards what follows
	calls map[string]*call
	looks map[string]*look
	// turnLooks are look-ups of turns, and words that stop them.
	turnLooks map[turnKey]*turnLook
	ended     bool
	signed    int64 // when the last request was signed, in Unix milliseconds
}

// call is one request that the relay has in hand. Several may wait for it.
type call struct {
	action string
	since  time.Time
	tail   wire.Tail
	// turn is true for a turn of an agent, which ends with ended.
	turn bool
	// outcome or ended, or err, is set before done is closed.
	outcome wire.Outcome
	ended   wire.TurnEnded
	err     error
	done    chan struct{}
}

func (c *conn) write(ctx context.Context, f wire.Frame) error {
	data, err := f.Bytes()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return c.ws.Write(ctx, websocket.MessageText, data)
}

func (c *conn) read(ctx context.Context) (wire.Frame, error) {
	kind, data, err := c.ws.Read(ctx)
	if err != nil {
		return wire.Frame{}, err
	}
	if kind != websocket.MessageText {
		return wire.Frame{}, closing("a frame is not text")
	}
	f, err := wire.ReadFrame(data)
	if err != nil {
		return wire.Frame{}, closing("a frame is malformed")
	}
	return f, nil
}

// serve reads what the relay says until the connection ends.
func (c *conn) serve(ctx context.Context) error {
	c.allowance, c.allowed = burst, c.hub.o.Now()
	for {
		f, err := c.read(ctx)
		if err != nil {
			return err
		}
		now := c.hub.o.Now()
		c.heard.Store(now.UnixNano())
		if !c.allow(now) {
			return closeFlood
		}
		if err := c.take(ctx, f); err != nil {
			return err
		}
	}
}

// allow keeps a relay from drowning us.
func (c *conn) allow(now time.Time) bool {
	c.allowance = min(burst, c.allowance+now.Sub(c.allowed).Seconds()*framesPerSecond) - 1
	c.allowed = now
	return c.allowance >= 0
}

func (c *conn) take(ctx context.Context, f wire.Frame) error {
	switch {
	case f.Outcome != nil:
		if c.settle(*f.Outcome) {
			c.allowance++ // we asked for it
		}
	case f.Found != nil:
		if c.found(*f.Found) {
			c.allowance++
		}
	case f.Chunked != nil || f.Chunk != nil:
		return c.takeChunk(ctx, f)
	case f.Permission != nil || f.PermissionWait != nil:
		return c.takePermission(ctx, f)
	case f.MCPCall != nil || f.MCPCancel != nil:
		return c.takeMCP(ctx, f)
	case f.Ended != nil || f.TurnFound != nil || f.TurnStopped != nil || f.TurnPeeked != nil || f.Receipt != nil:
		return c.takeTurn(f)
	case f.Switch != nil:
		c.allowance -= answeredCost
		return c.noteSwitch(ctx, *f.Switch)
	case f.Asking != nil:
		c.allowance -= answeredCost + float64(len(f.Asking.Questions))
		return c.noteAsking(ctx, *f.Asking)
	case f.Output != nil:
		c.progress(*f.Output)
	case f.Pinned != nil:
		if c.pinned(*f.Pinned) {
			return c.notePin(ctx)
		}
	case f.Answered != nil:
		c.allowance -= answeredCost
		c.answered(ctx, *f.Answered)
	case f.Offers != nil:
		// Each costs a write, and a relay reads its own list at its start.
		if now := c.hub.o.Now(); now.Sub(c.offered) >= time.Second {
			c.offered = now
		} else {
			return closeFlood
		}
		return c.hub.o.Store.Update(ctx, func(tx *bridge.Scene) error { return tx.PutOffers(c.relay, offersOf(c.relay, *f.Offers)) })
	default:
		return errOrder
	}
	return nil
}

// settle ends a call and reports whether there was one. An answer that nobody waits for, any more or ever, says nothing.
func (c *conn) settle(out wire.Outcome) bool {
	k := c.over(out.ID, false)
	if k != nil {
		k.outcome = out
		close(k.done)
	}
	return k != nil
}

// over takes the call of a request off the list and returns it, or nil when there is none of this kind.
func (c *conn) over(id string, turn bool) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.calls[id]
	if k == nil || k.turn != turn {
		return nil
	}
	delete(c.calls, id)
	return k
}

func (c *conn) progress(t wire.Tail) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.calls[t.ID]; k != nil {
		k.tail = t
	}
}

// answered passes on that the machine has answered. Lost, the relay says it again.
func (c *conn) answered(ctx context.Context, a wire.Answered) {
	if c.hub.o.Answered == nil {
		return
	}
	if err := c.hub.o.Answered(ctx, c.relay, a.ID); err != nil {
		c.hub.o.Log.Error().Err(err).Str("relay", c.relay).Str("request", a.ID).Msg("ask again what was answered at the relay's machine")
	}
}

// pinned notes which of our keys the relay trusts from now on. It never goes back: what counts is the newest.
func (c *conn) pinned(p wire.Pinned) (news bool) {
	ring := c.hub.ring.Load()
	if s := ring.trusted(p.Pins); s != nil && s.generation > c.signer.Load().generation {
		c.signer.Store(s)
		c.hub.o.Log.Info().Str("relay", c.relay).Str("key", s.id).Msg("relay trusts the bridge's new key")
		return true
	}
	return false
}

// notePin writes down which of our keys a connected relay trusts now, unless another connection has taken over.
func (c *conn) notePin(ctx context.Context) error {
	return c.hub.o.Store.Update(ctx, func(tx *bridge.Scene) error {
		relay, err := tx.Relay(c.relay)
		if err != nil || relay.Session != c.session {
			return err
		}
		relay.Pin = c.signer.Load().id
		return tx.PutRelay(relay)
	})
}

// noteSwitch writes down how a connected relay's kill switch and configuration stand, unless another connection has taken over.
func (c *conn) noteSwitch(ctx context.Context, now wire.Switch) error {
	return c.hub.o.Store.Update(ctx, func(tx *bridge.Scene) error {
		relay, err := tx.Relay(c.relay)
		if err != nil || relay.Session != c.session {
			return err
		}
		before := relay
		relay.StoppedAt = c.holdsSince(relay.StoppedAt, now.Stopped)
		relay.OutdatedAt = c.holdsSince(relay.OutdatedAt, now.Outdated)
		if relay == before {
			return nil
		}
		return tx.PutRelay(relay)
	})
}

// noteAsking writes down about which requests a person at the relay's machine is asked, unless another connection has taken over. What
// was not sent to this very process of the relay is not its business and is passed over.
func (c *conn) noteAsking(ctx context.Context, a wire.Asking) error {
	now := c.hub.o.Now()
	return c.hub.o.Store.Update(bridge.Forgettable(ctx), func(tx *bridge.Scene) error {
		relay, err := tx.Relay(c.relay)
		if err != nil || relay.Session != c.session {
			return err
		}
		var open []bridge.MachineQuestion
		for _, q := range a.Questions {
			tie, err := tx.Tie(q.ID)
			switch {
			case errors.Is(err, bridge.ErrNoRow):
			case err != nil:
				return err
			case tie.Relay == c.relay && tie.Process == c.process && !tie.SentAt.IsZero():
				open = append(open, bridge.MachineQuestion{Request: q.ID, Relay: c.relay, Since: now.Add(-time.Duration(q.AgeMS) * time.Millisecond),
					Until: now.Add(time.Duration(q.LeftMS) * time.Millisecond)})
			}
		}
		return tx.PutMachineQuestions(c.relay, open)
	})
}

// holdsSince is when something began that is so now: known, or this moment. The zero time when it is not so.
func (c *conn) holdsSince(known time.Time, so bool) time.Time {
	switch {
	case !so:
		return time.Time{}
	case known.IsZero():
		return c.hub.o.Now()
	}
	return known
}

func (c *conn) setCancel(cancel context.CancelFunc) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	c.abort = cancel
}

// cancel ends the connection without a word.
func (c *conn) cancel() {
	c.hub.mu.Lock()
	abort := c.abort
	c.hub.mu.Unlock()
	if abort != nil {
		abort()
	}
	_ = c.ws.CloseNow()
}

// shut ends the connection from our side, with a word that the relay understands. It does not wait.
func (c *conn) shut(word closing) {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.word != "" {
		return
	}
	c.word = word
	h.live.Add(1) // the connection itself is counted as alive still, or is on its way out of the list
	go func() {
		defer h.live.Done()
		_ = c.ws.Close(websocket.StatusPolicyViolation, string(word))
		c.cancel()
	}()
}

// end gives up every call, takes the relay off the list and closes. err is why.
func (c *conn) end(err error) {
	c.mu.Lock()
	calls, looks, turnLooks := c.calls, c.looks, c.turnLooks
	c.calls, c.looks, c.turnLooks, c.ended = nil, nil, nil, true
	c.mu.Unlock()
	waitMCP := c.endMCP()
	defer waitMCP()
	for _, l := range turnLooks {
		close(l.done)
	}
	for _, l := range looks {
		close(l.done)
	}
	for _, k := range calls {
		k.err = errLost
		close(k.done)
	}
	ours := c.hub.leave(c)
	var word closing
	if ours == "" && errors.As(err, &word) {
		_ = c.ws.Close(websocket.StatusPolicyViolation, string(word))
	}
	_ = c.ws.CloseNow() // a failure of ours once left the connection open
	switch {
	case ours != "":
		err = ours
	case websocket.CloseStatus(err) == websocket.StatusNormalClosure:
		err = nil
	}
	log := c.hub.o.Log.Info()
	var failed fault
	switch {
	case errors.As(err, &failed) && !errors.Is(err, bridge.ErrNoRow):
		log = c.hub.o.Log.Error()
	case c.relay == "":
		log = c.hub.o.Log.Warn()
	}
	what := "relay disconnected"
	if ours == closeTried {
		what = "relay tried this address out"
	}
	log.Str("relay", c.relay).Str("session", c.session).AnErr("reason", err).Msg(what)
}

var errLost = errors.New("the connection was lost")

// errGone is returned by begin when the connection had ended already: nothing was sent.
var errGone = errors.New("the connection had ended")

// begin registers a call, or joins the one under the same id. A call without an action is a turn. It says whether the request is still to be sent.
func (c *conn) begin(id, action string) (k *call, first bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil, false, errGone
	}
	if k := c.calls[id]; k != nil && k.turn != (action == "") {
		return nil, false, errGone
	} else if k != nil {
		return k, false, nil
	}
	k = &call{action: action, turn: action == "", since: c.hub.o.Now(), done: make(chan struct{})}
	c.calls[id] = k
	return k, true, nil
}

// stamp returns a time for the next request that no earlier one on this connection had, so that two requests are never
// the same bytes, which the relay would take for a replay.
func (c *conn) stamp() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.signed = max(c.signed+1, c.hub.o.Now().UnixMilli())
	return time.UnixMilli(c.signed)
}

func (c *conn) running() []bridge.RelayRun {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []bridge.RelayRun
	for id, k := range c.calls {
		if k.turn {
			continue
		}
		out = append(out, bridge.RelayRun{Request: id, Action: k.action, Since: k.since, Stdout: k.tail.Stdout, Stderr: k.tail.Stderr})
	}
	return out
}
