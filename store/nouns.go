package store

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/parser"
)

const agentColumns = "id, plain, role, quarantined, parent, command, root, depth, api, op_key, external, last_run, repo, ref, url, state, chat_user, trouble, join_policy, join_within, tokens, cost, unmetered, task, created_at, updated_at"

var (
	insertAgent = insertSQL("agents", agentColumns+", name, turn_seq")
	updateAgent = updateSQL("agents", agentColumns+", name")
)

func agentArgs(a bridge.Agent) []any {
	return []any{a.ID, a.Name, a.Role, asInt(a.Quarantined), a.Parent, a.Command, a.Root, a.Depth, a.API, a.OpKey, a.External, a.LastRun, a.Repo, a.Ref, a.URL,
		a.State, a.ChatUser, a.Trouble, a.Join, a.JoinWithin.Microseconds(), a.Tokens, a.CostMicros, asInt(a.Unmetered), a.Task, micros(a.CreatedAt), micros(a.UpdatedAt), uniqueName(a)}
}

func scanAgent(row scanner) (a bridge.Agent, err error) {
	err = row.Scan(&a.ID, &a.Name, &a.Role, &a.Quarantined, &a.Parent, &a.Command, &a.Root, &a.Depth, &a.API, &a.OpKey, &a.External, &a.LastRun, &a.Repo, &a.Ref, &a.URL,
		&a.State, &a.ChatUser, &a.Trouble, &a.Join, microSpan{&a.JoinWithin}, &a.Tokens, &a.CostMicros, &a.Unmetered, &a.Task, microTime{&a.CreatedAt}, microTime{&a.UpdatedAt})
	return a, err
}

// uniqueName is what the unique column of names holds: see migration 23. No name has the separator.
func uniqueName(a bridge.Agent) string {
	if a.Parent == "" {
		return a.Name
	}
	return a.Name + "\x1f" + string(a.Root)
}

// InsertAgent implements bridge.AgentTx.
func (t *tx) InsertAgent(a bridge.Agent) error {
	if a.Parent != "" {
		if root, err := t.Agent(a.Root); err == nil && root.Name == a.Name {
			return conflict(a, errRootsName)
		}
	}
	t.kept.agents.change(a.ID)
	err := t.exec(insertAgent, append(agentArgs(a), 0)...)
	if isUnique(err) {
		return conflict(a, err)
	}
	return err
}

// errRootsName is a name that only the tree's root has.
var errRootsName = errors.New("agents.name")

// conflict says which of an agent's unique fields is taken.
func conflict(a bridge.Agent, err error) error {
	if text := err.Error(); strings.Contains(text, "agents.name") || strings.Contains(text, "agents_name_key") {
		return bridge.Errorf(bridge.Conflict, "an agent named %q exists already; choose another name", a.Name)
	}
	return &bridge.Error{Kind: bridge.Conflict, Message: "an agent with this id, external id or chat user exists already", Cause: err}
}

// UpdateAgent implements bridge.AgentTx.
func (t *tx) UpdateAgent(a bridge.Agent) error {
	t.kept.agents.change(a.ID)
	return t.execOne(bridge.ErrNoRow, updateAgent, agentArgs(a)...)
}

// Agent implements bridge.AgentTx.
func (t *tx) Agent(id bridge.AgentID) (bridge.Agent, error) {
	return readKept(&t.kept.agents, id, func() (bridge.Agent, error) {
		return selectOne(t, scanAgent, "SELECT "+agentColumns+" FROM agents WHERE id = $1", id)
	})
}

// FindAgent implements bridge.AgentTx.
func (t *tx) FindAgent(by bridge.AgentBy, value string) (bridge.Agent, error) {
	switch by {
	case bridge.ByName, bridge.ByExternal, bridge.ByChatUser:
	default:
		return bridge.Agent{}, fmt.Errorf("find agent by %q", by)
	}
	if value == "" {
		return bridge.Agent{}, bridge.ErrNoRow
	}
	if by == bridge.ByName {
		return t.findByName(value)
	}
	// The partial indexes are used only when the query says that the column is not empty.
	return selectOne(t, scanAgent, "SELECT "+agentColumns+" FROM agents WHERE "+string(by)+" = $1 AND "+string(by)+" <> ''", value)
}

// findByName prefers the root of that name, and refuses to choose between trees.
func (t *tx) findByName(name string) (bridge.Agent, error) {
	a, err := selectOne(t, scanAgent, "SELECT "+agentColumns+" FROM agents WHERE name = $1 AND parent = ''", name)
	if !errors.Is(err, bridge.ErrNoRow) {
		return a, err
	}
	all, err := selectAll(t, scanAgent, "SELECT "+agentColumns+" FROM agents WHERE plain = $1 ORDER BY id LIMIT 10", name)
	if err != nil {
		return a, err
	}
	return bridge.OnlyAgent(name, all)
}

// Agents implements bridge.AgentTx.
func (t *tx) Agents(f bridge.AgentFilter) ([]bridge.Agent, error) {
	var w where
	if f.Name != "" {
		if f.Root == "" {
			return nil, errors.New("agents by name need a root")
		}
	}
	add(&w, "plain =", f.Name)
	add(&w, "root =", f.Root)
	add(&w, "parent =", f.Parent)
	add(&w, "state =", f.State)
	add(&w, "id <", f.Before)
	if f.Known {
		w.conditions = append(w.conditions, "plain NOT LIKE '%~%'")
	}
	tail, args := w.sql("id DESC", f.Limit)
	return selectAll(t, scanAgent, "SELECT "+agentColumns+" FROM agents"+tail, args...)
}

// CountOpenSubagents implements bridge.AgentTx.
func (t *tx) CountOpenSubagents(root bridge.AgentID) (int, error) {
	query, args := "SELECT count(*) FROM agents WHERE parent <> '' AND state IN ('busy', 'waiting')", []any{}
	if root != "" {
		query, args = query+" AND root = $1", []any{root}
	}
	n, err := selectOne(t, scanInt, query, args...)
	return int(n), err
}

const turnColumns = "id, agent, seq, cause, body, said, sent, depth, streak, state, run, reply, status, trouble, attempts, retry, joining, doubt_since, created_at, sent_at, ended_at"

var (
	insertTurn = insertSQL("turns", turnColumns)
	updateTurn = updateSQL("turns", turnColumns)
)

func turnArgs(r bridge.Turn) []any {
	return []any{r.ID, r.Agent, r.Seq, r.Cause, r.Text, saidJSON(r.Said), r.Sent, r.Depth, r.Streak, r.State, r.Run, r.Reply, r.Status, r.Trouble, r.Attempts, r.Retry, r.Joining,
		micros(r.DoubtSince), micros(r.CreatedAt), micros(r.SentAt), micros(r.EndedAt)}
}

func scanTurn(row scanner) (r bridge.Turn, err error) {
	err = row.Scan(&r.ID, &r.Agent, &r.Seq, &r.Cause, &r.Text, jsonText{&r.Said}, &r.Sent, &r.Depth, &r.Streak, &r.State, &r.Run, &r.Reply, &r.Status, &r.Trouble, &r.Attempts, &r.Retry, &r.Joining,
		microTime{&r.DoubtSince}, microTime{&r.CreatedAt}, microTime{&r.SentAt}, microTime{&r.EndedAt})
	return r, err
}

// InsertTurn implements bridge.TurnTx. The number comes from the agent's own
// counter, taken in the same transaction, so that order never depends on
// whose insert commits first.
func (t *tx) InsertTurn(r bridge.Turn) (int64, error) {
	seq, err := selectOne(t, scanInt, "UPDATE agents SET turn_seq = turn_seq + 1 WHERE id = $1 RETURNING turn_seq", r.Agent)
	if err != nil {
		return 0, err
	}
	r.Seq = seq
	t.kept.changeTurn(r.Agent)
	return seq, t.exec(insertTurn, turnArgs(r)...)
}

// UpdateTurn implements bridge.TurnTx.
func (t *tx) UpdateTurn(r bridge.Turn) error {
	t.kept.changeTurn(r.Agent)
	return t.execOne(bridge.ErrNoRow, updateTurn, turnArgs(r)...)
}

// Turn implements bridge.TurnTx.
func (t *tx) Turn(id bridge.TurnID) (bridge.Turn, error) {
	return selectOne(t, scanTurn, "SELECT "+turnColumns+" FROM turns WHERE id = $1", id)
}

// OpenTurn implements bridge.TurnTx.
func (t *tx) OpenTurn(agent bridge.AgentID) (bridge.Turn, error) {
	return selectOne(t, scanTurn, "SELECT "+turnColumns+" FROM turns WHERE agent = $1 AND state NOT IN ('replied', 'failed') ORDER BY seq LIMIT 1", agent)
}

func scanTurnHead(row scanner) (h bridge.TurnHead, err error) {
	err = row.Scan(&h.ID, &h.State, &h.Depth)
	return h, err
}

// CurrentTurn implements bridge.TurnTx.
func (t *tx) CurrentTurn(agent bridge.AgentID) (bridge.TurnHead, error) {
	current, err := readKept(&t.kept.current, agent, func() (currentTurn, error) {
		h, err := selectOne(t, scanTurnHead, "SELECT id, state, depth FROM turns WHERE agent = $1 AND state NOT IN ('replied', 'failed') AND state <> 'queued' ORDER BY seq LIMIT 1", agent)
		if errors.Is(err, bridge.ErrNoRow) {
			h, err = selectOne(t, scanTurnHead, "SELECT id, state, depth FROM turns WHERE agent = $1 AND state <> 'queued' ORDER BY seq DESC LIMIT 1", agent)
		}
		if errors.Is(err, bridge.ErrNoRow) {
			return currentTurn{}, nil
		}
		return currentTurn{h, true}, err
	})
	if err == nil && !current.ok {
		err = bridge.ErrNoRow
	}
	return current.TurnHead, err
}

// HasOpenTurn implements bridge.TurnTx.
func (t *tx) HasOpenTurn(agent bridge.AgentID) (bool, error) {
	return readKept(&t.kept.open, agent, func() (bool, error) {
		found, err := selectAll(t, scanInt, "SELECT 1 FROM turns WHERE agent = $1 AND state NOT IN ('replied', 'failed') LIMIT 1", agent)
		return len(found) > 0, err
	})
}

// Turns implements bridge.TurnTx.
func (t *tx) Turns(f bridge.TurnFilter) ([]bridge.Turn, error) {
	var w where
	add(&w, "agent =", f.Agent)
	add(&w, "state =", f.State)
	add(&w, "seq <", f.Before)
	add(&w, "seq >", f.After)
	order := "seq"
	if f.Agent == "" {
		order = "id"
	}
	if !f.Oldest {
		order += " DESC"
	}
	tail, args := w.sql(order, f.Limit)
	return selectAll(t, scanTurn, "SELECT "+turnColumns+" FROM turns"+tail, args...)
}

const commandColumns = "id, turn, agent, ordinal, verb, parsed, op_key, state, code, reason, canonical, api, relay, approval_key, approved, child, outcome, due_at, created_at, updated_at"

var (
	insertCommand = insertSQL("commands", commandColumns+", launched_at")
	updateCommand = updateSQL("commands", commandColumns)
)

func commandArgs(c bridge.Command) ([]any, error) {
	parsed, err := toJSON(c.Parsed)
	if err != nil {
		return nil, err
	}
	outcome := ""
	if c.Outcome != nil {
		if outcome, err = toJSON(c.Outcome); err != nil {
			return nil, err
		}
	}
	return []any{c.ID, c.Turn, c.Agent, c.Ordinal, c.Parsed.Verb, parsed, c.OpKey, c.State, c.Code, c.Reason, c.Canonical, c.API, c.Relay,
		c.ApprovalKey, asInt(c.Approved), c.Child, outcome, micros(c.Due), micros(c.CreatedAt), micros(c.UpdatedAt)}, nil
}

func scanCommand(row scanner) (c bridge.Command, err error) {
	var verb string
	c.Outcome = &bridge.CommandOutcome{}
	err = row.Scan(&c.ID, &c.Turn, &c.Agent, &c.Ordinal, &verb, jsonText{&c.Parsed}, &c.OpKey, &c.State, &c.Code, &c.Reason, &c.Canonical, &c.API, &c.Relay,
		&c.ApprovalKey, &c.Approved, &c.Child, jsonText{c.Outcome}, microTime{&c.Due}, microTime{&c.CreatedAt}, microTime{&c.UpdatedAt})
	if *c.Outcome == (bridge.CommandOutcome{}) {
		c.Outcome = nil
	}
	return c, err
}

// InsertCommand implements bridge.CommandTx.
func (t *tx) InsertCommand(c bridge.Command) error {
	args, err := commandArgs(c)
	if err != nil {
		return err
	}
	return t.exec(insertCommand, append(args, launchedAt(c))...)
}

// launchedAt is when a SUBAGENT was granted, 0 while it is not. A command that
// a person lets pass an hour later counts as a launch of that later time.
func launchedAt(c bridge.Command) int64 {
	if c.Child == "" {
		return 0
	}
	return micros(c.UpdatedAt)
}

// UpdateCommand implements bridge.CommandTx.
func (t *tx) UpdateCommand(c bridge.Command) error {
	args, err := commandArgs(c)
	if err != nil {
		return err
	}
	if err := t.execOne(bridge.ErrNoRow, updateCommand, args...); err != nil || c.Child == "" {
		return err
	}
	return t.exec("UPDATE commands SET launched_at = $2 WHERE id = $1 AND launched_at = 0", c.ID, launchedAt(c))
}

// Command implements bridge.CommandTx.
func (t *tx) Command(id bridge.CommandID) (bridge.Command, error) {
	return selectOne(t, scanCommand, "SELECT "+commandColumns+" FROM commands WHERE id = $1", id)
}

// Commands implements bridge.CommandTx.
func (t *tx) Commands(f bridge.CommandFilter) ([]bridge.Command, error) {
	var w where
	add(&w, "agent =", f.Agent)
	add(&w, "turn =", f.Turn)
	add(&w, "state =", f.State)
	add(&w, "verb =", f.Verb)
	add(&w, "id <", f.Before)
	order := "id DESC"
	if f.Turn != "" {
		order = "ordinal"
	}
	tail, args := w.sql(order, f.Limit)
	return selectAll(t, scanCommand, "SELECT "+commandColumns+" FROM commands"+tail, args...)
}

// CountLaunches implements bridge.CommandTx.
func (t *tx) CountLaunches(since time.Time) (int, error) {
	n, err := selectOne(t, scanInt, "SELECT count(*) FROM commands WHERE child <> '' AND launched_at >= $1", micros(since))
	return int(n), err
}

// CountOpenCommands implements bridge.CommandTx.
func (t *tx) CountOpenCommands(agent bridge.AgentID, verb parser.Verb) (int, error) {
	query, args := "SELECT count(*) FROM commands WHERE agent = $1 AND state IN ('held', 'granted', 'sending', 'confirmed', 'uncertain')", []any{agent}
	if verb != "" {
		query, args = query+" AND verb = $2", append(args, verb)
	}
	n, err := selectOne(t, scanInt, query, args...)
	return int(n), err
}
