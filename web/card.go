package web

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/parser"
)

// card is what a person decides on.
type card struct {
	// Bytes are the exact words that a yes lets through. Where nothing is approved, they are Need.Line. Size says how long they are, "" for a
	// text that fits.
	Bytes, Size string
	Rows        []row
	// Hash names what a yes would do, "" where nothing is approved. Shown is all of it in printable ASCII.
	Hash, Shown string
	Actions     []action
}

// row is one line of a card. Others marks words of others, and More what a small screen leaves out.
type row struct {
	Name, Chip, Tone, Text, Link string
	Others, More                 bool
}

// action is one button. Class is yes, careful or no; Key its key.
type action struct {
	Word, Label, Class, Key string
	// Field asks for a line besides, and Needed says that it may not be empty.
	Field  string
	Needed bool
}

// cardOf makes the open card of a thing that waits.
func (p *Page) cardOf(ctx context.Context, n api.Need) (*card, error) {
	if n.Kind == api.NeedPermission || n.Kind == api.NeedApproval {
		m, err := p.o.API.Command(ctx, n.Command)
		if err != nil {
			return nil, err
		}
		if m.Held != nil {
			return heldCard(m), nil
		}
	}
	c := &card{Bytes: n.Line, Rows: []row{{Name: "Next", Text: n.Next}}}
	switch n.Kind {
	case api.NeedUncertain:
		return c, p.doubtful(ctx, c, n)
	case api.NeedFailed:
		if n.Turn == "" {
			c.Actions = []action{{Word: "forget", Label: "Forget the agent", Class: "no"}}
			break
		}
		c.Actions = []action{{Word: "continue", Label: "Continue", Class: "careful"}, {Word: "say-again", Label: "Say again", Class: "careful"}, {Word: "give-up", Label: "Give up", Class: "no"}}
	case api.NeedGated:
		c.Actions = []action{{Word: "say", Label: "Say something…", Class: "careful", Field: "What the agent hears next", Needed: true}}
	case api.NeedCopy:
		c.Actions = []action{{Word: "accept", Label: "Accept the relay that was refused", Class: "careful"}}
	}
	return c, nil
}

// effectRows are the names under which a card shows facts. Those that its sentence tells already have none; they stand in the plain text.
var effectRows = map[string]string{
	"workspace": "Where", "runtime": "Lives at", "relay": "Relay", "your approval lasts": "Approval lasts", "paths": "Paths", "when": "When", "due": "Due",
	"name": "Name", "role": "Role", "subfolder": "Subfolder", "relay says": "Runs", "prompt": "Prompt", "message": "Message", "arguments": "Arguments",
	"tool": "Tool", "repository": "", "kind": "", "action": "", "agent": "", "command": "", "definition": "", "hash at the relay": "",
}

// others are the facts in an agent's own words.
var others = []string{"tool", "name", "role", "subfolder", "paths", "prompt", "message", "arguments", "when"}

// bytesOf names the fact that holds the exact words, by verb.
var bytesOf = map[string]string{string(bridge.VerbPermission): "arguments", string(parser.Subagent): "prompt", string(parser.LocalAction): "relay says", string(parser.Remind): "message"}

// heldCard shows everything that a yes brings about. A fact without a place of its own stands under its own name, so that nothing is left out.
func heldCard(m api.Command) *card {
	c := &card{Hash: m.Held.Hash, Shown: m.Held.Shown, Rows: heard(m)}
	yes := action{Word: "approve", Label: "Allow once", Class: "careful", Key: "a"}
	for _, f := range m.Held.Effect {
		name, known := effectRows[f.Name]
		if !known {
			name = f.Name
		}
		switch {
		case f.Name == bytesOf[m.Verb]:
			c.Bytes = exact(m.Verb, f.Text)
		case name != "" && f.Text != "":
			c.Rows = append(c.Rows, row{Name: name, Text: f.Text, Others: slices.Contains(others, f.Name)})
		}
		if long := lasts(f); long != "" {
			yes.Label = "Allow for " + long
		}
	}
	c.Size = size(c.Bytes)
	c.Rows = append(c.Rows, row{Name: "Asked in", Text: fmt.Sprintf("turn %d, %s", m.Held.TurnSeq, askedAt(m.Line)), Link: turnPath(m.Agent, m.Turn), More: true})
	if n := m.Held.Count; n > 1 {
		c.Rows = append([]row{{Name: "Asked", Text: fmt.Sprintf("%d times; if you allow it, the bridge runs it once and closes the other requests", n)}}, c.Rows...)
	}
	if odd := pretenders(c.Bytes); odd != "" {
		c.Rows = append([]row{{Name: "Look-alikes", Chip: "careful", Tone: "bad", Text: "these characters look like other letters: " + odd}}, c.Rows...)
	}
	if m.Held.Refused != "" {
		c.Rows = append([]row{{Name: "Refused now", Text: m.Held.Refused}}, c.Rows...)
	} else {
		if !m.Held.Outside && m.Held.Again {
			yes.Class = "yes"
		}
		c.Actions = append(c.Actions, yes)
	}
	c.Actions = append(c.Actions, action{Word: "deny", Label: "Deny…", Class: "no", Key: "d", Field: "Why not? The agent reads it."})
	return c
}

// exact is the words that run, without the words around them.
func exact(verb, text string) string {
	if verb == string(bridge.VerbPermission) {
		return api.CommandLine(text)
	}
	if _, runs, ok := strings.Cut(text, "it would run "); ok && verb == string(parser.LocalAction) {
		return runs
	}
	return text
}

// lasts is how long a yes also lets others pass, "" for this one alone. A relay says it of its own rules within what it shows.
func lasts(f bridge.Fact) string {
	text := ""
	switch f.Name {
	case "your approval lasts":
		text = f.Text
	case "relay says":
		_, text, _ = strings.Cut(f.Text, "your approval lasts ")
	}
	text, _, _ = strings.Cut(text, ",")
	long, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(strings.TrimSuffix(long.String(), "0s"), "0m")
}

// A text of so many lines or bytes does not fit on a card.
const (
	manyLines = 12
	manyBytes = 2000
)

// size says how long a text is, "" for one that fits on the card.
func size(text string) string {
	lines := strings.Count(text, "\n") + 1
	if lines < manyLines && len(text) < manyBytes {
		return ""
	}
	return fmt.Sprintf("%d lines, %d bytes: read to the end", lines, len(text))
}

// askedAt says where in a turn something was asked.
func askedAt(line int) string {
	if line == 0 {
		return "a tool call"
	}
	return fmt.Sprintf("line %d", line)
}

// heard shows whose words led to the command, and what helps to judge it.
func heard(m api.Command) []row {
	whose := row{Name: "Whose words", Chip: "yours", Tone: "info", Text: "as far as the bridge records, only your words have reached this agent"}
	if m.Held.Outside {
		whose = row{Name: "Whose words", Chip: "outside", Tone: "wait", Text: "the agent's words may come from others: from results, mail, files or pages that it read"}
	}
	rows := []row{whose}
	for _, f := range m.Held.Context {
		switch f.Name {
		case "turn made by":
			rows = append(rows, row{Name: "It heard", Text: f.Text, Others: m.Held.Outside})
		case "last yes":
			rows = append(rows, row{Name: "Last yes", Text: f.Text})
		case "held because":
			rows = append(rows, row{Name: "Why held", Text: f.Text, More: true})
		case "written by", "the same": // the sentence and "Asked in" tell it
		default:
			rows = append(rows, row{Name: f.Name, Text: f.Text})
		}
	}
	return rows
}

// doubtful adds the words that settle something of which nobody knows whether it happened.
func (p *Page) doubtful(ctx context.Context, c *card, n api.Need) error {
	launched := []action{{Word: "launched", Label: "It runs…", Class: "careful", Field: "The agent's id, such as bc-…", Needed: true}, {Word: "not-launched", Label: "It was not launched", Class: "careful"}}
	if n.Command != "" {
		m, err := p.o.API.Command(ctx, n.Command)
		if err != nil {
			return err
		}
		if m.Reason != "" {
			c.Rows = append([]row{{Name: "What happened", Text: m.Reason}}, c.Rows...)
		}
		if c.Actions = launched; m.Verb == string(parser.LocalAction) {
			c.Actions = []action{{Word: "journal", Label: "Ask the journal", Class: "careful"}, {Word: "ran", Label: "It ran", Class: "careful"}, {Word: "not-ran", Label: "It did not run", Class: "careful"}}
		}
		return nil
	}
	t, err := p.o.API.Turn(ctx, n.Turn)
	if err != nil {
		return err
	}
	if t.Trouble != "" {
		c.Rows = append([]row{{Name: "What happened", Text: t.Trouble}}, c.Rows...)
	}
	a, err := p.o.API.Agent(ctx, n.Agent)
	if err != nil {
		return err
	}
	again := action{Word: "say-again", Label: "It did not arrive: say it again", Class: "careful"}
	never := action{Word: "not-launched", Label: "It did not arrive: leave it", Class: "careful"}
	switch {
	case t.Run != "" && bridge.InCloud(a.Runtime):
		c.Actions = []action{{Word: "told", Label: "The agent got it in that run", Class: "careful"}, {Word: "tell", Label: "The agent did not get it: tell it now", Class: "careful"}}
	case a.External == "":
		c.Actions = launched
	case bridge.InCloud(a.Runtime):
		c.Actions = []action{again, never}
	default:
		c.Actions = []action{{Word: "give-up", Label: "It arrived: give up its answer", Class: "careful"}, again, never}
	}
	return nil
}
