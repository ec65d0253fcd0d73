//go:build deep

package agents_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// everyTool calls each tool of the door once, as a subagent with a sibling. self is its id.
func everyTool(w *world, self string) []step {
	type a = map[string]any
	repo := "github.com/me/my-app"
	return []step{
		{"list_agents", nil}, {"agent_status", a{"agent": self}}, {"list_allowed", nil},
		{"launch_agent", a{"repo": repo, "prompt": "Work."}}, {"run_local_action", a{"action": "backup"}},
		{"remind", a{"when": "2h", "message": "look"}}, {"cancel_reminder", a{"reminder_id": "$remind cmd_"}},

		{"spawn_agent", a{"name": "grandchild", "instructions": "Wait.", "repo": repo}},
		{"send_message", a{"recipient": "grandchild", "text": "Hello.", "sync": false}}, {"message_status", a{"message_id": "$send_message msg_"}},
		{"broadcast", a{"text": "Hello."}}, {"check_inbox", nil}, {"inspect_agent", a{"name": "grandchild"}}, {"poke", a{"agent": "grandchild"}},
		{"subscribe", a{"agent": "grandchild"}}, {"list_children", nil}, {"complete", a{"result": "Done."}},

		{"create_thread", a{"creator_id": self, "title": "Plans", "participants": []string{"sibling"}}},
		{"threads_send_message", a{"sender_id": self, "thread_id": "$create_thread thr_", "content": "This."}},
		{"check_new_messages", a{"agent_id": self}}, {"get_messages", a{"agent_id": self}},
		{"broadcast_message", a{"sender_id": self, "recipient_ids": []string{"main", "sibling"}, "content": "Both."}},
		{"transfer_file", a{"sender_id": self, "recipient_id": "main", "source_path": "plan.txt", "content": "the plan"}},
		{"list_threads", a{"agent_id": self}},
		{"get_thread_details", a{"thread_id": "$create_thread thr_"}}, {"join_thread", a{"thread_id": "$create_thread thr_", "agent_id": self}},
		{"add_participant_to_thread", a{"thread_id": "$create_thread thr_", "agent_id_to_add": "main", "inviting_agent_id": self}},
		{"remove_participant_from_thread", a{"thread_id": "$create_thread thr_", "agent_id_to_remove": "main", "removing_agent_id": self}},

		{"send_channel_message", a{"channelId": "general", "text": "Hello."}}, {"send_dm", a{"targetAgentId": "sibling", "text": "Psst."}},
		{"react_to_message", a{"messageId": "$send_channel_message msg_", "emoji": "👍"}}, {"do_nothing", nil},

		{"update_memory", a{"label": "mood", "content": "calm"}}, {"store_memory", a{"content": "Go 1.26"}}, {"search_memory", a{"query": "go"}},
	}
}

// needsYes are the tools that Codex asks a person about: they may destroy something, or they reach the open world.
var needsYes = []string{"cancel_reminder", "launch_agent", "remove_participant_from_thread", "run_local_action", "spawn_agent", "update_memory"}

// called is one tool call as codex exec tells of it.
type called struct {
	Tool   string
	Status string
	Error  *struct{ Message string }
	Result *struct {
		Content    []struct{ Text string }
		Structured json.RawMessage `json:"structured_content"`
	}
}

// codex runs codex exec over a script, and returns what became of each call.
func codex(w *world, m *model, config string) map[string]called {
	w.Helper()
	h := w.newHome()
	h.put(".codex/config.toml", fmt.Sprintf("model = \"scripted\"\nmodel_provider = \"scripted\"\n[model_providers.scripted]\nname = \"scripted\"\nbase_url = %q\nwire_api = \"responses\"\n", m.URL+"/v1")+config)
	h.env = []string{tokenVariable + "=" + strings.TrimSpace(w.cli("token", "worker"))}
	stdout, all, err := h.run(program(w.T, agentsHome(w.T, "codex"), ".bin/codex"), "exec", "--json", "--skip-git-repo-check", "Go.")
	if err != nil || len(m.faults) > 0 {
		w.Fatalf("codex exec: %v; the model says %q\n%s", err, m.faults, all)
	}
	calls := map[string]called{}
	for line := range strings.Lines(stdout) {
		var event struct {
			Type string
			Item struct {
				Type string
				called
			}
		}
		if json.Unmarshal([]byte(line), &event) == nil && event.Type == "item.completed" && event.Item.Type == "mcp_tool_call" {
			calls[event.Item.Tool] = event.Item.called
		}
	}
	return calls
}

// team is a subagent worker of main with a sibling, in the channel general. It returns the worker's id.
func team(w *world) string {
	spawn := func(name string) string {
		return w.asMain("spawn_agent", map[string]any{"name": name, "instructions": "Wait.", "repo": "github.com/me/my-app"}, "agent_id")
	}
	id := spawn("worker")
	spawn("sibling")
	w.cli("channels", "create", "general", "worker", "sibling")
	return id
}

// TestCodexCallsEachTool: with the entry that mcp-config writes, a headless Codex is offered every tool and calls each; every
// answer arrives with its structured content. Without the line that says yes, Codex refuses exactly the tools that
// say of themselves that they may destroy something or reach the open world. The entry for the pipe works the same way.
func TestCodexCallsEachTool(t *testing.T) {
	t.Parallel()
	agentsHome(t, "codex")
	w := newWorld(t)
	steps := everyTool(w, team(w))
	entry := w.cli("mcp-config", "main", "--for", "codex")
	var names []string
	for _, s := range steps {
		names = append(names, s.tool)
	}
	slices.Sort(names)

	m := newModel(steps)
	defer m.Close()
	calls := codex(w, m, entry)
	slices.Sort(m.offered)
	if diff := cmp.Diff(m.offered, names); diff != "" {
		t.Errorf("the tools that Codex is offered, and those of the script (-offered +called):\n%s", diff)
	}
	for _, name := range names {
		c, ok := calls[name]
		if !ok || c.Error != nil || c.Status != "completed" || c.Result == nil || len(c.Result.Content) != 1 || !strings.HasPrefix(string(c.Result.Structured), "{") {
			t.Errorf("%s: called %t, %s, error %v, result %+v", name, ok, c.Status, c.Error, c.Result)
		}
	}
	if c := calls["transfer_file"]; c.Result == nil || !strings.Contains(string(c.Result.Structured), `"fil_`) {
		t.Errorf("transfer_file gave no id of a file: %+v", c.Result)
	}
	t.Logf("codex exec called %d tools, each answered", len(calls))

	strict := ""
	for line := range strings.Lines(entry) {
		if !strings.HasPrefix(line, "default_tools_approval_mode") && !strings.HasPrefix(line, "#") {
			strict += line
		}
	}
	asked := []step{}
	for _, s := range steps {
		if slices.Contains(needsYes, s.tool) || s.tool == "list_agents" || s.tool == "send_dm" || s.tool == "remind" {
			asked = append(asked, step{s.tool, withoutReferences(s.args)})
		}
	}
	careful := newModel(asked)
	defer careful.Close()
	var refused []string
	for name, c := range codex(w, careful, strict) {
		if c.Error != nil && strings.Contains(c.Error.Message, "requires approval") {
			refused = append(refused, name)
		} else if c.Error != nil {
			t.Errorf("%s without the setting: %s", name, c.Error.Message)
		}
	}
	slices.Sort(refused)
	if diff := cmp.Diff(needsYes, refused); diff != "" {
		t.Errorf("what Codex refuses without the setting (-expected +refused):\n%s", diff)
	}
	t.Logf("without the setting codex exec refuses %s", strings.Join(refused, ", "))

	piped := newModel([]step{{"list_agents", nil}})
	defer piped.Close()
	pipe := w.cli("mcp-config", "worker", "--for", "codex", "--stdio")
	if c := codex(w, piped, pipe)["list_agents"]; c.Status != "completed" || c.Result == nil {
		t.Errorf("by %s: %+v", pipe, c)
	}
}

func withoutReferences(args map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range args {
		if text, ok := value.(string); ok && earlier.MatchString(text) {
			value = "none"
		}
		out[name] = value
	}
	return out
}
