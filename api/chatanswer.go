package api

import (
	"context"
	"fmt"
	"strings"

	"drawbridge/bridge"
	"drawbridge/parser"
	"drawbridge/policy"
)

// ChatAnswer is the seed's answer to /chat; its words are the only ones that
// were ever published (facts: result words).
type ChatAnswer struct {
	// Reply is the agent's text. When the turn failed without one, it says why.
	Reply string `json:"reply"`
	// AgentID is the Cloud Agents API's id, or ours until there is one.
	AgentID string `json:"agent_id"`
	// State is the run's terminal word (FINISHED, ERROR, CANCELLED, EXPIRED),
	// or "running" when the wait ended first.
	State  string     `json:"state"`
	Parsed ChatParsed `json:"parsed"`
	// Dispatched holds those of Parsed, in their order, that have an answer.
	Dispatched ChatDispatched `json:"dispatched"`
	// Seq numbers the turn among the user's turns. Numbers grow, with gaps.
	Seq int64 `json:"seq"`
	// Cause says why the agent had the turn: launch and user are messages of the
	// user, completion and action_outcome are results that came later.
	Cause string `json:"cause"`
	// Message is what the user said; empty for other causes.
	Message string `json:"message,omitempty"`
	// Later is the path to GET for this turn, while it is running, and for each later turn.
	Later string `json:"later"`
}

// ChatParsed is what the reply asked for.
type ChatParsed struct {
	Subagents    []ParsedSubagent `json:"subagents"`
	LocalActions []ParsedAction   `json:"localActions"`
}

// ParsedSubagent is a SUBAGENT line as written.
type ParsedSubagent struct {
	Repo   string `json:"repo"`
	Prompt string `json:"prompt"`
}

// ParsedAction is a LOCAL_ACTION line as written.
type ParsedAction struct {
	ActionID string `json:"actionId"`
}

// ChatDispatched is what came of it.
type ChatDispatched struct {
	Subagents    []DispatchedSubagent `json:"subagents"`
	LocalActions []DispatchedAction   `json:"localActions"`
}

// DispatchedSubagent has status launched, skipped or error.
type DispatchedSubagent struct {
	Repo    string `json:"repo"`
	Status  string `json:"status"`
	Error   string `json:"error,omitempty"`
	AgentID string `json:"agent_id,omitempty"`
}

// DispatchedAction has status executed, skipped or error.
type DispatchedAction struct {
	ActionID       string `json:"actionId"`
	Status         string `json:"status"`
	Error          string `json:"error,omitempty"`
	ResponseStatus int    `json:"response_status,omitempty"`
	// ResponseBody is at most 500 characters.
	ResponseBody string `json:"response_body,omitempty"`
}

// The published words, and ours where there is none.
const (
	statusLaunched = "launched"
	statusExecuted = "executed"
	statusSkipped  = "skipped"
	statusError    = "error"

	stateRunning = "running"

	codeFailed    = "failed"
	codeUncertain = "uncertain"
)

// maxResponseBody is in characters (facts: result words).
const maxResponseBody = 500

// shownID is the id that the seed's clients know an agent by.
func shownID(a bridge.Agent) string {
	if a.External != "" {
		return a.External
	}
	return string(a.ID)
}

// chatState is the run's own word. A turn that failed before it had a run is an ERROR.
func chatState(t bridge.Turn) string {
	switch {
	case !t.State.Over():
		return stateRunning
	case t.Status == "":
		return string(bridge.RunError)
	}
	return string(t.Status)
}

// chatTurn is a turn of a user's agent.
type chatTurn struct {
	bridge.Turn
	user string
	// generation is the agent's, among the agents that the user has had.
	generation int
	// prompt stands before the user's first message.
	prompt string
}

// chatAnswer reads a turn again and builds its answer. done reports whether the
// turn is over and each of its commands has an answer.
func (h *Handler) chatAnswer(ctx context.Context, said chatTurn) (answer ChatAnswer, done bool, err error) {
	err = h.o.Engine.View(ctx, func(tx *bridge.Scene) (err error) {
		if said.Turn, err = tx.Turn(said.ID); err != nil {
			return fmt.Errorf("load turn %q: %w", said.ID, err)
		}
		answer, done, err = said.answer(tx)
		return err
	})
	return answer, done, err
}

// answer builds the answer for a turn, as chatAnswer does.
func (t chatTurn) answer(tx *bridge.Scene) (answer ChatAnswer, done bool, err error) {
	agent, err := tx.Agent(t.Agent)
	if err != nil {
		return answer, false, fmt.Errorf("load agent %q: %w", t.Agent, err)
	}
	answer = newChatAnswer(agent, t)
	if !t.State.Over() {
		return answer, false, nil
	}
	commands, err := tx.Commands(bridge.CommandFilter{Turn: t.ID, Limit: maxLimit})
	if err != nil {
		return answer, false, err
	}
	done = true
	for _, c := range commands {
		answered, err := answer.add(tx, c)
		if err != nil {
			return answer, false, err
		}
		done = done && answered
	}
	if answer.Later = laterPath(t.user, answer.Seq); !done {
		answer.State, answer.Later = stateRunning, laterPath(t.user, answer.Seq-1)
	}
	return answer, done, nil
}

func newChatAnswer(a bridge.Agent, t chatTurn) ChatAnswer {
	answer := ChatAnswer{
		Reply: t.Reply, AgentID: shownID(a), State: chatState(t.Turn), Seq: chatSeq(t.generation, t.Seq), Cause: string(t.Cause),
		Parsed:     ChatParsed{Subagents: []ParsedSubagent{}, LocalActions: []ParsedAction{}},
		Dispatched: ChatDispatched{Subagents: []DispatchedSubagent{}, LocalActions: []DispatchedAction{}},
	}
	answer.Later = laterPath(t.user, answer.Seq-1)
	if t.Cause == bridge.CauseLaunch || t.Cause == bridge.CauseUser {
		answer.Message = strings.TrimPrefix(t.Text, t.prompt)
	}
	if answer.Reply == "" && t.State.Over() {
		answer.Reply = t.Trouble
	}
	return answer
}

// add puts a command into the answer and reports whether it has one. Verbs that
// the seed did not publish stay out.
func (answer *ChatAnswer) add(tx *bridge.Scene, c bridge.Command) (answered bool, err error) {
	status, code := dispatched(c)
	switch c.Parsed.Verb {
	case parser.Subagent:
		answer.Parsed.Subagents = append(answer.Parsed.Subagents, ParsedSubagent{Repo: c.Parsed.Repo, Prompt: c.Parsed.Prompt})
		if status == "" {
			return false, nil
		}
		d := DispatchedSubagent{Repo: c.Parsed.Repo, Status: status, Error: code}
		if status == statusLaunched {
			child, err := tx.Agent(c.Child)
			if err != nil {
				return false, fmt.Errorf("load subagent %q: %w", c.Child, err)
			}
			d.AgentID = shownID(child)
		}
		answer.Dispatched.Subagents = append(answer.Dispatched.Subagents, d)
	case parser.LocalAction:
		answer.Parsed.LocalActions = append(answer.Parsed.LocalActions, ParsedAction{ActionID: c.Parsed.Action})
		if status == "" {
			return false, nil
		}
		d := DispatchedAction{ActionID: c.Parsed.Action, Status: status, Error: code}
		if c.Outcome != nil {
			d.ResponseStatus, d.ResponseBody = c.Outcome.HTTPStatus, firstRunes(actionBody(*c.Outcome), maxResponseBody)
		}
		answer.Dispatched.LocalActions = append(answer.Dispatched.LocalActions, d)
	}
	return true, nil
}

// dispatched says in the seed's words what came of a command; "" means nothing yet.
func dispatched(c bridge.Command) (status, code string) {
	switch c.State {
	case bridge.CommandParsed, bridge.CommandGranted, bridge.CommandSending:
		return "", ""
	case bridge.CommandUncertain:
		return statusError, codeUncertain
	case bridge.CommandHeld:
		return statusSkipped, c.Code
	case bridge.CommandConfirmed:
		return statusLaunched, ""
	}
	switch {
	case c.Outcome != nil:
		return fromOutcome(c)
	case c.Code == codeNoRunner:
		return statusError, codeNoRunner
	case c.State == bridge.CommandFailed, c.Code == "", c.Child != "", c.Approved:
		// It passed the gate, and what came after failed; a code would be an old one.
		return statusError, codeFailed
	}
	if c.Code == string(policy.CodeBadRepo) {
		return statusSkipped, string(policy.CodeRepoNotAllowed) // the seed knows one word for both
	}
	return statusSkipped, c.Code
}

// codeNoRunner is the seed's word for an action without a relay to run it.
const codeNoRunner = "missing_local_action_runner"

// fromOutcome reads the end of a command that was carried out. What became of
// a subagent's run is not asked here: it was launched.
func fromOutcome(c bridge.Command) (status, code string) {
	if c.Parsed.Verb == parser.Subagent {
		return statusLaunched, ""
	}
	switch bridge.ActionStatus(c.Outcome.Status) {
	case bridge.ActionExecuted:
		return statusExecuted, ""
	case bridge.ActionRefused:
		return statusSkipped, string(policy.CodeActionNotAllowed) // by the relay's own list
	}
	return statusError, c.Outcome.Status
}

// actionBody is what an action said, or why it said nothing.
func actionBody(o bridge.CommandOutcome) string {
	for _, text := range []string{o.Stdout, o.Stderr, o.Error} {
		if text != "" {
			return text
		}
	}
	return ""
}
