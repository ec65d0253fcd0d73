package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drawbridge/api"
)

// TestListsFitATerminal: agents, turns and commands take 100 columns, say what came of each, and show ids and whole texts on demand.
func TestListsFitATerminal(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("長い文字 and words ", 30)
	made := time.Now().Add(-3 * time.Hour)
	var empty atomic.Bool
	bridge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := map[string]any{}
		switch {
		case empty.Load():
		case strings.HasSuffix(r.URL.Path, "/turns"):
			answer["turns"] = []api.Turn{{ID: "trn_1", Seq: 12, State: "replied", Cause: "completion", CreatedAt: made,
				Sent: "[bridge trn_1]\nWhat happened since your last turn:\n\n1. line 1: executed [items 05dcd2872b127471]", Reply: long, Trouble: long}}
		case strings.HasSuffix(r.URL.Path, "/commands"):
			answer["commands"] = []api.Command{
				{ID: "cmd_1", AgentName: "main", State: "reported", Verb: "LOCAL_ACTION", Action: "backup_script", CreatedAt: made, Outcome: &api.Outcome{Status: "executed", ExitCode: 3}},
				{ID: "cmd_2", AgentName: "main", State: "reported", Verb: "SUBAGENT", Repo: "github.com/me/my-app", Prompt: long, CreatedAt: made, Outcome: &api.Outcome{Status: "FINISHED"}},
				{ID: "cmd_3", AgentName: "main", State: "reported", Ended: "refused", Verb: "SUBAGENT", Repo: "evil", CreatedAt: made, Code: "repo_not_allowed", Reason: "not on the allowlist"},
				{ID: "cmd_4", AgentName: "main", State: "uncertain", Verb: "SUBAGENT", Repo: "github.com/me/my-app", CreatedAt: made, Reason: long},
				{ID: "cmd_6", AgentName: "main", State: "reported", Ended: "failed", Verb: "REMIND", When: "2h", Reason: "a person cancelled the reminder"},
				{ID: "cmd_7", AgentName: "main", State: "reported", Verb: "LOCAL_ACTION", Action: "b", CreatedAt: made, Outcome: &api.Outcome{Status: "executed", ExitCode: -1}},
				{ID: "cmd_5", AgentName: "main", State: "reported", Verb: "LOCAL_ACTION", Action: "slow", CreatedAt: made, Outcome: &api.Outcome{Status: "timed_out", Error: "after 60s"}},
			}
		default:
			answer["agents"] = []api.Agent{{ID: "agt_1", Name: strings.Repeat("n", 39) + "\x1b", State: "failed", Repo: "github.com/me/my-app", Task: long, CreatedAt: made, Trouble: long}}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer bridge.Close()
	call := func(args ...string) string {
		got := callInside(t, "", append(args, "--url", bridge.URL, "--token", operatorToken)...)
		if got.code != exitOK || got.stderr != "" {
			t.Fatalf("%v: %+v", args, got)
		}
		return got.stdout
	}
	for command, shows := range map[string][]string{
		"agents":     {"n?  failed  3h", "me/my-app", "長い文字"},
		"turns main": {"replied  3h", "1. line 1: executed  長い文字"},
		"commands":   {"exit 3 ", "finished ", "refused ", "uncertain ", "timed out ", "main   -    failed ", "executed ", "    not on the allowlist", "    after 60s", "    say what really happened: drawbridge resolve cmd_4"},
	} {
		list, wide := call(strings.Fields(command)...), call(append(strings.Fields(command), "--wide")...)
		for _, text := range shows {
			if !strings.Contains(list, text) {
				t.Errorf("%s does not show %q:\n%s", command, text, list)
			}
		}
		for line := range strings.Lines(list) {
			if n := columns(strings.TrimSuffix(line, "\n")); n > maxLine {
				t.Errorf("%s: %d columns: %s", command, n, line)
			}
		}
		if strings.Contains(list, "items ") || !strings.Contains(wide, "_1") || !strings.Contains(wide, "長い文字 and words 長い文字 and words 長い文字") {
			t.Errorf("%s --wide:\n%s", command, wide)
		}
	}
	empty.Store(true)
	for command, says := range map[string]string{"agents": "no agents; drawbridge launch makes one\n", "turns main": "no turns\n", "commands": "no commands\n", "agents --state busy": "none\n"} {
		if got := call(strings.Fields(command)...); got != says {
			t.Errorf("%s says %q, want %q", command, got, says)
		}
	}
}
