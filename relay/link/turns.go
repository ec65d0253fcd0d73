package link

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drawbridge/relay/chunks"
	"drawbridge/relay/tunnel"
	"drawbridge/relay/wire"
)

// expireEvery is how often the relay looks for frames in chunks that the bridge does not finish.
const expireEvery = 5 * time.Second

// hosts prepares for turns. A handler that does not host agents refuses them.
func (s *session) hosts(connection string) {
	host, is := s.link.o.Handler.(wire.AgentHost)
	if !is {
		host = noAgents{}
	}
	s.host = host
	if user, uses := s.link.o.Handler.(tunnel.User); uses {
		s.tunnel = user.Tunnel()
	}
	s.receiver = chunks.NewReceiver(chunks.Both(), func(c wire.Chunked) wire.BodyRefusal {
		key, known := byID(s.identity.Trusted(s.link.o.Now()))[c.Key]
		switch {
		case !known || !c.Signed(key, connection):
			return wire.BodyForged
		case c.Kind == "mcp_part" && s.tunnel != nil && s.tunnel.Waits(c.For):
		case !is || c.Kind != "turn":
			return wire.BodyUnwanted
		}
		return ""
	})
}

// noAgents stands for a handler that does not host agents.
type noAgents struct{}

// RunTurn implements wire.AgentHost.
func (noAgents) RunTurn(context.Context, wire.Turn) wire.TurnEnded {
	return wire.TurnEnded{Refusal: wire.RefusedUnlisted, Error: "this relay does not host agents"}
}

// LookupTurn implements wire.AgentHost.
func (noAgents) LookupTurn(wire.Turn) wire.TurnFound {
	return wire.TurnFound{Known: wire.TurnKnownNot}
}

// StopTurn implements wire.AgentHost.
func (noAgents) StopTurn(wire.Turn) wire.TurnFound {
	return wire.TurnFound{Known: wire.TurnKnownNot}
}

// forHost serves the frames about agents.
func (s *session) forHost(ctx, conn context.Context, f wire.Frame) error {
	switch {
	case f.Turn != nil:
		return s.takeTurn(ctx, conn, arrived{*f.Turn, s.link.o.Now()})
	case f.TurnLookup != nil:
		return s.lookupTurn(conn, *f.TurnLookup, wire.UseLookup)
	case f.TurnStop != nil:
		return s.lookupTurn(conn, *f.TurnStop, wire.UseStop)
	case f.TurnPeek != nil:
		return s.lookupTurn(conn, *f.TurnPeek, wire.UsePeek)
	case f.MCPPart != nil && s.tunnel != nil:
		s.tunnel.Take(*f.MCPPart)
		return nil
	case f.Chunked == nil && f.Chunk == nil:
		return errOrder
	}
	got, err := s.receiver.Take(f, s.link.o.Now())
	if err != nil {
		return errOrder
	}
	if got.Refused != "" {
		s.link.o.Log.Warn().Str("request", clip(got.Announced.For)).Str("reason", string(got.Refused)).Int64("bytes", got.Announced.Size).Msg("a large turn was refused")
	}
	if got.Reply != nil {
		if err := s.write(conn, *got.Reply); err != nil {
			return err
		}
	}
	if got.Whole == nil {
		return nil
	}
	if got.Whole.Turn == nil {
		return s.forHost(ctx, conn, *got.Whole)
	}
	return s.takeTurn(ctx, conn, arrived{*got.Whole.Turn, got.Began})
}

// arrived is a signed turn, and when it began to arrive: its time is judged by that, because a large one may be long on its way.
type arrived struct {
	wire.Signed
	began time.Time
}

// takeTurn verifies a turn and starts it. An error ends the connection; a refusal is an answer.
func (s *session) takeTurn(ctx, conn context.Context, a arrived) error {
	now := s.link.o.Now()
	refuse := func(why wire.Refusal, reason string, retry time.Duration) error {
		s.link.o.Log.Warn().Str("request", clip(a.ID)).Str("reason", reason).Msg("turn refused")
		if !wire.ValidRequestID(a.ID) {
			return errors.New("the bridge sent a turn without an id")
		}
		return s.write(conn, wire.Frame{Ended: &wire.TurnEnded{ID: a.ID, Refusal: why, Error: reason, RetryMS: retry.Milliseconds()}})
	}
	t, err := wire.Verifier{Relay: s.identity.Relay, Keys: byID(s.identity.Trusted(now)), Now: a.began}.VerifyTurn(a.Signed, wire.UseRun)
	if err != nil {
		return refuse(wire.RefusedInvalid, err.Error(), 0)
	}
	if reason, why := s.link.seen.first(a.Digest(s.identity.Relay), now); reason != "" {
		return refuse(why, reason, time.Second)
	}
	if !s.begin() {
		return refuse(wire.RefusedBusy, "the relay is stopping", 5*time.Second)
	}
	select {
	case s.link.slots <- struct{}{}:
	default:
		s.running.Done()
		return refuse(wire.RefusedBusy, "too many requests at once", time.Second)
	}
	s.link.running.Go(func() {
		defer s.running.Done()
		defer func() { <-s.link.slots }()
		s.runTurn(ctx, conn, t)
	})
	return nil
}

// runTurn lets the host do its work and sends the end.
func (s *session) runTurn(ctx, conn context.Context, t wire.Turn) {
	end := s.host.RunTurn(ctx, t)
	if end == (wire.TurnEnded{}) {
		s.link.o.Log.Info().Str("request", fmt.Sprintf("%.16s", t.ID)).Str("agent", t.Agent).Str("session", t.Session).Msg("the relay stops in the middle of a turn; it goes on with the turn at its next start")
		return
	}
	end.ID = t.ID
	if !end.Valid(t.ID) {
		end = wire.TurnEnded{ID: t.ID, Cause: wire.TurnCrashed, Error: "the relay reported an invalid end of the turn"}
	}
	s.link.o.Log.Info().Str("request", fmt.Sprintf("%.16s", t.ID)).Str("agent", t.Agent).Str("session", t.Session).Str("key", t.KeyID).Str("cause", string(end.Cause)).
		Str("refusal", string(end.Refusal)).Bool("replayed", end.Replayed).Int("text_bytes", len(end.Text)).Msg("turn")
	s.answer(conn, wire.Frame{Ended: &end})
}

// lookupTurn answers what the record of a turn's session knows, and for wire.UseStop asks the turn to end first. It starts nothing.
func (s *session) lookupTurn(ctx context.Context, signed wire.Signed, use wire.TurnUse) error {
	if !wire.ValidRequestID(signed.ID) {
		return errors.New("the bridge sent a look-up without an id")
	}
	answer, ask := found, s.host.LookupTurn
	switch use {
	case wire.UseStop:
		answer, ask = stopped, s.host.StopTurn
	case wire.UsePeek:
		answer, ask = peeked, func(t wire.Turn) wire.TurnFound { return s.peek(ctx, t) }
	}
	refused := answer(wire.TurnFound{ID: signed.ID, Known: wire.TurnKnownRefused})
	now := s.link.o.Now()
	t, err := wire.Verifier{Relay: s.identity.Relay, Keys: byID(s.identity.Trusted(now)), Now: now}.VerifyTurn(signed, use)
	if err != nil {
		s.link.o.Log.Warn().Err(err).Str("request", signed.ID).Msg("look-up refused")
		return s.write(ctx, refused)
	}
	return s.answerLater(ctx, refused, func() wire.Frame {
		f := ask(t)
		if f.ID = t.ID; f.Ended != nil {
			f.Ended.ID = t.ID
		}
		if !f.Valid(t.ID) {
			f = wire.TurnFound{ID: t.ID, Known: wire.TurnKnownNot}
		}
		return answer(f)
	})
}

func found(f wire.TurnFound) wire.Frame   { return wire.Frame{TurnFound: &f} }
func peeked(f wire.TurnFound) wire.Frame  { return wire.Frame{TurnPeeked: &f} }
func stopped(f wire.TurnFound) wire.Frame { return wire.Frame{TurnStopped: &f} }

// peekFor bounds a look at workspaces. The bridge gives up a little later.
const peekFor = 25 * time.Second

// peek lets the host look at workspaces. One that cannot says so.
func (s *session) peek(ctx context.Context, t wire.Turn) wire.TurnFound {
	answer := wire.Peeked{Error: "this relay does not host agents", Missing: true}
	if host, peeks := s.host.(wire.AgentPeeker); peeks {
		ctx, cancel := context.WithTimeout(ctx, peekFor)
		defer cancel()
		answer = host.PeekTurn(ctx, t)
	}
	return wire.TurnFound{Known: wire.TurnKnownPeeked, Peeked: &answer}
}

// answerLater sends what answer returns, beside the reading: a large answer waits for the bridge's receipts. It sends busy while the
// relay is stopping or has too much in hand.
func (s *session) answerLater(ctx context.Context, busy wire.Frame, answer func() wire.Frame) error {
	if !s.begin() {
		return s.write(ctx, busy)
	}
	select {
	case s.link.slots <- struct{}{}:
	default:
		s.running.Done()
		return s.write(ctx, busy)
	}
	s.link.running.Go(func() {
		defer s.running.Done()
		defer func() { <-s.link.slots }()
		s.answer(ctx, answer())
	})
	return nil
}

// attach lets the agents of this machine call the bridge's MCP door over this connection, until the returned function is called.
func (s *session) attach(conn context.Context) (detach func()) {
	if s.tunnel == nil {
		return func() {}
	}
	return s.tunnel.Attach(func(ctx context.Context, f wire.Frame) error {
		if _, _, large := f.Body(); !large {
			return s.write(ctx, f)
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(conn, cancel)()
		return s.sender.Send(ctx, f)
	})
}

// expireChunks ends turns that the bridge does not finish to send.
func (s *session) expireChunks(ctx context.Context) {
	ticker := time.NewTicker(expireEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, got := range s.receiver.Expire(s.link.o.Now()) {
			if err := s.write(ctx, *got.Reply); err != nil {
				_ = s.ws.CloseNow()
				return
			}
		}
	}
}
