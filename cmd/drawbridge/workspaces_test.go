package main

import (
	"fmt"
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/proof/memstore"
	"drawbridge/relay/hosted"
)

// What a hostile relay says of its workspaces reaches no terminal as it is.
func TestWorkspacesOfAHostileRelay(t *testing.T) {
	t.Parallel()
	evil := "a\x1b[2J\nb\u202e"
	w := hosted.Workspace{Agent: evil, Unsaved: []string{evil}, Error: evil}
	w.State.Path, w.State.On, w.State.Head = evil, evil, strings.Repeat("x", 5000)
	view := viewWorkspace("laptop", w)
	for _, s := range append(view.Unsaved, view.Name, view.Path, view.Branch, view.Head, view.Error) {
		if strings.ContainsAny(s, "\x1b\n\u202e") || len(s) > 300 || s == "" {
			t.Errorf("shown as it is: %q", s)
		}
	}
}

// Each workspace has the name of its owner, however many agents are younger than that one.
func TestOwnersOfWorkspaces(t *testing.T) {
	t.Parallel()
	store := memstore.NewDisk().Open()
	set := hosted.Set{"lap": hosted.New(hosted.Options{Relay: "laptop", Agent: "opencode"})}
	const agents = 2*ownersAtATime + 1
	err := store.Update(t.Context(), func(tx *bridge.Scene) error {
		for i := range agents {
			a := bridge.Agent{ID: bridge.AgentID(fmt.Sprintf("agt_%06d", i)), Name: fmt.Sprintf("a%d", i), OpKey: fmt.Sprint(i), State: bridge.AgentIdle, External: fmt.Sprintf("bc-%06d", i), Runtime: "lap"}
			if a.Root = a.ID; i%2 == 1 {
				a.Runtime = bridge.CloudRuntime
			}
			if err := tx.InsertAgent(a); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	owners, err := ownersIn(t.Context(), store, set)
	if err != nil || len(owners) != agents/2+1 || owners[home{"laptop", "a0-000000"}] != "a0" || owners[home{"laptop", "a2000-002000"}] != "a2000" {
		t.Errorf("%d owners, %v", len(owners), err)
	}
}
