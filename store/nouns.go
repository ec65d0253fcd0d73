package store

import (
	"drawbridge/bridge"
)

const agentColumns = "id, plain, role, quarantined, parent, command, root, depth, runtime, api, op_key, external, last_run, repo, ref, url, state, chat_user, trouble, join_policy, join_within, tokens, cost, unmetered, task, not_before, doing, doing_since, prompt, created_at, updated_at"

func agentArgs(a bridge.Agent) []any {
	return []any{a.ID, a.Name, a.Role, asInt(a.Quarantined), a.Parent, a.Command, a.Root, a.Depth, a.Runtime, a.API, a.OpKey, a.External, a.LastRun, a.Repo, a.Ref, a.URL,
		a.State, a.ChatUser, a.Trouble, a.Join, a.JoinWithin.Microseconds(), a.Tokens, a.CostMicros, asInt(a.Unmetered), a.Task, micros(a.NotBefore), a.Doing, micros(a.DoingSince), a.Prompt, micros(a.CreatedAt), micros(a.UpdatedAt), uniqueName(a)}
}

func scanAgent(row scanner) (a bridge.Agent, err error) {
	err = row.Scan(&a.ID, &a.Name, &a.Role, &a.Quarantined, &a.Parent, &a.Command, &a.Root, &a.Depth, &a.Runtime, &a.API, &a.OpKey, &a.External, &a.LastRun, &a.Repo, &a.Ref, &a.URL,
		&a.State, &a.ChatUser, &a.Trouble, &a.Join, microSpan{&a.JoinWithin}, &a.Tokens, &a.CostMicros, &a.Unmetered, &a.Task, microTime{&a.NotBefore}, &a.Doing, microTime{&a.DoingSince}, &a.Prompt, microTime{&a.CreatedAt}, microTime{&a.UpdatedAt})
	return a, err
}

// uniqueName is what the unique column of names holds; see agents in 00001_schema.sql. No name has the separator.
func uniqueName(a bridge.Agent) string {
	if a.Parent == "" {
		return a.Name
	}
	return a.Name + "\x1f" + string(a.Root)
}

const turnColumns = "id, agent, seq, cause, body, said, sent, depth, streak, state, run, reply, status, trouble, attempts, retry, joining, stopped, got, spent, doubt_since, created_at, sent_at, ended_at"

// turnRest are the columns of a turn but those with long texts, which seldom change.
var turnRest = without(turnColumns, "body", "sent")

func turnArgs(r bridge.Turn) []any {
	return []any{r.ID, r.Agent, r.Seq, r.Cause, saidJSON(r.Said), r.Depth, r.Streak, r.State, r.Run, r.Reply, r.Status, r.Trouble, r.Attempts, r.Retry, r.Joining, asInt(r.Stopped), asInt(r.Got), spentJSON(r.Spent),
		micros(r.DoubtSince), micros(r.CreatedAt), micros(r.SentAt), micros(r.EndedAt)}
}

func scanTurn(row scanner) (r bridge.Turn, err error) {
	err = row.Scan(&r.ID, &r.Agent, &r.Seq, &r.Cause, &r.Text, jsonText{&r.Said}, &r.Sent, &r.Depth, &r.Streak, &r.State, &r.Run, &r.Reply, &r.Status, &r.Trouble, &r.Attempts, &r.Retry, &r.Joining, &r.Stopped, &r.Got, jsonText{&r.Spent},
		microTime{&r.DoubtSince}, microTime{&r.CreatedAt}, microTime{&r.SentAt}, microTime{&r.EndedAt})
	return r, err
}

const commandColumns = "id, turn, agent, ordinal, verb, parsed, op_key, state, code, reason, canonical, runtime, api, relay, approval_key, approved, child, outcome, ended, due_at, created_at, updated_at"

func commandArgs(c bridge.Command) ([]any, error) {
	parsed, err := leanJSON(c.Parsed)
	if err != nil {
		return nil, err
	}
	outcome := ""
	if c.Outcome != nil {
		if outcome, err = toJSON(c.Outcome); err != nil {
			return nil, err
		}
	}
	return []any{c.ID, c.Turn, c.Agent, c.Ordinal, c.Parsed.Verb, parsed, c.OpKey, c.State, c.Code, c.Reason, c.Canonical, c.Runtime, c.API, c.Relay,
		c.ApprovalKey, asInt(c.Approved), c.Child, outcome, c.Ended, micros(c.Due), micros(c.CreatedAt), micros(c.UpdatedAt)}, nil
}

func scanCommand(row scanner) (c bridge.Command, err error) {
	var verb string
	c.Outcome = &bridge.CommandOutcome{}
	err = row.Scan(&c.ID, &c.Turn, &c.Agent, &c.Ordinal, &verb, jsonText{&c.Parsed}, &c.OpKey, &c.State, &c.Code, &c.Reason, &c.Canonical, &c.Runtime, &c.API, &c.Relay,
		&c.ApprovalKey, &c.Approved, &c.Child, jsonText{c.Outcome}, &c.Ended, microTime{&c.Due}, microTime{&c.CreatedAt}, microTime{&c.UpdatedAt})
	if *c.Outcome == (bridge.CommandOutcome{}) {
		c.Outcome = nil
	}
	return c, err
}
