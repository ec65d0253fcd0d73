package bridge

import "time"

// Rows are the tables of a database. The rows of a Scene are those that its step needs.
type Rows struct {
	Agents      Table[AgentID, AgentRow]
	Turns       Table[TurnID, Turn]
	Commands    Table[CommandID, CommandRow]
	Notices     Table[NoticeID, Notice]
	Completions Table[CompletionID, Completion]
	Deliveries  Table[DeliveryID, Delivery]
	Trees       Table[AgentID, Tree]
	Echoes      Table[string, Echo]        // by agent and key
	Approvals   Table[string, ApprovalRow] // by root and key
	Yeses       Table[string, Yes]         // by root and target
	Told        Table[string, ToldRow]     // by agent and item
	Restoring   Table[int, Restored]       // one row
	Watches     Table[string, Watch]       // by both agents
	Once        Table[string, Done]        // by agent and key
	Work        Table[int64, Work]
	Past        Table[int64, Event] // by number

	Messages      Table[MessageID, Message]
	Letters       Table[string, Letter] // by message and agent
	Conversations Table[ConversationID, Conversation]
	Members       Table[string, MemberRow] // by conversation and agent
	Reactions     Table[string, Reaction]  // by message, agent and emoji
	Files         Table[FileID, File]

	Relays   Table[string, Relay]
	Offers   Table[string, RelayOffer] // by relay and action
	Joins    Table[string, RelayJoin]
	Keys     Table[int64, RelayKey]
	Replicas Table[string, ReplicaRow]
	Calls    Table[string, RelayCall]
	Ties     Table[string, RelayTie]
	Asked    Table[string, MachineQuestion]

	Blocks      Table[string, Block] // by agent and label
	Versions    Table[string, Block] // by agent, label and version
	Passages    Table[PassageID, Passage]
	MemoryBytes Table[AgentID, BytesRow]
	Tokens      Table[TokenID, DoorToken]
	RunMessages Table[string, RunMessage] // by turn and number
}

func (r *Rows) tables() []anyTable {
	return []anyTable{
		&r.Agents, &r.Turns, &r.Commands, &r.Notices, &r.Completions, &r.Deliveries, &r.Trees, &r.Echoes, &r.Approvals, &r.Yeses,
		&r.Told, &r.Restoring, &r.Watches, &r.Once, &r.Work, &r.Past,
		&r.Messages, &r.Letters, &r.Conversations, &r.Members, &r.Reactions, &r.Files,
		&r.Relays, &r.Offers, &r.Joins, &r.Keys, &r.Replicas, &r.Calls, &r.Ties, &r.Asked,
		&r.Blocks, &r.Versions, &r.Passages, &r.MemoryBytes, &r.Tokens, &r.RunMessages,
	}
}

// AgentRow is an agent and the number of its last turn.
type AgentRow struct {
	Agent
	LastTurn int64
}

// CommandRow is a command and when its launch counted for the first time.
type CommandRow struct {
	Command
	Launched time.Time
}

// ApprovalRow is until when a key lets commands pass in a tree.
type ApprovalRow struct {
	Root  AgentID
	Key   string
	Until time.Time
}

// ToldRow says which turn told an item.
type ToldRow struct {
	Agent AgentID
	Item  ItemID
	Turn  TurnID
}

// MemberRow is one agent in one conversation; Place orders members by when they joined.
type MemberRow struct {
	Conversation ConversationID
	Agent        AgentID
	Place        int64
	JoinedAt     time.Time
}

// ReplicaRow is when a replica last lived.
type ReplicaRow struct {
	ID     string
	SeenAt time.Time
}

// BytesRow is how many bytes an agent's memory holds.
type BytesRow struct {
	Agent AgentID
	Bytes int64
}

// The keys of rows that have more than one part.

// EchoKey is the key of an echo; it keeps an agent's echoes side by side.
func EchoKey(agent AgentID, key string) string { return pair(agent, key) }

// ApprovalKey is the key of an approval.
func ApprovalKey(root AgentID, key string) string { return pair(root, key) }

// YesKey is the key of a Yes.
func YesKey(root AgentID, target string) string { return pair(root, target) }

// ToldKey is the key of what was told.
func ToldKey(agent AgentID, item ItemID) string { return pair(agent, item) }

// WatchKey is the key of a watch.
func WatchKey(agent, on AgentID) string { return pair(agent, on) }

// OnceKey is the key of what was done once.
func OnceKey(agent AgentID, key string) string { return pair(agent, key) }

// LetterKey is the key of a letter.
func LetterKey(message MessageID, agent AgentID) string { return pair(message, agent) }

// MemberKey is the key of a member.
func MemberKey(in ConversationID, agent AgentID) string { return pair(in, agent) }

// ReactionKey is the key of a reaction.
func ReactionKey(r Reaction) string { return pair(pair(r.Message, r.Agent), r.Emoji) }
