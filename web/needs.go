package web

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"drawbridge/api"
	"drawbridge/bridge"
)

// item is one thing that waits, as a row or, when it is open, as a card. A thing that was decided is a row with Done.
type item struct {
	Key, Chip, Tone string
	// Who is the agent's name when the sentence begins with it, and Text the rest of it.
	Who, Text, Line string
	Count           int
	Card            *card
	Done            bool
	// Word is the session's own, for forms. Turn is the turn that it is about.
	Word, Turn string
	// Next is the item that opens after this one is decided. It is no part of what is compared.
	Next string `json:"-"`
	moment
}

func (i item) names() (template, key string) { return "item.html", i.Key }

func hashOf(model any) string {
	text, err := json.Marshal(model)
	if err != nil {
		return "" // it has plain fields alone
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// Path is where the item is open.
func (i item) Path() string { return needPath(i.Key) }

func needPath(key string) string { return "/needs/" + url.PathEscape(key) }

// tones are the kinds with a red chip; the others have a yellow one.
var tones = map[string]string{
	api.NeedAllowlist: "bad", api.NeedUncertain: "bad", api.NeedCopy: "bad", api.NeedStopped: "bad", api.NeedFailed: "bad",
}

// itemOf makes the row of a thing that waits.
func (p *Page) itemOf(n api.Need) item {
	i := item{Key: n.Key, Chip: n.Kind, Tone: cmp.Or(tones[n.Kind], "wait"), Text: n.Text, Line: n.Line, Count: n.Count, Turn: n.Turn, moment: p.moment(n.Since)}
	if rest, begins := strings.CutPrefix(n.Text, n.AgentName+" "); begins && n.AgentName != "" {
		i.Who, i.Text = n.AgentName, rest
	}
	return i
}

// needsModel collects what waits for the person.
func (p *Page) needsModel(ctx context.Context, m *page, v view) (err error) {
	list := m.needs
	m.Title, m.Sub = "Needs you", summary(list.Needs)
	if m.Side, err = p.working(ctx, list.Working); err != nil {
		return err
	}
	m.Quiet = quiet(list.Working)
	at := slices.IndexFunc(list.Needs, func(n api.Need) bool { return n.Key == v.open })
	if at < 0 && strings.HasPrefix(v.open, "cmd_") { // one of several identical ones, of which the first is listed
		if c, err := p.o.API.Command(ctx, v.open); err == nil && c.Held != nil {
			at = slices.IndexFunc(list.Needs, func(n api.Need) bool { return n.Key == string(c.Held.Same[0]) })
		}
	}
	if at < 0 && !v.steady {
		if v.done == "" {
			v.done = v.open // somebody else decided it
		}
		at = 0
	}
	if v.done != "" && !slices.ContainsFunc(list.Needs, func(n api.Need) bool { return n.Key == v.done }) {
		m.Items = append(m.Items, p.decided(ctx, v.done))
	}
	for i, n := range list.Needs {
		it := p.itemOf(n)
		it.Word = m.Word
		if i == at {
			m.Open = n.Key
			if it.Card, err = p.cardOf(ctx, n); err != nil {
				// One card that cannot be shown must not take the others away.
				it.Card = &card{Bytes: n.Line, Rows: []row{{Name: "Not shown", Text: bridge.SafeMessage(err)}, {Name: "Next", Text: "Look at it with: drawbridge commands --state held"}}}
			}
			it.Card.decidesHere(v.session.person)
			if len(list.Needs) > 1 {
				it.Next = list.Needs[(i+1)%len(list.Needs)].Key
			}
		}
		m.Items = append(m.Items, it)
	}
	m.Live = "open=" + url.QueryEscape(m.Open)
	return nil
}

// quiet is the sentence of a page on which nothing waits.
func quiet(working int) string {
	switch working {
	case 0:
		return `Nothing needs you. No agent is at work. To give one a task, type: drawbridge up FOLDER "TASK"`
	case 1:
		return "Nothing needs you. 1 agent at work."
	}
	return fmt.Sprintf("Nothing needs you. %d agents at work.", working)
}

// plurals are those of the kinds that are nouns.
var plurals = map[string]string{
	api.NeedCopy: "copies", api.NeedPermission: "permissions", api.NeedApproval: "approvals", api.NeedQuestion: "questions", api.NeedBudget: "budgets",
}

// summary counts what waits by kind, in words.
func summary(needs []api.Need) string {
	counts := map[string]int{}
	for _, n := range needs {
		counts[n.Kind]++
	}
	var parts []string
	for _, kind := range api.NeedKinds {
		if word := kind; counts[kind] > 0 {
			if plural := plurals[kind]; counts[kind] > 1 && plural != "" {
				word = plural
			}
			parts = append(parts, fmt.Sprintf("%d %s", counts[kind], word))
		}
	}
	return strings.Join(parts, ", ")
}

// work is which agents have a turn: the newest ones, and how many in all.
type work struct {
	Count int
	Rows  []agentRow
}

func (work) names() (template, key string) { return "work.html", "" }

// maxWork bounds the agents that stand below what waits.
const maxWork = 20

// working lists the agents that have a turn.
func (p *Page) working(ctx context.Context, count int) (w work, err error) {
	w.Count = count
	if count == 0 {
		return w, nil
	}
	list, err := p.o.API.Agents(ctx, api.ListOptions{State: string(bridge.AgentBusy), Limit: maxWork})
	for _, a := range list.Agents {
		w.Rows = append(w.Rows, p.agentRowOf(a))
	}
	return w, err
}
