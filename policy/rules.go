package policy

import "time"

// RepoRule allows agents to be launched on a repository, or on every repository
// of one owner (github.com/owner/*). An exact rule beats a wildcard.
type RepoRule struct {
	Pattern  string
	Approval Approval
	// API is "v0", "v1" or "" for the configured default.
	API string
	// Runtime names the runtime besides the cloud in which agents on it live; "" leaves that to the agent that launches. A
	// pattern that is Local needs one.
	Runtime string
	// At is where the rule stands, as file:line, for messages.
	At string
}

// ActionRule allows one action of a relay. ID matches [a-z0-9][a-z0-9_.-]{0,63}.
type ActionRule struct {
	ID string
	// Relay is the relay's name, or "" when there is only one.
	Relay    string
	Approval Approval
	// Wait is how long the action waits for a relay that is away; nil means DefaultWait.
	Wait *time.Duration
	// At is where the rule stands, as file:line, for messages.
	At string
}

// DefaultWait is how long an action waits for a relay that is away, and MaxWait the most that a rule may say.
const (
	DefaultWait = time.Hour
	MaxWait     = 7 * 24 * time.Hour
)

// Waits is how long the action waits for a relay that is away.
func (r ActionRule) Waits() time.Duration {
	if r.Wait == nil {
		return DefaultWait
	}
	return *r.Wait
}

// Limits are the caps on one agent's turn and on its family. A field that is
// zero means its default; New refuses a negative one. There is no "unlimited".
type Limits struct {
	// CommandsPerTurn counts every command of a turn, refused ones too. Default 10.
	CommandsPerTurn int
	// LaunchesPerHour counts launches in the last hour and this turn's. Default 20.
	LaunchesPerHour int
	// OpenSubagents counts subagents that have not ended and this turn's. Default 10.
	OpenSubagents int
	// Depth is the deepest subagent; a root orchestrator has depth 0. Default 3.
	Depth int
	// TurnsPerChain is how many turns may follow from one another without a
	// person; the engine counts them. Default 50.
	TurnsPerChain int
	// Reminders is how many reminders of one agent may wait at a time. Default 20.
	Reminders int
	// Tree bounds the agents under one root together.
	Tree Budget
}

// withDefaults replaces every zero field.
func (l Limits) withDefaults() Limits {
	for _, f := range []struct {
		value *int
		def   int
	}{
		{&l.CommandsPerTurn, 10},
		{&l.LaunchesPerHour, 20},
		{&l.OpenSubagents, 10},
		{&l.Depth, 3},
		{&l.TurnsPerChain, 50},
		{&l.Reminders, 20},
	} {
		if *f.value == 0 {
			*f.value = f.def
		}
	}
	l.Tree = l.Tree.withDefaults()
	return l
}

// Narrowing cuts the general lists down for one agent and its descendants. A nil
// slice inherits; an empty slice that is not nil allows nothing.
type Narrowing struct {
	Repos   []string
	Actions []string
	// Tree lowers the bounds of the trees that the agent is in; 0 inherits.
	Tree Budget
	// At is where the narrowing stands, as file:line, for messages.
	At string
}

// Rules is what New compiles: the allowlist as written, and the repositories that
// the configuration adds.
type Rules struct {
	Repos   []RepoRule
	Actions []ActionRule
	Limits  Limits
	// Agents maps an agent's name to its narrowing.
	Agents map[string]Narrowing
	// OperatorRepos are the orchestrators' own repositories. Only the operator
	// launches there: no wildcard of Repos covers them for an agent, and only an
	// exact entry in Repos opens one to agents.
	OperatorRepos []string
	// Own opens an orchestrator's own repository to that orchestrator and to all below it.
	Own []OwnRule
}

// OwnRule lets the agent of this name, and its descendants, launch on the agent's own repository.
type OwnRule struct{ Agent, Repo string }

// Problem is one thing wrong with the rules, in words for the person who wrote
// them. None of its fields holds a secret.
type Problem struct {
	// At is the place, as file:line; Key is the path of the key, such as repos[3].
	At, Key string
	// Value is the value as written.
	Value string
	// Reason completes the sentence "<value> ..."; Remedy says what to do.
	Reason, Remedy string
}
