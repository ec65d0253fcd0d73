package mcpserver_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"drawbridge/bridge"
	"drawbridge/mcpserver"
)

// Clients take a missing hint for the worst, so each tool states all four, and a
// title. What a hint says must be possible: what only reads destroys nothing.
func TestEachToolStatesItsNature(t *testing.T) {
	t.Parallel()
	for _, era := range []string{oldEra, newEra} {
		needsYes := []string{}
		for _, tool := range allTools(t, era) {
			a := tool.Annotations
			data, err := json.Marshal(a)
			if err != nil {
				t.Fatal(err)
			}
			var stated map[string]any
			if err := json.Unmarshal(data, &stated); err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"} {
				if _, ok := stated[key].(bool); !ok {
					t.Errorf("%s %s does not state %s: %s", era, tool.Name, key, data)
				}
			}
			if tool.Title == "" || a.Title != tool.Title {
				t.Errorf("%s %s has the titles %q and %q", era, tool.Name, tool.Title, a.Title)
			}
			if a.ReadOnlyHint && (*a.DestructiveHint || *a.OpenWorldHint || !a.IdempotentHint) {
				t.Errorf("%s %s only reads, and yet: %s", era, tool.Name, data)
			}
			if *a.OpenWorldHint {
				needsYes = append(needsYes, tool.Name)
			}
		}
		if want := []string{"launch_agent", "run_local_action", "spawn_agent"}; !slices.Equal(slices.Sorted(slices.Values(needsYes)), want) {
			t.Errorf("%s: %q reach beyond the bridge, want %q", era, needsYes, want)
		}
	}
}

// allTools lists the tools of all sets, as a client sees them.
func allTools(t *testing.T, era string) []*mcp.Tool {
	t.Helper()
	w := newWorld(t)
	w.sets = mcpserver.SetNames()
	w.launch("main")
	listed, err := w.connect("main", era, "").ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return listed.Tools
}

// Clients refuse schemas with a choice of types, references or combinations: one
// did so for "string or null". Every part of every schema has one plain type.
func TestSchemasArePlain(t *testing.T) {
	t.Parallel()
	for _, tool := range allTools(t, newEra) {
		for what, schema := range map[string]any{"input": tool.InputSchema, "output": tool.OutputSchema} {
			root, ok := schema.(map[string]any)
			if !ok || root["type"] != "object" {
				t.Errorf("the %s schema of %s is %v", what, tool.Name, schema)
				continue
			}
			checkPlain(t, tool.Name+" "+what, root)
		}
	}
}

func checkPlain(t *testing.T, where string, schema map[string]any) {
	t.Helper()
	known := []string{"type", "description", "properties", "required", "items", "enum", "default", "format", "minItems", "additionalProperties"}
	for key := range schema {
		if !slices.Contains(known, key) {
			t.Errorf("%s: a client may not know %q", where, key)
		}
	}
	if kind, ok := schema["type"].(string); !ok || kind == "null" {
		t.Errorf("%s: the type is %v", where, schema["type"])
	}
	parts := map[string]any{"items": schema["items"], "additionalProperties": schema["additionalProperties"]}
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		parts[name] = p
	}
	for name, p := range parts {
		if part, ok := p.(map[string]any); ok {
			checkPlain(t, where+"."+name, part)
		}
	}
}

// shapes are the closed output schemas of the tools: what a schema does not name fails.
type shapes map[string]*jsonschema.Resolved

func newShapes(t *testing.T, tools []*mcp.Tool) shapes {
	t.Helper()
	all := shapes{}
	for _, tool := range tools {
		data, err := json.Marshal(tool.OutputSchema)
		if err != nil {
			t.Fatal(err)
		}
		var s jsonschema.Schema
		if err := json.Unmarshal(data, &s); err != nil {
			t.Fatal(err)
		}
		closed(&s)
		if all[tool.Name], err = s.Resolve(nil); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func closed(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	for _, p := range s.Properties {
		closed(p)
	}
	closed(s.Items)
	if s.Type == "object" && s.AdditionalProperties == nil {
		s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	}
}

// check reports what is wrong with an answer: an answer fits its schema, and an error
// has no structured content, which clients would check against that schema.
func (s shapes) check(tool string, r *mcp.CallToolResult) error {
	if r.IsError {
		detail, _ := r.Meta["drawbridge/error"].(map[string]any)
		kind, _ := detail["kind"].(string)
		if r.StructuredContent != nil || kind == "" || !strings.HasPrefix(words(r), kind+": ") {
			return fmt.Errorf("the error %q has the structured content %v and the metadata %v", words(r), r.StructuredContent, r.Meta)
		}
		return nil
	}
	data, err := json.Marshal(r.StructuredContent)
	if err != nil {
		return err
	}
	var plain any
	if err := json.Unmarshal(data, &plain); err != nil {
		return err
	}
	if err := s[tool].Validate(plain); err != nil {
		return fmt.Errorf("%s: %w", data, err)
	}
	return nil
}

// every is one good call of each tool, by main but where another is named, with
// what is known so far.
type every struct {
	*world
	shapes      shapes
	calls       map[string]int
	main, child *mcp.ClientSession
	mainID      string
	childID     string
	thread      string
}

// use calls a tool well, then with an argument that it does not know.
func (e *every) use(s *mcp.ClientSession, tool string, a args) map[string]any {
	e.Helper()
	e.calls[tool]++
	r := e.call(s, tool, a)
	if r.IsError {
		e.Errorf("%s%v: %s", tool, a, words(r))
	}
	bad := args{"surplus": 1}
	for name, value := range a {
		bad[name] = value
	}
	for _, r := range []*mcp.CallToolResult{r, e.call(s, tool, bad)} {
		if err := e.shapes.check(tool, r); err != nil {
			e.Errorf("%s: %v", tool, err)
		}
	}
	out, _ := r.StructuredContent.(map[string]any)
	return out
}

// Each tool's real answer fits the schema that it states.
func TestAnswersFitTheirSchemas(t *testing.T) {
	t.Parallel()
	for _, era := range []string{oldEra, newEra} {
		w := newWorld(t)
		w.sets, w.workspace = mcpserver.SetNames(), t.TempDir()
		root := w.launch("main")
		if _, err := w.mail.CreateChannel(t.Context(), "general", "main"); err != nil {
			t.Fatal(err)
		}
		s := w.connect("main", era, "")
		listed, err := s.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		e := &every{world: w, shapes: newShapes(t, listed.Tools), calls: map[string]int{}, main: s, mainID: string(root.ID)}
		e.bridgeSet()
		e.teamSet(era)
		e.threadsSet()
		e.restOfSets()
		for _, tool := range listed.Tools {
			if e.calls[tool.Name] == 0 {
				t.Errorf("%s was not called", tool.Name)
			}
		}
	}
}

func (e *every) bridgeSet() {
	e.use(e.main, "launch_agent", args{"repo": "github.com/me/my-app", "prompt": "Work."})
	e.use(e.main, "launch_agent", args{"repo": "github.com/me/careful", "prompt": "Work."}) // held
	e.use(e.main, "list_agents", nil)
	e.use(e.main, "agent_status", args{"agent": "main"})
	e.use(e.main, "run_local_action", args{"action": "free"})
	e.use(e.main, "run_local_action", args{"action": "lock_screen"}) // held
	e.use(e.main, "list_allowed", nil)
	set := e.use(e.main, "remind", args{"when": "2h", "message": "look"})
	e.use(e.main, "cancel_reminder", args{"reminder_id": set["command_id"]})
}

func (e *every) teamSet(era string) {
	// The seed lets workspace_subdir be null.
	made := e.use(e.main, "spawn_agent", args{"name": "worker", "instructions": "Work.", "repo": "github.com/me/my-app", "workspace_subdir": nil})
	e.use(e.main, "spawn_agent", args{"name": "sibling", "instructions": "Work.", "repo": "github.com/me/my-app", "workspace_subdir": "api"})
	e.childID, _ = made["agent_id"].(string)
	e.mint(bridge.Agent{ID: bridge.AgentID(e.childID), Name: "worker"})
	e.child = e.connect("worker", era, "")
	sent := e.use(e.main, "send_message", args{"recipient": "worker", "text": "Hello.", "sync": false})
	e.use(e.child, "send_message", args{"recipient": "main", "text": "Hello.", "sync": true})
	e.use(e.main, "message_status", args{"message_id": sent["message_id"]})
	e.use(e.child, "broadcast", args{"text": "Hello."})
	e.use(e.main, "check_inbox", nil)
	e.use(e.main, "inspect_agent", args{"name": "worker"})
	e.use(e.child, "complete", args{"result": "Done."})
	e.use(e.main, "poke", args{"agent": "worker"})
	e.use(e.main, "subscribe", args{"agent": "worker"})
	e.use(e.main, "list_children", nil)
}

func (e *every) threadsSet() {
	made := e.use(e.main, "create_thread", args{"creator_id": "main", "title": "Plans", "participants": []string{e.childID}, "initial_message": "What now?"})
	e.use(e.main, "create_thread", args{"creator_id": "main", "title": "Alone", "participants": []string{}})
	data, _ := made["data"].(map[string]any)
	thread, _ := data["thread"].(map[string]any)
	e.thread, _ = thread["id"].(string)
	e.use(e.child, "threads_send_message", args{"sender_id": e.childID, "thread_id": e.thread, "content": "This.", "urgent": true})
	e.use(e.main, "check_new_messages", args{"agent_id": "main"})
	e.use(e.main, "get_messages", args{"agent_id": e.mainID})
	e.use(e.main, "broadcast_message", args{"sender_id": "main", "recipient_ids": []string{e.childID, "sibling"}, "content": "Both."})
	file := filepath.Join(e.workspace, "plan.txt")
	if err := os.WriteFile(file, []byte("one"), 0o600); err != nil {
		e.Fatal(err)
	}
	e.use(e.main, "transfer_file", args{"sender_id": "main", "recipient_id": e.childID, "source_path": file})
	e.use(e.child, "get_messages", args{"agent_id": e.childID}) // with an attachment
	e.use(e.main, "get_thread_details", args{"thread_id": e.thread})
	e.use(e.main, "list_threads", args{"agent_id": "main"})
	e.use(e.child, "list_threads", args{"agent_id": e.childID, "limit": 1}) // not in the newest one, and there is a next page
	for range 2 {                                                           // the second time there is nothing to do
		e.use(e.main, "add_participant_to_thread", args{"thread_id": e.thread, "agent_id_to_add": "sibling", "inviting_agent_id": "main"})
		e.use(e.child, "join_thread", args{"thread_id": e.thread, "agent_id": e.childID})
	}
	e.use(e.main, "remove_participant_from_thread", args{"thread_id": e.thread, "agent_id_to_remove": "sibling", "removing_agent_id": "main"})
}

func (e *every) restOfSets() {
	posted := e.use(e.main, "send_channel_message", args{"channelId": "general", "text": "Hello."})
	e.use(e.main, "send_dm", args{"targetAgentId": "worker", "text": "Psst."})
	e.use(e.main, "react_to_message", args{"messageId": posted["messageId"], "emoji": "👍"})
	e.use(e.main, "do_nothing", nil)
	e.use(e.main, "update_memory", args{"label": "mood", "content": "calm"})
	e.use(e.main, "search_memory", args{"query": "nothing"})
	e.use(e.main, "store_memory", args{"content": "Go 1.26", "tags": []string{"build"}})
	e.use(e.main, "store_memory", args{"content": "Go 1.27"})
	e.use(e.main, "search_memory", args{"query": "go"})
}

// What says that it only reads leaves no event, no turn and no unread message behind.
func TestReadOnlyToolsChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = mcpserver.SetNames()
	w.launch("main")
	w.slow.Store(true) // or a result would begin a turn meanwhile
	s := w.connect("main", newEra, "")
	made := good[struct {
		Data struct{ Thread mcpserver.ThreadView }
	}](w, s, "create_thread", args{"creator_id": "main", "title": "Plans", "participants": []string{}})
	child := good[mcpserver.Spawned](w, s, "spawn_agent", args{"name": "worker", "instructions": "Work.", "repo": "github.com/me/my-app"})
	sent := good[mcpserver.MessageSent](w, s, "send_message", args{"recipient": "worker", "text": "Hello.", "sync": false})
	with := map[string]args{"agent_status": {"agent": "worker"}, "inspect_agent": {"name": child.Name}, "check_new_messages": {"agent_id": "main"}, "list_threads": {"agent_id": "main"},
		"get_thread_details": {"thread_id": made.Data.Thread.ID}, "message_status": {"message_id": sent.MessageID}, "search_memory": {"query": "x"}}
	w.quiet("main")
	w.until("the worker works", func(tx *bridge.Scene) bool {
		a, err := tx.FindAgent(bridge.ByName, "worker")
		if err != nil {
			return false
		}
		turn, err := tx.CurrentTurn(a.ID)
		return err == nil && turn.State == bridge.TurnRunning // launched: what happens from now on is not the launch
	})
	before := w.events()
	listed, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range listed.Tools {
		if !tool.Annotations.ReadOnlyHint {
			continue
		}
		if r := w.call(s, tool.Name, with[tool.Name]); r.IsError {
			t.Errorf("%s: %s", tool.Name, words(r))
		}
		if after := w.events(); after != before {
			t.Errorf("%s says that it only reads, and leaves %d events behind", tool.Name, after-before)
			before = after
		}
	}
}

// quiet waits until an agent has no turn that is open and none that waits.
func (w *world) quiet(name string) {
	w.Helper()
	w.until(name+" is quiet", func(tx *bridge.Scene) bool {
		a, err := tx.FindAgent(bridge.ByName, name)
		if err != nil {
			return false
		}
		_, err = tx.OpenTurn(a.ID)
		return errors.Is(err, bridge.ErrNoRow)
	})
}

// events counts what the bridge has told so far.
func (w *world) events() (n int) {
	w.Helper()
	err := w.engine.View(w.Context(), func(tx *bridge.Scene) error {
		all, err := tx.Events(0, 10000)
		n = len(all)
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return n
}

// Each call is counted once, under the tool's name and what came of it, by whichever path it was answered; what is
// not a tool is not counted.
func TestCallsAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	counted := map[string]int{}
	w.serve(func(o *mcpserver.Options) {
		o.OnCall = func(tool, outcome string) {
			mu.Lock()
			defer mu.Unlock()
			counted[tool+" "+outcome]++
		}
	})
	w.launch("main")
	for _, era := range []string{oldEra, newEra} {
		s := w.connect("main", era, "")
		for range 3 {
			w.call(s, "list_allowed", nil)
		}
		w.call(s, "launch_agent", args{"repo": "github.com/evil/x", "prompt": "p"})
		w.call(s, "agent_status", args{"agent": "nobody"})
		w.call(s, "remind", args{"when": 7})
		if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "no_such_tool"}); err == nil {
			t.Error("a tool that is not there answers")
		}
	}
	mu.Lock()
	defer mu.Unlock()
	want := map[string]int{"list_allowed ok": 6, "launch_agent denied": 2, "agent_status not_found": 2, "remind invalid": 2}
	if diff := cmp.Diff(want, counted); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}
