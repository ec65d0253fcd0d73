package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// Operator is a person who may use the operator's API, with a token of their own.
type Operator struct {
	Name string
	Role bridge.Role
	// Token is a secret.
	Token string
}

// operator is an Operator whose token cannot be printed.
type operator struct {
	name  string
	role  bridge.Role
	token httpx.Token
}

// setOperators makes the operators known: the owner of Options.Token, and Options.Operators.
func (h *Handler) setOperators() error {
	for _, o := range h.operators() {
		token, err := httpx.NewToken(o.Token)
		if err != nil {
			return fmt.Errorf("token of operator %s: %w", o.Name, err)
		}
		if !o.Role.May(bridge.RoleViewer) || slices.ContainsFunc(h.people, func(known operator) bool { return known.name == o.Name || known.token == token }) {
			return errors.New("each operator needs a role, a unique name and a unique token")
		}
		h.people = append(h.people, operator{o.Name, o.Role, token})
	}
	return nil
}

// operators are all who may use the API, the owner first.
func (h *Handler) operators() []Operator {
	return append([]Operator{{Name: bridge.OwnerName, Role: bridge.RoleAdmin, Token: h.o.Token}}, h.o.Operators...)
}

// person finds who asks, by the token that the request shows.
func (h *Handler) person(r *http.Request) (p bridge.Person, known bool) {
	for _, o := range h.people { // all of them, so that the time does not tell whose token is nearly right
		if o.token.Allows(r) {
			p, known = bridge.Person{Name: o.name, Role: o.role, Address: Address(r)}, true
		}
	}
	return p, known
}

// Address is the IP address that a request came from.
func Address(r *http.Request) string {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}

// asks lets the rest of a request be done as the person.
func asks(r *http.Request, p bridge.Person) *http.Request {
	httpx.RecordOf(r.Context()).Add("operator", p.Name)
	return r.WithContext(bridge.ByPerson(r.Context(), p))
}

// looks are the routes that change nothing, in spite of their method. answers are those that decide what waits for a person, or stop agents.
var (
	looks   = []string{"POST /v1/allowed/try", "POST /v1/allowed/compare", "POST /v1/page/links"}
	answers = []string{
		"POST /v1/commands/{id}/approve", "POST /v1/commands/{id}/deny", "POST /v1/commands/{id}/resolve", "POST /v1/commands/{id}/cancel",
		"POST /v1/turns/{id}/resolve", "POST /v1/turns/{id}/continue", "POST /v1/turns/{id}/say-again", "POST /v1/turns/{id}/give-up", "POST /v1/turns/{id}/stop",
		"POST /v1/restored", "POST /v1/agents/{id}/stop", "POST /v1/agents/{id}/resume",
	}
)

// least is the role that a route is for. Who may do the most may use each route that nobody thought of.
func (l route) least() bridge.Role {
	name := l.method + " " + l.path
	switch {
	case l.method == http.MethodGet || slices.Contains(looks, name):
		return bridge.RoleViewer
	case slices.Contains(answers, name):
		return bridge.RoleApprover
	}
	return bridge.RoleAdmin
}

// changes reports whether a route is for changing something.
func (l route) changes() bool {
	return l.method == http.MethodPost && !slices.Contains(looks, l.method+" "+l.path)
}

// record leaves an event of what a person did, unless their step has left one.
func (h *Handler) record(ctx context.Context) {
	if bridge.Recorded(ctx) {
		return
	}
	if err := h.o.Engine.Change(ctx, func(bridge.Change) error { return nil }); err != nil { // the step itself records the person's word
		h.o.Log.Error().Err(err).Msg("what a person did is not recorded")
	}
}

// maxRequest bounds the words of a request in an event, in bytes.
const maxRequest = 300

// allowed refuses a person whose role is too small for the route. Monitors may come as nobody.
func (l route) allowed(ctx context.Context) error {
	if slices.Contains(probed, l.path) {
		return nil
	}
	p, known := bridge.PersonOf(ctx)
	switch least := l.least(); {
	case !known:
		return bridge.Errorf(bridge.Denied, "this request names no operator; send the token of one")
	case !p.Role.May(least):
		return bridge.Errorf(bridge.Denied, "%s has the role %s, and this needs the role %s; ask an admin, or change operators in bridge.yaml", p.Name, p.Role, least)
	}
	return nil
}
