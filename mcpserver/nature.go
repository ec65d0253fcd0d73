package mcpserver

import (
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// nature is what a client may know of a tool before it calls it: a title for
// people, the four hints of the protocol, and the shape of the answer. Clients
// decide by the hints whether they ask a person. A missing hint means "destructive"
// and "open world" to them, so each tool states all four.
type nature struct {
	title string
	// readOnly: the call changes nothing that anybody can see. The door then
	// records the call and its return in one write.
	readOnly bool
	// destructive: the call can end or replace what is there, not only add to it.
	destructive bool
	// idempotent: the same call once more changes nothing more.
	idempotent bool
	// openWorld: the call reaches further than the bridge and the agents of the tree.
	openWorld bool
	// gives is the shape of the structured content of an answer that is not an error.
	gives *jsonschema.Schema
}

// natures lists every tool of every set, as set and name.
//
// Starting a subagent and running an action are destructive and reach the open
// world: nobody knows beforehand what a subagent changes in its repository, or what
// the user's command does. A client is right to ask a person before them, unless
// its user leaves that to the bridge's gate.
func natures() map[string]nature {
	launch := nature{title: "Launch a subagent", destructive: true, openWorld: true, gives: shape[Asked]()}
	spawn := nature{title: "Create a named subagent", destructive: true, openWorld: true, gives: shape[Spawned]()}
	action := nature{title: "Run an action on the user's machine", destructive: true, openWorld: true, gives: shape[Asked]()}
	return map[string]nature{
		"bridge/launch_agent":     launch,
		"bridge/list_agents":      look[agentList]("List the agents of your tree"),
		"bridge/agent_status":     look[AgentView]("Show one agent's state"),
		"bridge/run_local_action": action,
		"bridge/list_allowed":     look[Allowed]("List what you may do"),
		"bridge/remind":           add[Asked]("Set a reminder"),
		"bridge/cancel_reminder":  again(ends[Asked]("Cancel a reminder")),

		"team/send_message":   add[MessageSent]("Send a message to an agent"),
		"team/broadcast":      add[MessageSent]("Send a message to your siblings"),
		"team/check_inbox":    add[letterList]("Fetch your messages"),
		"team/message_status": look[receiptList]("Show how far your message has come"),
		"team/spawn_agent":    spawn,
		"team/inspect_agent":  look[Inspection]("Show what a subordinate does"),
		"team/complete":       add[MessageSent]("Report your task as done"),
		"team/poke":           add[poked]("Wake a child"),
		"team/subscribe":      again(add[subscribed]("Be notified when an agent is idle")),
		"team/list_children":  look[childList]("List your children"),

		"threads/send_message":                   add[confirmed[postData]]("Write to an agent or a thread"),
		"threads/get_messages":                   add[postList]("Fetch messages"),
		"threads/create_thread":                  add[confirmed[threadMade]]("Create a thread"),
		"threads/join_thread":                    again(add[confirmed[threadData]]("Join a thread")),
		"threads/broadcast_message":              add[confirmed[postData]]("Write to several agents"),
		"threads/check_new_messages":             look[confirmed[unreadData]]("Count your unread messages"),
		"threads/transfer_file":                  add[confirmed[fileData]]("Hand a file to an agent"),
		"threads/get_thread_details":             look[ThreadView]("Show a thread"),
		"threads/add_participant_to_thread":      again(add[confirmed[threadData]]("Add an agent to a thread")),
		"threads/list_agents":                    look[agentList]("List the agents of your tree"),
		"threads/list_threads":                   look[threadList]("List threads"),
		"threads/remove_participant_from_thread": again(ends[confirmed[threadData]]("Remove an agent from a thread")),

		"channels/send_channel_message": add[messageMade]("Post in a channel"),
		"channels/send_dm":              add[messageMade]("Send a direct message"),
		"channels/react_to_message":     again(add[succeeded]("React with an emoji")),
		"channels/do_nothing":           look[noAction]("Choose not to respond"),

		"memory/update_memory": ends[blockMade]("Replace a memory block"),
		"memory/search_memory": look[passageList]("Search your memory"),
		"memory/store_memory":  add[passageMade]("Store a memory passage"),
	}
}

// look is the nature of a tool that changes nothing.
func look[Out any](title string) nature {
	return nature{title: title, readOnly: true, idempotent: true, gives: shape[Out]()}
}

// add is the nature of a tool that only adds to what is there, within the bridge.
func add[Out any](title string) nature { return nature{title: title, gives: shape[Out]()} }

// ends is the nature of a tool that ends or replaces something, within the bridge.
func ends[Out any](title string) nature {
	return nature{title: title, destructive: true, gives: shape[Out]()}
}

// again says that the same call may be repeated without a further effect.
func again(n nature) nature {
	n.idempotent = true
	return n
}

// hints renders a nature as the protocol has it.
func (n nature) hints() mcp.ToolAnnotations {
	return mcp.ToolAnnotations{Title: n.title, ReadOnlyHint: n.readOnly, IdempotentHint: n.idempotent,
		DestructiveHint: &n.destructive, OpenWorldHint: &n.openWorld}
}

// shape derives the schema of an answer from its type. It panics for a type that has
// none, which is a fault of this package.
func shape[Out any]() *jsonschema.Schema {
	s, err := jsonschema.For[Out](nil)
	if err != nil {
		panic(fmt.Sprintf("schema of %T: %v", *new(Out), err))
	}
	plain(s)
	return s
}

// plain gives each part of a schema one type: many clients refuse a choice such as
// "array or null". It also lets later versions add keys, since clients keep schemas.
func plain(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if i := slices.Index(s.Types, "null"); i >= 0 && len(s.Types) == 2 {
		s.Type, s.Types = s.Types[1-i], nil
	}
	for _, p := range s.Properties {
		plain(p)
	}
	plain(s.Items)
	if s.AdditionalProperties != nil && s.AdditionalProperties.Not != nil {
		s.AdditionalProperties = nil
	}
	plain(s.AdditionalProperties)
}

// The answers of tools that have no exported type.
type (
	agentList struct {
		Agents []AgentView `json:"agents"`
		You    string      `json:"you"`
	}
	childList struct {
		Children []AgentView `json:"children"`
	}
	letterList struct {
		Messages []Letter `json:"messages"`
	}
	receiptList struct {
		MessageID string        `json:"message_id"`
		Receipts  []ReceiptView `json:"receipts"`
	}
	// poked is poke's answer; Turn is the turn that is tried again.
	poked struct {
		Status string `json:"status"`
		Turn   string `json:"turn_id,omitempty"`
	}
	subscribed struct {
		Status string `json:"status"`
		Agent  string `json:"agent_id"`
		Event  string `json:"event"`
	}

	// confirmed is the seed's confirmation message and the data behind it.
	confirmed[Data any] struct {
		Message string `json:"message"`
		Data    Data   `json:"data"`
	}
	postData struct {
		Message Post `json:"message"`
	}
	postList struct {
		Messages []Post `json:"messages"`
	}
	threadMade struct {
		Thread  ThreadView `json:"thread"`
		Initial string     `json:"initial_message_id,omitempty"`
	}
	threadData struct {
		Status string     `json:"status"`
		Thread ThreadView `json:"thread"`
	}
	unreadData struct {
		Count int `json:"unread_count"`
	}
	fileData struct {
		ID        string `json:"file_id"`
		Name      string `json:"file_name"`
		Path      string `json:"server_path"`
		Size      int64  `json:"size"`
		SHA256    string `json:"sha256"`
		MessageID string `json:"message_id"`
	}

	messageMade struct {
		ID string `json:"messageId"`
	}
	succeeded struct {
		Success bool `json:"success"`
	}
	noAction struct {
		Action string `json:"action"`
	}

	blockMade struct {
		Success bool `json:"success"`
		Version int  `json:"version"`
	}
	passageList struct {
		Passages []PassageView `json:"passages"`
	}
	passageMade struct {
		ID string `json:"passageId"`
	}
)
