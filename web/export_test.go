package web

import (
	"context"
	"slices"

	"drawbridge/api"
)

// Verbs says each verb of the page about something that is not there. admins says whether the page shows the
// button to admins alone, and say returns what the API answers.
func Verbs(visit func(word string, admins bool, say func(ctx context.Context, c *api.Client) error)) {
	for word, act := range verbs {
		d := decision{key: "x", value: "x", need: api.Need{Key: "x", Agent: "x", Turn: "x", Relay: "x"}}
		visit(word, slices.Contains(adminVerbs, word), func(ctx context.Context, c *api.Client) error { return act(ctx, c, d) })
	}
}
