package bridge

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"drawbridge/policy"
)

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckName returns an Invalid error unless a new agent may get the name: 1 to 64
// letters, digits, dots, dashes and underscores, and nothing that a reader would take
// for an id, for a person or for the bridge (policy.ReservedName has the rule). An agent
// that has another name from before keeps it.
func CheckName(name string) error {
	word := policy.ReservedName(name)
	switch {
	case word == "user" || word == "operator":
		return Errorf(Invalid, "agent name %+.80q: looks like the operator; name the agent after its task, such as docs-bot", name)
	case word != "":
		return Errorf(Invalid, "agent name %+.80q: looks like %q, which is reserved for people and for the bridge; name the agent after its task, such as docs-bot", name, word)
	case strings.HasPrefix(name, "agt_"):
		return Errorf(Invalid, "agent name %.80q: only ids begin with agt_; choose another name", name)
	case !validName.MatchString(name):
		return Errorf(Invalid, "agent name %+.80q: use 1 to 64 letters, digits, dots, dashes and underscores", name)
	}
	return nil
}

// CheckChannelName is CheckName for a channel. A channel writes nothing itself and may
// be called everyone or admins, but not like the operator or the bridge.
func CheckChannelName(name string) error {
	switch word := policy.SoleReservedName(name); word {
	case "operator", "bridge", "drawbridge":
		return Errorf(Invalid, "channel name %+.80q: looks like %q, which is reserved for people and for the bridge; name the channel after its topic, such as release", name, word)
	}
	if strings.EqualFold(name, string(User)) || strings.HasPrefix(name, "agt_") || !validName.MatchString(name) {
		return Errorf(Invalid, "channel name %+.80q: use 1 to 64 letters, digits, dots, dashes and underscores", name)
	}
	return nil
}

// CheckRelayName returns an Invalid error when a reader would take a new relay's name
// for a person or for the bridge. Turns say "relay laptop", so only a name that is one
// reserved word is refused, and "relay-2" is not. The form is for the caller to check.
func CheckRelayName(name string) error {
	if word := policy.SoleReservedName(name); word != "" && word != "relay" {
		return Errorf(Invalid, "relay name %+.80q: looks like %q, which is reserved for people and for the bridge; name the relay after its machine, such as laptop", name, word)
	}
	return nil
}

// MaxText bounds what may be said to an agent as one turn, in bytes.
const MaxText = 1 << 20

// CheckText returns an error unless a text may be a turn: Invalid when it is
// empty or not UTF-8, TooLarge beyond MaxText.
func CheckText(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return Errorf(Invalid, "the text is empty; say something")
	case len(text) > MaxText:
		return Errorf(TooLarge, "the text has %d bytes; at most %d are allowed", len(text), MaxText)
	case !utf8.ValidString(text):
		return Errorf(Invalid, "the text is not valid UTF-8")
	}
	return nil
}

var validExternal = regexp.MustCompile(`^[A-Za-z0-9_-]{0,128}$`)

// CheckExternal returns an Invalid error unless a person may name an agent of the
// API by the id; "" names none.
func CheckExternal(id string) error {
	if !validExternal.MatchString(id) {
		return Errorf(Invalid, "%.40q is not an agent id; copy the id (bc-…) from the agent's address", id)
	}
	return nil
}
