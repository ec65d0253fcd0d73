package mcpserver

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"regexp"

	"github.com/modelcontextprotocol/go-sdk/mcp"
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
// A request that names its version in its body goes to the stateless handler. That handler reports a header that differs.
func (d *Door) handler(r *http.Request, body []byte) http.Handler {
	switch {
	case r.Header.Get("Mcp-Protocol-Version") >= newEra && d.isBrief(r):
		return d.brief
	case r.Header.Get("Mcp-Protocol-Version") >= newEra, metaVersion(body):
		return d.stateless
	}
	if made := sessionID.FindStringSubmatch(r.Header.Get(sessionHeader)); made != nil && made[1] != d.id {
		return d.stateless
	}
	return d.stateful
}

// metaVersion reports whether a request names its protocol version in its body, as the newer era does.
func metaVersion(body []byte) bool {
	if !bytes.Contains(body, []byte(mcp.MetaKeyProtocolVersion)) { // most requests of the older era; a text may hold it, too
		return false
	}
	var m struct {
		Params struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		} `json:"params"`
	}
	return json.Unmarshal(body, &m) == nil && m.Params.Meta[mcp.MetaKeyProtocolVersion] != nil
}
