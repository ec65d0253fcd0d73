package bridge

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
)

// Role is what a person may do at the operator's API and on the page. Each role may do what those before it may.
type Role string

// The roles, the least first.
const (
	// RoleViewer sees everything, and changes nothing.
	RoleViewer Role = "viewer"
	// RoleApprover answers what waits for a person, and stops agents.
	RoleApprover Role = "approver"
	// RoleAdmin also launches agents, speaks to them, and manages tokens and relays.
	RoleAdmin Role = "admin"
)

// May reports whether a person of the role may do what least is needed for. A role that nobody knows may do nothing.
func (r Role) May(least Role) bool {
	roles := []Role{RoleViewer, RoleApprover, RoleAdmin}
	need := slices.Index(roles, least)
	return need >= 0 && slices.Index(roles, r) >= need
}

// OwnerName is the name of the person who has the bridge's own token.
const OwnerName = "operator"

// Person is a person who asks the bridge for something.
type Person struct {
	Name string
	Role Role
	// Address is the IP address that the request came from; a proxy's where one stands in between.
	Address string
	// Request is what changes something, as POST and a path; "" for a look.
	Request string
}

// Impersonal returns the event without the person who asked for it.
func (e Event) Impersonal() Event {
	if _, asked := e.Fields["address"]; asked {
		e.Fields = maps.Clone(e.Fields)
		delete(e.Fields, "by")
		delete(e.Fields, "address")
	}
	return e
}

type personKey struct{}

// asking is a person in a context. recorded is set once an event names them.
type asking struct {
	Person
	recorded *atomic.Bool
}

// ByPerson returns a context whose steps record the person in their events.
func ByPerson(ctx context.Context, p Person) context.Context {
	return context.WithValue(ctx, personKey{}, asking{p, &atomic.Bool{}})
}

// PersonOf returns the person who asked; ok is false where nobody did.
func PersonOf(ctx context.Context) (p Person, ok bool) {
	a, ok := ctx.Value(personKey{}).(asking)
	return a.Person, ok
}

// NoteRecorded notes that an event names the person of the context.
func NoteRecorded(ctx context.Context) {
	if a, ok := ctx.Value(personKey{}).(asking); ok {
		a.recorded.Store(true)
	}
}

// Recorded reports whether an event names the person of the context. There is nothing to record of nobody.
func Recorded(ctx context.Context) bool {
	a, ok := ctx.Value(personKey{}).(asking)
	return !ok || a.recorded.Load()
}
