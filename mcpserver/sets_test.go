package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"drawbridge/bridge"
	"drawbridge/mcpserver"
	"drawbridge/proof/memstore"
)

// seeds is what each seed's tools take, "?" behind what is optional there; ours
// may take more that is optional, but never less and never need more.
var seeds = map[string]map[string]string{
	mcpserver.SetTeam: {
		"send_message": "recipient text sync?", "broadcast": "text", "check_inbox": "", "spawn_agent": "name instructions role? workspace_subdir?", "inspect_agent": "name",
	},
	mcpserver.SetThreads: {
		"send_message": "sender_id recipient_id? thread_id? content urgent?", "get_messages": "agent_id thread_id? limit? since?",
		"create_thread": "creator_id title participants initial_message?", "join_thread": "thread_id agent_id", "broadcast_message": "sender_id recipient_ids content urgent?",
		"check_new_messages": "agent_id", "transfer_file": "sender_id recipient_id source_path content? content_base64? destination_filename? description?", "get_thread_details": "thread_id",
		"add_participant_to_thread": "thread_id agent_id_to_add inviting_agent_id", "remove_participant_from_thread": "thread_id agent_id_to_remove removing_agent_id",
	},
	mcpserver.SetChannels: {"send_channel_message": "channelId text", "send_dm": "targetAgentId text", "react_to_message": "messageId emoji", "do_nothing": ""},
	mcpserver.SetMemory:   {"update_memory": "label content", "search_memory": "query", "store_memory": "content tags?"},
}

type schema struct {
	Type       string                     `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
}

func schemaOf(t *testing.T, tool *mcp.Tool) (s schema) {
	t.Helper()
	data, err := json.Marshal(tool.InputSchema)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestToolsTakeWhatTheSeedsSay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = mcpserver.SetNames()
	w.launch("main")
	for set, tools := range seeds {
		listed, err := w.connect("main", newEra, "/"+set).ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]schema{}
		for _, tool := range listed.Tools {
			have[tool.Name] = schemaOf(t, tool)
		}
		for name, takes := range tools {
			s, ok := have[name]
			if !ok {
				t.Errorf("set %s lacks %s", set, name)
				continue
			}
			var required []string
			for _, argument := range strings.Fields(takes) {
				plain := strings.TrimSuffix(argument, "?")
				if s.Properties[plain] == nil {
					t.Errorf("%s/%s does not take %s", set, name, plain)
				}
				if plain == argument {
					required = append(required, plain)
				}
			}
			if diff := cmp.Diff(required, s.Required); diff != "" {
				t.Errorf("%s/%s needs other arguments (-seed +ours):\n%s", set, name, diff)
			}
		}
	}
}

// Every argument that a schema offers is one that the tool reads.
func TestSchemasAndToolsAgree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = mcpserver.SetNames()
	w.launch("main")
	s := w.connect("main", oldEra, "")
	listed, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(listed.Tools) > mcpserver.MaxTools {
		t.Errorf("%d tools in all", len(listed.Tools))
	}
	for _, tool := range listed.Tools {
		full := args{}
		for name, raw := range schemaOf(t, tool).Properties {
			var p struct {
				Type any
				Enum []any
			}
			if err := json.Unmarshal(raw, &p); err != nil {
				t.Fatal(err)
			}
			kind, _ := p.Type.(string)
			full[name] = map[string]any{"string": "x", "boolean": true, "number": 1, "array": []string{"x"}, "": "x"}[kind]
			if len(p.Enum) > 0 {
				full[name] = p.Enum[0]
			}
		}
		if r := w.call(s, tool.Name, full); strings.Contains(words(r), "cannot be read") || strings.Contains(words(r), "internal") {
			t.Errorf("%s%v: %s", tool.Name, full, words(r))
		}
		full["surplus"] = 1
		if r := w.call(s, tool.Name, full); !r.IsError || !strings.Contains(words(r), "surplus") {
			t.Errorf("%s takes what it does not know: %s", tool.Name, words(r))
		}
	}
}

func TestTheLaterSetOfOneNameIsPrefixed(t *testing.T) {
	t.Parallel()
	for first, want := range map[string]string{mcpserver.SetTeam: "threads_send_message", mcpserver.SetThreads: "team_send_message"} {
		w := newWorld(t)
		w.sets = []string{mcpserver.SetThreads, mcpserver.SetTeam}
		if first == mcpserver.SetTeam {
			slices.Reverse(w.sets)
		}
		w.launch("main")
		listed, err := w.connect("main", newEra, "").ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, tool := range listed.Tools {
			names[tool.Name] = true
		}
		if !names["send_message"] || !names[want] {
			t.Errorf("%s first: %v", first, names)
		}
	}
}

// Every argument that names the caller, and every tool that has one.
func TestNobodySpeaksForOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = []string{mcpserver.SetThreads}
	main, other := w.launch("main"), w.launch("other")
	s := w.connect("main", newEra, "")
	for tool, rest := range map[string]args{
		"send_message": {"sender_id": "", "recipient_id": "other", "content": "x"}, "get_messages": {"agent_id": ""},
		"create_thread": {"creator_id": "", "title": "x", "participants": []string{}}, "join_thread": {"agent_id": "", "thread_id": "thr_1"},
		"broadcast_message": {"sender_id": "", "recipient_ids": []string{"other"}, "content": "x"}, "check_new_messages": {"agent_id": ""}, "list_threads": {"agent_id": ""},
		"transfer_file":                  {"sender_id": "", "recipient_id": "other", "source_path": "x"},
		"add_participant_to_thread":      {"inviting_agent_id": "", "thread_id": "thr_1", "agent_id_to_add": "other"},
		"remove_participant_from_thread": {"removing_agent_id": "", "thread_id": "thr_1", "agent_id_to_remove": "main"},
	} {
		for _, lie := range []string{string(other.ID), "other", "USER", "", " " + string(main.ID)} {
			for argument, value := range rest {
				if value == "" {
					forged := args{}
					for k, v := range rest {
						forged[k] = v
					}
					forged[argument] = lie
					if r := w.call(s, tool, forged); !r.IsError || !strings.Contains(words(r), "give your own id") {
						t.Errorf("%s as %q: %s", tool, lie, words(r))
					}
				}
			}
		}
	}
	for _, own := range []string{string(main.ID), "main"} {
		if r := w.call(s, "check_new_messages", args{"agent_id": own}); r.IsError || !strings.Contains(words(r), "You have 0 unread messages.") {
			t.Errorf("as myself (%s): %s", own, words(r))
		}
	}
}

// A poke tries the failed turn of a child again: the child hears the same words.
func TestPokeTriesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = []string{mcpserver.SetTeam}
	var whole atomic.Bool
	w.cloud.Answer = func(repo, text string) bridge.Observation {
		if strings.Contains(text, "Look again.") && !whole.Load() {
			return bridge.Observation{State: bridge.RunError, Cause: bridge.CauseCrashed, Detail: "exit status 1"}
		}
		return bridge.Observation{State: bridge.RunFinished, Reply: "Done."}
	}
	w.launch("main")
	boss := w.connect("main", newEra, "")
	child := good[mcpserver.Spawned](w, boss, "spawn_agent", args{"name": "worker", "instructions": "Work.", "repo": "github.com/me/my-app"})
	good[mcpserver.MessageSent](w, boss, "send_message", args{"recipient": "worker", "text": "Look again."})
	turns := func(tx *bridge.Scene, state bridge.TurnState) []bridge.Turn {
		all, err := tx.Turns(bridge.TurnFilter{Agent: bridge.AgentID(child.AgentID), State: state})
		if err != nil {
			t.Error(err)
		}
		return slices.DeleteFunc(all, func(turn bridge.Turn) bool { return !strings.Contains(turn.Sent, "| Look again.") })
	}
	w.until("the turn failed", func(tx *bridge.Scene) bool { return len(turns(tx, bridge.TurnFailed)) > 0 })
	whole.Store(true)
	poked := good[struct {
		Status string
		TurnID string `json:"turn_id"`
	}](w, boss, "poke", args{"agent": "worker"})
	if poked.Status != "retried" || poked.TurnID == "" {
		t.Errorf("poke: %+v", poked)
	}
	w.until("the child heard it again", func(tx *bridge.Scene) bool { return len(turns(tx, bridge.TurnReplied)) == 1 })
}

// The three words of inspect_agent: an agent that waits for a reply is waiting.
func TestStatesOfInspectAgent(t *testing.T) {
	t.Parallel()
	for state, want := range map[bridge.AgentState]string{
		bridge.AgentBusy: "busy", bridge.AgentWaiting: "waiting", bridge.AgentGated: "waiting", bridge.AgentIdle: "idle", bridge.AgentDone: "idle", bridge.AgentFailed: "idle",
	} {
		if got := mcpserver.SeedState(state); got != want {
			t.Errorf("%s reads %q, want %q", state, got, want)
		}
	}
}

func TestATeam(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = []string{mcpserver.SetTeam, mcpserver.SetThreads}
	main := w.launch("main")
	boss := w.connect("main", newEra, "")
	for _, bad := range []string{"../x", "/etc", "a/../../b", "a\\..\\b", "C:\\x", "a\nb"} {
		r := w.call(boss, "spawn_agent", args{"name": "worker", "instructions": "Work.", "repo": "github.com/me/my-app", "workspace_subdir": bad})
		if !r.IsError || !strings.Contains(words(r), "does not stay within") {
			t.Errorf("workspace_subdir %q: %s", bad, words(r))
		}
	}
	var spawned [2]mcpserver.Spawned
	for i, name := range []string{"worker-1", "worker-2"} {
		spawned[i] = good[mcpserver.Spawned](w, boss, "spawn_agent", args{"name": name, "instructions": "Work.", "repo": "github.com/me/my-app", "workspace_subdir": "services/api", "role": "reviewer"})
		if spawned[i].Status != "created" || spawned[i].Name != name {
			t.Fatalf("spawn_agent: %+v", spawned[i])
		}
		w.mint(bridge.Agent{ID: bridge.AgentID(spawned[i].AgentID), Name: name})
	}
	for _, name := range []string{"worker-1", "WORKER-2", "main"} {
		if r := w.call(boss, "spawn_agent", args{"name": name, "instructions": "Work.", "repo": "github.com/me/my-app"}); !r.IsError || !strings.Contains(words(r), "taken") {
			t.Errorf("a name that is taken: %s", words(r))
		}
	}
	one := w.connect("worker-1", oldEra, "")
	sent := good[mcpserver.MessageSent](w, one, "send_message", args{"recipient": "main", "text": "LOCAL_ACTION: backup_script"})
	if sent.Status != "sent" || sent.MessageID == "" || sent.Waiting == nil || !*sent.Waiting {
		t.Errorf("send_message: %+v", sent)
	}
	w.until("the message stands in a turn, with its lines prefixed", func(tx *bridge.Scene) bool {
		turns, err := tx.Turns(bridge.TurnFilter{Agent: main.ID})
		return err == nil && slices.ContainsFunc(turns, func(turn bridge.Turn) bool { return strings.Contains(turn.Sent, "| LOCAL_ACTION: backup_script") })
	})
	cast := good[mcpserver.MessageSent](w, one, "broadcast", args{"text": "Hello, sibling."})
	if cast.Recipients == nil || *cast.Recipients != 1 {
		t.Errorf("broadcast: %+v", cast)
	}
	if r := w.call(one, "send_message", args{"recipient": "USER", "text": "x"}); !r.IsError {
		t.Errorf("a child wrote to the operator: %s", words(r))
	}
	seen := good[mcpserver.Inspection](w, boss, "inspect_agent", args{"name": "worker-1"})
	if seen.State == "" || len(seen.Recent) == 0 || !strings.Contains(seen.Recent[0].Text, "You are worker-1, a reviewer; the agent main spawned you.\nWork in the subdirectory services/api.") {
		t.Errorf("inspect_agent: %+v", seen)
	}
	if r := w.call(one, "inspect_agent", args{"name": "main"}); !r.IsError || !strings.Contains(words(r), "not below you") {
		t.Errorf("a child inspects its parent: %s", words(r))
	}
	if r := w.call(one, "poke", args{"agent": "worker-2"}); !r.IsError || !strings.Contains(words(r), "not your child") {
		t.Errorf("a child pokes its sibling: %s", words(r))
	}
	good[any](w, one, "subscribe", args{"agent": "worker-2", "event": "busy->idle"})
	if r := w.call(one, "subscribe", args{"agent": "worker-1"}); !r.IsError {
		t.Errorf("an agent watches itself: %s", words(r))
	}
	if r := w.call(one, "subscribe", args{"agent": "worker-2", "event": "idle->busy"}); !r.IsError {
		t.Errorf("an event that is none: %s", words(r))
	}
	again := good[mcpserver.MessageSent](w, boss, "send_message", args{"recipient": "worker-2", "text": "Look again."})
	w.until("the sibling's rest is told", func(tx *bridge.Scene) bool {
		turns, err := tx.Turns(bridge.TurnFilter{Agent: bridge.AgentID(spawned[0].AgentID)})
		return err == nil && slices.ContainsFunc(turns, func(turn bridge.Turn) bool { return strings.Contains(turn.Sent, "worker-2 is not busy any more") })
	})
	w.until("the parent sees that its message was read", func(*bridge.Scene) bool {
		told := good[struct{ Receipts []mcpserver.ReceiptView }](w, boss, "message_status", args{"message_id": again.MessageID}).Receipts
		return len(told) == 1 && told[0].Name == "worker-2" && told[0].State == string(bridge.ReceiptAcknowledged) && told[0].TurnID != ""
	})
	if r := w.call(one, "message_status", args{"message_id": again.MessageID}); !r.IsError || !strings.Contains(words(r), "you sent no message") {
		t.Errorf("another's receipts: %s", words(r))
	}
	if r := w.call(one, "complete", args{"result": " "}); !r.IsError || !strings.Contains(words(r), "result is empty") {
		t.Errorf("complete without a result: %s", words(r))
	}
	done := good[mcpserver.MessageSent](w, one, "complete", args{"result": "All done."})
	if done.Status != "completed" {
		t.Errorf("complete: %+v", done)
	}
	// A late answer names its question, because nobody waits for it any more. Asked twice, an agent says which question it answers.
	second := good[mcpserver.MessageSent](w, boss, "send_message", args{"recipient": "worker-2", "text": "And then?"})
	two := w.connect("worker-2", newEra, "")
	for _, asked := range []mcpserver.MessageSent{second, again} {
		reply := args{"recipient": "main", "text": "Reply.", "sync": false, "reply_to": asked.MessageID}
		told := good[mcpserver.MessageSent](w, two, "send_message", reply)
		status := good[struct{ Receipts []mcpserver.ReceiptView }](w, boss, "message_status", args{"message_id": asked.MessageID})
		if len(status.Receipts) != 1 || status.Receipts[0].Answer != told.MessageID {
			t.Errorf("%s is answered by %+v, want %s", asked.MessageID, status.Receipts, told.MessageID)
		}
	}
	children := good[struct{ Children []mcpserver.AgentView }](w, boss, "list_children", nil)
	if len(children.Children) != 2 {
		t.Errorf("list_children: %+v", children)
	}
}

func TestThreadsFilesChannelsMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets, w.workspace = []string{mcpserver.SetThreads, mcpserver.SetTeam, mcpserver.SetChannels, mcpserver.SetMemory}, t.TempDir()
	main := w.launch("main")
	s := w.connect("main", oldEra, "")
	worker := good[mcpserver.Spawned](w, s, "spawn_agent", args{"name": "worker", "instructions": "Work.", "repo": "github.com/me/my-app"})
	w.mint(bridge.Agent{ID: bridge.AgentID(worker.AgentID), Name: "worker"})
	other := w.connect("worker", newEra, "")

	made := good[struct {
		Message string
		Data    struct{ Thread mcpserver.ThreadView }
	}](w, s, "create_thread", args{"creator_id": "main", "title": "Plans", "participants": []string{worker.AgentID}, "initial_message": "What now?"})
	thread := made.Data.Thread.ID
	if !strings.Contains(made.Message, thread) || len(made.Data.Thread.Participants) != 2 {
		t.Fatalf("create_thread: %+v", made)
	}
	good[any](w, other, "send_message", args{"sender_id": worker.AgentID, "thread_id": thread, "content": "This."})
	if t1 := good[mcpserver.ThreadView](w, s, "get_thread_details", args{"thread_id": thread}); !t1.UpdatedAt.After(t1.CreatedAt) {
		t.Errorf("a thread in which something was written was updated at %s and made at %s", t1.UpdatedAt, t1.CreatedAt)
	}
	if r := w.call(other, "send_message", args{"sender_id": worker.AgentID, "thread_id": thread, "recipient_id": "main", "content": "x"}); !r.IsError || !strings.Contains(words(r), "not both") {
		t.Errorf("to both: %s", words(r))
	}
	got := good[struct{ Messages []mcpserver.Post }](w, s, "get_messages", args{"agent_id": string(main.ID), "thread_id": thread, "limit": 5, "since": "2025-03-30T12:00:00Z"})
	if len(got.Messages) == 0 || got.Messages[0].Content != "This." || got.Messages[0].SenderID != worker.AgentID {
		t.Errorf("get_messages: %+v", got)
	}
	for _, bad := range []args{{"limit": 1.5}, {"limit": 0}, {"limit": -1}, {"limit": 1e10}, {"since": "yesterday"}} {
		bad["agent_id"] = "main"
		if r := w.call(s, "get_messages", bad); !r.IsError {
			t.Errorf("get_messages%v: %s", bad, words(r))
		}
	}
	again := good[struct{ Data struct{ Status string } }](w, other, "join_thread", args{"thread_id": thread, "agent_id": "worker"})
	if again.Data.Status != "already_participant" {
		t.Errorf("join twice: %+v", again)
	}

	if err := os.WriteFile(filepath.Join(w.workspace, "plan.txt"), []byte("one, two"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := good[struct {
		Data struct {
			ID   string `json:"file_id"`
			Door string `json:"server_path"`
			Size int64
		}
	}](w, s, "transfer_file", args{"sender_id": "main", "recipient_id": "worker", "source_path": filepath.Join(w.workspace, "plan.txt")})
	if body, status := w.get(file.Data.Door, "worker"); status != 200 || body != "one, two" {
		t.Errorf("the recipient reads %d %q", status, body)
	}
	w.launch("stranger")
	if body, status := w.get(file.Data.Door, "stranger"); status != 404 && status != 403 {
		t.Errorf("a stranger reads %d %q", status, body)
	}
	if r := w.call(s, "transfer_file", args{"sender_id": "main", "recipient_id": "worker", "source_path": "/etc/passwd"}); !r.IsError {
		t.Errorf("a file outside of the workspace: %s", words(r))
	}
	uploads(w, other)

	if good[map[string]string](w, s, "do_nothing", nil)["action"] != "none" {
		t.Error("do_nothing does something")
	}
	dm := good[struct{ MessageID string }](w, s, "send_dm", args{"targetAgentId": "worker", "text": "Psst."})
	if !good[map[string]bool](w, other, "react_to_message", args{"messageId": dm.MessageID, "emoji": "👍"})["success"] {
		t.Error("no reaction")
	}

	good[any](w, s, "update_memory", args{"label": "mood", "content": "calm", "if_version": 0})
	if r := w.call(s, "update_memory", args{"label": "mood", "content": "wild", "if_version": 0}); !r.IsError || !strings.Contains(words(r), "conflict") {
		t.Errorf("a lost update: %s", words(r))
	}
	good[any](w, s, "store_memory", args{"content": "The build needs Go 1.26.", "tags": []string{"build"}})
	good[any](w, s, "store_memory", args{"content": "if a < b && c", "tags": []string{"code"}})
	if text := words(w.call(s, "search_memory", args{"query": "if"})); !strings.Contains(text, `"if a < b && c"`) {
		t.Errorf("a model reads %s", text)
	}
	found := good[struct{ Passages []mcpserver.PassageView }](w, s, "search_memory", args{"query": "build"})
	if len(found.Passages) != 1 || found.Passages[0].ID == "" {
		t.Errorf("search_memory: %+v", found)
	}
	if own := good[struct{ Passages []mcpserver.PassageView }](w, other, "search_memory", args{"query": "build"}); len(own.Passages) != 0 {
		t.Errorf("another agent's memory: %+v", own)
	}
}

// uploads hands files over from an agent without a workspace: in the call itself, and by PUT.
func uploads(w *world, worker *mcp.ClientSession) {
	w.Helper()
	type handed struct {
		Data struct {
			Path string `json:"server_path"`
		}
	}
	for name, c := range map[string]struct{ key, value, want string }{"text": {"content", "as text", "as text"}, "base64": {"content_base64", "AAH/", "\x00\x01\xff"}} {
		file := good[handed](w, worker, "transfer_file", args{"sender_id": "worker", "recipient_id": "main", "source_path": "/home/worker/x.bin", c.key: c.value})
		if body, status := w.get(file.Data.Path, "main"); status != 200 || body != c.want {
			w.Errorf("%s: the recipient reads %d %q", name, status, body)
		}
	}
	for name, bad := range map[string]args{
		"both":      {"content": "x", "content_base64": "eA=="},
		"no base64": {"content_base64": "%%%"},
	} {
		bad["sender_id"], bad["recipient_id"], bad["source_path"] = "worker", "main", "x"
		if r := w.call(worker, "transfer_file", bad); !r.IsError || !strings.Contains(words(r), "content_base64") {
			w.Errorf("%s: %s", name, words(r))
		}
	}
	if body, status := w.put("/mcp/files?recipient_id=main&name=big.bin", "worker", strings.Repeat("y", 100_000)); status != 201 || !strings.Contains(body, `"size":100000`) || !strings.Contains(body, `"server_path":"/mcp/files/fil_`) {
		w.Errorf("an upload: %d %s", status, body)
	}
	if answer := cutUpload(w, "worker"); !strings.HasPrefix(answer, "HTTP/1.1 400 ") || !strings.Contains(answer, "did not arrive whole") {
		w.Errorf("an upload that was cut: %s", answer)
	}
	for path, want := range map[string]int{
		"/mcp/files":                              400,
		"/mcp/files?recipient_id=main":            400,
		"/mcp/files?recipient_id=main&name=x&a=b": 400,
		"/mcp/files?recipient_id=nobody&name=x":   404,
		// One program could take the first of two values, and another the second.
		"/mcp/files?recipient_id=main&recipient_id=worker&name=x": 400,
		"/mcp/files?recipient_id=main&name=x&name=y":              400,
		"/mcp/files?recipient_id=main&name=x&name=x":              400,
		"/mcp/files?recipient_id=main&name=x&Name=y":              400,
		"/mcp/files?recipient_id=main&name=x;name=y":              400,
		"/mcp/files?recipient_id=main&name=x&description=%zz":     400,
		"/mcp/files?recipient_id=main&name=..%2Fx":                400,
	} {
		if body, status := w.put(path, "worker", "x"); status != want {
			w.Errorf("PUT %s: %d %s, want %d", path, status, body, want)
		}
	}
}

// A path of the door that takes no query refuses one; ignoring it could do something else than the client meant.
func TestPathsWithoutQuery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.launch("main")
	for _, path := range []string{"/mcp?toolset=team", "/mcp/bridge?a=b", "/mcp/files/fil_x?name=y"} {
		if body, status := w.get(path, "main"); status != 400 || !strings.Contains(body, "this path takes no query") {
			t.Errorf("GET %s: %d %s", path, status, body)
		}
	}
	if body, status := w.put("/mcp/files?recipient_id=main&name=x&recipient_id=main", "main", "x"); status != 400 || !strings.Contains(body, `\"recipient_id\" is given twice`) {
		t.Errorf("an upload to two: %d %s", status, body)
	}
}

// Each call and return is in the record of the turn that it belongs to, in order, once.
func TestCallsAreRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main := w.launch("main")
	s := w.connect("main", oldEra, "")
	good[any](w, s, "list_allowed", nil)
	w.call(s, "launch_agent", args{"repo": "github.com/evil/x", "prompt": "x"})
	var got []string
	err := w.engine.View(t.Context(), func(tx *bridge.Scene) error {
		turns, err := tx.Turns(bridge.TurnFilter{Agent: main.ID})
		if err != nil {
			return err
		}
		all, err := tx.RunMessages(turns[0].ID, 0, 0)
		for i, m := range all {
			got = append(got, string(m.Kind)+" "+m.Name)
			if m.Seq != int64(i+1) || (i%2 == 1 && m.CallID != all[i-1].CallID) || !json.Valid([]byte(m.Payload)) {
				t.Errorf("message %d: %+v", i, m)
			}
		}
		return err
	})
	want := []string{"tool_call_message list_allowed", "tool_return_message list_allowed", "tool_call_message launch_agent", "tool_return_message launch_agent"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// forgetful is a store that cannot write records of runs while it is broken.
type forgetful struct {
	bridge.Store
	broken atomic.Bool
}

func (f *forgetful) Update(ctx context.Context, fn func(*bridge.Scene) error, hints ...bridge.Need) error {
	return f.Store.Update(ctx, func(tx *bridge.Scene) error {
		err := fn(tx)
		for range tx.Rows.RunMessages.Writes() {
			if f.broken.Load() {
				return errors.New("the disk is full")
			}
		}
		return err
	})
}

// Nothing is told to an agent, and nothing is done for it, that is not on record.
func TestNothingIsToldOffTheRecord(t *testing.T) {
	t.Parallel()
	db := &forgetful{Store: memstore.NewDisk().Open()}
	w := newWorldOn(t, db)
	main := w.launch("main")
	s := w.connect("main", newEra, "")
	good[any](w, s, "list_allowed", nil)
	db.broken.Store(true)
	for tool, arguments := range map[string]args{"list_allowed": nil, "launch_agent": {"repo": "github.com/me/my-app", "prompt": "x"}} {
		if r := w.call(s, tool, arguments); !r.IsError || strings.Contains(words(r), "my-app") {
			t.Errorf("%s that cannot be recorded: %s", tool, words(r))
		}
	}
	if err := w.engine.View(t.Context(), func(tx *bridge.Scene) error {
		all, err := tx.Agents(bridge.AgentFilter{Parent: main.ID})
		if len(all) > 0 {
			t.Errorf("%d agents were launched off the record", len(all))
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// cutUpload sends less of a file than it announced, and returns the answer.
func cutUpload(w *world, name string) string {
	w.Helper()
	host := strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/mcp")
	conn, err := (&net.Dialer{}).DialContext(w.Context(), "tcp", host)
	if err != nil {
		w.Fatal(err)
	}
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "PUT /mcp/files?recipient_id=main&name=x HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\nten bytes.", host, w.secret(name))
	if half, ok := conn.(*net.TCPConn); ok && err == nil {
		err = half.CloseWrite()
	}
	if err != nil {
		w.Fatal(err)
	}
	answer, _ := io.ReadAll(conn) // whatever came before the end
	return string(answer)
}
