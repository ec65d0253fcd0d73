package runtimes_test

import (
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/bridge/runtimes"
	"drawbridge/parser"
)

// TestShares: a subagent works in its parent's workspace where one relay hosts both, on one repository. In the cloud each has a clone.
func TestShares(t *testing.T) {
	t.Parallel()
	h := runtimes.Homes{Place: func(runtime string) string {
		return map[string]string{"laptop-a": "laptop", "laptop-b": "laptop", "desk": "desk"}[runtime]
	}}
	shared, below, named := parser.Command{Shared: true}, parser.Command{Shared: true, Subdir: "docs"}, parser.Command{Subdir: "docs"}
	for name, tt := range map[string]struct {
		parent, runtime, repo string
		cmd                   parser.Command
		shared                bool
		refused               string
	}{
		"at one relay":                     {"laptop-a", "laptop-a", "local/app", shared, true, ""},
		"another agent of the relay":       {"laptop-a", "laptop-b", "local/app", below, true, ""},
		"a folder, with the repo in words": {"laptop-a", "laptop-a", "local/app", named, true, ""},
		"a repo in words":                  {"laptop-a", "laptop-a", "local/app", parser.Command{}, false, ""},
		"a folder of another repo":         {"laptop-a", "laptop-a", "local/other", named, false, "leave repo out"},
		"another relay":                    {"laptop-a", "desk", "local/app", shared, false, `lives at relay "desk" and you live at relay "laptop"`},
		"from a relay to the cloud":        {"laptop-a", bridge.CloudRuntime, "local/app", below, false, "lives elsewhere"},
		"a folder, from the cloud":         {bridge.CloudRuntime, "desk", "local/app", below, false, "name its repository as repo and leave out workspace_subdir"},
		"from the cloud":                   {bridge.CloudRuntime, "desk", "local/app", shared, false, ""},
		"in the cloud":                     {bridge.CloudRuntime, bridge.CloudRuntime, "github.com/me/app", below, false, ""},
	} {
		got, err := h.Shares(bridge.Agent{Runtime: tt.parent, Repo: "local/app"}, bridge.Command{Runtime: tt.runtime, Canonical: tt.repo, Parsed: tt.cmd})
		if got != tt.shared || (err != nil) != (tt.refused != "") || err != nil && !strings.Contains(err.Error(), tt.refused) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
