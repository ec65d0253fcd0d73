package api

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// Asked is a question to a person at a relay's machine that is open: may an action run?
type Asked struct {
	// Command and Action say what the question is about.
	Command string `json:"command"`
	Action  string `json:"action"`
	Relay   string `json:"relay"`
	// Since is when the person was asked. Without an answer by Until the answer is no.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// AwaySince is since when the relay is not connected, absent while it is.
	AwaySince time.Time `json:"away_since,omitzero"`
	// Text says all of this in words.
	Text string `json:"text"`
}

func viewAsked(q bridge.MachineQuestion) Asked {
	return Asked{Command: string(q.Command), Action: q.Action, Relay: q.Relay, Since: q.Since, Until: q.Until, AwaySince: q.AwaySince, Text: q.String()}
}

// viewAsking is viewCommand with the question that is open about the command, nil for none.
func viewAsking(c bridge.Command, q *bridge.MachineQuestion) Command {
	v := viewCommand(c)
	v.ask(c, q)
	return v
}

// ask adds the question that is open about c.
func (v *Command) ask(c bridge.Command, q *bridge.MachineQuestion) {
	if q != nil {
		asked := viewAsked(*q)
		v.Asked, v.Reason = &asked, c.ShownWith(q)
	}
}

// askedAbout finds the questions that are open about commands.
func (h *Handler) askedAbout(tx *bridge.Scene, commands []bridge.Command) (map[bridge.CommandID]*bridge.MachineQuestion, error) {
	found := map[bridge.CommandID]*bridge.MachineQuestion{}
	for _, c := range commands {
		q, err := bridge.AskedAbout(tx, c, h.o.Now())
		if err != nil {
			return nil, err
		}
		if q != nil {
			found[c.ID] = q
		}
	}
	return found, nil
}

// writeAgent answers with an agent as detailed shows it.
func (h *Handler) writeAgent(w http.ResponseWriter, r *http.Request, a bridge.Agent) error {
	var one []Agent
	err := h.o.Engine.View(r.Context(), func(tx *bridge.Scene) (err error) {
		one, err = h.detailed(tx, a)
		return err
	})
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, one[0])
	return nil
}

// detailed shows agents with what people at machines are asked for them.
func (h *Handler) detailed(tx *bridge.Scene, agents ...bridge.Agent) ([]Agent, error) {
	asked, err := bridge.AllAsked(tx, h.o.Now())
	if err != nil {
		return nil, err
	}
	views := viewAll(agents, viewAgent)
	for i, a := range agents {
		if questions := asked[a.ID]; len(questions) > 0 {
			views[i].Asked = viewAll(questions, viewAsked)
		}
	}
	return views, nil
}

// askedIn lists what people at machines are asked for the agents of a tree, by command.
func (h *Handler) askedIn(tx *bridge.Scene, root bridge.AgentID) (list []Asked, err error) {
	all, err := bridge.AllAsked(tx, h.o.Now())
	for id, questions := range all {
		a, err := tx.Agent(id)
		if err != nil {
			return nil, err
		}
		if a.Root == root {
			list = append(list, viewAll(questions, viewAsked)...)
		}
	}
	slices.SortFunc(list, func(a, b Asked) int { return strings.Compare(a.Command, b.Command) })
	return list, err
}
