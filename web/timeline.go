package web

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"drawbridge/api"
	"drawbridge/api/conversation"
	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// maxEvents bounds the events of a page, and maxField what it shows of each field of an event, in bytes.
const (
	maxEvents = 100
	maxField  = 4000
)

// event is what happened, or the same thing several times.
type event struct {
	Key, Kind, Tone, Who, Text string
	Seq                        int64
	moment
	// Before are the earlier times of the same thing, the newest first.
	Before []past
	// Agent and Turn are where it happened, and Command where the command that is held waits; "" for none.
	Agent, Turn, Command string
	Rows                 []row
	// first is when it happened first.
	first time.Time
}

// past is an earlier time of a thing that happened again.
type past struct{ Full, Text string }

func (e event) names() (template, key string) { return "event.html", e.Key }

// Times is how often it happened.
func (e event) Times() int { return 1 + len(e.Before) }

// Link shows the event as the first of the page.
func (e event) Link() string { return fmt.Sprintf("/timeline?before=%d", e.Seq+1) }

// eventTones are the colors of the kinds.
var eventTones = map[string]string{
	bridge.EventReply: "ok", bridge.EventExecuted: "ok", bridge.EventApproved: "ok", bridge.EventGranted: "ok", bridge.EventResumed: "ok",
	bridge.EventTurn: "info", bridge.EventAgent: "info", bridge.EventLaunched: "info", bridge.EventMessageCreated: "info",
	bridge.EventHeld: "wait", bridge.EventAsking: "wait", bridge.EventAsleep: "wait", bridge.EventGated: "wait", bridge.EventRetry: "wait", bridge.EventParked: "wait",
	bridge.EventNearMiss: "wait", bridge.EventOverCap: "wait", bridge.EventThrottled: "wait",
	bridge.EventTurnFailed: "bad", bridge.EventFailed: "bad", bridge.EventRefused: "bad", bridge.EventDenied: "bad", bridge.EventUncertain: "bad", bridge.EventAlarm: "bad", bridge.EventStopped: "bad",
}

// again are the kinds that are one line however often they happen to an agent, until it answers or apart passes.
var again = []string{bridge.EventRetry, bridge.EventAsleep, bridge.EventThrottled, bridge.EventDuplicate}

// apart is longer than the bridge waits before it tries something again.
const apart = 2 * time.Hour

// sentence is what an event says after the agent's name.
func sentence(e api.Event) string {
	if e.Kind == bridge.EventTurn {
		cause, heard := e.Fields["cause"], words.News(e.Fields["text"])
		if cause == string(bridge.CauseUser) || cause == string(bridge.CauseLaunch) || heard == "" {
			return e.Text
		}
		return conversation.Cause(cause) + ": " + words.OneLine(heard, 300)
	}
	for _, begin := range []string{"", "launched ", "agent "} {
		if rest, begins := strings.CutPrefix(e.Text, begin+e.Name+" "); begins && e.Name != "" {
			return rest
		}
	}
	return e.Text
}

func (p *Page) eventOf(e api.Event) event {
	out := event{Key: fmt.Sprint("e", e.Seq), Seq: e.Seq, Kind: strings.ReplaceAll(e.Kind, "_", " "), Tone: eventTones[e.Kind], Who: e.Name, Text: sentence(e), first: e.At, moment: p.moment(e.At)}
	if code := e.Fields["exit_code"]; e.Kind == bridge.EventExecuted && code != "0" && code != "" {
		out.Tone = "bad"
	}
	if e.Agent != "" {
		out.Agent = agentPath(e.Agent)
	}
	if e.Turn != "" {
		out.Turn = turnPath(e.Agent, e.Turn)
	}
	if e.Kind == bridge.EventHeld && e.Command != "" {
		out.Command = needPath(e.Command)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		out.Rows = append(out.Rows, row{Name: strings.ReplaceAll(name, "_", " "), Text: conversation.Clip(e.Fields[name], maxField), Others: strings.Contains(e.Fields[name], "\n")})
	}
	return out
}

// show is a part of the timeline, with its word in the address.
type show struct {
	Word, Name string
	Kinds      []string
}

// shows are the parts of the timeline.
var shows = []show{
	{"", "All", nil},
	{"trouble", "Trouble", []string{bridge.EventTurnFailed, bridge.EventFailed, bridge.EventUncertain, bridge.EventAlarm, bridge.EventRetry, bridge.EventGated, bridge.EventAsleep,
		bridge.EventParked, bridge.EventRefused, bridge.EventNearMiss, bridge.EventOverCap, bridge.EventThrottled, bridge.EventStopped}},
	{"commands", "Commands", []string{bridge.EventGranted, bridge.EventHeld, bridge.EventApproved, bridge.EventDenied, bridge.EventRefused, bridge.EventNearMiss, bridge.EventOverCap,
		bridge.EventLaunched, bridge.EventExecuted, bridge.EventFailed, bridge.EventUncertain, bridge.EventJournal, bridge.EventReminder, bridge.EventCancelled}},
	{"turns", "Turns", []string{bridge.EventAgent, bridge.EventLaunched, bridge.EventTurn, bridge.EventReply, bridge.EventTurnFailed, bridge.EventRetry, bridge.EventAsleep, bridge.EventAsking,
		bridge.EventGated, bridge.EventStopped, bridge.EventResumed}},
	{"mail", "Mail", []string{bridge.EventMessageCreated, bridge.EventMessageUpdated, bridge.EventMessageDeleted, bridge.EventReactionAdded, bridge.EventReactionRemoved, bridge.EventMemory}},
}

// link is one of several ways to look at the timeline.
type link struct {
	Name, Href string
	Here       bool
}

// timelineQuery names a part of the timeline. Empty values select all.
func timelineQuery(agent, tree, show, before string) url.Values {
	q := url.Values{}
	for key, value := range map[string]string{"agent": agent, "tree": tree, "show": show, "before": before} {
		if value != "" {
			q.Set(key, value)
		}
	}
	return q
}

// timelinePath is the address of a part of the timeline.
func timelinePath(agent, tree, show, before string) string {
	return strings.TrimSuffix("/timeline?"+timelineQuery(agent, tree, show, before).Encode(), "?")
}

// scope is what stands above the timeline: whose events it shows, and which.
type scope struct{ Shows, Whose []link }

func (scope) names() (template, key string) { return "scope.html", "" }

// timelineModel collects what happened, the newest first.
func (p *Page) timelineModel(ctx context.Context, m *page, v view) error {
	at := slices.IndexFunc(shows, func(s show) bool { return s.Word == v.show })
	if at < 0 {
		return bridge.Errorf(bridge.NotFound, "the timeline has no such part")
	}
	list, err := p.o.API.History(ctx, api.EventOptions{Agent: v.agent, Tree: v.tree, Kinds: shows[at].Kinds, Before: v.before, Limit: maxEvents})
	if err != nil {
		return err
	}
	m.Title, m.Items, m.MoreText = "Timeline", p.told(list.Events), "Earlier events"
	m.Quiet = `Nothing has happened yet. To give an agent a task, type: drawbridge up FOLDER "TASK"`
	if at > 0 || v.agent != "" || v.tree != "" {
		m.Quiet = "Nothing of this kind has happened."
	}
	if list.Next != "" {
		m.More = timelinePath(v.agent, v.tree, v.show, list.Next)
		m.Quiet = "The bridge looked back over 20,000 events and found none. Earlier ones may be further back."
	}
	if v.before != "" {
		m.Sub = "earlier events"
	}
	live := timelineQuery(v.agent, v.tree, v.show, v.before)
	live.Set("place", placeTimeline)
	m.Live = live.Encode()
	var s scope
	for i, one := range shows {
		s.Shows = append(s.Shows, link{one.Name, timelinePath(v.agent, v.tree, one.Word, ""), i == at})
	}
	if s.Whose, err = p.whose(ctx, v); err != nil {
		return err
	}
	m.Side = s
	return nil
}

// whose are the ways to widen a timeline of one agent or of one tree.
func (p *Page) whose(ctx context.Context, v view) ([]link, error) {
	name := cmp.Or(v.agent, v.tree)
	if name == "" {
		return nil, nil
	}
	a, err := p.o.API.Agent(ctx, name)
	if err != nil {
		return nil, err
	}
	return []link{
		{a.Name, timelinePath(a.ID, "", v.show, ""), v.agent != ""},
		{a.Name + " and all of its tree", timelinePath("", a.ID, v.show, ""), v.agent == ""},
		{"all agents", timelinePath("", "", v.show, ""), false},
	}, nil
}

// told makes the lines of events, which come newest first. What happens again before the agent answers is one line, where it happened last.
func (p *Page) told(events []api.Event) (all []keyed) {
	var order []*event
	runs := map[string]*event{} // by kind and agent
	for _, e := range events {
		one := p.eventOf(e)
		if e.Kind == bridge.EventReply {
			for _, kind := range again {
				delete(runs, kind+e.Agent)
			}
		}
		if slices.Contains(again, e.Kind) {
			one.Key = fmt.Sprint(e.Kind, e.Seq)
			if newer := runs[e.Kind+e.Agent]; newer != nil && newer.first.Sub(e.At) < apart {
				newer.first = e.At
				newer.Key = one.Key // the first of a run names it, so that the line stays the same when it happens again
				newer.Before = append(newer.Before, past{one.Full, one.Text})
				continue
			}
			runs[e.Kind+e.Agent] = &one
		}
		order = append(order, &one)
	}
	for _, e := range order {
		all = append(all, *e)
	}
	return all
}
