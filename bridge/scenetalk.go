package bridge

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// What look-ups of conversations, members, reactions and files need.
type (
	// NeedConversation is the conversation of an id.
	NeedConversation struct {
		needs
		ID ConversationID
	}
	// NeedChannel is the channel of a name.
	NeedChannel struct {
		needs
		Name string
	}
	// NeedConversations is the conversations that a filter selects, newest first.
	NeedConversations struct {
		needs
		ConversationFilter
	}
	// NeedMember is one agent's membership in a conversation.
	NeedMember struct {
		needs
		In    ConversationID
		Agent AgentID
	}
	// NeedMembers is the members of a conversation.
	NeedMembers struct {
		needs
		In ConversationID
	}
	// NeedSharedChannels is the channels in which two agents are members, and their memberships.
	NeedSharedChannels struct {
		needs
		A, B AgentID
	}
	// NeedThreadCount is how many active threads an agent made.
	NeedThreadCount struct {
		needs
		Creator AgentID
	}
	// NeedThreadsOf is the active threads in which an agent is a member, and its memberships there.
	NeedThreadsOf struct {
		needs
		Member AgentID
	}
	// NeedPosters is which members wrote in a conversation. The store answers with their ids ([]AgentID).
	NeedPosters struct {
		needs
		In ConversationID
	}
	// NeedPosted is how many messages an agent wrote in a conversation, 1 for more.
	NeedPosted struct {
		needs
		In   ConversationID
		From AgentID
	}
	// NeedReaction is one agent's emoji on a message.
	NeedReaction struct {
		needs
		Message MessageID
		Agent   AgentID
		Emoji   string
	}
	// NeedReactions is the reactions to a message.
	NeedReactions struct {
		needs
		Message MessageID
	}
	// NeedFile is the file of an id.
	NeedFile struct {
		needs
		ID FileID
	}
	// NeedFileCount is how many files of an agent are kept.
	NeedFileCount struct {
		needs
		From AgentID
	}
	// NeedFileBytes is how many bytes the files of an agent have.
	NeedFileBytes struct {
		needs
		From AgentID
	}
)

func (n NeedConversations) limit() int { return n.Limit }

// InsertConversation fails with a Conflict when the id or the channel's name is taken.
func (s *Scene) InsertConversation(c Conversation) error {
	_, err := s.Conversation(c.ID)
	_, nameErr := s.FindChannel(c.Name)
	switch {
	case err == nil || nameErr == nil:
		return Errorf(Conflict, "a conversation with this id or name exists already; choose another name")
	case unlessNone(err) != nil || unlessNone(nameErr) != nil:
		return cmp.Or(unlessNone(err), unlessNone(nameErr))
	}
	return s.setConversation(c)
}

func (s *Scene) setConversation(c Conversation) error {
	c.CreatedAt, c.UpdatedAt = stamp(c.CreatedAt), stamp(c.UpdatedAt)
	return set(s, &s.Rows.Conversations, c.ID, &c)
}

// UpdateConversation replaces the row of a conversation that is there.
func (s *Scene) UpdateConversation(c Conversation) error {
	if _, err := s.Conversation(c.ID); err != nil {
		return err
	}
	return s.setConversation(c)
}

// Conversation returns a conversation by its id, ErrNoRow when there is none.
func (s *Scene) Conversation(id ConversationID) (Conversation, error) {
	return valueOf(row(s, &s.Rows.Conversations, NeedConversation{ID: id}, id))
}

// FindChannel looks a channel up by name.
func (s *Scene) FindChannel(name string) (Conversation, error) {
	if name == "" {
		return Conversation{}, ErrNoRow
	}
	return valueOf(one(s, &s.Rows.Conversations, NeedChannel{Name: name}, func(c *Conversation) bool { return c.Name == name }))
}

// Conversations lists conversations by the filter.
func (s *Scene) Conversations(f ConversationFilter) ([]Conversation, error) {
	return valuesOf(first(s, &s.Rows.Conversations, look[Conversation]{
		need:  func(limit int) Need { f.Limit = limit; return NeedConversations{ConversationFilter: f} },
		limit: limitOr(f.Limit),
		match: func(c *Conversation) bool { return is(f.Kind, c.Kind) && (f.Before == "" || c.ID < f.Before) },
		order: func(a, b *Conversation) int { return cmp.Compare(b.ID, a.ID) },
	}))
}

// AddMember reports false when the agent is one already.
func (s *Scene) AddMember(id ConversationID, agent AgentID, at time.Time) (bool, error) {
	all, err := s.membersOf(id)
	if err != nil {
		return false, err
	}
	m := MemberRow{Conversation: id, Agent: agent, Place: 1, JoinedAt: stamp(at)}
	for _, other := range all {
		if other.Agent == agent {
			return false, nil
		}
		m.Place = max(m.Place, other.Place+1)
	}
	return true, set(s, &s.Rows.Members, MemberKey(id, agent), &m)
}

// membersOf returns members in the order in which they joined.
func (s *Scene) membersOf(id ConversationID) ([]*MemberRow, error) {
	all, err := where(s, &s.Rows.Members, NeedMembers{In: id}, func(m *MemberRow) bool { return m.Conversation == id })
	slices.SortStableFunc(all, func(a, b *MemberRow) int { return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(a.Agent, b.Agent)) })
	return all, err
}

// RemoveMember reports false when the agent is not a member.
func (s *Scene) RemoveMember(id ConversationID, agent AgentID) (bool, error) {
	if is, err := s.IsMember(id, agent); !is || err != nil {
		return false, err
	}
	return true, set(s, &s.Rows.Members, MemberKey(id, agent), nil)
}

// IsMember reports whether an agent is a member of a conversation.
func (s *Scene) IsMember(id ConversationID, agent AgentID) (bool, error) {
	n := Need(NeedMember{In: id, Agent: agent})
	if all := (NeedMembers{In: id}); s.HasLoaded(all) {
		n = all
	}
	_, err := row(s, &s.Rows.Members, n, MemberKey(id, agent))
	return err == nil, unlessNone(err)
}

// Members returns members in the order in which they joined.
func (s *Scene) Members(id ConversationID) (out []AgentID, err error) {
	all, err := s.membersOf(id)
	for _, m := range all {
		out = append(out, m.Agent)
	}
	return out, err
}

// ShareChannel reports whether two agents are members of one channel.
func (s *Scene) ShareChannel(a, b AgentID) (bool, error) {
	all, err := where(s, &s.Rows.Members, NeedSharedChannels{A: a, B: b}, func(m *MemberRow) bool { return m.Agent == a || m.Agent == b })
	if err != nil {
		return false, err
	}
	for _, m := range all {
		other := a
		if m.Agent == a {
			other = b
		}
		if shared, err := s.inChannelWith(m, other); shared || err != nil {
			return shared, err
		}
	}
	return false, nil
}

// inChannelWith reports whether a membership is one in a channel with another agent.
// What the step did not write was loaded as a whole or is not shared.
func (s *Scene) inChannelWith(m *MemberRow, other AgentID) (bool, error) {
	if !s.Rows.Members.written(MemberKey(m.Conversation, m.Agent)) {
		c := s.Rows.Conversations.Row(m.Conversation)
		return c != nil && c.Kind == MailChannel && s.Rows.Members.Row(MemberKey(m.Conversation, other)) != nil, nil
	}
	c, err := s.Conversation(m.Conversation)
	if err != nil || c.Kind != MailChannel {
		return false, unlessNone(err)
	}
	return s.IsMember(m.Conversation, other)
}

func (c *Conversation) isOpenThread() bool {
	return c.Kind == MailThread && c.Status == ConversationActive
}

// CountThreads counts the active threads that an agent made, up to limit.
func (s *Scene) CountThreads(creator AgentID, limit int) (int, error) {
	n, err := count(s, &s.Rows.Conversations, NeedThreadCount{Creator: creator}, func(c *Conversation) bool {
		return c.Creator == creator && c.isOpenThread()
	})
	return min(n, limit), err
}

// CountThreadsOf counts the active threads in which an agent is a member, up to limit.
func (s *Scene) CountThreadsOf(member AgentID, limit int) (n int, err error) {
	for w := range s.Rows.Conversations.Writes() { // a thread that was opened again
		if w.Now != nil && w.Now.isOpenThread() {
			if _, err := s.IsMember(w.Key, member); err != nil {
				return 0, err
			}
		}
	}
	all, err := where(s, &s.Rows.Members, NeedThreadsOf{Member: member}, func(m *MemberRow) bool { return m.Agent == member })
	if err != nil {
		return 0, err
	}
	for _, m := range all {
		c := s.Rows.Conversations.Row(m.Conversation)
		if c == nil && s.Rows.Members.written(MemberKey(m.Conversation, member)) {
			c, err = row(s, &s.Rows.Conversations, NeedConversation{ID: m.Conversation}, m.Conversation)
			if unlessNone(err) != nil {
				return 0, err
			}
		}
		if c != nil && c.isOpenThread() {
			n++
		}
	}
	return min(n, limit), nil
}

// Posters returns the members who wrote in a conversation, in the order of Members.
func (s *Scene) Posters(id ConversationID) (out []AgentID, err error) {
	posters := NeedPosters{In: id}
	all, err := s.membersOf(id)
	if err := cmp.Or(s.need(posters), err); err != nil {
		return nil, err
	}
	wrote := map[AgentID]bool{}
	if known, ok := s.known[posters].answer.([]AgentID); ok {
		for _, agent := range known {
			wrote[agent] = true
		}
	}
	for m := range s.Rows.Messages.All() {
		wrote[m.From] = wrote[m.From] || id != "" && m.Conversation == id && !m.System
	}
	for _, m := range all {
		posted := wrote[m.Agent]
		if !posted {
			posted, err = s.postedBefore(m)
		}
		if err != nil {
			return nil, err
		}
		if posted {
			out = append(out, m.Agent)
		}
	}
	return out, nil
}

// postedBefore reports whether an agent that became a member in this step wrote before.
// For others NeedPosters has the answer.
func (s *Scene) postedBefore(m *MemberRow) (bool, error) {
	if !s.Rows.Members.written(MemberKey(m.Conversation, m.Agent)) {
		return false, nil
	}
	n := NeedPosted{In: m.Conversation, From: m.Agent}
	if err := s.need(n); err != nil {
		return false, err
	}
	return s.known[n].n > 0, nil
}

// AddReaction reports false when it is there already.
func (s *Scene) AddReaction(r Reaction) (bool, error) {
	there, err := s.hasReaction(r)
	if there || err != nil {
		return false, err
	}
	r.CreatedAt = stamp(r.CreatedAt)
	return true, set(s, &s.Rows.Reactions, ReactionKey(r), &r)
}

func (s *Scene) hasReaction(r Reaction) (bool, error) {
	_, err := row(s, &s.Rows.Reactions, NeedReaction{Message: r.Message, Agent: r.Agent, Emoji: r.Emoji}, ReactionKey(r))
	return err == nil, unlessNone(err)
}

// RemoveReaction reports false when the reaction is not there.
func (s *Scene) RemoveReaction(r Reaction) (bool, error) {
	there, err := s.hasReaction(r)
	if !there || err != nil {
		return false, err
	}
	return true, set(s, &s.Rows.Reactions, ReactionKey(r), nil)
}

// Reactions returns a message's reactions, oldest first.
func (s *Scene) Reactions(id MessageID) ([]Reaction, error) {
	all, err := valuesOf(where(s, &s.Rows.Reactions, NeedReactions{Message: id}, func(r *Reaction) bool { return r.Message == id }))
	slices.SortFunc(all, func(a, b Reaction) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Emoji, b.Emoji))
	})
	return all, err
}

// InsertFile records a file that was handed over.
func (s *Scene) InsertFile(f File) error {
	if s.Rows.Files.Row(f.ID) != nil {
		return fmt.Errorf("file %q exists already", f.ID)
	}
	f.CreatedAt = stamp(f.CreatedAt)
	return set(s, &s.Rows.Files, f.ID, &f)
}

// File returns a file by its id, ErrNoRow when there is none.
func (s *Scene) File(id FileID) (File, error) {
	return valueOf(row(s, &s.Rows.Files, NeedFile{ID: id}, id))
}

// FilesFrom returns how many files an agent has handed over that are still kept, and their bytes.
func (s *Scene) FilesFrom(agent AgentID) (files, bytes int64, err error) {
	n, err := count(s, &s.Rows.Files, NeedFileCount{From: agent}, func(f *File) bool { return f.From == agent })
	bytes, sumErr := total(s, &s.Rows.Files, NeedFileBytes{From: agent}, func(f *File) int64 {
		if f.From != agent {
			return 0
		}
		return f.Size
	})
	if err := cmp.Or(err, sumErr); err != nil {
		return 0, 0, err
	}
	return int64(n), bytes, nil
}

// total is count for a sum: what the store summed, and what the step changed of it.
// A row that does not belong to the sum has the value 0.
func total[K cmp.Ordered, V any](s *Scene, t *Table[K, V], n Need, value func(*V) int64) (sum int64, err error) {
	if guessed, err := s.guess(n); err != nil || guessed && s.whole {
		return 0, err
	}
	if s.whole {
		for row := range t.All() {
			sum += value(row)
		}
		return sum, nil
	}
	sum = s.known[n].n
	for w := range t.Writes() {
		if w.Was != nil {
			sum -= value(w.Was)
		}
		if w.Now != nil {
			sum += value(w.Now)
		}
	}
	return sum, nil
}

// DropFile forgets a file; false when there is none. It leaves the stored copy alone.
func (s *Scene) DropFile(id FileID) (bool, error) {
	if _, err := s.File(id); err != nil {
		return false, unlessNone(err)
	}
	return true, set(s, &s.Rows.Files, id, nil)
}
