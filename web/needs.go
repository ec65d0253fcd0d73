package web

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// page is the model of page.html: one place, as one browser sees it.
type page struct {
	// Place is needs, agents, agent, timeline, mail, box, memory, relays, rules or use; Title is that of the place.
	Place, Title string
	Word         string
	// Count is how many things wait for the person, anywhere. Sub is a few words beside the title.
	Count int
	Sub   string
	Items []keyed
	// Quiet is the sentence that stands in the place of Items when there are none.
	Quiet string
	// More is where the list goes on, "" at its end, and MoreText the words of the link.
	More, MoreText string
	// Error is what came of a decision that did not succeed.
	Error string
	// Side is the part of the page besides Items that changes: the agents at work, or the head of a conversation. Nil for none.
	Side keyed
	// Busy is true while an agent at a relay works. No event tells what it does, so the stream looks each second.
	Busy bool
	// Agent is the one whose conversation is shown, nil elsewhere.
	Agent *agentHead
	// Trial are the forms of the place about rules, nil elsewhere.
	Trial *trial
	// Block is the form of the place about an agent's memory, nil elsewhere.
	Block *block
	// Box is the conversation or mailbox that is shown, nil elsewhere.
	Box *box
	// Open is the key of the card that is open, and Live the query of the stream.
	Open, Live string
	by         *Page
}

// keyed is a part of a page that is sent when it changes.
type keyed interface {
	key() string
	// Hash names what it shows, but for ages.
	Hash() string
	// HTML renders it.
	HTML(p *Page) (template.HTML, error)
}

// SideHTML renders Side, for page.html.
func (m page) SideHTML() (template.HTML, error) {
	if m.Side == nil {
		return "", nil
	}
	return m.Side.HTML(m.by)
}

// Parts renders Items, for page.html.
func (m page) Parts() ([]template.HTML, error) {
	var all []template.HTML
	for _, i := range m.Items {
		html, err := i.HTML(m.by)
		if err != nil {
			return nil, err
		}
		all = append(all, html)
	}
	return all, nil
}

// item is one thing that waits, as a row or, when it is open, as a card. A thing that was decided is a row with Done.
type item struct {
	Key, Chip, Tone string
	// Who is the agent's name when the sentence begins with it, and Text the rest of it.
	Who, Text, Line string
	Count           int
	Since           time.Time
	Ago, Full       string
	Card            *card
	Done            bool
	// Word is the session's own, for forms. Next is the item that opens after this one is decided. Turn is the turn that it is about.
	Word, Next, Turn string
}

func (i item) key() string { return i.Key }

// HTML implements keyed.
func (i item) HTML(p *Page) (template.HTML, error) { return p.fragment("item.html", i) }

// Hash implements keyed.
func (i item) Hash() string {
	i.Ago, i.Next = "", ""
	return hashOf(i)
}

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
	i := item{Key: n.Key, Chip: n.Kind, Tone: cmp.Or(tones[n.Kind], "wait"), Text: n.Text, Line: n.Line, Count: n.Count, Since: n.Since, Turn: n.Turn}
	if rest, begins := strings.CutPrefix(n.Text, n.AgentName+" "); begins && n.AgentName != "" {
		i.Who, i.Text = n.AgentName, rest
	}
	i.age(p.o.Now())
	return i
}

// age says since when an item waits.
func (i *item) age(now time.Time) {
	if !i.Since.IsZero() {
		i.Ago, i.Full = span(now.Sub(i.Since)), i.Since.UTC().Format(time.RFC3339)
	}
}

// view is what a browser looks at.
type view struct {
	session session
	// place is one of the places, and agent whose conversation or timeline it is.
	place, agent string
	// turn is the turn that a conversation must show, and before the Next of an earlier part of a list; "" for none.
	turn, before string
	// tree and show narrow the timeline.
	tree, show string
	// open is the key of the card that is open, "" for the first. A page that is open already opens nothing by itself: steady.
	open   string
	steady bool
	// done is the key of what was decided just now, "" for nothing.
	done string
	// steps are what the agent of the conversation does now, over the looks of a stream; nil for a page.
	steps *steps
	// spaces are the workspaces at relays, over the looks of a stream; nil for a page.
	spaces *spaces
	// box is the conversation or mailbox that is shown, and talks are all of them, over the looks of a stream; nil for a page.
	box   string
	talks *talks
	// days are what the last 30 days saw, over the looks of a stream; nil for a page.
	days *days
	// uses are what agents asked for, over the looks of a stream; nil for a page.
	uses *uses
	// ended are turns that do not change any more, as a stream keeps them; nil for a page.
	ended map[string]turn
}

// model collects a page.
func (p *Page) model(ctx context.Context, v view) (page, error) {
	list, err := p.o.API.Needs(ctx)
	if err != nil {
		return page{}, err
	}
	m := page{Place: v.place, Word: v.session.word(), Count: len(list.Needs), by: p}
	switch v.place {
	case placeNeeds:
		err = p.needsModel(ctx, &m, v, list)
	case placeAgents:
		err = p.agentsModel(ctx, &m)
	case placeAgent:
		err = p.agentModel(ctx, &m, v)
	case placeRelays:
		err = p.relaysModel(ctx, &m, v)
	case placeMail:
		err = p.mailModel(ctx, &m, v)
	case placeMemory:
		err = p.memoryModel(ctx, &m, v)
	case placeBox:
		err = p.boxModel(ctx, &m, v)
	case placeUse:
		err = p.useModel(ctx, &m, v)
	case placeRules:
		err = p.rulesModel(ctx, &m, v, list)
	case placeTimeline:
		err = p.timelineModel(ctx, &m, v)
	default:
		err = bridge.Errorf(bridge.NotFound, "the page has no such place")
	}
	return m, err
}

// The places.
const (
	placeNeeds    = "needs"
	placeAgents   = "agents"
	placeAgent    = "agent"
	placeTimeline = "timeline"
	placeRelays   = "relays"
	placeRules    = "rules"
	placeUse      = "use"
	placeMail     = "mail"
	placeBox      = "box"
	placeMemory   = "memory"
)

// needsModel collects what waits for the person.
func (p *Page) needsModel(ctx context.Context, m *page, v view, list api.NeedList) (err error) {
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

func (w work) key() string { return "" }

// HTML implements keyed.
func (w work) HTML(p *Page) (template.HTML, error) { return p.fragment("work.html", w) }

// Hash implements keyed.
func (w work) Hash() string {
	w.Rows = slices.Clone(w.Rows)
	for i := range w.Rows {
		w.Rows[i].Ago = ""
	}
	return hashOf(w)
}

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

// viewOf reads which place, and which card of it is open.
func viewOf(r *http.Request, s session) (view, error) {
	q, err := httpx.ReadQuery(r, "place", "agent", "open", "done", "turn", "before", "tree", "show", "box")
	if err != nil {
		return view{}, bridge.Errorf(bridge.Invalid, "%s", err)
	}
	v := view{session: s, place: cmp.Or(q.Get("place"), placeNeeds), agent: q.Get("agent"), open: q.Get("open"), done: q.Get("done"),
		turn: q.Get("turn"), before: q.Get("before"), tree: q.Get("tree"), show: q.Get("show"), box: q.Get("box")}
	for name, into := range map[string]*string{"key": &v.open, "agent": &v.agent, "box": &v.box} {
		if text, named := mux.Vars(r)[name]; named {
			if *into, err = url.PathUnescape(text); err != nil {
				return v, bridge.Errorf(bridge.Invalid, "the address is not well encoded")
			}
		}
	}
	return v, nil
}

// see shows a place.
func (p *Page) see(place string) handler {
	return func(w http.ResponseWriter, r *http.Request, s session) error {
		v, err := viewOf(r, s)
		if err != nil {
			return err
		}
		v.place = place
		m, err := p.model(r.Context(), v)
		if err != nil {
			return err
		}
		if place == placeRules {
			m.Trial = p.forms(r.Context())
		}
		p.show(w, http.StatusOK, "page.html", m)
		return nil
	}
}
