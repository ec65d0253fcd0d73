package main

import (
	"strings"
	"testing"

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
