package link

import (
	"context"
	"time"

	"drawbridge/relay/wire"
)

// permitEvery is how often the relay asks the bridge for the operator's word on the questions that are open.
const permitEvery = time.Second

// asker returns what keeps the questions of the relay's agents, nil where nothing does.
func (s *session) asker() wire.PermissionAsker {
	h, asks := s.link.o.Handler.(wire.PermissionAsker)
	if !asks {
		return nil
	}
	return h
}

// tellPermissions announces the questions of the relay's agents, and asks for answers while any is open. It sends each state of a question
// once on each connection, and again until the bridge confirms it: a bridge may not know the agent of a first turn yet.
func (s *session) tellPermissions(ctx context.Context) {
	h := s.asker()
	if h == nil {
		return
	}
	ticker := time.NewTicker(permitEvery)
	defer ticker.Stop()
	for said := map[string]*announcement{}; ; {
		list, changed := h.Permissions()
		var open []string
		waits := false
		for _, p := range list {
			if said[p.ID] == nil || said[p.ID].state != p.State {
				said[p.ID] = &announcement{state: p.State}
			}
			if said[p.ID].due(p.Heard, s.link.o.Now()) && s.write(ctx, wire.Frame{Permission: &p}) != nil {
				_ = s.ws.CloseNow()
				return
			}
			waits = waits || !p.Heard
			if p.State == wire.PermissionOpen && p.Bridge {
				open = append(open, p.ID)
			}
		}
		if len(open) > 0 && s.write(ctx, wire.Frame{PermissionWait: &wire.PermissionWait{IDs: open}}) != nil {
			_ = s.ws.CloseNow()
			return
		}
		if !eitherOf(ctx, changed, ticker.C, waits || len(open) > 0) {
			return
		}
	}
}

// announcement is how often a state of a question was sent on a connection.
type announcement struct {
	state wire.PermissionState
	tries int
	next  time.Time
}

// maxAnnounceWait bounds the wait before a state that the bridge does not confirm is sent again. The wait doubles.
const maxAnnounceWait = time.Minute

// due reports whether the state is to be sent now, and counts that it is.
func (a *announcement) due(heard bool, now time.Time) bool {
	if a.tries > 0 && (heard || now.Before(a.next)) {
		return false
	}
	a.next = now.Add(min(permitEvery<<min(a.tries, 10), maxAnnounceWait))
	a.tries++
	return true
}

// eitherOf waits for a change, or for a tick where polling is true. It reports whether the connection lives.
func eitherOf(ctx context.Context, changed <-chan struct{}, tick <-chan time.Time, polling bool) bool {
	if !polling {
		tick = nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-tick:
	}
	return true
}

// takePermit takes the operator's word on a question, or the receipt of one.
func (s *session) takePermit(f wire.Frame) error {
	h := s.asker()
	if h == nil {
		return errOrder
	}
	if f.Permitted != nil {
		h.PermissionHeard(f.Permitted.ID, f.Permitted.State)
		return nil
	}
	now := s.link.o.Now()
	p, err := wire.Verifier{Relay: s.identity.Relay, Keys: byID(s.identity.Trusted(now)), Now: now}.VerifyPermit(*f.Permit)
	if err == nil {
		err = h.Permit(p)
	}
	if err != nil {
		s.link.o.Log.Warn().Err(err).Str("question", clip(f.Permit.ID)).Msg("the operator's word on a question does not count")
	}
	return nil
}
