package bridge

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"drawbridge/parser"
)

// VerbPermission is the verb of a command that an agent on a relay asks permission for. No line can say it: it is not a word of the parser's.
const VerbPermission parser.Verb = "PERMISSION"

// PermissionState says how far a question of an agent on a relay has come.
type PermissionState string

// The states. Yes and No are answers that the agent has not got, because its process has ended; Given and Refused are those that it got.
const (
	PermissionOpen    PermissionState = "open"
	PermissionYes     PermissionState = "yes"
	PermissionNo      PermissionState = "no"
	PermissionGiven   PermissionState = "given"
	PermissionRefused PermissionState = "refused"
)

// Over reports whether the question has its answer.
func (s PermissionState) Over() bool { return s != PermissionOpen }

// Allowed reports whether the answer is yes.
func (s PermissionState) Allowed() bool { return s == PermissionYes || s == PermissionGiven }

// Permission is a question of an agent that a relay hosts: it asks whether it may do something. All of it is the agent's claim, but for the
// relay's own words (ids, hash, workspace, reason, state).
type Permission struct {
	// ID names the question at its relay, and Hash exactly this call.
	ID    string `json:"id"`
	Hash  string `json:"hash"`
	Relay string `json:"relay"`
	// Entry is the agent's entry in the relay's own file; Session is [Agent].External, and Run the run of its turn.
	Entry     string   `json:"entry"`
	Session   string   `json:"session"`
	Run       string   `json:"run"`
	Kind      string   `json:"kind"`
	Tool      string   `json:"tool"`
	Arguments string   `json:"arguments,omitempty"`
	Paths     []string `json:"paths,omitempty"`
	Workspace string   `json:"workspace"`
	Reason    string   `json:"reason"`
	// AtBridge and AtMachine say where the relay's file lets it be answered.
	AtBridge  bool `json:"at_bridge,omitempty"`
	AtMachine bool `json:"at_machine,omitempty"`
	// State and By are how far it has come, and the door of its answer. They are not part of what is recorded of the question.
	State PermissionState `json:"-"`
	By    string          `json:"-"`
}

// PermissionWord is the operator's word on a question.
type PermissionWord struct {
	ID, Hash string
	Allow    bool
}

// PermissionCommand names the command that records a question. A relay that announces a question again meets the same command.
func PermissionCommand(relay, id string) CommandID {
	sum := sha256.Sum256([]byte("permission|" + relay + "|" + id))
	return CommandID("cmd_" + hex.EncodeToString(sum[:12]))
}

// Asks returns the question that the command records; ok is false for every other command.
func (c Command) Asks() (p Permission, ok bool) {
	if c.Parsed.Verb != VerbPermission || json.Unmarshal([]byte(c.Parsed.Prompt), &p) != nil {
		return Permission{}, false
	}
	return p, true
}

// Command returns the command that records the question. Its id, turn, agent and state are the caller's.
func (p Permission) Command() (parser.Command, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return parser.Command{}, fmt.Errorf("write question: %w", err)
	}
	return parser.Command{Verb: VerbPermission, Action: p.Kind, Message: p.Tool, Prompt: string(text)}, nil
}

// Facts are what a person is shown of the question.
func (p Permission) Facts() []Fact {
	arguments := p.Arguments
	if arguments == "" {
		arguments = "not given: the agent does not say what exactly it wants to do"
	}
	return []Fact{
		{Name: "kind", Text: p.Kind}, {Name: "tool", Text: p.Tool}, {Name: "arguments", Text: arguments}, {Name: "paths", Text: strings.Join(p.Paths, "\n")},
		{Name: "workspace", Text: p.Workspace}, {Name: "relay", Text: p.Relay + ", entry " + p.Entry}, {Name: "hash at the relay", Text: p.Hash}, {Name: "your approval lasts", Text: "for this one call"},
	}
}
