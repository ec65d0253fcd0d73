package api

import (
	"errors"
	"net/http"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/internal/httpx"
	"drawbridge/internal/strictjson"
	"drawbridge/parser"
)

// ApproveRequest lets a held command pass. Without the right hash nothing passes.
type ApproveRequest struct {
	// Hash is that of what the person was shown: Command.Held.Hash.
	Hash string `json:"hash"`
}

// DenyRequest refuses a held command. An empty body is a denial without a reason.
type DenyRequest struct {
	// Reason is told to the agent; its first line, at most 300 characters.
	Reason string `json:"reason,omitempty"`
}

func (h *Handler) listCommands(w http.ResponseWriter, r *http.Request) error {
	f, limit, err := h.commandFilter(r)
	if err != nil {
		return err
	}
	if f.State == bridge.CommandHeld && f.Turn == "" {
		return h.listHeld(w, r, f, limit)
	}
	var found []bridge.Command
	names := map[bridge.AgentID]string{}
	var asked map[bridge.CommandID]*bridge.MachineQuestion
	err = h.o.Engine.View(r.Context(), func(tx *bridge.Scene) (err error) {
		if found, err = tx.Commands(f); err != nil {
			return err
		}
		if asked, err = h.askedAbout(tx, found); err != nil {
			return err
		}
		names, err = namesOf(tx, found)
		return err
	})
	if err != nil {
		return err
	}
	page, more := cut(found, limit)
	list := CommandList{Commands: viewAll(page, func(c bridge.Command) Command {
		v := viewAsking(c, asked[c.ID])
		v.AgentName = names[c.Agent]
		return v
	})}
	// A turn's commands come in order, so that "before" would leave a hole.
	if more && f.Turn == "" {
		list.Next = list.Commands[len(page)-1].ID
	}
	httpx.WriteJSON(w, http.StatusOK, list)
	return nil
}

// namesOf looks up the names of the agents that asked for commands.
func namesOf(tx *bridge.Scene, commands []bridge.Command) (map[bridge.AgentID]string, error) {
	names := map[bridge.AgentID]string{}
	for _, c := range commands {
		if _, known := names[c.Agent]; known {
			continue
		}
		a, err := tx.Agent(c.Agent)
		if err != nil {
			return nil, err
		}
		names[c.Agent] = a.Name
	}
	return names, nil
}

// maxHeldPage bounds the texts on one page of held commands, in bytes. A page has one at least.
const maxHeldPage = 4 << 20

// listHeld lists what waits for a person, each whole, and identical commands as one.
func (h *Handler) listHeld(w http.ResponseWriter, r *http.Request, f bridge.CommandFilter, limit int) error {
	all, err := h.o.Engine.Questions(r.Context(), f.Agent)
	if err != nil {
		return err
	}
	held := make([]bridge.Command, len(all))
	for i, q := range all {
		held[i] = q.Command
	}
	var asked map[bridge.AgentID][]bridge.MachineQuestion
	var names map[bridge.AgentID]string
	if err := h.o.Engine.View(r.Context(), func(tx *bridge.Scene) (err error) {
		if asked, err = bridge.AllAsked(tx, h.o.Now()); err != nil {
			return err
		}
		names, err = namesOf(tx, held)
		return err
	}); err != nil {
		return err
	}
	list, size := CommandList{Commands: []Command{}}, 0
	for _, q := range all {
		if (f.Before != "" && q.Command.ID >= f.Before) || (f.Verb != "" && q.Command.Parsed.Verb != f.Verb) {
			continue
		}
		v := viewQuestion(q)
		v.AgentName = names[q.Command.Agent]
		for _, m := range asked[q.Command.Agent] {
			if m.Command == q.Command.ID {
				v.ask(q.Command, &m)
			}
		}
		size += len(v.Held.Shown)
		if n := len(list.Commands); n == limit || (n > 0 && size > maxHeldPage) {
			list.Next = list.Commands[n-1].ID
			break
		}
		list.Commands = append(list.Commands, v)
	}
	httpx.WriteJSON(w, http.StatusOK, list)
	return nil
}

func (h *Handler) commandFilter(r *http.Request) (f bridge.CommandFilter, limit int, err error) {
	q, err := readQuery(r, "state", "verb", "agent", "turn", "limit", "before")
	if err != nil {
		return f, 0, err
	}
	if f.State, err = oneOf(q, "state", bridge.CommandEdges); err != nil {
		return f, 0, err
	}
	if f.Verb, err = oneOf(q, "verb", map[parser.Verb]bool{parser.Subagent: true, parser.LocalAction: true, parser.Remind: true, parser.WebhookResult: true, bridge.VerbPermission: true}); err != nil {
		return f, 0, err
	}
	if limit, err = q.limit(); err != nil {
		return f, 0, err
	}
	if agent := q.get("agent"); agent != "" {
		a, err := h.agentBy(r.Context(), agent)
		if err != nil {
			return f, 0, err
		}
		f.Agent = a.ID
	}
	f.Turn, f.Before = bridge.TurnID(q.get("turn")), bridge.CommandID(q.get("before"))
	f.Limit = limit + 1
	if f.Turn != "" && f.Before != "" {
		return f, 0, bridge.Errorf(bridge.Invalid, "turn and before cannot be used together; leave out before, because a turn's commands come in one list")
	}
	return f, limit, nil
}

func (h *Handler) getCommand(w http.ResponseWriter, r *http.Request) error {
	id, err := pathValue(r, "id")
	if err != nil {
		return err
	}
	var c bridge.Command
	var asked *bridge.MachineQuestion
	err = h.o.Engine.View(r.Context(), func(tx *bridge.Scene) (err error) {
		if c, err = tx.Command(bridge.CommandID(id)); err != nil {
			return err
		}
		asked, err = bridge.AskedAbout(tx, c, h.o.Now())
		return err
	})
	if errors.Is(err, bridge.ErrNoRow) {
		return bridge.Errorf(bridge.NotFound, "no command %+.60q; list them with `drawbridge commands`", id)
	}
	if err != nil {
		return err
	}
	if c.State == bridge.CommandHeld {
		if q, err := h.o.Engine.Question(r.Context(), c.ID); err == nil {
			v := viewQuestion(q)
			v.ask(q.Command, asked)
			httpx.WriteJSON(w, http.StatusOK, v)
			return nil
		} else if bridge.KindOf(err) != bridge.Conflict { // settled meanwhile
			return err
		}
	}
	httpx.WriteJSON(w, http.StatusOK, viewAsking(c, asked))
	return nil
}

// decide makes a person's decision on the command of the path and answers with
// what it is now. The body is exact and may be empty.
func decide(w http.ResponseWriter, r *http.Request, body any, act func(bridge.CommandID) (bridge.Command, error)) error {
	id, err := pathValue(r, "id")
	if err != nil {
		return err
	}
	if err := readOptional(w, r, body); err != nil {
		return err
	}
	c, err := act(bridge.CommandID(id))
	return decided(w, r, c, err)
}

func (h *Handler) approve(w http.ResponseWriter, r *http.Request) error {
	var req ApproveRequest
	return decide(w, r, &req, func(id bridge.CommandID) (bridge.Command, error) {
		return h.o.Engine.Approve(r.Context(), id, req.Hash)
	})
}

func (h *Handler) deny(w http.ResponseWriter, r *http.Request) error {
	var req DenyRequest
	return decide(w, r, &req, func(id bridge.CommandID) (bridge.Command, error) {
		return h.o.Engine.Deny(r.Context(), id, req.Reason)
	})
}

func (h *Handler) cancelReminder(w http.ResponseWriter, r *http.Request) error {
	return decide(w, r, &struct{}{}, func(id bridge.CommandID) (bridge.Command, error) {
		return h.o.Engine.CancelReminder(r.Context(), id)
	})
}

// ResolveRequest is a person's word on an uncertain command: exactly one of launched, not_launched, ran, not_ran,
// journal, told and tell.
type ResolveRequest struct {
	// Launched is the external id of the agent that is there after all.
	Launched    string `json:"launched,omitempty"`
	NotLaunched bool   `json:"not_launched,omitempty"`
	// Unchecked takes Launched as it is, when the Cloud Agents API cannot be asked; and Ran and NotRan without asking the
	// relay's journal.
	Unchecked bool `json:"unchecked,omitempty"`
	// Ran and NotRan settle an action; ExitCode goes with Ran. What the relay's journal knows counts for more.
	Ran      bool `json:"ran,omitempty"`
	ExitCode *int `json:"exit_code,omitempty"`
	NotRan   bool `json:"not_ran,omitempty"`
	// Journal settles an action by what the relay's journal says; 409 when the journal does not know.
	Journal bool `json:"journal,omitempty"`
	// Told and Tell settle a turn that stands for a run whose prompt nobody can read: the run told the agent what waits
	// for it, or it did not and that is to be told.
	Told bool `json:"told,omitempty"`
	Tell bool `json:"tell,omitempty"`
}

// RestoredRequest is a person's word on all runs whose prompts nobody can read: exactly one of told and tell, as in
// ResolveRequest.
type RestoredRequest struct {
	Told bool `json:"told,omitempty"`
	Tell bool `json:"tell,omitempty"`
}

// RestoredAnswer says how many turns a person's word has settled.
type RestoredAnswer struct {
	Settled int `json:"settled"`
}

// resolveRestored settles everything that is uncertain since a database was put back.
func (h *Handler) resolveRestored(w http.ResponseWriter, r *http.Request) error {
	var req RestoredRequest
	if err := readExact(w, r, &req); err != nil {
		return err
	}
	if req.Told == req.Tell {
		return bridge.Errorf(bridge.Invalid, "the body must hold exactly one of told: true and tell: true")
	}
	n, err := h.o.Engine.SettleRestored(r.Context(), req.Told)
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, RestoredAnswer{Settled: n})
	return nil
}

func (h *Handler) resolve(w http.ResponseWriter, r *http.Request) error {
	id, err := pathValue(r, "id")
	if err != nil {
		return err
	}
	word, err := readResolve(w, r)
	if err != nil {
		return err
	}
	if word.Told || word.Tell {
		return bridge.Errorf(bridge.Invalid, "told and tell are for a turn, not for a command; for a command write launched, not_launched, ran, not_ran or journal")
	}
	ctx, cancel := untilDraining(r.Context())
	defer cancel()
	c, err := h.o.Engine.Resolve(ctx, bridge.CommandID(id), word)
	return decided(w, r, c, err)
}

func (h *Handler) resolveTurn(w http.ResponseWriter, r *http.Request) error {
	id, err := pathValue(r, "id")
	if err != nil {
		return err
	}
	word, err := readResolve(w, r)
	if err != nil {
		return err
	}
	ctx, cancel := untilDraining(r.Context())
	defer cancel()
	t, err := h.o.Engine.ResolveTurn(ctx, bridge.TurnID(id), word)
	if err != nil {
		return err
	}
	note(r, t.Agent, t.ID)
	httpx.WriteJSON(w, http.StatusOK, viewTurn(t))
	return nil
}

// readResolve returns a person's word: what happened after all, or that nothing did.
func readResolve(w http.ResponseWriter, r *http.Request) (engine.Word, error) {
	var req ResolveRequest
	if err := readExact(w, r, &req); err != nil {
		return engine.Word{}, err
	}
	if p, _ := bridge.PersonOf(r.Context()); req.Unchecked && !p.Role.May(bridge.RoleAdmin) {
		return engine.Word{}, bridge.Errorf(bridge.Denied, "%s has the role %s, and unchecked needs the role %s; leave unchecked out, or ask an admin", p.Name, p.Role, bridge.RoleAdmin)
	}
	words := 0
	for _, said := range []bool{req.Launched != "", req.NotLaunched, req.Ran, req.NotRan, req.Journal, req.Told, req.Tell} {
		if said {
			words++
		}
	}
	switch {
	case words != 1:
		return engine.Word{}, bridge.Errorf(bridge.Invalid, "the body must hold exactly one of launched with the agent's id, not_launched, ran, not_ran, journal, told and tell")
	case req.Unchecked && (req.NotLaunched || req.Journal || req.Told || req.Tell):
		return engine.Word{}, bridge.Errorf(bridge.Invalid, "unchecked is allowed only with launched, ran or not_ran; leave it out")
	case req.ExitCode != nil && (!req.Ran || *req.ExitCode < 0 || *req.ExitCode > 255):
		return engine.Word{}, bridge.Errorf(bridge.Invalid, "exit_code must be a number from 0 to 255, and is allowed only with ran: true; correct the body")
	}
	return engine.Word{External: req.Launched, Unchecked: req.Unchecked, Ran: req.Ran, ExitCode: req.ExitCode, Journal: req.Journal, Told: req.Told, Tell: req.Tell}, nil
}

// readOptional reads an exact body that may be empty.
func readOptional(w http.ResponseWriter, r *http.Request, v any) error {
	return readJSON(w, r, v, func(body []byte, v any) error {
		if len(body) == 0 {
			return nil
		}
		return strictjson.DecodeExact(body, v)
	})
}

func decided(w http.ResponseWriter, r *http.Request, c bridge.Command, err error) error {
	if err != nil {
		return err
	}
	rec := httpx.RecordOf(r.Context())
	rec.Add("command", string(c.ID))
	rec.Add("state", string(c.State))
	httpx.WriteJSON(w, http.StatusOK, viewCommand(c))
	return nil
}
