package approval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"drawbridge/relay/runner/output"
)

// Permission is what an agent on this machine asks for. It is the agent's own claim.
type Permission struct {
	// Kind is a kind of permissions: in relay.yaml, and Tool the agent's words for the call.
	Kind string `json:"kind"`
	Tool string `json:"tool"`
	// Arguments are the canonical JSON of the exact arguments, "" where the agent gave none.
	Arguments string   `json:"arguments,omitempty"`
	Paths     []string `json:"paths,omitempty"`
	Workspace string   `json:"workspace"`
	// Reason says why no rule allows it, and Hash names exactly this call.
	Reason string `json:"reason"`
	Hash   string `json:"hash"`
}

// text shows all of it on lines of printable ASCII.
func (q Permission) text(id, agent string) string {
	var b strings.Builder
	show := func(name, value string) { fmt.Fprintf(&b, "  %-12s %s\n", name, value) }
	fmt.Fprintf(&b, "%s: may agent %s do this once?\n", id, output.Line(agent))
	show("kind", output.Line(q.Kind))
	show("tool", output.Line(q.Tool))
	if q.Arguments == "" {
		show("arguments", "NOT GIVEN: the agent does not say what exactly it wants to do")
	} else {
		show("arguments", jsonLine(q.Arguments))
	}
	for _, path := range q.Paths {
		show("path", output.Line(path))
	}
	show("workspace", output.Line(q.Workspace))
	show("asked because", output.Line(q.Reason))
	show("no answer", "leaves the question open")
	return b.String()
}

// jsonLine is a JSON text on one line of printable ASCII, with the escapes of JSON alone, so that a person reads each of them once. Any other text is
// escaped as [output.Line] does.
func jsonLine(text string) string {
	var one bytes.Buffer
	if !utf8.ValidString(text) || json.Compact(&one, []byte(text)) != nil {
		return output.Line(text)
	}
	var out strings.Builder
	for _, r := range one.String() {
		if r >= ' ' && r <= '~' {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	return out.String()
}
