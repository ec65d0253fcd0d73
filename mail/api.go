package mail

import (
	"context"
	"errors"
	"io"

	"drawbridge/bridge"
)

var errNotYet = errors.New("mail: not there yet")

// Send writes to the parent, a child or a sibling; a root may write to "USER".
func (s *Service) Send(ctx context.Context, from bridge.AgentID, d Draft) (Sent, error) {
	return Sent{}, errNotYet
}

// Broadcast writes to all siblings, under one message id. Conflict without any.
func (s *Service) Broadcast(ctx context.Context, from bridge.AgentID, d Draft) (Sent, error) {
	return Sent{}, errNotYet
}

// SendTo writes one message to several agents of the same tree, or with whom
// the sender shares a channel (AGSLAG's send_message and broadcast_message).
func (s *Service) SendTo(ctx context.Context, from bridge.AgentID, to []string, d Draft) (Sent, error) {
	return Sent{}, errNotYet
}

// Inbox returns what waits for the agent, oldest first, marks it read, and binds
// it to the turn that the agent is in, so that it does not come again; when
// that turn fails, it waits again. At most 50 at a time.
func (s *Service) Inbox(ctx context.Context, agent bridge.AgentID) ([]bridge.Message, error) {
	return nil, errNotYet
}

// Messages returns what was written to the agent, or a thread of which it is a
// member whole, newest first, and marks it read as Inbox does.
func (s *Service) Messages(ctx context.Context, agent bridge.AgentID, q Query) ([]bridge.Message, error) {
	return nil, errNotYet
}

// Unread counts what the agent neither fetched nor found in a prompt, up to 1000.
func (s *Service) Unread(ctx context.Context, agent bridge.AgentID) (int, error) {
	return 0, errNotYet
}

// CreateThread makes a thread; its creator is a member. Participants are told,
// with the first message, whose id is returned; without a text it is one that
// the bridge writes.
func (s *Service) CreateThread(ctx context.Context, creator bridge.AgentID, d ThreadDraft) (Conversation, bridge.MessageID, error) {
	return Conversation{}, "", errNotYet
}

// Join makes the agent a member of a thread of its tree, or whose creator shares
// a channel with it. joined is false when it is one already.
func (s *Service) Join(ctx context.Context, agent bridge.AgentID, thread bridge.ConversationID) (c Conversation, joined bool, err error) {
	return Conversation{}, false, errNotYet
}

// Leave ends the agent's membership. The creator cannot leave.
func (s *Service) Leave(ctx context.Context, agent bridge.AgentID, thread bridge.ConversationID) (Conversation, error) {
	return Conversation{}, errNotYet
}

// AddParticipant adds an agent to a thread of which by is a member. Adding a
// member again changes nothing and is no error; added is false then.
func (s *Service) AddParticipant(ctx context.Context, by bridge.AgentID, thread bridge.ConversationID, who string) (c Conversation, added bool, err error) {
	return Conversation{}, false, errNotYet
}

// RemoveParticipant takes an agent out of a thread: itself, or anyone when by is
// the creator, who cannot be removed.
func (s *Service) RemoveParticipant(ctx context.Context, by bridge.AgentID, thread bridge.ConversationID, who string) (Conversation, error) {
	return Conversation{}, errNotYet
}

// Thread returns a thread of which the agent is a member.
func (s *Service) Thread(ctx context.Context, agent bridge.AgentID, thread bridge.ConversationID) (Conversation, error) {
	return Conversation{}, errNotYet
}

// PostThread writes into a thread of which from is a member. It wakes the
// thread's creator and who wrote in it before, one after another; all when it is urgent.
func (s *Service) PostThread(ctx context.Context, from bridge.AgentID, thread bridge.ConversationID, d Draft) (Sent, error) {
	return Sent{}, errNotYet
}

// PostChannel writes into a channel, by name or id, of which from is a member. It
// wakes nobody. The id of a DM is fine and does what DM does.
func (s *Service) PostChannel(ctx context.Context, from bridge.AgentID, channel, text string) (Sent, error) {
	return Sent{}, errNotYet
}

// DM writes to one agent of the same tree, or with whom a channel is shared. It
// wakes it while the chain of turns is short; see Options.ChainDepth.
func (s *Service) DM(ctx context.Context, from bridge.AgentID, to, text string) (Sent, error) {
	return Sent{}, errNotYet
}

// React puts an emoji on a message that the agent may see; Unreact takes it
// away. false says that it was there (or gone) already, which is fine.
func (s *Service) React(ctx context.Context, agent bridge.AgentID, id bridge.MessageID, emoji string) (bool, error) {
	return false, errNotYet
}

// Unreact takes a reaction away; see React.
func (s *Service) Unreact(ctx context.Context, agent bridge.AgentID, id bridge.MessageID, emoji string) (bool, error) {
	return false, errNotYet
}

// Edit changes the text of an own message (any, for bridge.User), also where it
// still waits to be read. Who read it already is not told.
func (s *Service) Edit(ctx context.Context, by bridge.AgentID, id bridge.MessageID, text string) (bridge.Message, error) {
	return bridge.Message{}, errNotYet
}

// Delete withdraws the text of an own message (any, for bridge.User), also where
// it still waits to be read. Twice is fine.
func (s *Service) Delete(ctx context.Context, by bridge.AgentID, id bridge.MessageID) (bridge.Message, error) {
	return bridge.Message{}, errNotYet
}

// Transfer copies a file out of the sender's workspace and tells the recipient,
// who must be within the reach of SendTo, where it is.
func (s *Service) Transfer(ctx context.Context, from bridge.AgentID, d FileDraft) (bridge.File, bridge.Message, error) {
	return bridge.File{}, bridge.Message{}, errNotYet
}

// OpenFile opens a file that the agent sent or got; bridge.User may open all.
func (s *Service) OpenFile(ctx context.Context, agent bridge.AgentID, id bridge.FileID) (io.ReadCloser, bridge.File, error) {
	return nil, bridge.File{}, errNotYet
}

// Receipts says how far a message has come at each recipient. Only its sender
// (and bridge.User) may see it.
func (s *Service) Receipts(ctx context.Context, sender bridge.AgentID, id bridge.MessageID) ([]bridge.Receipt, error) {
	return nil, errNotYet
}

// Say is the operator's own word to a channel, a thread or a DM (by name or id),
// or to an agent. It starts a chain anew and wakes all who get it, the members
// of a conversation one after another.
func (s *Service) Say(ctx context.Context, to, text string) (Sent, error) { return Sent{}, errNotYet }
