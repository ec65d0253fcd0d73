package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"drawbridge/api"
	"drawbridge/api/conversation"
	"drawbridge/bridge"
)

// decision is what a person said about one thing.
type decision struct {
	need api.Need
	// key, kind and turn name the need that the person was shown. hash is that of what was shown, and value the line that the person wrote.
	key, kind, turn, hash, value string
}

// adminVerbs are those of verbs for which the API wants the role admin. For the others, it wants the role approver.
var adminVerbs = []string{"say", "forget", "accept"}

// verbs are what a person can say, and the call of the API that each is.
var verbs = map[string]func(ctx context.Context, c *api.Client, d decision) error{
	"approve": func(ctx context.Context, c *api.Client, d decision) error {
		return only(c.Approve(ctx, d.key, d.hash))
	},
	"deny": func(ctx context.Context, c *api.Client, d decision) error { return only(c.Deny(ctx, d.key, d.value)) },
	"launched": func(ctx context.Context, c *api.Client, d decision) error {
		return resolve(ctx, c, d, api.ResolveRequest{Launched: d.value})
	},
	"not-launched": func(ctx context.Context, c *api.Client, d decision) error {
		return resolve(ctx, c, d, api.ResolveRequest{NotLaunched: true})
	},
	"journal": func(ctx context.Context, c *api.Client, d decision) error {
		return resolve(ctx, c, d, api.ResolveRequest{Journal: true})
	},
	"ran": func(ctx context.Context, c *api.Client, d decision) error {
		return resolve(ctx, c, d, api.ResolveRequest{Ran: true})
	},
	"not-ran": func(ctx context.Context, c *api.Client, d decision) error {
		return resolve(ctx, c, d, api.ResolveRequest{NotRan: true})
	},
	"told": func(ctx context.Context, c *api.Client, d decision) error {
		return resolve(ctx, c, d, api.ResolveRequest{Told: true})
	},
	"tell": func(ctx context.Context, c *api.Client, d decision) error {
		return resolve(ctx, c, d, api.ResolveRequest{Tell: true})
	},
	"continue":  func(ctx context.Context, c *api.Client, d decision) error { return only(c.Continue(ctx, d.need.Turn)) },
	"say-again": func(ctx context.Context, c *api.Client, d decision) error { return only(c.SayAgain(ctx, d.need.Turn)) },
	"give-up":   func(ctx context.Context, c *api.Client, d decision) error { return only(c.GiveUp(ctx, d.need.Turn)) },
	"say": func(ctx context.Context, c *api.Client, d decision) error {
		return only(c.Say(ctx, d.need.Agent, d.value))
	},
	"forget": func(ctx context.Context, c *api.Client, d decision) error {
		return only(c.ForgetAgent(ctx, d.need.Agent))
	},
	"accept": func(ctx context.Context, c *api.Client, d decision) error {
		return only(c.AcceptRelay(ctx, d.need.Relay))
	},
}

// only keeps the error of a call.
func only[T any](_ T, err error) error { return err }

// resolve settles a command, or a turn.
func resolve(ctx context.Context, c *api.Client, d decision, r api.ResolveRequest) error {
	if d.need.Command != "" {
		return only(c.Resolve(ctx, d.need.Command, r))
	}
	return only(c.ResolveTurn(ctx, d.need.Turn, r))
}

// decide takes a person's word, and shows the next thing. The page that was shown may be old: a word counts for what was shown alone.
func (p *Page) decide(w http.ResponseWriter, r *http.Request, s session) error {
	f := r.PostForm
	d := decision{key: f.Get("key"), kind: f.Get("kind"), turn: f.Get("turn"), hash: f.Get("hash"), value: strings.TrimSpace(f.Get("value"))}
	act := verbs[f.Get("word")]
	if act == nil {
		return bridge.Errorf(bridge.Invalid, "the form names an unknown action; load the page again")
	}
	err := p.find(r.Context(), &d)
	if err == nil {
		err = act(r.Context(), p.o.API, d)
	}
	if err == nil {
		next := "/"
		if key := f.Get("next"); key != "" {
			next = needPath(key)
		}
		http.Redirect(w, r, next+"?done="+url.QueryEscape(d.key), http.StatusSeeOther)
		return nil
	}
	m, listErr := p.model(r.Context(), view{session: s, place: placeNeeds, open: d.key})
	if listErr != nil {
		return err
	}
	m.Error = bridge.SafeMessage(err)
	if f.Get("word") == "approve" && bridge.KindOf(err) == bridge.Conflict && m.Open == d.key {
		m.Error = "This changed after it was shown. Read it again."
	}
	p.show(w, api.StatusOf(err), "page.html", m)
	return nil
}

// decidesHere leaves the buttons on a card that the person may use.
func (c *card) decidesHere(p bridge.Person) {
	some := len(c.Actions) > 0
	c.Actions = slices.DeleteFunc(c.Actions, func(a action) bool {
		least := bridge.RoleApprover
		if slices.Contains(adminVerbs, a.Word) {
			least = bridge.RoleAdmin
		}
		return !p.Role.May(least)
	})
	if some && len(c.Actions) == 0 {
		c.Rows = append([]row{{Name: "Your role", Text: string(p.Role) + ": you can read this, but not decide it; ask an admin"}}, c.Rows...)
	}
}

// find looks up what a decision is about.
func (p *Page) find(ctx context.Context, d *decision) error {
	list, err := p.o.API.Needs(ctx)
	if err != nil {
		return err
	}
	for _, n := range list.Needs {
		if n.Key == d.key && n.Kind == d.kind && n.Turn == d.turn {
			d.need = n
			return nil
		}
	}
	return bridge.Errorf(bridge.Conflict, "Your decision came too late. This does not wait any more: somebody decided it, or it ended by itself.")
}

// decided is the row of what does not wait any more, with what became of it.
func (p *Page) decided(ctx context.Context, key string) item {
	i := item{Key: key, Chip: "over", Tone: "ok", Done: true, Text: "This does not wait any more.", moment: p.moment(p.o.Now())}
	switch {
	case strings.HasPrefix(key, "cmd_"):
		if m, err := p.o.API.Command(ctx, key); err == nil {
			i.moment, i.Text = p.moment(m.UpdatedAt), m.Summary
			if a, err := p.o.API.Agent(ctx, m.Agent); err == nil {
				i.Who = a.Name
			}
			i.Chip, i.Tone, i.Line = conversation.Outcome(m)
		}
	case strings.HasPrefix(key, "trn_"):
		if t, err := p.o.API.Turn(ctx, key); err == nil {
			i.Chip, i.Tone, i.Text, i.Line = t.State, "info", "The turn is "+t.State+".", t.Trouble
		}
	case strings.HasPrefix(key, "agt_"):
		if a, err := p.o.API.Agent(ctx, key); err == nil {
			i.Chip, i.Tone, i.Who, i.Text = a.State, "info", a.Name, "is "+a.State
		}
	}
	return i
}
