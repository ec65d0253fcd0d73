package bridge

import (
	"bytes"
	"encoding/json"
	"time"
)

// RunMessageKind says which end of a tool call a message records.
type RunMessageKind string

// The kinds, in the words of the office seed.
const (
	ToolCallMessage   RunMessageKind = "tool_call_message"
	ToolReturnMessage RunMessageKind = "tool_return_message"
)

// The kinds of a chat model's run, besides those of its tools. A run begins and ends once, and is shown one context. A call of the
// model is recorded before it is made.
const (
	RunBegunMessage    RunMessageKind = "run_begun_message"
	ContextMessage     RunMessageKind = "context_message"
	ModelCallMessage   RunMessageKind = "model_call_message"
	ModelReturnMessage RunMessageKind = "model_return_message"
	RunEndedMessage    RunMessageKind = "run_ended_message"
)

// RunMessage is one line in the record of a turn's run: a tool call, what it returned, or what a chat model was asked and said.
type RunMessage struct {
	Turn TurnID
	// Seq numbers a turn's messages from 1.
	Seq  int64
	Kind RunMessageKind
	// Name is the tool's; CallID pairs a return with its call.
	Name   string
	CallID string
	// Payload is JSON: of a tool its arguments or results, at most MaxRunPayload bytes, as RunPayload made it.
	Payload string
	At      time.Time
}

// MaxRunPayload bounds what is recorded of one tool call or return, in bytes.
const MaxRunPayload = 64 << 10

// RunPayload makes what is recorded of a tool call or return. JSON stays as it
// is, but for bytes that are not UTF-8. What is longer than MaxRunPayload, or no JSON, becomes
// {"clipped":"its beginning","bytes":its size}, so that a record is JSON in any case.
func RunPayload(raw []byte) string {
	size := len(raw)
	raw = bytes.ToValidUTF8(raw, []byte("\ufffd"))
	if len(raw) <= MaxRunPayload && json.Valid(raw) {
		return string(raw)
	}
	keep := min(len(raw), MaxRunPayload-64)
	for {
		// A character that is cut in the middle becomes U+FFFD.
		clipped, err := json.Marshal(struct {
			Clipped string `json:"clipped"`
			Bytes   int    `json:"bytes"`
		}{string(raw[:keep]), size})
		if err == nil && len(clipped) <= MaxRunPayload {
			return string(clipped)
		}
		keep = keep * 3 / 4 // quotes and controls grow when they are escaped
	}
}
