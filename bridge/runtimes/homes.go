package runtimes

import (
	"cmp"
	"fmt"
	"path"

	"drawbridge/bridge"
	"drawbridge/bridge/moving"
)

// Homes says whether a subagent works in its parent's workspace. Place returns the relay that hosts the agents of a Runtime, "" when none does.
// It is made to be the engine's Homes.
type Homes struct {
	Place func(runtime string) (relay string)
}

// Shares reports whether the subagent that a command launches works in its parent's workspace; the command's Runtime and Canonical say where
// it would live, and on which repository. The error says why it cannot work where the command wants it. In the cloud
// every agent has a clone of its own.
func (h Homes) Shares(parent bridge.Agent, m bridge.Command) (bool, error) {
	its, own := h.Place(m.Runtime), h.Place(parent.Runtime)
	switch {
	case !m.Parsed.Shared && m.Parsed.Subdir == "", its == "" && own == "", own == "" && m.Parsed.Subdir == "":
		return false, nil
	case its != own:
		return false, bridge.Errorf(bridge.Invalid, "a subagent on %s lives %s and you live %s, so it cannot work in your workspace; to give it its own workspace, name its repository as repo and leave out workspace_subdir",
			m.Canonical, at(its), at(own))
	case m.Canonical != parent.Repo:
		return false, bridge.Errorf(bridge.Invalid, "workspace_subdir is a folder of your own workspace, which holds %s and not %s: leave repo out, or leave workspace_subdir out for a workspace of its own", parent.Repo, m.Canonical)
	}
	return true, nil
}

// at says where the agents of a relay live; "" is not a relay.
func at(relay string) string {
	if relay == "" {
		return "elsewhere"
	}
	return fmt.Sprintf("at relay %q", relay)
}

// Home returns where a subagent works. A parent may itself work in the workspace of its parent, and whoever works in that of a reviewer changes nothing,
// either.
func (h Homes) Home(tx *bridge.Scene, a bridge.Agent) (home bridge.Home, err error) {
	for subdir := ""; a.Command != "" && h.Place(a.Runtime) != ""; {
		m, err := tx.Command(a.Command)
		if err != nil {
			return home, fmt.Errorf("load the command of a launch: %w", err)
		}
		parent, err := tx.Agent(a.Parent)
		if err != nil {
			return home, fmt.Errorf("load the parent of a launch: %w", err)
		}
		home.ReadOnly = home.ReadOnly || m.Parsed.Role == bridge.RoleReviewer
		m.Runtime, m.Canonical = a.Runtime, a.Repo
		// An error means that the configuration changed since the launch was recorded; then the relay refuses the workspace.
		if shared, err := h.Shares(parent, m); err == nil && !shared {
			return home, nil
		}
		subdir = path.Join(m.Parsed.Subdir, subdir)
		home.Within = &bridge.Within{Name: parent.Name, AgentID: cmp.Or(parent.External, moving.SessionID(parent)), Subdir: subdir}
		a = parent
	}
	return home, nil
}
