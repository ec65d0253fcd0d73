package chatmodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"drawbridge/bridge"
)

// Why a turn stopped, in the words of the record.
const (
	StopEndTurn    = "end_turn"
	StopNoToolCall = "no_tool_call"
	StopMaxSteps   = "max_steps"
	StopError      = "error"
	// StopRefused is an error that the next try would meet, too.
	StopRefused   = "refused"
	StopCancelled = "cancelled"
)

// The call ids of what a run has once.
const (
	callRun     = "run"
	callContext = "context"
)

// begun is the first line in the record of a run.
type begun struct {
	Agent   bridge.AgentID `json:"agent"`
	Turn    bridge.TurnID  `json:"turn"`
	Runtime string         `json:"runtime"`
	Name    string         `json:"name"`
	Repo    string         `json:"repo"`
	// Text is what the turn says; its marker is left out.
	Text   string `json:"text"`
	Launch bool   `json:"launch,omitempty"`
}

// opening is what the model is shown first. It is made once in a run.
type opening struct {
	System string `json:"system"`
	User   string `json:"user"`
	// Before counts the tokens of the agent's earlier runs; Unmetered says that an endpoint did not tell those of one.
	Before    int64 `json:"tokens_before"`
	Unmetered bool  `json:"unmetered,omitempty"`
}

// asking is a call of the model, recorded before it is made.
type asking struct {
	Step     int    `json:"step"`
	Try      int    `json:"try"`
	Model    string `json:"model"`
	Messages int    `json:"messages"`
	Bytes    int    `json:"bytes"`
}

// answered is what came of a call of the model: an answer or a fault.
type answered struct {
	Step int `json:"step"`
	answer
	Fault *faulted `json:"error,omitempty"`
	// TookMS is how long the call took, in milliseconds.
	TookMS int64 `json:"took_ms"`
}

// faulted is a fault as the record has it.
type faulted struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	// AtMS is the time of a limit, and UntilMS the time before which the endpoint is not asked again, in Unix milliseconds; 0 for other faults.
	AtMS    int64 `json:"at_ms,omitempty"`
	UntilMS int64 `json:"until_ms,omitempty"`
}

// answer is what a model said.
type answer struct {
	Text   string `json:"text,omitempty"`
	Calls  []call `json:"tool_calls,omitempty"`
	Finish string `json:"finish_reason,omitempty"`
	Model  string `json:"model,omitempty"`
	// Metered says that the endpoint told the tokens. Input includes those that came from a cache.
	Metered bool  `json:"metered,omitempty"`
	Input   int64 `json:"input_tokens,omitempty"`
	Output  int64 `json:"output_tokens,omitempty"`
	Cached  int64 `json:"cached_tokens,omitempty"`
}

// call is a tool call as the model wrote it.
type call struct {
	Name string `json:"name"`
	Args string `json:"arguments"`
}

// ended is the last line in the record of a run.
type ended struct {
	State    bridge.RunState `json:"state"`
	Stop     string          `json:"stop"`
	Reply    string          `json:"reply,omitempty"`
	Detail   string          `json:"detail,omitempty"`
	Steps    int             `json:"steps"`
	Tools    int             `json:"tool_calls"`
	WorkedMS int64           `json:"worked_ms"`
	// Metered says that the endpoint told the tokens of every answer of every run of the agent. Total counts all of them.
	Metered bool  `json:"metered"`
	Input   int64 `json:"input_tokens"`
	Output  int64 `json:"output_tokens"`
	Cached  int64 `json:"cached_tokens"`
	Total   int64 `json:"total_tokens"`
}

// step is one answer of the model and what its tool calls returned, by their place; "" for one that has not returned.
type step struct {
	answer
	returned []string
}

// run is the record of a run, read.
type run struct {
	begun
	opening *opening
	steps   []step
	// tries counts the calls of the model since the last answer, faults the ones in a row that failed; a limit is not a fault.
	tries, faults int
	worked        time.Duration
	// limit is the latest limit of the endpoint, nil when none was met. down is the first of the latest faults in a row, and why what the last of
	// them says.
	limit, down *faulted
	why         string
	end         *ended
}

// maxRecord bounds the lines in the record of a run: three for each call of each step, and the faults between.
const maxRecord = 100_000

// loadRun reads the record of a turn's run, nil when there is none.
func loadRun(tx *bridge.Scene, turn bridge.TurnID) (*run, error) {
	once, err := tx.RunCall(turn, callRun)
	if err != nil || len(once) == 0 {
		return nil, err
	}
	now := &run{}
	for _, m := range once {
		if err := now.take(m); err != nil {
			return nil, err
		}
	}
	return now, nil
}

// loadWhole is loadRun with all that happened in the run.
func loadWhole(tx *bridge.Scene, turn bridge.TurnID) (*run, error) {
	now, err := loadRun(tx, turn)
	if err != nil || now == nil || now.end != nil {
		return now, err
	}
	for after := int64(0); ; {
		page, err := tx.RunMessages(turn, after, 1000)
		if err != nil || len(page) == 0 {
			return now, err
		}
		for _, m := range page {
			if after = m.Seq; m.CallID == callRun {
				continue
			}
			if err := now.take(m); err != nil {
				return nil, err
			}
		}
		if after > maxRecord {
			return nil, fmt.Errorf("the record of turn %q has more than %d lines", turn, maxRecord)
		}
	}
}

// take reads one line of the record.
func (n *run) take(m bridge.RunMessage) error {
	read := func(v any) error {
		if err := json.Unmarshal([]byte(m.Payload), v); err != nil {
			return fmt.Errorf("read the record of turn %q, line %d: %w", m.Turn, m.Seq, err)
		}
		return nil
	}
	switch m.Kind {
	case bridge.RunBegunMessage:
		return read(&n.begun)
	case bridge.RunEndedMessage:
		n.end = &ended{}
		return read(n.end)
	case bridge.ContextMessage:
		n.opening = &opening{}
		return read(n.opening)
	case bridge.ModelCallMessage:
		n.tries++
	case bridge.ModelReturnMessage:
		var a answered
		if err := read(&a); err != nil {
			return err
		}
		n.hear(a)
	case bridge.ToolReturnMessage:
		n.hearTool(m.CallID, m.Payload)
	}
	return nil
}

// hear takes what came of a call of the model.
func (n *run) hear(a answered) {
	n.worked += time.Duration(a.TookMS) * time.Millisecond
	switch {
	case a.Fault == nil:
		n.steps = append(n.steps, step{a.answer, make([]string, len(a.Calls))})
		n.tries, n.faults = 0, 0
	case a.Fault.Kind == string(bridge.RateLimited): // the endpoint works, and says when
		n.faults, n.limit = 0, a.Fault
	default:
		if n.faults++; n.faults == 1 {
			n.down = a.Fault
		}
		n.why = a.Fault.Message
	}
}

// hearTool takes what a tool returned. Calls of other ids came from outside, by the agent's own token.
func (n *run) hearTool(id, payload string) {
	var at, place int
	if _, err := fmt.Sscanf(id, toolCallID, &at, &place); err != nil || toolID(at, place) != id {
		return
	}
	if at >= 1 && at <= len(n.steps) && place >= 1 && place <= len(n.steps[at-1].returned) {
		n.steps[at-1].returned[place-1] = payload
	}
}

// toolCallID is the id of a tool call by its step and its place there, both from 1. Ids of the model's own are not unique.
const toolCallID = "call_%d_%d"

func toolID(step, place int) string { return fmt.Sprintf(toolCallID, step, place) }

// lane is where the work on an agent's turns waits.
func lane(agent bridge.AgentID) string { return "chat/" + string(agent) }

// begin records that a run has begun and enqueues the work on it. Twice is fine.
func begin(tx bridge.Change, b begun) error {
	there, err := tx.RunCall(b.Turn, callRun)
	if err != nil || len(there) > 0 {
		return err
	}
	if err := appendOnce(tx, bridge.RunMessage{Turn: b.Turn, Kind: bridge.RunBegunMessage, Name: b.Runtime, CallID: callRun}, b); err != nil {
		return err
	}
	root := b.Agent
	if a, err := tx.Agent(b.Agent); err == nil {
		root = a.Root
	} else if !errors.Is(err, bridge.ErrNoRow) {
		return err
	}
	return tx.Enqueue(bridge.Work{Lane: lane(b.Agent), Kind: bridge.WorkChat, Ref: string(b.Turn), Due: tx.Now(), Share: bridge.TreeShare(bridge.WorkChat, root)})
}

// errTaken says that a line is on record already: another process goes on with the run.
var errTaken = fmt.Errorf("another process goes on with this turn: %w", bridge.ErrLeaseLost)

// appendOnce writes a line of the record. errTaken when it is there.
func appendOnce(tx bridge.Change, m bridge.RunMessage, payload any) error {
	data, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("encode %s: %w", m.Kind, err)
	}
	m.Payload, m.At = string(data), tx.Now()
	seq, err := tx.AppendRunMessage(m)
	if err == nil && seq == 0 {
		return errTaken
	}
	return err
}

// finish records the end of a run and makes the engine look at it.
func finish(tx bridge.Change, now *run, e ended) error {
	e.Steps, e.WorkedMS = len(now.steps), now.worked.Milliseconds()
	e.Metered = now.opening != nil && !now.opening.Unmetered
	for _, s := range now.steps {
		for _, payload := range s.returned {
			if payload != "" {
				e.Tools++
			}
		}
		e.Metered = e.Metered && s.Metered
		e.Input, e.Output, e.Cached = e.Input+s.Input-s.Cached, e.Output+s.Output, e.Cached+s.Cached
	}
	e.Total = e.Input + e.Output + e.Cached
	if now.opening != nil {
		e.Total += now.opening.Before
	}
	if err := appendOnce(tx, bridge.RunMessage{Turn: now.Turn, Kind: bridge.RunEndedMessage, Name: now.Runtime, CallID: callRun}, e); err != nil {
		return err
	}
	return tx.WakeLane(bridge.AgentLane(now.Agent), tx.Now())
}
