package hosted

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"drawbridge/bridge"
	"drawbridge/internal/clip"
	"drawbridge/relay/wire"
)

// Workspace is a workspace as its relay tells of it. The relay read it from git; a bridge believes none of it.
type Workspace struct {
	// Agent is the workspace's own name: the agent's name, and a part of the id of its session.
	Agent string `json:"agent"`
	State struct {
		Path      string   `json:"path"`
		Branch    string   `json:"branch"`
		On        string   `json:"on"`
		Head      string   `json:"head"`
		Staged    int      `json:"staged"`
		Modified  int      `json:"modified"`
		Deleted   int      `json:"deleted"`
		Untracked int      `json:"untracked"`
		Names     []string `json:"names"`
		// Unfetched and Elsewhere are commits that the listed clone does not have.
		Unfetched int   `json:"unfetched"`
		Elsewhere int   `json:"elsewhere"`
		Bytes     int64 `json:"bytes"`
	} `json:"state"`
	// Clean is true when every file of the tree is in a commit. Unsaved says what would be lost with the workspace.
	Clean   bool     `json:"clean"`
	Unsaved []string `json:"unsaved"`
	// Error says why the relay could not read the workspace.
	Error string `json:"error"`
}

// peek asks the relay about workspaces.
func (r *Runtime) peek(ctx context.Context, session string, p wire.Peek) (string, error) {
	c := r.call(session, bridge.NewID("peek_"), "")
	c.Ask.Peek = p
	return r.o.Turns.PeekTurn(ctx, c)
}

// Set are the runtimes of agents that relays host, by their names. It is fixed before its methods are used.
type Set map[string]*Runtime

// Hosts reports whether a relay hosts an agent.
func (s Set) Hosts(a bridge.Agent) bool { return s[a.Runtime] != nil }

// Uncommitted returns what of an agent's workspace is in no commit, in words; "" when all is.
func (s Set) Uncommitted(ctx context.Context, a bridge.Agent) (string, error) {
	text, err := s[a.Runtime].peek(ctx, a.External, wire.Peek{What: wire.PeekState})
	if err != nil {
		return "", err
	}
	var w Workspace
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return "", bridge.Errorf(bridge.Unavailable, "the bridge cannot read the relay's answer about the workspace")
	}
	switch {
	case w.Error != "":
		return "", bridge.Errorf(bridge.Unavailable, "the relay cannot read the workspace: %+.300q", w.Error)
	case w.Clean:
		return "", nil
	}
	const shown = 10
	for _, left := range [][]string{w.State.Names, w.Unsaved} {
		if text := strings.Join(left[:min(len(left), shown)], ", "); strings.Trim(text, ", ") != "" {
			return text, nil
		}
	}
	return "the relay reports uncommitted work without details", nil
}

// File returns a file from the folder in which an agent works, at most wire.MaxPeekFile bytes. The relay follows no link and reads regular
// files alone.
func (s Set) File(ctx context.Context, a bridge.Agent, path string) ([]byte, error) {
	text, err := s[a.Runtime].peek(ctx, a.External, wire.Peek{What: wire.PeekFile, Path: path})
	if err != nil {
		return nil, err
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, bridge.Errorf(bridge.Unavailable, "the file arrived incomplete; try again")
	}
	return data, nil
}

// Machine is what a relay tells of all workspaces on its machine. If Err is set, the rest is empty.
type Machine struct {
	Relay      string
	Workspaces []Workspace
	// More says that the relay has more workspaces than it lists, and what to do; "" when these are all.
	More string
	// Err says why the relay could not be asked, as a *bridge.Error.
	Err error
}

// All asks each relay that hosts agents about all workspaces on its machine, all at the same time, and returns one answer for each, by the
// relays' names. A relay answers within 30 seconds or not at all.
func (s Set) All(ctx context.Context) []Machine {
	relays := map[string]*Runtime{}
	for _, r := range s {
		relays[r.o.Relay] = r
	}
	var asked sync.WaitGroup
	machines := make([]Machine, len(relays))
	for i, name := range slices.Sorted(maps.Keys(relays)) {
		machines[i].Relay = name
		asked.Go(func() { machines[i].Workspaces, machines[i].Err = relays[name].workspaces(ctx) })
	}
	asked.Wait()
	for i := range machines {
		machines[i].splitMore()
	}
	return machines
}

// splitMore takes out the entry without a name. With it a relay says that its list is not whole.
func (m *Machine) splitMore() {
	for i, w := range m.Workspaces {
		if w.Agent == "" && w.Error != "" {
			m.More, m.Workspaces = w.Error, slices.Delete(m.Workspaces, i, i+1)
			return
		}
	}
}

func (r *Runtime) workspaces(ctx context.Context) ([]Workspace, error) {
	text, err := r.peek(ctx, "", wire.Peek{What: wire.PeekAll})
	if err != nil {
		return nil, err
	}
	var all []Workspace
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, bridge.Errorf(bridge.Unavailable, "the bridge cannot read the answer of relay %q about its workspaces", r.o.Relay)
	}
	return all, nil
}

// Home returns the relay of an agent and the name of its own workspace there; ok is false for an agent that has none at a relay.
func (s Set) Home(a bridge.Agent) (relay, workspace string, ok bool) {
	r := s[a.Runtime]
	if r == nil || a.External == "" {
		return "", "", false
	}
	return r.o.Relay, HomeName(a.Name, a.External), true
}

// Live returns what an agent did after a step, for people who watch; 0 is before all. A step is the agent's own claim and may hold any text of at most
// wire.MaxLine bytes. An agent that was not launched has none. The error is a *bridge.Error.
func (s Set) Live(ctx context.Context, a bridge.Agent, after int64) (wire.Live, error) {
	if a.External == "" {
		return wire.Live{}, nil
	}
	text, err := s[a.Runtime].peek(ctx, a.External, wire.Peek{What: wire.PeekLive, After: after})
	if err != nil {
		return wire.Live{}, err
	}
	var live wire.Live
	if err := json.Unmarshal([]byte(text), &live); err != nil || len(live.Steps) > wire.MaxSteps {
		return wire.Live{}, bridge.Errorf(bridge.Unavailable, "the bridge cannot read the relay's answer about what the agent does")
	}
	for i := range live.Steps {
		step := &live.Steps[i]
		step.Tool, step.Text = clip.Text(step.Tool, wire.MaxLine), clip.Text(step.Text, wire.MaxLine)
	}
	return live, nil
}
