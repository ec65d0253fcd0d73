package web

import (
	"cmp"
	"context"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gorilla/mux"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// place is something to look at, at a path of its own.
type place struct {
	Word, Path string
	// Name stands among the places, and Letter behind g leads there; "" for a place within another one.
	Name, Letter string
	// In is the place that it is within, "" for one of its own.
	In string
	// Rest says that on a phone the place stands behind More.
	Rest  bool
	model func(*Page, context.Context, *page, view) error
}

// The words of the places.
const (
	placeNeeds    = "needs"
	placeAgents   = "agents"
	placeAgent    = "agent"
	placeMemory   = "memory"
	placeTimeline = "timeline"
	placeMail     = "mail"
	placeBox      = "box"
	placeRelays   = "relays"
	placeRules    = "rules"
	placeUse      = "use"
	placeBridge   = "bridge"
)

// places are all of them, in their order.
func places() []place {
	return []place{
		{Word: placeNeeds, Path: "/", Name: "Needs you", Letter: "n", model: (*Page).needsModel},
		{Word: placeAgents, Path: "/agents", Name: "Agents", Letter: "a", model: (*Page).agentsModel},
		{Word: placeAgent, Path: "/agents/{agent}", In: placeAgents, model: (*Page).agentModel},
		{Word: placeMemory, Path: "/agents/{agent}/memory", In: placeAgents, model: (*Page).memoryModel},
		{Word: placeTimeline, Path: "/timeline", Name: "Timeline", Letter: "t", model: (*Page).timelineModel},
		{Word: placeMail, Path: "/mail", Name: "Mail", Letter: "m", Rest: true, model: (*Page).mailModel},
		{Word: placeBox, Path: "/mail/{box}", In: placeMail, model: (*Page).boxModel},
		{Word: placeRelays, Path: "/relays", Name: "Relays", Letter: "r", Rest: true, model: (*Page).relaysModel},
		{Word: placeRules, Path: "/rules", Name: "Rules", Letter: "l", Rest: true, model: (*Page).rulesModel},
		{Word: placeUse, Path: "/use", Name: "Use", Letter: "u", Rest: true, model: (*Page).useModel},
		{Word: placeBridge, Path: "/bridge", Name: "Bridge", Letter: "b", Rest: true, model: (*Page).bridgeModel},
	}
}

// placeOf finds a place by its word.
func placeOf(word string) (place, bool) {
	all := places()
	if i := slices.IndexFunc(all, func(o place) bool { return o.Word == word }); i >= 0 {
		return all[i], true
	}
	return place{}, false
}

// page is the model of page.html: one place, as one browser sees it.
type page struct {
	// Place is the word of the place, and Title what stands above it.
	Place, Title string
	Word         string
	// Who is whose page it is.
	Who bridge.Person
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
	needs      api.NeedList
}

// way is a way to a place, for page.html.
type way struct {
	place
	Here bool
	// Count is how many things wait there.
	Count int
}

// Ways are the ways to all places with a name.
func (m page) Ways() (all []way) {
	here, _ := placeOf(m.Place)
	for _, one := range places() {
		if one.Name != "" {
			all = append(all, way{place: one, Here: one.Word == cmp.Or(here.In, here.Word), Count: map[string]int{placeNeeds: m.Count}[one.Word]})
		}
	}
	return all
}

// Speaks reports whether the person may say something to agents.
func (m page) Speaks() bool { return m.Who.Role.May(bridge.RoleAdmin) }

// Sign names the person, "" for the one who has the token of the bridge.
func (m page) Sign() string {
	if m.Who.Name == bridge.OwnerName {
		return ""
	}
	return m.Who.Name + ", " + string(m.Who.Role)
}

// InRest reports whether the place stands behind More on a phone.
func (m page) InRest() bool {
	return slices.ContainsFunc(m.Ways(), func(w way) bool { return w.Here && w.Rest })
}

// keyed is a part of a page. A stream sends it again when its JSON has changed.
type keyed interface {
	// names returns the template that renders it, and its key on the page; "" for what stands beside the items.
	names() (template, key string)
}

// piece renders a part.
func (p *Page) piece(k keyed) (template.HTML, error) {
	name, _ := k.names()
	return p.fragment(name, k)
}

// moment is a time on the page. Ago is for a browser without the script. It stays out of the JSON, so that an age alone sends nothing again.
type moment struct {
	Full string
	Ago  string `json:"-"`
}

// moment returns how a time stands on the page; the zero time stands nowhere.
func (p *Page) moment(at time.Time) moment {
	if at.IsZero() {
		return moment{}
	}
	return moment{at.UTC().Format(time.RFC3339), span(p.o.Now().Sub(at))}
}

// SideHTML renders Side, for page.html.
func (m page) SideHTML() (template.HTML, error) {
	if m.Side == nil {
		return "", nil
	}
	return m.by.piece(m.Side)
}

// Parts renders Items, for page.html.
func (m page) Parts() ([]template.HTML, error) {
	var all []template.HTML
	for _, i := range m.Items {
		html, err := m.by.piece(i)
		if err != nil {
			return nil, err
		}
		all = append(all, html)
	}
	return all, nil
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
	// box is the conversation or mailbox that is shown.
	box string
	// looks is what a stream remembers. A page has a new one.
	looks *looks
}

// model collects a page.
func (p *Page) model(ctx context.Context, v view) (page, error) {
	list, err := p.o.API.Needs(ctx)
	if err != nil {
		return page{}, err
	}
	if v.looks == nil {
		v.looks = &looks{ended: map[string]turn{}}
	}
	m := page{Place: v.place, Word: v.session.word(), Who: v.session.person, Count: len(list.Needs), by: p, needs: list}
	one, known := placeOf(v.place)
	if !known {
		return m, bridge.Errorf(bridge.NotFound, "this address does not exist on the page")
	}
	err = one.model(p, ctx, &m, v)
	return m, err
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
				return v, bridge.Errorf(bridge.Invalid, "the address must be UTF-8 with valid percent escapes; correct it")
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
		p.show(w, http.StatusOK, "page.html", m)
		return nil
	}
}
