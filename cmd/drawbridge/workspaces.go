package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/relay/hosted"
)

// workspacesCmd is "drawbridge workspaces".
type workspacesCmd struct {
	target
}

// Help shows an example.
func (workspacesCmd) Help() string {
	return "The bridge asks each relay that hosts agents, over the relay's own connection. A relay reads its workspaces from git. DIRTY counts files\nthat are not in a commit. COMMITS counts commits that your clone does not have yet. The command fails if it cannot ask a relay, or if a relay has\nmore than 500 workspaces. The error names that relay.\n" +
		"To fetch commits or to remove a workspace, run drawbridge-relay workspaces at that machine.\n\nExample:\n  drawbridge workspaces"
}

// Run lists the workspaces of all relays.
func (c workspacesCmd) Run(ctx context.Context, a app) error {
	return c.withClient(a, func(client *api.Client) error {
		list, err := client.Workspaces(ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			err = printJSON(a.stdout, list)
		} else {
			err = printWorkspaces(a, list)
		}
		if err != nil || len(list.Missing) == 0 {
			return err
		}
		for _, m := range list.Missing[1:] {
			fmt.Fprintf(a.stderr, "not in this list: relay %s: %s\n", m.Relay, m.Error)
		}
		return fmt.Errorf("not in this list: relay %s: %s", list.Missing[0].Relay, list.Missing[0].Error)
	})
}

func printWorkspaces(a app, list api.WorkspaceList) error {
	rows := make([][]string, len(list.Workspaces))
	for i, w := range list.Workspaces {
		rows[i] = []string{w.Relay, w.Name, cmp.Or(w.Agent, "-"), cmp.Or(w.Branch, "no branch"), fmt.Sprint(w.Dirty), fmt.Sprint(w.Unfetched), fmt.Sprintf("%.1f MiB", float64(w.Bytes)/(1<<20)), cmp.Or(w.Error, w.Path)}
	}
	return table(a.stdout, "RELAY\tWORKSPACE\tAGENT\tBRANCH\tDIRTY\tCOMMITS\tSIZE\tPATH", "no workspaces", rows)
}

// home is where a workspace is: the name of a relay, and of the workspace there.
type home struct{ relay, name string }

// ownersAtATime is how many agents are read at a time.
const ownersAtATime = 1000

// ownersIn returns the names of all agents of a store that have a workspace at a relay.
func ownersIn(ctx context.Context, store bridge.Store, set hosted.Set) (map[home]string, error) {
	owners, before := map[home]string{}, bridge.AgentID("")
	for {
		var page []bridge.Agent
		err := store.View(ctx, func(tx *bridge.Scene) (err error) {
			page, err = tx.Agents(bridge.AgentFilter{Before: before, Limit: ownersAtATime})
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, a := range page {
			if relay, name, ok := set.Home(a); ok {
				owners[home{relay, name}] = a.Name
			}
		}
		if len(page) < ownersAtATime {
			return owners, nil
		}
		before = page[len(page)-1].ID
	}
}

// workspaces asks all relays that host agents about their workspaces.
func (w *parts) workspaces(ctx context.Context) (api.WorkspaceList, error) {
	owners, err := ownersIn(ctx, w.store, w.hosted)
	if err != nil {
		return api.WorkspaceList{}, err
	}
	list := api.WorkspaceList{Workspaces: []api.Workspace{}}
	for _, m := range hosted.Set(w.hosted).All(ctx) {
		if m.Err != nil {
			list.Missing = append(list.Missing, api.RelayTrouble{Relay: m.Relay, Error: bridge.SafeMessage(m.Err)})
		}
		if m.More != "" {
			list.Missing = append(list.Missing, api.RelayTrouble{Relay: m.Relay, Error: plainText(m.More)})
		}
		for _, found := range m.Workspaces {
			view := viewWorkspace(m.Relay, found)
			view.Agent = owners[home{m.Relay, found.Agent}]
			list.Workspaces = append(list.Workspaces, view)
		}
	}
	return list, nil
}

// live asks the relay that hosts an agent what the agent did after a step.
func (w *parts) live(ctx context.Context, a bridge.Agent, after int64) (api.Live, error) {
	set := hosted.Set(w.hosted)
	if !set.Hosts(a) {
		return api.Live{}, api.NoLive(a.Name)
	}
	said, err := set.Live(ctx, a, after)
	live := api.Live{Run: said.Turn, Missed: said.Missed}
	for _, s := range said.Steps {
		live.Steps = append(live.Steps, api.Step{Seq: s.Seq, At: time.UnixMilli(s.At), Run: s.Turn, Kind: s.Kind, Tool: s.Tool, Text: s.Text})
	}
	return live, err
}

// viewWorkspace shows what a relay says. A relay may be hostile, so that its words are escaped.
func viewWorkspace(relay string, w hosted.Workspace) api.Workspace {
	s := w.State
	view := api.Workspace{Relay: relay, Name: plainText(w.Agent), Path: plainText(s.Path), Branch: plainText(s.On), Head: plainText(s.Head),
		Dirty: s.Staged + s.Modified + s.Deleted + s.Untracked, Unfetched: s.Unfetched + s.Elsewhere, Bytes: s.Bytes, Error: plainText(w.Error)}
	for _, line := range w.Unsaved {
		view.Unsaved = append(view.Unsaved, plainText(line))
	}
	return view
}

// plainText escapes what a terminal could obey.
func plainText(s string) string {
	quoted := fmt.Sprintf("%+.300q", s)
	return quoted[1 : len(quoted)-1]
}
