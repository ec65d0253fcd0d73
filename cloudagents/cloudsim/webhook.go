package cloudsim

import (
	"context"
	"time"

	"drawbridge/cloudagents/cloudsim/internal/courier"
	"drawbridge/cloudagents/cloudsim/internal/request"
	"drawbridge/cloudagents/cloudsim/script"
)

// Delivery is one attempt to send a webhook, or the reason why none was made.
type Delivery = courier.Delivery

// payload is the vendor's body; the order of its fields is the documented one.
type payload struct {
	Event     string        `json:"event"`
	Timestamp string        `json:"timestamp"`
	ID        string        `json:"id"`
	Status    string        `json:"status"`
	Source    v0Source      `json:"source"`
	Target    payloadTarget `json:"target"`
	Summary   string        `json:"summary,omitempty"`
}

type payloadTarget struct {
	URL        string `json:"url"`
	BranchName string `json:"branchName,omitempty"`
	PRURL      string `json:"prUrl,omitempty"`
}

func (s *Sim) newCourier(opts Options) *courier.Courier {
	return &courier.Courier{
		Client:       courier.NewClient(opts.Webhooks, time.Duration(s.settings.WebhookTimeout)),
		Attempts:     s.settings.WebhookAttempts,
		Spacing:      time.Duration(s.settings.WebhookSpacing),
		NewIDOnRetry: s.settings.WebhookNewIDOnRetry,
		SignAlways:   s.settings.WebhookSignWithoutSecret,
		Now:          s.now,
		NewID: func() string {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.newID("")
		},
		Record: func(d Delivery) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.deliveries = append(s.deliveries, d)
			close(s.sent)
			s.sent = make(chan struct{})
		},
	}
}

// notify sends the webhook that a launch asked for, in the background. The caller holds the lock.
func (s *Sim) notify(ctx context.Context, r *run, now time.Time) {
	a := r.agent
	if a.Hook == nil || s.settings.WebhookFirstRunOnly && r != a.runs[0] {
		return
	}
	t := a.v0Target()
	body := request.Compact(payload{
		Event: "statusChange", Timestamp: stamp(now), ID: a.id, Status: r.status, Source: a.v0Source(),
		Target: payloadTarget{t.URL, t.BranchName, t.PRURL}, Summary: a.summary,
	})
	p := courier.Parcel{
		Secret: a.Hook.Secret, Body: []byte(body),
		About: Delivery{AgentID: a.id, RunID: r.id, URL: a.Hook.URL, Status: r.status},
	}
	at := script.Place{API: script.V0, Op: script.OpWebhook, Repo: a.Repo()}
	if _, ok := s.faults.Take(script.WebhookNever, at); ok {
		p.About.At, p.About.Problem = now, "not sent: fault webhook_never"
		s.deliveries = append(s.deliveries, p.About)
		return
	}
	late, _ := s.faults.Take(script.WebhookLate, at)
	held, outOfOrder := s.faults.Take(script.WebhookOutOfOrder, at)
	twice, _ := s.faults.Take(script.WebhookDuplicate, at)
	overtaken := s.sent
	s.spawn(ctx, func(ctx context.Context) {
		if !courier.Sleep(ctx, time.Duration(late.Delay), nil) {
			return
		}
		if outOfOrder && !courier.Sleep(ctx, time.Duration(held.Delay), overtaken) {
			return
		}
		for range 1 + twice.Count {
			s.hooks.Deliver(ctx, p)
		}
	})
}
