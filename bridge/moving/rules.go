package moving

import (
	"errors"
	"fmt"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/parser"
	"drawbridge/policy"
)

// NoWords stands for a prompt where the policy is asked about a repository alone.
const NoWords = "go on"

// Rules say whether an agent may move. Hosts, Away and Shares are the engine's options of these names; none of them is nil.
type Rules struct {
	Policy *policy.Policy
	Hosts  func(runtime string) (relay, entry string, is bool)
	Away   func(runtime string) error
	Shares func(parent bridge.Agent, m bridge.Command) (bool, error)
}

// May says why an agent cannot be moved to a Runtime now, and what to do instead; nil when it can. Conflict where the agent is the
// reason, Invalid and Denied where the Runtime is.
func (r Rules) May(tx *bridge.Scene, a bridge.Agent, runtime string) error {
	if err := r.takesMoved(a, runtime); err != nil {
		return err
	}
	for _, check := range []func(*bridge.Scene, bridge.Agent) error{goesOn, noTurnUnderWay, nothingAsked} {
		if err := check(tx, a); err != nil {
			return err
		}
	}
	return r.sharesNothing(tx, a, runtime)
}

// takesMoved judges the Runtime, and whether the repository's rule lets the agent live there.
func (r Rules) takesMoved(a bridge.Agent, runtime string) error {
	if _, _, hosted := r.Hosts(runtime); !hosted {
		return bridge.Errorf(bridge.Invalid, "%+.60q is not a runtime of kind relay in bridge.yaml, so an agent cannot move there; `drawbridge check` lists the runtimes", runtime)
	}
	switch {
	case a.Runtime == runtime:
		return bridge.Errorf(bridge.Conflict, "agent %s lives in the runtime %s already; say something to it (`drawbridge say %s`), or name another runtime", a.Name, runtime, a.Name)
	case bridge.InCloud(a.Runtime):
		return bridge.Errorf(bridge.Conflict, "agent %s lives in the cloud, where its session and its token would live on; launch another agent in the runtime %s", a.Name, runtime)
	}
	v := r.Policy.OperatorGrant(a.Repo, NoWords)
	switch {
	case v.Decision != policy.Granted:
		return bridge.Errorf(bridge.Denied, "%s", v.Reason)
	case !bridge.InCloud(v.Runtime) && v.Runtime != runtime:
		return bridge.Errorf(bridge.Denied, "the allowlist has agents on %s live in the runtime %s; change runtime in that rule, then move the agent", a.Repo, v.Runtime)
	case bridge.InCloud(v.Runtime) && policy.Repo(a.Repo).Local():
		return bridge.Errorf(bridge.Denied, "%s is a clone on one machine; write a rule for it with runtime: %s into the allowlist, then move the agent", a.Repo, runtime)
	}
	return r.Away(runtime)
}

// goesOn judges the agent: one that has ended or was stopped does not go on anywhere.
func goesOn(tx *bridge.Scene, a bridge.Agent) error {
	switch {
	case a.Forgotten():
		return bridge.Errorf(bridge.Conflict, "agent %s was forgotten and gets no turns; launch another one", a.ID)
	case a.Quarantined:
		return bridge.Errorf(bridge.Conflict, "agent %s gets no turns: %s; launch another one", a.Name, a.Trouble)
	case a.External == "" && !Is(a):
		return bridge.Errorf(bridge.Conflict, "agent %s has no session yet that could be moved; wait for its launch, or launch another agent", a.Name)
	case a.State == bridge.AgentDone:
		return bridge.Errorf(bridge.Conflict, "agent %s is done and has nothing to go on with; say something to it where it lives (`drawbridge say %s`), or launch another agent", a.Name, a.Name)
	}
	tree, err := tx.Tree(a.Root)
	if err != nil || !tree.Stopped() {
		return err
	}
	return bridge.Errorf(bridge.Conflict, "%s; `drawbridge resume %s` lets it go on, then move the agent", words.Stopped(tree), a.Root)
}

// nothingAsked judges the agent's commands: a question whose answer only its session can hear, and a launch that may name its workspace.
func nothingAsked(tx *bridge.Scene, a bridge.Agent) error {
	for _, state := range []bridge.CommandState{bridge.CommandHeld, bridge.CommandGranted, bridge.CommandSending, bridge.CommandConfirmed, bridge.CommandUncertain} {
		asked, err := tx.Commands(bridge.CommandFilter{Agent: a.ID, State: state, Limit: 1000})
		if err != nil {
			return err
		}
		for _, m := range asked {
			switch {
			case m.Parsed.Verb == bridge.VerbPermission:
				return bridge.Errorf(bridge.Conflict, "agent %s waits for the answer to %s, which its new session would not know; answer it with `drawbridge approve %s` or `deny`, then move the agent", a.Name, m.ID, m.ID)
			case m.Parsed.Verb == parser.Subagent && state != bridge.CommandHeld && state != bridge.CommandConfirmed:
				return bridge.Errorf(bridge.Conflict, "command %s of agent %s launches a subagent now; wait for it (`drawbridge commands --agent %s`), then move the agent", m.ID, a.Name, a.Name)
			}
		}
	}
	return nil
}

// noTurnUnderWay judges the oldest turn that is open. One that is queued and that no session ever got goes along.
func noTurnUnderWay(tx *bridge.Scene, a bridge.Agent) error {
	t, err := tx.OpenTurn(a.ID)
	switch {
	case errors.Is(err, bridge.ErrNoRow):
		return nil
	case err != nil:
		return err
	case t.State == bridge.TurnQueued && !t.GoesOn() && t.DoubtSince.IsZero():
		return nil
	case t.State == bridge.TurnUncertain:
		return bridge.Errorf(bridge.Conflict, "turn %s of agent %s is uncertain; settle it with `drawbridge give-up %s` or `drawbridge say-again %s`, then move the agent", t.ID, a.Name, t.ID, t.ID)
	case t.GoesOn():
		return bridge.Errorf(bridge.Conflict, "turn %s of agent %s was cut off and goes on; wait for its end (`drawbridge turns %s`), then move the agent. Or run `drawbridge stop` and `drawbridge resume` first", t.ID, a.Name, a.Name)
	}
	return bridge.Errorf(bridge.Conflict, "turn %s of agent %s is under way; wait for its end (`drawbridge turns %s`), then move the agent. Or run `drawbridge stop` and `drawbridge resume` first", t.ID, a.Name, a.Name)
}

// sharesNothing judges workspaces that two agents work in: one of them alone cannot leave.
func (r Rules) sharesNothing(tx *bridge.Scene, a bridge.Agent, runtime string) error {
	err := tx.EachAgent(a.Root, func(child bridge.Agent) error {
		if child.Parent != a.ID || child.Forgotten() {
			return nil
		}
		if shared, err := r.sharedWith(tx, shared{a, child, child.Runtime}); err == nil && !shared {
			return nil
		} else if err != nil && bridge.KindOf(err) != bridge.Invalid {
			return err
		}
		return bridge.Errorf(bridge.Conflict, "subagent %s works in the workspace of %s, which would stay behind; end it and forget it (`drawbridge forget %s`), then move the agent", child.Name, a.Name, child.Name)
	})
	if err != nil || a.Parent == "" {
		return err
	}
	parent, err := tx.Agent(a.Parent)
	if err != nil {
		return fmt.Errorf("load parent: %w", err)
	}
	_, err = r.sharedWith(tx, shared{parent, a, runtime})
	return err
}

// shared are a parent and its subagent, which lives in a Runtime.
type shared struct {
	parent, child bridge.Agent
	runtime       string
}

// sharedWith reports whether the subagent works in the workspace of its parent.
func (r Rules) sharedWith(tx *bridge.Scene, s shared) (bool, error) {
	m, err := tx.Command(s.child.Command)
	if err != nil {
		return false, fmt.Errorf("load the command of a launch: %w", err)
	}
	m.Runtime, m.Canonical = s.runtime, s.child.Repo
	return r.Shares(s.parent, m)
}

// LeftBehind says what becomes of the workspace of an agent that moves.
func (r Rules) LeftBehind(tx *bridge.Scene, a bridge.Agent, runtime string) (string, error) {
	if a.Parent != "" {
		parent, err := tx.Agent(a.Parent)
		if err != nil {
			return "", fmt.Errorf("load parent: %w", err)
		}
		if shared, err := r.sharedWith(tx, shared{parent, a, runtime}); err != nil || shared {
			return "it works in the workspace of its parent, as before", err
		}
	}
	relay, _, hosted := r.Hosts(a.Runtime)
	if !hosted {
		return "it had no workspace at a relay, and gets one with its next turn", nil
	}
	return fmt.Sprintf("it gets a new workspace with its next turn; the earlier one stays at relay %s with all that is in it; its commits are on a branch that begins with drawbridge/ in the listed clone there (`drawbridge workspaces`)", relay), nil
}
