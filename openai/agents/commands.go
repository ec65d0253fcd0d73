package agents

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/bridge/words"
	"drawbridge/openai/upstream"
)

// Acting is what a Commander needs of the engine. Its methods are safe for concurrent use.
type Acting interface {
	bridge.Steps
	// FindAgent finds an agent by id or name.
	FindAgent(ctx context.Context, idOrName string) (bridge.Agent, error)
	// Act has a text pass parser and gate as an agent's, once under an id.
	Act(ctx context.Context, id bridge.AgentID, w engine.Answer) error
}

// Commander lets answers of models act as the agent that a token names. It is for backends whose text is data; the text of an agent
// passes the gate by itself. Safe for concurrent use, but for two calls with one session's State.
type Commander struct{ e Acting }

// NewCommander returns a Commander.
func NewCommander(e Acting) *Commander { return &Commander{e} }

// Spoken is an answer that may command.
type Spoken struct {
	// Agent is the name or id that the token names, Token the token's own name.
	Agent, Token string
	// Session and Turn are the door's ids. A repeat with the same Turn does nothing.
	Session, Turn string
	// Messages are all of the request: what the model read.
	Messages []upstream.Message
	// Text is the whole answer, and Finish why it ended. Only an answer that ended by itself ("stop") commands.
	Text, Finish string
	State        upstream.State
}

// spokenTurns is what a session remembers of its answers with commands.
type spokenTurns struct {
	Turns []spokenTurn `json:"turns"`
}

type spokenTurn struct {
	ID bridge.TurnID `json:"id"`
	// Failed says why nothing of it ran.
	Failed string `json:"failed,omitempty"`
	// Told is how far each command was when its outcome was told.
	Told map[bridge.CommandID]string `json:"told,omitempty"`
}

const spokenKey = "agent commands"

// maxSpoken bounds how many answers of a session wait for outcomes; the oldest are left out.
const maxSpoken = 100

// Act has an answer pass parser and gate. Nothing of an answer runs that was cut off, or as an agent that may not act; Outcomes says why, and the error is nil. All
// that the model read is outside text, its earlier answers too, because the caller sends them.
func (c *Commander) Act(ctx context.Context, s Spoken) error {
	if s.Finish != "stop" || strings.TrimSpace(s.Text) == "" {
		return nil
	}
	sum := sha256.Sum256([]byte("drawbridge answer\n" + s.Session + "\n" + s.Turn))
	turn := spokenTurn{ID: engine.SpokenMark + bridge.TurnID(hex.EncodeToString(sum[:13]))}
	all, err := loadSpoken(ctx, s.State)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all.Turns, func(t spokenTurn) bool { return t.ID == turn.ID && t.Failed != "" }) {
		return nil
	}
	if err := all.keep(ctx, s.State, turn); err != nil { // first, so that no outcome is lost
		return err
	}
	var read strings.Builder
	for _, m := range s.Messages {
		read.WriteString(m.Text + "\n\n")
	}
	a, err := c.e.FindAgent(ctx, s.Agent)
	if err == nil {
		err = c.e.Act(ctx, a.ID, engine.Answer{Turn: turn.ID, Author: "the caller " + s.Token, Read: read.String(), Text: s.Text})
	}
	if kind := bridge.KindOf(err); kind != bridge.Conflict && kind != bridge.NotFound {
		return err
	}
	turn.Failed = plain(bridge.SafeMessage(err))
	return all.keep(ctx, s.State, turn)
}

func loadSpoken(ctx context.Context, state upstream.State) (all spokenTurns, err error) {
	raw, err := state.Get(ctx, spokenKey)
	if err != nil || raw == nil {
		return all, err
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return all, fmt.Errorf("read the commands of the session: %w", err)
	}
	return all, nil
}

// keep records a turn in the place of what was there under its id.
func (all *spokenTurns) keep(ctx context.Context, state upstream.State, turn spokenTurn) error {
	if at := slices.IndexFunc(all.Turns, func(t spokenTurn) bool { return t.ID == turn.ID }); at >= 0 {
		turn.Told = all.Turns[at].Told
		all.Turns[at] = turn
	} else {
		all.Turns = append(all.Turns, turn)
	}
	all.Turns = all.Turns[max(0, len(all.Turns)-maxSpoken):]
	return all.save(ctx, state)
}

func (all *spokenTurns) save(ctx context.Context, state upstream.State) error {
	raw, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return state.Put(ctx, spokenKey, raw)
}

// Outcomes says what came of commands in earlier answers of a session since told was called last, "" for nothing. It opens the session's next answer; the
// door calls told when that answer is on record. What others wrote in it stands behind bars.
func (c *Commander) Outcomes(ctx context.Context, state upstream.State) (text string, told func(context.Context) error, err error) {
	none := func(context.Context) error { return nil }
	all, err := loadSpoken(ctx, state)
	if err != nil || len(all.Turns) == 0 {
		return "", none, err
	}
	var lines []string
	after := spokenTurns{}
	err = c.e.View(ctx, func(tx *bridge.Scene) error {
		lines, after.Turns = nil, nil
		for _, t := range all.Turns {
			said, left, err := t.outcomes(tx)
			if err != nil {
				return err
			}
			lines = append(lines, said...)
			if left != nil {
				after.Turns = append(after.Turns, *left)
			}
		}
		return nil
	})
	if err != nil {
		return "", none, err
	}
	told = func(ctx context.Context) error { return after.save(ctx, state) }
	if len(lines) > 0 {
		text = "Outcomes of commands in earlier answers:\n\n" + strings.Join(lines, "\n") + "\n\n"
	}
	return text, told, nil
}

// outcomes are the news of one answer, and what of it is left to tell; nil is nothing.
func (t spokenTurn) outcomes(tx *bridge.Scene) (lines []string, left *spokenTurn, err error) {
	if t.Failed != "" {
		return []string{"- no command of one earlier answer ran: " + t.Failed}, nil, nil
	}
	commands, err := tx.Commands(bridge.CommandFilter{Turn: t.ID, Limit: 1000})
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(commands, func(a, b bridge.Command) int { return a.Ordinal - b.Ordinal })
	now := spokenTurn{ID: t.ID, Told: map[bridge.CommandID]string{}}
	open := false
	for _, m := range commands {
		how, ended := standing(m)
		now.Told[m.ID] = how
		open = open || !ended
		if t.Told[m.ID] == how {
			continue
		}
		line, err := outcomeOf(tx, m, how, ended)
		if err != nil {
			return nil, nil, err
		}
		lines = append(lines, line)
	}
	if open {
		left = &now
	}
	return lines, left, nil
}

// standing says in a few words how far a command is, and whether that is its end.
func standing(m bridge.Command) (how string, ended bool) {
	reason := ""
	if m.Reason != "" && m.Code != bridge.CodeRelayApproval { // what a relay shows of its machine is for persons
		reason = ": " + plain(m.Reason)
	}
	switch {
	case m.State == bridge.CommandHeld:
		return "waits for a person" + reason, false
	case m.State == bridge.CommandUncertain:
		return "uncertain, and a person has to look" + reason, false
	case m.State.Open(), m.State == bridge.CommandParsed:
		return "under way", false
	case m.Outcome != nil:
		return "ended, " + words.SafeWord(m.Outcome.Status), true
	case m.State == bridge.CommandFailed, m.Child != "", m.Approved:
		return "failed" + reason, true
	case reason == "":
		return "done", true
	}
	return "refused" + strings.Replace(reason, ": refused: ", ": ", 1), true
}

// maxOutcome bounds the texts of one outcome, in bytes.
const maxOutcome = 8 << 10

// outcomeOf is one news, with the words of a program or a subagent behind bars.
func outcomeOf(tx *bridge.Scene, m bridge.Command, how string, ended bool) (string, error) {
	line := fmt.Sprintf("- %s %s: %s", words.Where(m.Parsed.Line), words.SafeLine(words.Describe(m), 300), how)
	text := ""
	switch {
	case !ended:
	case m.Child != "":
		turns, err := tx.Turns(bridge.TurnFilter{Agent: m.Child, State: bridge.TurnReplied, Limit: 1})
		if err != nil {
			return "", err
		}
		if len(turns) > 0 {
			text = turns[0].Reply
		}
	case m.Outcome != nil:
		o := m.Outcome
		text = words.Outputs(bridge.ActionOutcome{Stdout: o.Stdout, Stderr: o.Stderr, Error: o.Error})
		if o.ExitCode != bridge.NoExitCode {
			line += fmt.Sprintf(", exit code %d", o.ExitCode)
		}
	}
	if strings.TrimSpace(text) != "" {
		line += "\n" + words.Prefix(words.Clip(text, maxOutcome))
	}
	return line, nil
}
