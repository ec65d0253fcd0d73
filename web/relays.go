package web

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
)

// The bounds of the place about relays.
const (
	// maxOutput is how much of the end of a running action's output is shown, in bytes.
	maxOutput = 4000
	// spacesFor is how long what relays told about workspaces is shown, and askSpaces how long they may take to tell it.
	spacesFor = 15 * time.Second
	askSpaces = 3 * time.Second
)

// relay is one machine: how it is connected, what runs there, what it offers and what work lies there.
type relay struct {
	Name, State, Tone string
	// Stopped says that the kill switch is on.
	Stopped bool
	// Notes are what a person should know, the most urgent first.
	Notes   []string
	Running []running
	Offers  []offer
	// Spaces are the workspaces with work that is nowhere else, of Workspaces in all.
	Spaces     []row
	Workspaces int
	KeyID      string
	moment
}

// running is an action that runs now. Output is the end of what it wrote.
type running struct {
	Action, Output string
	moment
}

// offer is an action that the relay's own list has. Who must agree, "" for nobody.
type offer struct{ Action, Who, Shows string }

func (r relay) names() (template, key string) { return "relay.html", "relay-" + r.Name }

// relaysModel collects the relays: those first of which a person should know something, then those that are away, and revoked ones last.
func (p *Page) relaysModel(ctx context.Context, m *page, v view) error {
	m.Title, m.Live = "Relays", "place="+placeRelays
	m.Quiet = "No machine has joined. To let one run actions and agents, type: drawbridge relay token NAME"
	list, err := p.o.API.Relays(ctx, "", 0)
	if bridge.KindOf(err) == bridge.NotFound { // this bridge takes no relays
		return nil
	}
	if err != nil {
		return err
	}
	work, _, _ := v.looks.spaces.get(p.o.Now(), spacesFor, func() (api.WorkspaceList, error) {
		ctx, cancel := context.WithTimeout(ctx, askSpaces)
		defer cancel()
		list, err := p.o.API.Workspaces(ctx)
		if err != nil {
			return v.looks.spaces.value, nil //nolint:nilerr // the relays stand on the page all the same
		}
		return list, nil
	})
	var all []relay
	connected, away := 0, 0
	for _, r := range list.Relays {
		one := p.relayOf(r, work)
		switch one.State {
		case "connected":
			connected++
		case "away":
			away++
		}
		m.Busy = m.Busy || len(one.Running) > 0
		all = append(all, one)
	}
	rank := map[string]int{"connected": 1, "away": 0, "revoked": 2}
	slices.SortStableFunc(all, func(a, b relay) int {
		return cmp.Or(cmp.Compare(len(b.Notes), len(a.Notes)), rank[a.State]-rank[b.State])
	})
	for _, one := range all {
		m.Items = append(m.Items, one)
	}
	m.Sub = fmt.Sprintf("%d connected", connected)
	if away > 0 {
		m.Sub += fmt.Sprintf(", %d away", away)
	}
	if list.Next != "" {
		m.Sub += "; to list all, type: drawbridge relay list"
	}
	return nil
}

// relayOf makes a relay's part of the page.
func (p *Page) relayOf(r api.Relay, work api.WorkspaceList) relay {
	out := relay{Name: r.Name, State: r.State, KeyID: r.KeyID, moment: p.moment(r.SeenAt), Tone: map[string]string{"connected": "ok", "away": "wait", "revoked": "bad"}[r.State]}
	if r.Connected != nil {
		out.moment = p.moment(*r.Connected)
	}
	if r.Copy != nil {
		out.Notes = append(out.Notes, fmt.Sprintf("The bridge refused a relay with an older state (epoch %d; the newest is %d). If you restored the relay's state from a backup, decide it under Needs you.", r.Copy.Epoch, r.Epoch))
	}
	if r.Stopped != nil {
		out.Stopped = true
		out.Notes = append(out.Notes, "The kill switch is on since "+r.Stopped.UTC().Format(time.DateTime)+" UTC. Nothing runs there. To switch it off, type on that machine: drawbridge-relay start")
	}
	if r.Outdated != nil {
		out.Notes = append(out.Notes, "Its relay.yaml has changes that take effect only after a restart. Restart the relay.")
	}
	for _, run := range r.Running {
		text := strings.TrimRight(run.Stdout+run.Stderr, "\n")
		if len(text) > maxOutput {
			text = "…" + strings.ToValidUTF8(text[len(text)-maxOutput:], "")
		}
		out.Running = append(out.Running, running{run.Action, text, p.moment(run.Since)})
	}
	for _, o := range r.Offers {
		who := bridge.RelayOffer{Approval: o.Approval, Bridge: o.Bridge, ApproveBy: o.ApproveBy}.Approver()
		out.Offers = append(out.Offers, offer{Action: o.Action, Who: who, Shows: o.Shows})
	}
	for _, w := range work.Workspaces {
		if w.Relay != r.Name {
			continue
		}
		if out.Workspaces++; len(w.Unsaved) == 0 && w.Error == "" {
			continue
		}
		out.Spaces = append(out.Spaces, spaceOf(w))
	}
	for _, missing := range work.Missing {
		if missing.Relay == r.Name {
			out.Spaces = append(out.Spaces, row{Name: "not known", Text: missing.Error})
		}
	}
	return out
}

// spaceOf says which work of a workspace is nowhere else.
func spaceOf(w api.Workspace) row {
	lost := cmp.Or(w.Error, strings.Join(w.Unsaved, ", "))
	if w.Branch != "" {
		lost = w.Branch + ": " + lost
	}
	out := row{Name: cmp.Or(w.Agent, w.Name), Text: lost}
	if w.Agent != "" {
		out.Link = agentPath(w.Agent)
	}
	return out
}
