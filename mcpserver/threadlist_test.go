package mcpserver_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"drawbridge/bridge"
	"drawbridge/mail"
	"drawbridge/mcpserver"
)

// The set of threads alone lists agents and threads, and beside the bridge's set there
// is one list_agents.
func TestThreadsSetListsAgents(t *testing.T) {
	t.Parallel()
	for _, sets := range [][]string{{mcpserver.SetThreads}, {mcpserver.SetBridge, mcpserver.SetThreads}, {mcpserver.SetThreads, mcpserver.SetBridge}, mcpserver.SetNames()} {
		w := newWorld(t)
		w.sets = sets
		root := w.launch("main")
		s := w.connect("main", newEra, "")
		listed, err := s.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range listed.Tools {
			if tool.Name == "list_agents" || tool.Name == "threads_list_agents" || tool.Name == "bridge_list_agents" || tool.Name == "list_threads" {
				names = append(names, tool.Name)
			}
		}
		if slices.Sort(names); !slices.Equal(names, []string{"list_agents", "list_threads"}) {
			t.Errorf("%v offer %v", sets, names)
		}
		out := structured(t, w.call(s, "list_agents", args{}))
		if fmt.Sprint(out["you"]) != string(root.ID) {
			t.Errorf("%v: list_agents answers %v", sets, out)
		}
	}
}

// An agent lists the threads that it is in and those that it may join, page by page,
// and of others' threads nothing.
func TestListThreads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = []string{mcpserver.SetThreads}
	main, other := w.launch("main"), w.launch("other")
	create := func(creator bridge.AgentID, title string) bridge.ConversationID {
		c, _, err := w.mail.CreateThread(t.Context(), creator, mail.ThreadDraft{Title: title})
		if err != nil {
			t.Fatal(err)
		}
		return c.ID
	}
	first := create(main.ID, "first")
	hidden := create(other.ID, "of another tree")
	second := create(main.ID, "second")
	closed := create(main.ID, "closed")
	if _, err := w.mail.SetStatus(t.Context(), string(closed), bridge.ConversationClosed); err != nil {
		t.Fatal(err)
	}
	list := func(who string, in args) (ids []bridge.ConversationID, members []bool, next string) {
		t.Helper()
		in["agent_id"] = who
		out := structured(t, w.call(w.connect(who, newEra, ""), "list_threads", in))
		all, _ := out["threads"].([]any)
		for _, one := range all {
			thread, _ := one.(map[string]any)
			ids = append(ids, bridge.ConversationID(fmt.Sprint(thread["id"])))
			members = append(members, thread["member"] == true)
			if participants, _ := thread["participants"].([]any); (len(participants) > 0) != (thread["member"] == true) {
				t.Errorf("%s sees %v", who, thread)
			}
		}
		next, _ = out["next"].(string)
		return ids, members, next
	}
	want := func(what string, got, want any) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	ids, members, next := list("main", args{})
	want("main's", ids, []bridge.ConversationID{closed, second, first})
	want("main is a member", members, []bool{true, true, true})
	want("main's next", next, "")
	ids, _, next = list("main", args{"limit": 2})
	want("main's first page", ids, []bridge.ConversationID{closed, second})
	ids, _, next = list("main", args{"limit": 2, "before": next})
	want("main's second page", ids, []bridge.ConversationID{first})
	want("behind the last page", next, "")
	ids, _, _ = list("other", args{})
	want("other's", ids, []bridge.ConversationID{hidden})
	// A channel lets other join main's open threads.
	if _, err := w.mail.CreateChannel(t.Context(), "general", "main", "other"); err != nil {
		t.Fatal(err)
	}
	ids, members, _ = list("other", args{})
	want("what other may see now", ids, []bridge.ConversationID{second, hidden, first})
	want("other is a member", members, []bool{false, true, false})
	for _, bad := range []args{{"agent_id": "other", "limit": 0}, {"agent_id": "other", "limit": -1}, {"agent_id": "other", "limit": 1.5}, {"agent_id": "main"}} {
		if r := w.call(w.connect("other", newEra, ""), "list_threads", bad); !r.IsError {
			t.Errorf("%v: %s", bad, words(r))
		}
	}
}

// structured is what a call answered, which must not be an error.
func structured(t *testing.T, r *mcp.CallToolResult) map[string]any {
	t.Helper()
	out, ok := r.StructuredContent.(map[string]any)
	if r.IsError || !ok {
		t.Fatalf("the answer is %s", words(r))
	}
	return out
}
