package stores

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"drawbridge/bridge"
)

func fullMessage() bridge.Message {
	return bridge.Message{ID: "msg_full", Kind: bridge.MailDirect, Conversation: "thr_1", From: "agt_1", FromName: "one", To: []bridge.AgentID{"agt_2", bridge.User},
		Text: "line one\n| line two ✓", Urgent: true, Sync: true, System: true, ReplyTo: "msg_0", JoinBy: at(time.Hour), Files: []bridge.Attachment{{ID: "fil_1", Type: "text/plain", Name: "a b.txt", Size: 1 << 40}},
		Turn: "trn_1", Depth: 2, CreatedAt: epoch, EditedAt: at(time.Second), DeletedAt: at(time.Minute)}
}

func message(n int) bridge.Message {
	return bridge.Message{ID: bridge.MessageID(fmt.Sprintf("msg_%04d", n)), Kind: bridge.MailDirect, From: "agt_1", To: []bridge.AgentID{"agt_2"}, Text: "text", CreatedAt: at(time.Duration(n) * time.Second)}
}

func letter(n int, to bridge.AgentID) bridge.Letter {
	m := message(n)
	return bridge.Letter{Message: m.ID, Agent: to, From: m.From, Notice: bridge.NoticeID(fmt.Sprintf("ntc_%04d", n)), Direct: true, CreatedAt: m.CreatedAt}
}

func messageIDs(all []bridge.Message) (ids []bridge.MessageID) {
	for _, m := range all {
		ids = append(ids, m.ID)
	}
	return ids
}

func testMessages(t *testing.T, open Open) {
	s, want := open(t), fullMessage()
	noZeroField(t, want)
	get := func(tx *bridge.Scene) (bridge.Message, error) { return tx.Message(want.ID) }
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.InsertMessage(want) })
	equal(t, "message", read(t, s, get), want)
	want.Text, want.To, want.Files, want.JoinBy = "", nil, nil, time.Time{}
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.UpdateMessage(want) })
	equal(t, "updated message", read(t, s, get), want)
	if err := s.Update(t.Context(), func(tx *bridge.Scene) error { return tx.InsertMessage(want) }); err == nil {
		t.Error("a message was inserted twice")
	}
	if err := s.Update(t.Context(), func(tx *bridge.Scene) error { return tx.UpdateMessage(message(1)) }); !errors.Is(err, bridge.ErrNoRow) {
		t.Errorf("update of no message: %v", err)
	}
}

// testMessageFilters asks for what is in an inbox, in a conversation and for the operator.
func testMessageFilters(t *testing.T, open Open) {
	s := open(t)
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		for n := range 240 {
			m := message(n)
			switch n % 3 {
			case 1:
				m.Conversation, m.To = "thr_1", nil
			case 2:
				m.To = []bridge.AgentID{bridge.User}
			}
			to := bridge.AgentID("agt_2")
			if n%3 == 2 {
				to = bridge.User
			}
			if err := errors.Join(tx.InsertMessage(m), tx.InsertLetter(letter(n, to))); err != nil {
				return err
			}
		}
		return nil
	})
	newest := func(limit int, is func(n int) bool) (ids []bridge.MessageID) {
		for n := 239; n >= 0 && len(ids) < limit; n-- {
			if is(n) {
				ids = append(ids, message(n).ID)
			}
		}
		return ids
	}
	inbox, thread, user := func(n int) bool { return n%3 != 2 }, func(n int) bool { return n%3 == 1 }, func(n int) bool { return n%3 == 2 }
	tests := []struct {
		name   string
		filter bridge.MessageFilter
		want   []bridge.MessageID
	}{
		{"inbox", bridge.MessageFilter{To: "agt_2"}, newest(100, inbox)},
		{"inbox, some", bridge.MessageFilter{To: "agt_2", Limit: 3}, newest(3, inbox)},
		{"inbox before", bridge.MessageFilter{To: "agt_2", Before: "msg_0005"}, newest(9, func(n int) bool { return inbox(n) && n < 5 })},
		{"inbox since", bridge.MessageFilter{To: "agt_2", Since: at(235 * time.Second)}, newest(9, func(n int) bool { return inbox(n) && n > 235 })},
		{"thread", bridge.MessageFilter{Conversation: "thr_1", Limit: 500}, newest(500, thread)},
		{"thread between", bridge.MessageFilter{Conversation: "thr_1", Since: at(2 * time.Second), Before: "msg_0010"}, []bridge.MessageID{"msg_0007", "msg_0004"}},
		{"operator", bridge.MessageFilter{To: bridge.User, Limit: 5}, newest(5, user)},
		{"operator before and since", bridge.MessageFilter{To: bridge.User, Before: "msg_0008", Since: at(2 * time.Second)}, []bridge.MessageID{"msg_0005"}},
		{"nobody", bridge.MessageFilter{To: "agt_9"}, nil},
		{"no conversation", bridge.MessageFilter{Conversation: "thr_9"}, nil},
	}
	for _, tt := range tests {
		equal(t, tt.name, messageIDs(read(t, s, func(tx *bridge.Scene) ([]bridge.Message, error) { return tx.Messages(tt.filter) })), tt.want)
	}
	if _, err := lookUp(t.Context(), s, func(tx *bridge.Scene) ([]bridge.Message, error) { return tx.Messages(bridge.MessageFilter{}) }); err == nil {
		t.Error("messages of nobody in particular were listed")
	}
}

func testLetters(t *testing.T, open Open) {
	s := open(t)
	want := bridge.Letter{Message: "msg_0001", Agent: "agt_2", From: "agt_1", Notice: "ntc_b", Direct: true, Awaited: true, Answer: "msg_2", Offered: "trn_1", ReadAt: at(time.Second), CreatedAt: epoch}
	noZeroField(t, want)
	other := letter(1, "agt_3")
	other.Notice = "ntc_a"
	mustUpdate(t, s, func(tx *bridge.Scene) error { return errors.Join(tx.InsertLetter(want), tx.InsertLetter(other)) })
	get := func(tx *bridge.Scene) (bridge.Letter, error) { return tx.Letter("msg_0001", "agt_2") }
	equal(t, "letter", read(t, s, get), want)
	equal(t, "letters in the order of their notices", read(t, s, func(tx *bridge.Scene) ([]bridge.Letter, error) { return tx.Letters("msg_0001") }), []bridge.Letter{other, want})
	want.Awaited, want.Answer, want.ReadAt = false, "", time.Time{}
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.UpdateLetter(want) })
	equal(t, "updated letter", read(t, s, get), want)
	if err := s.Update(t.Context(), func(tx *bridge.Scene) error { return tx.InsertLetter(want) }); err == nil {
		t.Error("a letter was inserted twice")
	}
	if err := s.Update(t.Context(), func(tx *bridge.Scene) error { return tx.UpdateLetter(letter(9, "agt_2")) }); !errors.Is(err, bridge.ErrNoRow) {
		t.Errorf("update of no letter: %v", err)
	}
}

// testMailNotices: what is quiet waits behind what is not, however old, and the
// notices of a message are found, rewritten while they wait, and roused.
func testMailNotices(t *testing.T, open Open) {
	s := open(t)
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		for n := range 6 {
			w := bridge.Notice{ID: bridge.NoticeID(fmt.Sprintf("ntc_%04d", n)), Agent: "agt_1", Quiet: n%2 == 0, Message: message(n / 3).ID, Untrusted: "old", CreatedAt: epoch}
			if n == 3 {
				w.Message = ""
			}
			l := letter(n, bridge.AgentID(fmt.Sprint("agt_", n)))
			l.Message = w.Message
			if err := errors.Join(tx.InsertNotice(w), tx.InsertLetter(l)); err != nil {
				return err
			}
		}
		return nil
	})
	ids := func(look func(tx *bridge.Scene) ([]bridge.Notice, error)) []bridge.NoticeID {
		return noticeIDs(read(t, s, look))
	}
	waiting := func(limit int) []bridge.NoticeID {
		return ids(func(tx *bridge.Scene) ([]bridge.Notice, error) { return tx.WaitingNotices("agt_1", limit) })
	}
	equal(t, "waiting, loud ones first", waiting(9), []bridge.NoticeID{"ntc_0001", "ntc_0003", "ntc_0005", "ntc_0000", "ntc_0002", "ntc_0004"})
	equal(t, "waiting, some", waiting(2), []bridge.NoticeID{"ntc_0001", "ntc_0003"})
	equal(t, "waiting mail", ids(func(tx *bridge.Scene) ([]bridge.Notice, error) { return tx.WaitingMail("agt_1", 4) }), []bridge.NoticeID{"ntc_0001", "ntc_0005", "ntc_0000", "ntc_0002"})
	of := func(tx *bridge.Scene) ([]bridge.Notice, error) { return tx.NoticesOf(message(0).ID) }
	equal(t, "of a message", ids(of), []bridge.NoticeID{"ntc_0000", "ntc_0001", "ntc_0002"})
	equal(t, "of none", len(ids(func(tx *bridge.Scene) ([]bridge.Notice, error) { return tx.NoticesOf("msg_none") })), 0)
	rewritten := 0
	mustUpdate(t, s, func(tx *bridge.Scene) (err error) {
		if err := tx.CarryNotices([]bridge.NoticeID{"ntc_0001"}, "trn_1"); err != nil {
			return err
		}
		if err := errors.Join(tx.RouseNotice("ntc_0004"), tx.RouseNotice("ntc_0005")); err != nil {
			return err
		}
		rewritten, err = tx.RewriteNotices(message(0).ID, "", "new")
		return err
	})
	equal(t, "rewritten", rewritten, 2)
	equal(t, "waiting after one was roused", waiting(9), []bridge.NoticeID{"ntc_0003", "ntc_0004", "ntc_0005", "ntc_0000", "ntc_0002"})
	for _, n := range read(t, s, of) {
		equal(t, "text of "+string(n.ID), n.Untrusted, map[bool]string{true: "old", false: "new"}[n.Turn != ""])
	}
	if err := s.Update(t.Context(), func(tx *bridge.Scene) error { return tx.RouseNotice("ntc_none") }); !errors.Is(err, bridge.ErrNoRow) {
		t.Errorf("rousing no notice: %v", err)
	}
}

// testDropLetter: a letter goes with its notice while that waits, and stays when a turn
// carries it.
func testDropLetter(t *testing.T, open Open) {
	s := open(t)
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		for n := range 3 {
			l := letter(n, "agt_2")
			l.Message = message(0).ID
			l.Agent = bridge.AgentID(fmt.Sprint("agt_", n))
			w := bridge.Notice{ID: l.Notice, Agent: l.Agent, Message: l.Message, CreatedAt: epoch}
			if err := errors.Join(tx.InsertLetter(l), tx.InsertNotice(w)); err != nil {
				return err
			}
		}
		return tx.CarryNotices([]bridge.NoticeID{letter(1, "").Notice}, "trn_1")
	})
	for _, step := range []struct {
		agent bridge.AgentID
		want  bool
	}{{"agt_0", true}, {"agt_0", false}, {"agt_1", false}, {"agt_9", false}} {
		var dropped bool
		mustUpdate(t, s, func(tx *bridge.Scene) (err error) {
			dropped, err = tx.DropLetter(message(0).ID, step.agent)
			return err
		})
		equal(t, "dropped that of "+string(step.agent), dropped, step.want)
	}
	left := read(t, s, func(tx *bridge.Scene) ([]bridge.Letter, error) { return tx.Letters(message(0).ID) })
	equal(t, "letters that are left", len(left), 2)
	equal(t, "notices that are left", noticeIDs(read(t, s, func(tx *bridge.Scene) ([]bridge.Notice, error) { return tx.NoticesOf(message(0).ID) })), []bridge.NoticeID{letter(1, "").Notice, letter(2, "").Notice})
	equal(t, "what waits for the first", len(read(t, s, func(tx *bridge.Scene) ([]bridge.Notice, error) { return tx.WaitingMail("agt_0", 9) })), 0)
}

// testMailState: what counts as unread and as awaited is read off the notices.
func testMailState(t *testing.T, open Open) {
	s := open(t)
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		for n := range 5 {
			l := letter(n, "agt_2")
			l.Awaited = n < 3
			w := bridge.Notice{ID: l.Notice, Agent: "agt_2", Message: l.Message, Withheld: n == 4, CreatedAt: epoch}
			if err := errors.Join(tx.InsertLetter(l), tx.InsertNotice(w)); err != nil {
				return err
			}
		}
		return nil
	})
	unread := func(limit int) int {
		return read(t, s, func(tx *bridge.Scene) (int, error) { return tx.CountUnread("agt_2", limit) })
	}
	awaited := func(from bridge.AgentID) bridge.MessageID {
		l, err := lookUp(t.Context(), s, func(tx *bridge.Scene) (bridge.Letter, error) { return tx.AwaitedLetter(from, "agt_2") })
		if err != nil && !errors.Is(err, bridge.ErrNoRow) {
			t.Fatal(err)
		}
		return l.Message
	}
	equal(t, "unread", unread(10), 4)
	equal(t, "unread, bounded", unread(2), 2)
	equal(t, "awaited before anything was shown", awaited("agt_1"), "")
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		l := letter(2, "agt_2")
		l.Awaited, l.ReadAt = true, epoch
		return errors.Join(tx.UpdateLetter(l), tx.CarryNotices([]bridge.NoticeID{"ntc_0001"}, "trn_1"))
	})
	equal(t, "unread after one was fetched and one carried", unread(10), 2)
	equal(t, "the oldest awaited one that was shown", awaited("agt_1"), message(1).ID)
	equal(t, "awaited by another", awaited("agt_3"), "")
	mustUpdate(t, s, func(tx *bridge.Scene) error { // as a letter to the operator, which has no notice
		return tx.InsertLetter(bridge.Letter{Message: "msg_read", Agent: "agt_2", From: "agt_9", Awaited: true, ReadAt: epoch, CreatedAt: epoch})
	})
	equal(t, "one without a notice that was read", awaited("agt_9"), "msg_read")
	ids := func(all []bridge.Letter, err error) (ids []bridge.MessageID, _ error) {
		for _, l := range all {
			ids = append(ids, l.Message)
		}
		return ids, err
	}
	for limit, want := range map[int][]bridge.MessageID{0: {message(0).ID, message(1).ID, message(2).ID, "msg_read"}, 1: {message(0).ID}} {
		equal(t, "letters that wait for its answer", read(t, s, func(tx *bridge.Scene) ([]bridge.MessageID, error) { return ids(tx.AwaitedFrom("agt_2", limit)) }), want)
	}
	for limit, want := range map[int][]bridge.MessageID{0: {message(0).ID, message(1).ID, message(2).ID}, 2: {message(0).ID, message(1).ID}} {
		equal(t, "letters whose answers it awaits", read(t, s, func(tx *bridge.Scene) ([]bridge.MessageID, error) { return ids(tx.AwaitedBy("agt_1", limit)) }), want)
	}
	equal(t, "nothing awaited", read(t, s, func(tx *bridge.Scene) ([]bridge.MessageID, error) { return ids(tx.AwaitedBy("agt_2", 0)) }), nil)
	back := func(from bridge.AgentID, n int) time.Time {
		got, err := lookUp(t.Context(), s, func(tx *bridge.Scene) (time.Time, error) { return tx.LetterBack(from, "agt_2", n) })
		if err != nil && !errors.Is(err, bridge.ErrNoRow) {
			t.Fatal(err)
		}
		return got
	}
	equal(t, "the latest letter", back("agt_1", 1), at(4*time.Second))
	equal(t, "the fifth latest", back("agt_1", 5), epoch)
	equal(t, "the sixth latest", back("agt_1", 6), time.Time{})
	equal(t, "of another sender", back("agt_3", 1), time.Time{})
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		l := letter(9, "agt_2")
		l.Direct = false
		return tx.InsertLetter(l)
	})
	equal(t, "what came by a conversation does not count", back("agt_1", 1), at(4*time.Second))
}

func testConversations(t *testing.T, open Open) {
	s := open(t)
	want := bridge.Conversation{ID: "chn_1", Kind: bridge.MailChannel, Name: "general", Title: "ti\ntle", Creator: bridge.User, Status: bridge.ConversationActive, CreatedAt: epoch, UpdatedAt: at(1 * time.Second)}
	noZeroField(t, want)
	put := func(c bridge.Conversation) error {
		return s.Update(t.Context(), func(tx *bridge.Scene) error { return tx.InsertConversation(c) })
	}
	for _, c := range []bridge.Conversation{want, {ID: "thr_1", Kind: bridge.MailThread}, {ID: "thr_2", Kind: bridge.MailThread}} {
		if err := put(c); err != nil {
			t.Fatal(err)
		}
	}
	get := func(tx *bridge.Scene) (bridge.Conversation, error) { return tx.Conversation("chn_1") }
	equal(t, "conversation", read(t, s, get), want)
	equal(t, "by name", read(t, s, func(tx *bridge.Scene) (bridge.Conversation, error) { return tx.FindChannel("general") }), want)
	for _, clash := range []bridge.Conversation{{ID: "chn_1", Name: "other"}, {ID: "chn_2", Name: "general"}} {
		if err := put(clash); bridge.KindOf(err) != bridge.Conflict {
			t.Errorf("%+v beside chn_1: %v, want a Conflict", clash, err)
		}
	}
	for _, name := range []string{"", "none"} {
		if _, err := lookUp(t.Context(), s, func(tx *bridge.Scene) (bridge.Conversation, error) { return tx.FindChannel(name) }); !errors.Is(err, bridge.ErrNoRow) {
			t.Errorf("channel %q: %v", name, err)
		}
	}
	want.Status, want.Title = bridge.ConversationClosed, ""
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.UpdateConversation(want) })
	equal(t, "updated", read(t, s, get), want)
	if err := s.Update(t.Context(), func(tx *bridge.Scene) error {
		return tx.UpdateConversation(bridge.Conversation{ID: "chn_9"})
	}); !errors.Is(err, bridge.ErrNoRow) {
		t.Errorf("update of none: %v", err)
	}
	ids := func(f bridge.ConversationFilter) (ids []bridge.ConversationID) {
		for _, c := range read(t, s, func(tx *bridge.Scene) ([]bridge.Conversation, error) { return tx.Conversations(f) }) {
			ids = append(ids, c.ID)
		}
		return ids
	}
	equal(t, "all", ids(bridge.ConversationFilter{}), []bridge.ConversationID{"thr_2", "thr_1", "chn_1"})
	equal(t, "threads, one", ids(bridge.ConversationFilter{Kind: bridge.MailThread, Limit: 1}), []bridge.ConversationID{"thr_2"})
	equal(t, "threads before", ids(bridge.ConversationFilter{Kind: bridge.MailThread, Before: "thr_2"}), []bridge.ConversationID{"thr_1"})
}

func testMembers(t *testing.T, open Open) {
	s := open(t)
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		return errors.Join(tx.InsertConversation(bridge.Conversation{ID: "chn_1", Kind: bridge.MailChannel, Name: "general"}), tx.InsertConversation(bridge.Conversation{ID: "thr_1", Kind: bridge.MailThread}))
	})
	change := func(what func(tx *bridge.Scene) (bool, error)) (changed bool) {
		mustUpdate(t, s, func(tx *bridge.Scene) (err error) {
			changed, err = what(tx)
			return err
		})
		return changed
	}
	add := func(id bridge.ConversationID, a bridge.AgentID) bool {
		return change(func(tx *bridge.Scene) (bool, error) { return tx.AddMember(id, a, epoch) })
	}
	remove := func(id bridge.ConversationID, a bridge.AgentID) bool {
		return change(func(tx *bridge.Scene) (bool, error) { return tx.RemoveMember(id, a) })
	}
	members := func(id bridge.ConversationID) []bridge.AgentID {
		return read(t, s, func(tx *bridge.Scene) ([]bridge.AgentID, error) { return tx.Members(id) })
	}
	for _, a := range []bridge.AgentID{"agt_3", "agt_1", "agt_2"} {
		equal(t, "new member", add("chn_1", a), true)
	}
	equal(t, "member again", add("chn_1", "agt_1"), false)
	equal(t, "members as they joined", members("chn_1"), []bridge.AgentID{"agt_3", "agt_1", "agt_2"})
	equal(t, "removed", remove("chn_1", "agt_3"), true)
	equal(t, "removed again", remove("chn_1", "agt_3"), false)
	equal(t, "joined again", add("chn_1", "agt_3"), true)
	equal(t, "last now", members("chn_1"), []bridge.AgentID{"agt_1", "agt_2", "agt_3"})
	equal(t, "members of none", len(members("chn_9")), 0)
	is := func(a bridge.AgentID) bool {
		return read(t, s, func(tx *bridge.Scene) (bool, error) { return tx.IsMember("chn_1", a) })
	}
	equal(t, "who is a member", []bool{is("agt_1"), is("agt_9")}, []bool{true, false})
	share := func(a, b bridge.AgentID) bool {
		return read(t, s, func(tx *bridge.Scene) (bool, error) { return tx.ShareChannel(a, b) })
	}
	add("thr_1", "agt_1")
	add("thr_1", "agt_7")
	equal(t, "who shares a channel", []bool{share("agt_1", "agt_2"), share("agt_1", "agt_7"), share("agt_9", "agt_1")}, []bool{true, false, false})
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		for n, from := range []bridge.AgentID{"agt_2", "agt_1", "agt_9", "agt_3"} {
			m := message(n)
			m.Conversation, m.From, m.To, m.System = "chn_1", from, nil, from == "agt_3"
			if err := tx.InsertMessage(m); err != nil {
				return err
			}
		}
		return nil
	})
	equal(t, "members who wrote", read(t, s, func(tx *bridge.Scene) ([]bridge.AgentID, error) { return tx.Posters("chn_1") }), []bridge.AgentID{"agt_1", "agt_2"})
	equal(t, "their last post", read(t, s, func(tx *bridge.Scene) (time.Time, error) { return tx.PostBack("agt_1", "chn_1", 1) }), at(time.Second))
	if _, err := lookUp(t.Context(), s, func(tx *bridge.Scene) (time.Time, error) { return tx.PostBack("agt_1", "chn_1", 2) }); !errors.Is(err, bridge.ErrNoRow) {
		t.Errorf("a second post: %v", err)
	}
}

func testReactions(t *testing.T, open Open) {
	s := open(t)
	full := bridge.Reaction{Message: "msg_1", Agent: "agt_2", Emoji: "👍🏽", CreatedAt: epoch}
	noZeroField(t, full)
	all := []bridge.Reaction{full, {Message: "msg_1", Agent: "agt_1", Emoji: "👍🏽", CreatedAt: at(time.Second)}, {Message: "msg_1", Agent: "agt_2", Emoji: "🎉", CreatedAt: at(time.Minute)}}
	change := func(what func(tx *bridge.Scene) (bool, error)) (changed bool) {
		mustUpdate(t, s, func(tx *bridge.Scene) (err error) {
			changed, err = what(tx)
			return err
		})
		return changed
	}
	for _, r := range slices.Backward(all) {
		equal(t, "added", change(func(tx *bridge.Scene) (bool, error) { return tx.AddReaction(r) }), true)
		equal(t, "added again", change(func(tx *bridge.Scene) (bool, error) { return tx.AddReaction(r) }), false)
	}
	list := func(tx *bridge.Scene) ([]bridge.Reaction, error) { return tx.Reactions("msg_1") }
	equal(t, "reactions, oldest first", read(t, s, list), all)
	equal(t, "removed", change(func(tx *bridge.Scene) (bool, error) { return tx.RemoveReaction(full) }), true)
	equal(t, "removed again", change(func(tx *bridge.Scene) (bool, error) { return tx.RemoveReaction(full) }), false)
	equal(t, "the rest", read(t, s, list), all[1:])
}

func testFiles(t *testing.T, open Open) {
	s := open(t)
	want := bridge.File{ID: "fil_1", Message: "msg_1", From: "agt_1", To: "agt_2", Name: "ü \"b\".txt", Path: "/a/b", Size: 1 << 40, SHA256: "abc", Description: "line\nline", CreatedAt: epoch}
	noZeroField(t, want)
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.InsertFile(want) })
	equal(t, "file", read(t, s, func(tx *bridge.Scene) (bridge.File, error) { return tx.File("fil_1") }), want)
	if err := s.Update(t.Context(), func(tx *bridge.Scene) error { return tx.InsertFile(want) }); err == nil {
		t.Error("a file was inserted twice")
	}
	count := func(agent bridge.AgentID) (n [2]int64) {
		mustView(t, s, func(tx *bridge.Scene) (err error) { n[0], n[1], err = tx.FilesFrom(agent); return err })
		return n
	}
	equal(t, "files that were handed over, and bytes", count("agt_1"), [2]int64{1, 1 << 40})
	equal(t, "files of the recipient", count("agt_2"), [2]int64{})
	for _, there := range []bool{true, false} {
		var dropped bool
		mustUpdate(t, s, func(tx *bridge.Scene) (err error) {
			dropped, err = tx.DropFile("fil_1")
			return err
		})
		equal(t, "dropped", dropped, there)
	}
	equal(t, "files that are left", count("agt_1"), [2]int64{})
}

// testCountThreads counts open threads alone, for their creator and for members.
func testCountThreads(t *testing.T, open Open) {
	s := open(t)
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		for n, c := range []bridge.Conversation{
			{Kind: bridge.MailThread, Status: bridge.ConversationActive}, {Kind: bridge.MailThread, Status: bridge.ConversationClosed},
			{Kind: bridge.MailChannel, Name: "general", Status: bridge.ConversationActive}, {Kind: bridge.MailThread, Status: bridge.ConversationActive},
		} {
			c.ID, c.Creator, c.CreatedAt, c.UpdatedAt = bridge.ConversationID(fmt.Sprint("thr_", n)), "agt_1", epoch, epoch
			if err := tx.InsertConversation(c); err != nil {
				return err
			}
			if _, err := tx.AddMember(c.ID, "agt_2", epoch); err != nil {
				return err
			}
		}
		return nil
	})
	counts := func(agent bridge.AgentID, limit int) (n [2]int) {
		mustView(t, s, func(tx *bridge.Scene) error {
			made, err := tx.CountThreads(agent, limit)
			in, inErr := tx.CountThreadsOf(agent, limit)
			n = [2]int{made, in}
			return errors.Join(err, inErr)
		})
		return n
	}
	equal(t, "threads of the creator", counts("agt_1", 9), [2]int{2, 0})
	equal(t, "threads of the member", counts("agt_2", 9), [2]int{0, 2})
	equal(t, "up to a limit", []int{counts("agt_1", 1)[0], counts("agt_2", 1)[1]}, []int{1, 1})
}
