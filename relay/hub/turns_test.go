package hub_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/proof/memstore"
	"drawbridge/relay/hub"
	"drawbridge/relay/link"
	"drawbridge/relay/wire"
)

// script is a relay that hosts one agent: it writes down what was said, and answers with what reply returns.
type script struct {
	*diary
	reply func(wire.Turn) wire.TurnEnded
	// said and sessions are guarded by state. sessions holds the ends of turns by session and id.
	said     []wire.Turn
	sessions map[string]map[string]wire.TurnEnded
	// stopped gets a turn when it is to stop; nil takes none.
	stopped chan wire.Turn
}

func newScript(reply func(wire.Turn) wire.TurnEnded) *script {
	return &script{diary: newDiary("a"), reply: reply, sessions: map[string]map[string]wire.TurnEnded{}}
}

// RunTurn implements wire.AgentHost.
func (s *script) RunTurn(_ context.Context, t wire.Turn) wire.TurnEnded {
	s.state.Lock()
	if end, over := s.sessions[t.Session][t.ID]; over {
		s.state.Unlock()
		end.Replayed = true
		return end
	}
	s.said = append(s.said, t)
	s.state.Unlock()
	end := s.reply(t)
	s.state.Lock()
	defer s.state.Unlock()
	if s.sessions[t.Session] == nil {
		s.sessions[t.Session] = map[string]wire.TurnEnded{}
	}
	s.sessions[t.Session][t.ID] = end
	return end
}

// LookupTurn implements wire.AgentHost.
func (s *script) LookupTurn(t wire.Turn) wire.TurnFound {
	s.state.Lock()
	defer s.state.Unlock()
	session, known := s.sessions[t.Session]
	end, over := session[t.ID]
	switch {
	case over:
		return wire.TurnFound{Known: wire.TurnKnownEnded, Ended: &end}
	case known:
		return wire.TurnFound{Known: wire.TurnKnownAbsent}
	}
	return wire.TurnFound{Known: wire.TurnKnownNot}
}

// StopTurn implements wire.AgentHost.
func (s *script) StopTurn(t wire.Turn) wire.TurnFound {
	if s.stopped != nil {
		s.stopped <- t
		return wire.TurnFound{Known: wire.TurnKnownOpen}
	}
	return s.LookupTurn(t)
}

// times is how often the agent was told a turn.
func (s *script) times(id string) (n int) {
	s.state.Lock()
	defer s.state.Unlock()
	for _, t := range s.said {
		if t.ID == id {
			n++
		}
	}
	return n
}

// echo answers with the text that was said.
func echo(t wire.Turn) wire.TurnEnded {
	return wire.TurnEnded{Cause: wire.TurnAnswered, Text: t.Text, Evidence: "clean"}
}

func turn(id, text string) hub.TurnCall {
	return hub.TurnCall{Relay: "laptop", ID: id, Ask: wire.TurnAsk{Agent: "opencode", Session: "agt_1", Marker: "[bridge " + id + "]", Text: text}}
}

// A turn of any size that may be said reaches its agent once, and its reply comes back, from every replica.
func TestTurns(t *testing.T) {
	t.Parallel()
	a, b := twoReplicas(t)
	s := newScript(echo)
	connect(t, joined(t, b.site, "laptop"), s, nil)
	a.online(t, "laptop")
	share := 1
	if sampled {
		share = 5
	}
	for name, text := range map[string]string{
		"small": "Add a health check", "empty": "", "large": strings.Repeat("Line\n", wire.MaxTurnText/20/share), "controls": strings.Repeat("\x01", wire.MaxTurnText/16/share),
	} {
		for n, r := range []*replica{a, b} {
			id := fmt.Sprintf("%s-%d", name, n)
			for again := range 2 {
				end, err := r.RunTurn(t.Context(), turn(id, text))
				if err != nil || end.Cause != wire.TurnAnswered || end.Text != text || end.Evidence != "clean" || end.Replayed != (again == 1) {
					t.Errorf("%s: %q %q with %d bytes, %v", id, end.Cause, end.Error, len(end.Text), err)
				}
			}
			found, err := r.LookupTurn(t.Context(), turn(id, ""))
			if err != nil || found.Known != wire.TurnKnownEnded || found.Ended.Text != text {
				t.Errorf("%s: looked up: %q, %v", id, found.Known, err)
			}
			if found, err := r.LookupTurn(t.Context(), turn("never-"+id, "")); err != nil || found.Known != wire.TurnKnownAbsent {
				t.Errorf("%s: a turn that was not sent: %q, %v", id, found.Known, err)
			}
			if n := s.times(id); n != 1 {
				t.Errorf("%s was said %d times", id, n)
			}
		}
	}
	strange := turn("other", "")
	strange.Ask.Session = "agt_2"
	if found, err := a.LookupTurn(t.Context(), strange); err != nil || found.Known != wire.TurnKnownNot {
		t.Errorf("a session that never was: %q, %v", found.Known, err)
	}
	if end, err := a.RunTurn(t.Context(), turn("too-large", strings.Repeat("x", wire.MaxTurnText+1))); err != nil || end.Refusal != wire.RefusedInvalid || s.times("too-large") != 0 {
		t.Errorf("too large: %+v, %v", end, err)
	}
}

// A turn that runs is stopped from any replica, and the caller that waits for it gets its end. A turn that has ended stays as it is.
func TestStopTurn(t *testing.T) {
	t.Parallel()
	a, b := twoReplicas(t)
	s := newScript(nil)
	s.stopped = make(chan wire.Turn)
	s.reply = func(wire.Turn) wire.TurnEnded {
		select {
		case <-s.stopped:
		case <-t.Context().Done():
		}
		return wire.TurnEnded{Cause: wire.TurnStopped}
	}
	connect(t, joined(t, b.site, "laptop"), s, nil)
	a.online(t, "laptop")
	for n, r := range []*replica{a, b} {
		call := turn(fmt.Sprintf("op-%d", n), "Hello")
		ended := make(chan wire.TurnEnded, 1)
		go func() {
			end, err := b.RunTurn(t.Context(), call)
			if err != nil {
				t.Error(err)
			}
			ended <- end
		}()
		eventually(t, "the turn runs", func() bool { return s.times(call.ID) == 1 })
		if found, err := r.StopTurn(t.Context(), call); err != nil || found.Known != wire.TurnKnownOpen {
			t.Errorf("%+v, %v", found, err)
		}
		if end := <-ended; end.Cause != wire.TurnStopped {
			t.Errorf("%+v", end)
		}
	}
	s.stopped = nil
	if found, err := a.StopTurn(t.Context(), turn("op-0", "")); err != nil || found.Known != wire.TurnKnownEnded || found.Ended.Cause != wire.TurnStopped {
		t.Errorf("a turn that has ended: %+v, %v", found, err)
	}
	if found, err := a.StopTurn(t.Context(), turn("op-9", "")); err != nil || found.Known != wire.TurnKnownAbsent {
		t.Errorf("a turn that was not sent: %+v, %v", found, err)
	}
}

// A relay that hosts no agent says so, and its connection holds.
func TestTurnsAtOtherRelays(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	connect(t, joined(t, s, "laptop"), newDiary("a"), nil)
	s.online(t, "laptop")
	before, err := s.RelayByName(t.Context(), "laptop")
	if err != nil {
		t.Fatal(err)
	}
	if end, err := s.RunTurn(t.Context(), turn("op-1", "Hello")); err != nil || end.Refusal != wire.RefusedUnlisted {
		t.Errorf("%+v, %v", end, err)
	}
	if _, err := s.RunTurn(t.Context(), turn("op-2", strings.Repeat("x", wire.MaxTurnText))); bridge.KindOf(err) != bridge.NotFound || bridge.IsUnclear(err) {
		t.Errorf("a large turn: %v", err)
	}
	if found, err := s.LookupTurn(t.Context(), turn("op-1", "")); err != nil || found.Known != wire.TurnKnownNot {
		t.Errorf("%+v, %v", found, err)
	}
	for relay, ok := range map[string]bool{"laptop": true, "nobody": false} {
		if _, err := s.RunAction(t.Context(), ask(t, "a", relay, "run-"+relay)); (err == nil) != ok {
			t.Errorf("%s: %v", relay, err)
		}
	}
	if after, err := s.RelayByName(t.Context(), "laptop"); err != nil || after.Session != before.Session {
		t.Errorf("the connection did not hold: %v", err)
	}
}

// deafening is a connection that breaks after so many bytes of the bridge's.
type deafening struct {
	net.Conn
	left *atomic.Int64
}

// Read implements net.Conn.
func (d *deafening) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	if d.left.Add(-int64(n)) < 0 {
		_ = d.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// After a restart of the relay its record decides: what has ended is returned, what was never said is sent, and what the record does not
// tell stays in doubt. That holds after days, when the hub itself does not know any more what it sent.
func TestTurnsAfterARestart(t *testing.T) {
	t.Parallel()
	for _, days := range []int{0, 3} {
		disk := memstore.NewDisk()
		s := siteOn(t, disk, nil)
		path := joined(t, s, "laptop")
		first := newScript(echo)
		stop := connect(t, path, first, nil)
		s.online(t, "laptop")
		elsewhere := turn("elsewhere", "Hello")
		elsewhere.Ask.Session = "agt_9"
		for _, c := range []hub.TurnCall{turn("ended", "Hello"), turn("unsaid", "Hello"), elsewhere} {
			if _, err := s.RunTurn(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		s.offline(t, "laptop")
		// The next process knows one turn of one session, as if the others had been lost on their way.
		next := &script{diary: first.clone(), reply: echo, sessions: map[string]map[string]wire.TurnEnded{"agt_1": {"ended": first.sessions["agt_1"]["ended"]}}}
		if days > 0 {
			s.clock.forward(time.Duration(days) * 24 * time.Hour)
			store := disk.Open()
			if err := store.Update(t.Context(), func(tx *bridge.Scene) error { return tx.PurgeRelays(s.clock.now()) }); err != nil {
				t.Fatal(err)
			}
		}
		connect(t, path, next, func(o *link.Options) { o.Now = s.clock.now })
		s.online(t, "laptop")
		again := func(c hub.TurnCall) hub.TurnCall {
			c.Repeat = true
			return c
		}
		if end, err := s.RunTurn(t.Context(), again(turn("ended", "Hello"))); err != nil || end.Text != "Hello" || next.times("ended") != 0 {
			t.Errorf("%d days: what has ended: %+v, %v", days, end, err)
		}
		for range 2 {
			if end, err := s.RunTurn(t.Context(), again(turn("unsaid", "Hello"))); err != nil || end.Text != "Hello" || next.times("unsaid") != 1 {
				t.Errorf("%d days: what the record shows as unsaid: %+v, %v", days, end, err)
			}
			if _, err := s.RunTurn(t.Context(), again(elsewhere)); bridge.KindOf(err) != bridge.Conflict || !bridge.IsUnclear(err) || next.times("elsewhere") != 0 {
				t.Errorf("%d days: what the record does not tell: %v", days, err)
			}
		}
	}
}

// slowPeeker is a relay that answers a question about steps when it may.
type slowPeeker struct {
	*script
	asked, may chan struct{}
}

// PeekTurn implements wire.AgentPeeker.
func (s slowPeeker) PeekTurn(context.Context, wire.Turn) wire.Peeked {
	s.asked <- struct{}{}
	<-s.may
	return wire.Peeked{Data: "{}"}
}

// A question about steps that is given up leaves nothing behind, however many there are, and a late answer does no harm.
func TestPeekGivenUp(t *testing.T) {
	t.Parallel()
	_, b := twoReplicas(t)
	s := slowPeeker{newScript(echo), make(chan struct{}), make(chan struct{})}
	connect(t, joined(t, b.site, "laptop"), s, nil)
	b.online(t, "laptop")
	ask := hub.TurnCall{Relay: "laptop", Ask: wire.TurnAsk{Agent: "opencode", Session: "agt_1", Peek: wire.Peek{What: wire.PeekLive}}}
	for n := range 3 {
		ask.ID = fmt.Sprint("peek-", n)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-s.asked; cancel() }()
		if _, err := b.PeekTurn(ctx, ask); bridge.KindOf(err) != bridge.Unavailable {
			t.Errorf("given up: %v", err)
		}
	}
	if n := b.Looks(); n != 0 {
		t.Errorf("%d questions are kept", n)
	}
	close(s.may)
	go func() { <-s.asked }()
	ask.ID = "peek-last"
	if data, err := b.PeekTurn(t.Context(), ask); err != nil || data != "{}" {
		t.Errorf("the next one: %q %v", data, err)
	}
}
