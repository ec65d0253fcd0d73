package policy

import (
	"fmt"

	"drawbridge/parser"
)

// Grant is a command that passed the policy, and the only thing that makes an
// executor act. No other package can make a valid one: every field is unexported
// and nothing decodes into it. The zero Grant is invalid and executors refuse it.
// A Grant is a value; copies are as good as the original.
type Grant struct {
	valid         bool
	verb          parser.Verb
	repo          Repo
	prompt        string
	api           string
	action        string
	relay         string
	when, message string
}

// Valid reports whether the policy made this Grant.
func (g Grant) Valid() bool { return g.valid }

// Verb is what was granted; "" for an invalid Grant.
func (g Grant) Verb() parser.Verb { return g.verb }

// Repo is the canonical repository of a SUBAGENT. Send these bytes, never what
// the agent wrote.
func (g Grant) Repo() Repo { return g.repo }

// Prompt is the task of a SUBAGENT, without blanks around it.
func (g Grant) Prompt() string { return g.prompt }

// API is "v0", "v1" or "" for the configured default.
func (g Grant) API() string { return g.api }

// Action is the id of a LOCAL_ACTION, as it stands on the allowlist.
func (g Grant) Action() string { return g.action }

// Relay is the name of the relay that has the action, or "" when there is only one.
func (g Grant) Relay() string { return g.relay }

// When is the time of a REMIND as written: see parser.When.
func (g Grant) When() string { return g.when }

// Message is the text of a REMIND.
func (g Grant) Message() string { return g.message }

// String names what was granted and leaves out the prompt and the message, so
// that a Grant may stand in a log line.
func (g Grant) String() string {
	switch {
	case !g.valid:
		return "no grant"
	case g.verb == parser.Subagent:
		return fmt.Sprintf("%s %s", g.verb, g.repo)
	case g.verb == parser.LocalAction:
		return fmt.Sprintf("%s %s", g.verb, g.action)
	}
	return string(g.verb)
}

// GoString is String, so that %#v shows no prompt either.
func (g Grant) GoString() string { return g.String() }
