package bridge_test

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"drawbridge/bridge"
)

// TestMailOfAPartialScene runs steps on a scene that loads what it lacks and on one
// that has every row; both have to say the same.
func TestMailOfAPartialScene(t *testing.T) {
	t.Parallel()
	for name, step := range mailSteps() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, wantErr := step(bridge.WholeScene(mailRows(), false))
			got, gotErr := onPart(t, mailRows(), step)
			if !reflect.DeepEqual(got, want) || !errors.Is(gotErr, wantErr) {
				t.Errorf("got %v, %v; with all rows %v, %v", got, gotErr, want, wantErr)
			}
		})
	}
}

type mailStep func(*bridge.Scene) (any, error)

// onPart runs a step until nothing lacks, as a store does.
func onPart(t *testing.T, disk *bridge.Rows, step mailStep) (any, error) {
	t.Helper()
	sc := bridge.NewScene()
	for range 20 {
		got, err := step(sc)
		lacks := sc.Lacks()
		if len(lacks) == 0 {
			return got, err
		}
		sc.Rewind()
		for _, n := range lacks {
			if !loadMail(sc, disk, n) && !loadTalk(sc, disk, n) {
				t.Fatalf("nobody loads %T", n)
			}
		}
	}
	t.Fatal("the step lacks rows without end")
	return nil, nil
}

// pick loads the first rows that match in an order.
func pick[K cmp.Ordered, V any](to, from *bridge.Table[K, V], key func(*V) K, limit int, match func(*V) bool, order func(a, b *V) int) (out []*V) {
	for v := range from.All() {
		if match(v) {
			out = append(out, v)
		}
	}
	if order != nil {
		slices.SortStableFunc(out, order)
	}
	if limit > 0 {
		out = out[:min(limit, len(out))]
	}
	for _, v := range out {
		to.Load(key(v), *v)
	}
	return out
}

func letterKey(l *bridge.Letter) string         { return bridge.LetterKey(l.Message, l.Agent) }
func memberKey(m *bridge.MemberRow) string      { return bridge.MemberKey(m.Conversation, m.Agent) }
func noticeID(n *bridge.Notice) bridge.NoticeID { return n.ID }

func loadMail(sc *bridge.Scene, disk *bridge.Rows, need bridge.Need) bool {
	letters := func(limit int, match func(*bridge.Letter) bool, order func(a, b *bridge.Letter) int) []*bridge.Letter {
		found := pick(&sc.Rows.Letters, &disk.Letters, letterKey, limit, match, order)
		sc.Knows(need, len(found))
		return found
	}
	newest := func(a, b *bridge.Letter) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.Message, a.Message))
	}
	notices := func(of []*bridge.Letter) {
		for _, l := range of {
			if n := disk.Notices.Row(l.Notice); n != nil {
				sc.Rows.Notices.Load(n.ID, *n)
			}
		}
	}
	switch n := need.(type) {
	case bridge.NeedNotice:
		sc.Knows(n, len(pick(&sc.Rows.Notices, &disk.Notices, noticeID, 0, func(o *bridge.Notice) bool { return o.ID == n.ID }, nil)))
	case bridge.NeedLetter:
		letters(0, func(l *bridge.Letter) bool { return l.Message == n.Message && l.Agent == n.Agent }, nil)
	case bridge.NeedNoticedLetter:
		notices(letters(0, func(l *bridge.Letter) bool { return l.Message == n.Message && l.Agent == n.Agent }, nil))
	case bridge.NeedAwaited:
		notices(letters(0, func(l *bridge.Letter) bool { return l.Agent == n.To && l.From == n.From && l.Awaited }, nil))
	case bridge.NeedAwaitedFrom:
		letters(n.Limit, func(l *bridge.Letter) bool { return l.Agent == n.Agent && l.Awaited }, func(a, b *bridge.Letter) int {
			return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Message, b.Message))
		})
	case bridge.NeedLettersBack:
		letters(n.Limit, func(l *bridge.Letter) bool { return l.Agent == n.To && l.From == n.From && l.Direct }, newest)
	case bridge.NeedMailTo:
		for _, l := range letters(n.Limit, func(l *bridge.Letter) bool {
			return l.Agent == n.To && (n.Before == "" || l.CreatedAt.Before(n.At) || l.CreatedAt.Equal(n.At) && l.Message < n.Before)
		}, newest) {
			sc.Rows.Messages.Load(l.Message, *disk.Messages.Row(l.Message))
		}
	case bridge.NeedUnread:
		found := pick(&sc.Rows.Notices, &disk.Notices, noticeID, n.Limit, func(o *bridge.Notice) bool {
			l := disk.Letters.Row(bridge.LetterKey(o.Message, o.Agent))
			return o.Agent == n.Agent && o.Turn == "" && !o.Withheld && l != nil && l.ReadAt.IsZero()
		}, nil)
		for _, o := range found {
			key := bridge.LetterKey(o.Message, o.Agent)
			sc.Rows.Letters.Load(key, *disk.Letters.Row(key))
		}
		sc.Knows(n, len(found))
	case bridge.NeedMessage:
		sc.Knows(n, len(pick(&sc.Rows.Messages, &disk.Messages, func(m *bridge.Message) bridge.MessageID { return m.ID }, 0, func(m *bridge.Message) bool { return m.ID == n.ID }, nil)))
	default:
		return false
	}
	return true
}

func loadTalk(sc *bridge.Scene, disk *bridge.Rows, need bridge.Need) bool {
	members := func(match func(*bridge.MemberRow) bool) []*bridge.MemberRow {
		found := pick(&sc.Rows.Members, &disk.Members, memberKey, 0, match, nil)
		sc.Knows(need, len(found))
		return found
	}
	conversation := func(id bridge.ConversationID) {
		if c := disk.Conversations.Row(id); c != nil {
			sc.Rows.Conversations.Load(id, *c)
		}
		sc.Knows(need, 1)
	}
	isKind := func(id bridge.ConversationID, kind bridge.MailKind) bool {
		c := disk.Conversations.Row(id)
		return c != nil && c.Kind == kind && c.Status == bridge.ConversationActive
	}
	switch n := need.(type) {
	case bridge.NeedConversation:
		conversation(n.ID)
	case bridge.NeedMember:
		members(func(m *bridge.MemberRow) bool { return m.Conversation == n.In && m.Agent == n.Agent })
	case bridge.NeedMembers:
		members(func(m *bridge.MemberRow) bool { return m.Conversation == n.In })
	case bridge.NeedThreadsOf:
		for _, m := range members(func(m *bridge.MemberRow) bool {
			return m.Agent == n.Member && isKind(m.Conversation, bridge.MailThread)
		}) {
			conversation(m.Conversation)
		}
	case bridge.NeedSharedChannels:
		for _, m := range members(func(m *bridge.MemberRow) bool {
			return (m.Agent == n.A || m.Agent == n.B) && isKind(m.Conversation, bridge.MailChannel) &&
				disk.Members.Row(bridge.MemberKey(m.Conversation, n.A)) != nil && disk.Members.Row(bridge.MemberKey(m.Conversation, n.B)) != nil
		}) {
			conversation(m.Conversation)
		}
	case bridge.NeedPosters:
		all, _ := bridge.WholeScene(disk, true).Posters(n.In)
		sc.Answered(n, all)
	case bridge.NeedPosted:
		wrote := int64(0)
		for m := range disk.Messages.All() {
			if m.Conversation == n.In && m.From == n.From && !m.System {
				wrote = 1
			}
		}
		sc.Counted(n, wrote)
	case bridge.NeedFile:
		sc.Knows(n, len(pick(&sc.Rows.Files, &disk.Files, func(f *bridge.File) bridge.FileID { return f.ID }, 0, func(f *bridge.File) bool { return f.ID == n.ID }, nil)))
	case bridge.NeedFileCount:
		count, _, _ := bridge.WholeScene(disk, true).FilesFrom(n.From)
		sc.Counted(n, count)
	case bridge.NeedFileBytes:
		_, bytes, _ := bridge.WholeScene(disk, true).FilesFrom(n.From)
		sc.Counted(n, bytes)
	default:
		return false
	}
	return true
}

// mailRows are eight letters from agt_1 to agt_2 (msg_3 is carried, the last is held) and some talk.
func mailRows() *bridge.Rows {
	r := &bridge.Rows{}
	for i := range 8 {
		m := bridge.Message{ID: bridge.MessageID(fmt.Sprint("msg_", i)), Kind: bridge.MailDirect, From: "agt_1", CreatedAt: time.UnixMicro(int64(100 + i)).UTC()}
		n := bridge.Notice{ID: bridge.NoticeID(fmt.Sprint("not_", i)), Agent: "agt_2", Message: m.ID, Withheld: i == 7}
		if i == 3 {
			n.Turn = "trn_1"
		}
		l := bridge.Letter{Message: m.ID, Agent: "agt_2", From: "agt_1", Notice: n.ID, Direct: true, Awaited: i > 1, CreatedAt: m.CreatedAt}
		r.Messages.Load(m.ID, m)
		r.Notices.Load(n.ID, n)
		r.Letters.Load(bridge.LetterKey(m.ID, l.Agent), l)
	}
	for id, kind := range map[bridge.ConversationID]bridge.MailKind{"chn_1": bridge.MailChannel, "chn_2": bridge.MailChannel, "thr_1": bridge.MailThread, "thr_2": bridge.MailThread, "thr_3": bridge.MailThread} {
		c := bridge.Conversation{ID: id, Kind: kind, Creator: "agt_1", Status: bridge.ConversationActive}
		if id == "thr_3" {
			c.Status = bridge.ConversationClosed
		}
		r.Conversations.Load(id, c)
		r.Members.Load(bridge.MemberKey(id, "agt_1"), bridge.MemberRow{Conversation: id, Agent: "agt_1", Place: 1})
		r.Messages.Load("msg_"+bridge.MessageID(id), bridge.Message{ID: "msg_" + bridge.MessageID(id), Conversation: id, From: "agt_2"})
	}
	r.Members.Load(bridge.MemberKey("chn_1", "agt_2"), bridge.MemberRow{Conversation: "chn_1", Agent: "agt_2", Place: 4})
	r.Members.Load(bridge.MemberKey("thr_3", "agt_2"), bridge.MemberRow{Conversation: "thr_3", Agent: "agt_2", Place: 4})
	for i := range 3 {
		id := bridge.FileID(fmt.Sprint("fil_", i))
		r.Files.Load(id, bridge.File{ID: id, From: "agt_1", Size: int64(10 << i)})
	}
	return r
}

func mailSteps() map[string]mailStep {
	drop := func(s *bridge.Scene, ids ...bridge.MessageID) (out []bool, err error) {
		for _, id := range ids {
			ok, err := s.DropLetter(id, "agt_2")
			if err != nil {
				return nil, err
			}
			out = append(out, ok)
		}
		return out, nil
	}
	after := func(do func(*bridge.Scene) error, look mailStep) mailStep {
		return func(s *bridge.Scene) (any, error) {
			if err := do(s); err != nil {
				return nil, err
			}
			return look(s)
		}
	}
	dropped := func(s *bridge.Scene) error { _, err := drop(s, "msg_0", "msg_5", "msg_6", "msg_2"); return err }
	carried := func(s *bridge.Scene) error {
		return s.CarryNotices([]bridge.NoticeID{"not_0", "not_1", "not_2"}, "trn_2")
	}
	unread := func(limit int) mailStep {
		return func(s *bridge.Scene) (any, error) { return s.CountUnread("agt_2", limit) }
	}
	back := func(n int) mailStep {
		return func(s *bridge.Scene) (any, error) { return s.LetterBack("agt_1", "agt_2", n) }
	}
	inbox := func(f bridge.MessageFilter) mailStep {
		return func(s *bridge.Scene) (any, error) { f.To = "agt_2"; return s.Messages(f) }
	}
	awaited := func(s *bridge.Scene) (any, error) { return s.AwaitedLetter("agt_1", "agt_2") }
	threads := func(s *bridge.Scene) (any, error) { return s.CountThreadsOf("agt_2", 10) }
	shared := func(s *bridge.Scene) (any, error) { return s.ShareChannel("agt_1", "agt_2") }
	posters := func(s *bridge.Scene) (any, error) { return s.Posters("chn_2") }
	join := func(id bridge.ConversationID) func(*bridge.Scene) error {
		return func(s *bridge.Scene) error { _, err := s.AddMember(id, "agt_2", time.Time{}); return err }
	}
	leave := func(s *bridge.Scene) error { _, err := s.RemoveMember("chn_1", "agt_2"); return err }
	reopen := func(s *bridge.Scene) error {
		c, err := s.Conversation("thr_3")
		if err != nil {
			return err
		}
		c.Status = bridge.ConversationActive
		return s.UpdateConversation(c)
	}
	fetch := func(s *bridge.Scene) error {
		l, err := s.Letter("msg_1", "agt_2")
		if err != nil {
			return err
		}
		l.ReadAt = time.UnixMicro(500)
		return s.UpdateLetter(l)
	}
	return map[string]mailStep{
		"drop": func(s *bridge.Scene) (any, error) { return drop(s, "msg_1", "msg_1", "msg_3", "msg_7", "msg_99") },

		"unread": unread(3), "all unread": unread(100),
		"unread after a drop": after(dropped, unread(4)), "unread after two": after(dropped, after(carried, unread(3))),
		"unread after a fetch": after(fetch, unread(6)), "few unread after a fetch": after(fetch, unread(2)),
		"awaited": awaited, "awaited after a fetch": after(fetch, awaited), "awaited after a carry": after(carried, awaited),
		"awaited after a drop": after(dropped, awaited),
		"awaited from":         after(dropped, func(s *bridge.Scene) (any, error) { return s.AwaitedFrom("agt_2", 2) }),
		"back":                 back(2), "back after a drop": after(dropped, back(2)), "too far back": after(dropped, back(5)),
		"inbox": inbox(bridge.MessageFilter{Limit: 2}), "inbox after a drop": after(dropped, inbox(bridge.MessageFilter{Limit: 2})),
		"inbox before":          inbox(bridge.MessageFilter{Before: "msg_4", Limit: 2}),
		"inbox since":           inbox(bridge.MessageFilter{Since: time.UnixMicro(104)}),
		"inbox before nobody's": inbox(bridge.MessageFilter{Before: "msg_99"}),
		"threads":               threads, "threads after a join": after(join("thr_2"), threads), "threads after a reopening": after(reopen, threads),
		"shared": shared, "shared no more": after(leave, shared), "shared again": after(leave, after(join("chn_2"), shared)),
		"posters": posters, "posters after a join": after(join("chn_2"), posters),
		"members after a join": after(leave, after(join("chn_1"), func(s *bridge.Scene) (any, error) { return s.Members("chn_1") })),
		"files": func(s *bridge.Scene) (any, error) {
			if _, err := s.DropFile("fil_1"); err != nil {
				return nil, err
			}
			if err := s.InsertFile(bridge.File{ID: "fil_9", From: "agt_1", Size: 3}); err != nil {
				return nil, err
			}
			n, bytes, err := s.FilesFrom("agt_1")
			return []int64{n, bytes}, err
		},
	}
}
