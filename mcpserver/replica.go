package mcpserver

import (
	"crypto/rand"
	"net/http"
	"regexp"
)

// sessionHeader names the session of a request in the older protocols.
const sessionHeader = "Mcp-Session-Id"

// sessionID is how doors name sessions: the door that made it, and the session.
var sessionID = regexp.MustCompile(`^([A-Z2-7]{26})-[A-Z2-7]{26}$`)

// newSessionID names a session that begins here.
func (d *Door) newSessionID() string { return d.id + "-" + rand.Text() }

// handler returns who serves a request. A session that began at another replica,
// or before this one was started again, goes on without one: nothing of an agent
// is in a session, the request's own token says who calls, and few clients begin
// another one by themselves. What began and ended here is over, as the protocol wants it.
func (d *Door) handler(r *http.Request) http.Handler {
	if r.Header.Get("Mcp-Protocol-Version") >= newEra {
		if d.isBrief(r) {
			return d.brief
		}
		return d.stateless
	}
	if made := sessionID.FindStringSubmatch(r.Header.Get(sessionHeader)); made != nil && made[1] != d.id {
		return d.stateless
	}
	return d.stateful
}
