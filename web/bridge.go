package web

import (
	"context"
	"fmt"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

const (
	// healthFor is how long the page shows how the database is before it asks again.
	healthFor = 15 * time.Second
	// wiresFor is how long the page shows the webhooks before it asks again, and maxWires bounds each list.
	wiresFor = 5 * time.Second
	maxWires = 50
)

// bridgeModel collects how the bridge is, the alerts that it sent, and the webhooks that came.
func (p *Page) bridgeModel(ctx context.Context, m *page, v view) error {
	m.Title, m.Live = "Bridge", "place="+placeBridge
	s, _, err := v.looks.status.get(p.o.Now(), healthFor, func() (api.Status, error) { return p.o.API.Status(ctx) })
	if err != nil {
		return err
	}
	m.Sub = "version " + s.Version
	m.Items = append(m.Items, p.health(s))
	wires, _, err := v.looks.wires.get(p.o.Now(), wiresFor, func() (w wires, err error) {
		list, err := p.o.API.Alerts(ctx, api.ListOptions{Limit: maxWires})
		if err != nil && bridge.KindOf(err) != bridge.NotFound { // which means that this bridge sends none
			return w, err
		}
		w.sends, w.alerts = err == nil, list.Alerts
		came, err := p.o.API.Deliveries(ctx, api.ListOptions{Limit: maxWires})
		w.came = came.Deliveries
		return w, err
	})
	if wires.sends {
		m.Items = append(m.Items, p.alerts(wires.alerts))
	}
	if len(wires.came) > 0 {
		m.Items = append(m.Items, p.deliveries(wires.came))
	}
	return err
}

// wires are the webhooks that went out and came in.
type wires struct {
	// sends says that the bridge sends alerts.
	sends  bool
	alerts []api.Alert
	came   []api.Delivery
}

// health is how the bridge and its database are.
func (p *Page) health(s api.Status) rules {
	list := rules{Key: "health", Title: "Health", Head: []string{"What", "State"}}
	add := func(what, now string, at time.Time) {
		list.Rows = append(list.Rows, []cell{{Text: what}, {now, p.moment(at)}})
	}
	add("This bridge", "up for", s.StartedAt)
	add("Database", s.Database, time.Time{})
	late := time.Duration(s.Counts.WorkOverdueMS) * time.Millisecond
	if h := s.Health; h != nil {
		size := large(h.Bytes)
		if more := h.Bytes - h.BytesBefore; !h.Before.IsZero() && more > 0 && p.o.Now().Sub(h.Before) > 24*time.Hour {
			size += fmt.Sprintf(", %s more than %s ago", large(more), span(p.o.Now().Sub(h.Before)))
		}
		add("Size", size, time.Time{})
		waits := fmt.Sprint(h.Queued)
		if late >= time.Second {
			waits += ", the oldest for " + span(late)
		}
		add("Work that waits", waits, time.Time{})
		for _, r := range h.Replicas {
			add("Replica", r.Name+", connected for", r.Since)
		}
	}
	c := s.Counts
	add("Agents", fmt.Sprintf("%d busy, %d waiting, %d gated, %d failed", c.AgentsBusy, c.AgentsWaiting, c.AgentsGated, c.AgentsFailed), time.Time{})
	if s.AlertsLost > 0 {
		add("Alerts", words.Count(s.AlertsLost, "alert")+" did not arrive: "+s.AlertsProblem, time.Time{})
	}
	if s.PublicURL != "" {
		add("Address for agents and relays", s.PublicURL, time.Time{})
	}
	return list
}

// large is a size in a few characters.
func large(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", (n+1023)>>10)
}

// alerts are those that were sent, the newest first.
func (p *Page) alerts(all []api.Alert) rules {
	list := rules{Key: "alerts", Title: "Alerts", Head: []string{"Kind", "Agent", "Made", "State", "Tries"}}
	for _, a := range all {
		state := a.State
		if a.Trouble != "" {
			state += ": " + a.Trouble
		}
		list.Rows = append(list.Rows, []cell{{Text: a.Kind}, {Text: a.Agent}, {"", p.moment(a.MadeAt)}, {Text: state}, {Text: fmt.Sprint(a.Tries)}})
	}
	if len(all) == 0 {
		list.Rows = append(list.Rows, []cell{{Text: "none"}, {}, {}, {}, {}})
	}
	return list
}

// deliveries are the webhooks that came, the newest first.
func (p *Page) deliveries(all []api.Delivery) rules {
	list := rules{Key: "deliveries", Title: "Webhooks that came", Head: []string{"Status", "Agent", "Came", "Verdict", "The sender's id"}}
	for _, d := range all {
		list.Rows = append(list.Rows, []cell{{Text: d.Status}, {Text: d.AgentName}, {"", p.moment(d.ReceivedAt)}, {Text: d.Verdict}, {Text: d.External}})
	}
	return list
}
