package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/internal/httpx"
	"drawbridge/policy"
)

// LaunchRequest asks for an agent.
type LaunchRequest struct {
	// Name is unique; 1 to 64 letters, digits, dots, dashes and underscores.
	Name string `json:"name"`
	Repo string `json:"repo"`
	// Ref is where the agent starts from; empty is the default branch.
	Ref    string `json:"ref,omitempty"`
	Prompt string `json:"prompt"`
	// API is v0, v1 or empty for what the rules say.
	API string `json:"api,omitempty"`
	// Runtime is where the agent and all below it live, a name below runtimes in bridge.yaml; empty for what the configuration says.
	Runtime string `json:"runtime,omitempty"`
	// Join and JoinDeadline say how the results of several subagents come back;
	// empty for what the configuration says of the orchestrator.
	JoinRequest
}

// JoinRequest says how the results of the subagents that one turn launches come back.
type JoinRequest struct {
	// Join is each, all, any or a number.
	Join string `json:"join,omitempty"`
	// JoinDeadline is how long the agent waits at most, such as 30m; empty is an hour.
	JoinDeadline string `json:"join_deadline,omitempty"`
}

// SayRequest gives an agent a turn.
type SayRequest struct {
	Text string `json:"text"`
}

func (h *Handler) listAgents(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r, "state", "limit", "before", "forgotten", "tree")
	if err != nil {
		return err
	}
	if all := q.get("forgotten"); all != "" && all != "true" {
		return bridge.Errorf(bridge.Invalid, "forgotten is %+.20q; write forgotten=true to list forgotten agents too", all)
	}
	state, err := oneOf(q, "state", bridge.AgentEdges)
	if err != nil {
		return err
	}
	limit, err := q.limit()
	if err != nil {
		return err
	}
	var list AgentList
	var root bridge.AgentID
	if tree := q.get("tree"); tree != "" {
		a, err := h.agentBy(r.Context(), tree)
		if err != nil {
			return err
		}
		root = a.Root
	}
	err = h.o.Engine.View(r.Context(), func(tx *bridge.Scene) error {
		found, err := tx.Agents(bridge.AgentFilter{State: state, Root: root, Known: q.get("forgotten") == "", Before: bridge.AgentID(q.get("before")), Limit: limit + 1})
		if err != nil {
			return err
		}
		page, more := cut(found, limit)
		if list.Agents, err = h.detailed(tx, page...); more {
			list.Next = string(page[len(page)-1].ID)
		}
		return err
	})
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, list)
	return nil
}

// cut drops the extra row that was read to learn whether there is more.
func cut[T any](rows []T, limit int) (page []T, more bool) {
	return rows[:min(len(rows), limit)], len(rows) > limit
}

func (h *Handler) launch(w http.ResponseWriter, r *http.Request) error {
	var req LaunchRequest
	if err := readExact(w, r, &req); err != nil {
		return err
	}
	if err := checkLine("ref", req.Ref, 255); err != nil {
		return err
	}
	spec := engine.Spec{Name: req.Name, Role: h.roleOf(req.Repo), Repo: req.Repo, Ref: req.Ref, Prompt: req.Prompt, API: req.API}
	spec.Runtime, spec.Blocks = h.o.Runtime(req.Name, spec.Role), h.o.Blocks(req.Name, spec.Role)
	spec.Runtime = cmp.Or(req.Runtime, spec.Runtime)
	var err error
	if spec.Join, spec.JoinWithin, err = req.join(); err != nil {
		return err
	}
	if spec.Join == "" {
		spec.Join, spec.JoinWithin = h.o.Join(req.Name, spec.Role)
	}
	a, t, err := h.o.Engine.LaunchAgent(r.Context(), spec)
	if err != nil {
		return err
	}
	note(r, a.ID, t.ID)
	httpx.WriteJSON(w, http.StatusCreated, Launched{Agent: viewAgent(a), Turn: viewTurn(t)})
	return nil
}

// note puts the ids into the request's log line.
func note(r *http.Request, agent bridge.AgentID, turn bridge.TurnID) {
	rec := httpx.RecordOf(r.Context())
	rec.Add("agent", string(agent))
	rec.Add("turn", string(turn))
}

// roleOf is what narrows an agent on a repository besides its name.
func (h *Handler) roleOf(repo string) string {
	canonical, err := policy.CanonicalRepo(repo)
	if err != nil {
		return "" // it is refused for that
	}
	return h.o.Roles(string(canonical))
}

// findAgent finds the agent of the path.
func (h *Handler) findAgent(r *http.Request) (bridge.Agent, error) {
	key, err := pathValue(r, "id")
	if err != nil {
		return bridge.Agent{}, err
	}
	return h.agentBy(r.Context(), key)
}

// agentBy finds an agent by id, name or external id.
func (h *Handler) agentBy(ctx context.Context, key string) (bridge.Agent, error) {
	if len(key) > 200 {
		return bridge.Agent{}, bridge.Errorf(bridge.NotFound, "the agent's id or name has %d bytes; at most 200 are allowed", len(key))
	}
	a, err := h.o.Engine.FindAgent(ctx, key)
	if bridge.KindOf(err) != bridge.NotFound {
		return a, err
	}
	external, extErr := h.lookUp(ctx, bridge.ByExternal, key)
	if errors.Is(extErr, bridge.ErrNoRow) {
		return bridge.Agent{}, err
	}
	return external, extErr
}

func (h *Handler) lookUp(ctx context.Context, by bridge.AgentBy, value string) (a bridge.Agent, err error) {
	err = h.o.Engine.View(ctx, func(tx *bridge.Scene) error {
		a, err = tx.FindAgent(by, value)
		return err
	})
	return a, err
}

func (h *Handler) getAgent(w http.ResponseWriter, r *http.Request) error {
	a, err := h.findAgent(r)
	if err != nil {
		return err
	}
	return h.writeAgent(w, r, a)
}

func (h *Handler) listTurns(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r, "state", "limit", "before")
	if err != nil {
		return err
	}
	f := bridge.TurnFilter{}
	if f.State, err = oneOf(q, "state", bridge.TurnEdges); err != nil {
		return err
	}
	limit, err := q.limit()
	if err != nil {
		return err
	}
	f.Limit = limit + 1
	if f.Before, err = q.number("before", 0, 1); err != nil {
		return err
	}
	a, err := h.findAgent(r)
	if err != nil {
		return err
	}
	f.Agent = a.ID
	var found []bridge.Turn
	err = h.o.Engine.View(r.Context(), func(tx *bridge.Scene) (err error) {
		found, err = tx.Turns(f)
		return err
	})
	if err != nil {
		return err
	}
	page, more := cut(found, limit)
	list := TurnList{Turns: viewAll(page, viewTurnInList)}
	if more {
		list.Next = strconv.FormatInt(page[len(page)-1].Seq, 10)
	}
	httpx.WriteJSON(w, http.StatusOK, list)
	return nil
}

func (h *Handler) say(w http.ResponseWriter, r *http.Request) error {
	var req SayRequest
	if err := readExact(w, r, &req); err != nil {
		return err
	}
	a, err := h.findAgent(r)
	if err != nil {
		return err
	}
	t, err := h.o.Engine.Say(r.Context(), a.ID, req.Text)
	if err != nil {
		return err
	}
	note(r, a.ID, t.ID)
	httpx.WriteJSON(w, http.StatusCreated, viewTurn(t))
	return nil
}

func (h *Handler) getTurn(w http.ResponseWriter, r *http.Request) error {
	id, err := pathValue(r, "id")
	if err != nil {
		return err
	}
	var t bridge.Turn
	var a bridge.Agent
	var commands []bridge.Command
	err = h.o.Engine.View(r.Context(), func(tx *bridge.Scene) (err error) {
		if t, err = tx.Turn(bridge.TurnID(id)); err != nil {
			return err
		}
		if a, err = tx.Agent(t.Agent); err != nil {
			return err
		}
		commands, err = tx.Commands(bridge.CommandFilter{Turn: t.ID, Limit: maxLimit})
		return err
	})
	if errors.Is(err, bridge.ErrNoRow) {
		return bridge.Errorf(bridge.NotFound, "no turn %+.60q", id)
	}
	if err != nil {
		return err
	}
	v := viewTurn(t)
	v.Commands = viewAll(commands, func(c bridge.Command) Command {
		one := viewCommand(c)
		if o := one.Outcome; o != nil { // each may have half a megabyte
			o.Stdout, o.Stderr = firstRunes(o.Stdout, maxListed), firstRunes(o.Stderr, maxListed)
		}
		return one
	})
	for _, m := range h.o.Engine.Misread(a, t) {
		v.NearMisses = append(v.NearMisses, NearMiss{Line: m.Line, Code: m.Code, Reason: m.Reason})
	}
	httpx.WriteJSON(w, http.StatusOK, v)
	return nil
}

// continueTurn, sayAgain and giveUp take a person's word about a turn that ended badly.
func (h *Handler) continueTurn(w http.ResponseWriter, r *http.Request) error {
	return onTurn(w, r, h.o.Engine.Continue)
}

func (h *Handler) sayAgain(w http.ResponseWriter, r *http.Request) error {
	return onTurn(w, r, h.o.Engine.SayAgain)
}

func (h *Handler) giveUp(w http.ResponseWriter, r *http.Request) error {
	return onTurn(w, r, h.o.Engine.GiveUp)
}

func (h *Handler) stopTurn(w http.ResponseWriter, r *http.Request) error {
	return onTurn(w, r, h.o.Engine.StopTurn)
}

func onTurn(w http.ResponseWriter, r *http.Request, do func(context.Context, bridge.TurnID) (bridge.Turn, error)) error {
	id, err := pathValue(r, "id")
	if err != nil {
		return err
	}
	if err := readOptional(w, r, &struct{}{}); err != nil {
		return err
	}
	t, err := do(r.Context(), bridge.TurnID(id))
	if err != nil {
		return err
	}
	note(r, t.Agent, t.ID)
	httpx.WriteJSON(w, http.StatusOK, viewTurn(t))
	return nil
}
