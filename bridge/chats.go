package bridge

// ChatAgent is the external id of an agent that a chat model plays in this process. It is made from our own id, so that no
// other Runtime can have given it.
func ChatAgent(id AgentID) string { return "chat-" + string(id) }

// Silent reports whether the agent acts by tools alone: a chat model plays it. The bridge records its text and shows it to the
// operator. No line of it is a command, and no agent reads it.
func (a Agent) Silent() bool { return a.External != "" && a.External == ChatAgent(a.ID) }
