package bridge

import "encoding/json"

// ToolOffer is a tool of the MCP door as the door offers it to an agent that lives in this process.
type ToolOffer struct {
	Name string
	// About says for a model what the tool does, when to use it and what comes back.
	About string
	// Schema is the JSON schema of the arguments, an object.
	Schema json.RawMessage
}

// ToolCall is one call by an agent that lives in this process. ID is the caller's own and unique within the turn: a call that a
// crash cut off is made again under the same ID.
type ToolCall struct {
	Turn TurnID
	ID   string
	Name string
	// Args are as the model wrote them, which may be anything but JSON.
	Args json.RawMessage
	// Step names the call of the model that asked for it, for traces.
	Step string
	// Guard runs in the step that records the call. If it fails, the tool does not run. It may run several times.
	Guard func(*Scene) error
}

// ToolReturn is what a call gave, as the record of the run has it.
type ToolReturn struct {
	// Payload is JSON of at most MaxRunPayload bytes: the result, or {"error": {"kind", "message"}}.
	Payload string
	Failed  bool
}

// RecordedReturn reads a return out of the record of a run.
func RecordedReturn(m RunMessage) *ToolReturn {
	var body struct {
		Error *struct {
			Kind string `json:"kind"`
		} `json:"error"`
	}
	// Results have no key error that is an object with a kind.
	failed := json.Unmarshal([]byte(m.Payload), &body) == nil && body.Error != nil && body.Error.Kind != ""
	return &ToolReturn{Payload: m.Payload, Failed: failed}
}
