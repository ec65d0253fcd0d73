package policy

import (
	"cmp"
	"fmt"
	"strings"

	"drawbridge/parser"
)

// Asked is what an agent asks for, without its words: a launch on a repository, or an action.
type Asked struct {
	// Agents are as in Request.
	Agents []string
	Verb   parser.Verb
	// Target is the canonical repository or the action id.
	Target string
}

// Alone judges what an agent asks for by the lists and approvals alone, as the first command of an agent that heard nothing
// and used nothing. The verdict has no grant.
func (p *Policy) Alone(a Asked) Verdict {
	cmd := parser.Command{Verb: a.Verb, Repo: a.Target, Prompt: "x"}
	if a.Verb == parser.LocalAction {
		cmd = parser.Command{Verb: a.Verb, Action: a.Target}
	}
	v := p.Grant(a.Agents, cmd, false)
	v.Grant = Grant{}
	return v
}

// Change says what is different about the verdict of an edited policy on the same thing; "" when it leads to the same.
func (v Verdict) Change(edited Verdict) string {
	if v.Decision != edited.Decision {
		if edited.Decision == Granted {
			return "allowed by " + edited.Rule
		}
		return edited.Reason
	}
	if v.Decision == Refused {
		return ""
	}
	var all []string
	for _, f := range []struct{ name, was, now string }{
		{"approval", v.Approval.String(), edited.Approval.String()},
		{"runtime", v.Runtime, edited.Runtime},
		{"api", v.API, edited.API},
		{"relay", v.Relay, edited.Relay},
		{"wait", v.Wait.String(), edited.Wait.String()},
	} {
		if f.was != f.now {
			all = append(all, fmt.Sprintf("%s: %s, before: %s", f.name, cmp.Or(f.now, "none"), cmp.Or(f.was, "none")))
		}
	}
	return strings.Join(all, "; ")
}
