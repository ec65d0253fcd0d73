package stores

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"drawbridge/bridge"
)

func notice(agent bridge.AgentID, n int) bridge.Notice {
	return bridge.Notice{
		ID: bridge.NoticeID(fmt.Sprintf("ntc_%04d", n)), Agent: agent, Cause: bridge.CauseCompletion, Text: "text", Untrusted: "SUBAGENT: not really", Depth: 1, Streak: 2,
		Quiet: true, Commands: []bridge.CommandID{"cmd_2", "cmd_1"}, Completion: "cpl_1", Join: "trn_join", Withheld: true, Message: "msg_1", Turn: "trn_other",
		Item: "0123456789abcdef", Source: bridge.OriginTree, Author: "helper", Asked: "trn_asked", CreatedAt: epoch,
	}
}

func testNotices(t *testing.T, open Open) {
	s, full := open(t), notice("agt_1", 0)
	noZeroField(t, full)
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		if err := tx.InsertNotice(full); err != nil {
			return err
		}
		for _, n := range []int{3, 1, 2, 4} {
			w := notice("agt_1", n)
			w.Turn, w.Quiet, w.Commands, w.Completion, w.Join, w.Withheld, w.Message = "", false, nil, "", "", false, ""
			if n == 4 {
				w.Agent = "agt_2"
			}
			if err := tx.InsertNotice(w); err != nil {
				return err
			}
		}
		return nil
	})
	waiting := func(limit int) []bridge.NoticeID {
		return noticeIDs(read(t, s, func(tx *bridge.Scene) ([]bridge.Notice, error) { return tx.WaitingNotices("agt_1", limit) }))
	}
	carried := func(turn bridge.TurnID) []bridge.Notice {
		return read(t, s, func(tx *bridge.Scene) ([]bridge.Notice, error) { return tx.CarriedNotices(turn) })
	}
	carry := func(turn bridge.TurnID, ids ...bridge.NoticeID) {
		mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.CarryNotices(ids, turn) })
	}
	equal(t, "carried as inserted", carried("trn_other"), []bridge.Notice{full})
	equal(t, "waiting, oldest first", waiting(10), []bridge.NoticeID{"ntc_0001", "ntc_0002", "ntc_0003"})
	equal(t, "waiting, limited", waiting(2), []bridge.NoticeID{"ntc_0001", "ntc_0002"})
	carry("trn_1", "ntc_0002", "ntc_0001")
	equal(t, "waiting after a turn took two", waiting(10), []bridge.NoticeID{"ntc_0003"})
	equal(t, "carried, oldest first", noticeIDs(carried("trn_1")), []bridge.NoticeID{"ntc_0001", "ntc_0002"})
	carry("", "ntc_0001", "ntc_0002")
	equal(t, "waiting again", waiting(10), []bridge.NoticeID{"ntc_0001", "ntc_0002", "ntc_0003"})
	equal(t, "carried by no turn", len(carried("")), 0)
	carry("trn_1") // none is fine

	mustUpdate(t, s, func(tx *bridge.Scene) error {
		for n, join := range []bridge.TurnID{"trn_j1", "trn_j2", "trn_j1"} {
			w := notice("agt_1", 10+n)
			w.Turn, w.Join = "", join
			if err := tx.InsertNotice(w); err != nil {
				return err
			}
		}
		return nil
	})
	release := func(join bridge.TurnID) (n int) {
		mustUpdate(t, s, func(tx *bridge.Scene) (err error) {
			n, err = tx.ReleaseNotices(join)
			return err
		})
		return n
	}
	equal(t, "held ones do not wait", waiting(10), []bridge.NoticeID{"ntc_0001", "ntc_0002", "ntc_0003"})
	equal(t, "released", release("trn_j1"), 2)
	equal(t, "released again", release("trn_j1"), 0)
	equal(t, "waiting after the release", waiting(10), []bridge.NoticeID{"ntc_0001", "ntc_0002", "ntc_0003", "ntc_0010", "ntc_0012"})
	equal(t, "released, of nobody", release("trn_none"), 0)
}

func testTrees(t *testing.T, open Open) {
	s := open(t)
	get := func(tx *bridge.Scene) (bridge.Tree, error) { return tx.Tree("agt_root") }
	equal(t, "a tree that used nothing", read(t, s, get), bridge.Tree{Root: "agt_root"})
	want := fullTree()
	noZeroField(t, want)
	put := func(tree bridge.Tree) { mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PutTree(tree) }) }
	put(want)
	put(bridge.Tree{Root: "agt_other"})
	equal(t, "tree", read(t, s, get), want)
	want.Launches, want.StoppedAt, want.Why = 8, time.Time{}, ""
	put(want)
	equal(t, "tree put again", read(t, s, get), want)
	equal(t, "not stopped", read(t, s, get).Stopped(), false)
}

func fullTree() bridge.Tree {
	return bridge.Tree{Root: "agt_root", Launches: 7, Turns: 9, Tokens: 1 << 40, CostMicros: 1 << 41, Unmetered: 2, StoppedAt: at(time.Second), Why: "too much"}
}

func noticeIDs(notices []bridge.Notice) []bridge.NoticeID {
	ids := make([]bridge.NoticeID, len(notices))
	for i, n := range notices {
		ids[i] = n.ID
	}
	return ids
}

func completion(n int) bridge.Completion {
	return bridge.Completion{ID: bridge.CompletionID(fmt.Sprintf("cpl_%04d", n)), Op: "agt_1", Turn: "trn_1", Run: "run-1", Status: bridge.RunFinished,
		Source: bridge.SourceStream, Evidence: "confirmed", CarriedBy: "trn_2", DeliveredAt: at(time.Minute), CreatedAt: epoch}
}

func testCompletions(t *testing.T, open Open) {
	s, first := open(t), completion(0)
	noZeroField(t, first)
	add := func(c bridge.Completion) (isNew bool) {
		mustUpdate(t, s, func(tx *bridge.Scene) (err error) {
			isNew, err = tx.InsertCompletion(c)
			return err
		})
		return isNew
	}
	equal(t, "the first is new", add(first), true)
	again := completion(1)
	again.Source, again.Turn = bridge.SourcePoll, "trn_9"
	equal(t, "the same run's same end again", add(again), false)
	for n, vary := range []func(*bridge.Completion){
		func(c *bridge.Completion) { c.Op = "agt_2" },
		func(c *bridge.Completion) { c.Run = "run-2" },
		func(c *bridge.Completion) { c.Status = bridge.RunError },
	} {
		other := completion(n + 2)
		other.CarriedBy, other.DeliveredAt = "", time.Time{}
		vary(&other)
		equal(t, "another operation, run or status is new", add(other), true)
	}
	all := func() []bridge.Completion {
		return read(t, s, func(tx *bridge.Scene) ([]bridge.Completion, error) { return tx.Completions("agt_1") })
	}
	got := all()
	if len(got) != 3 {
		t.Fatalf("%d completions, want 3", len(got))
	}
	equal(t, "completion", got[0], first)
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		return tx.DeliverCompletions([]bridge.CompletionID{"cpl_0003", "cpl_0004"}, "trn_7", at(time.Hour))
	})
	for _, c := range all()[1:] {
		equal(t, "delivered by", c.CarriedBy, "trn_7")
		equal(t, "delivered at", c.DeliveredAt, at(time.Hour))
	}
	equal(t, "the one that was not named", all()[0], first)
}

func delivery(n int) bridge.Delivery {
	return bridge.Delivery{ID: bridge.DeliveryID(fmt.Sprintf("dlv_%04d", n)), Op: "agt_1", External: "bc-1", Event: "statusChange", Status: "FINISHED",
		SentAt: "2026-03-04T05:06:07Z", WebhookID: "wh-1", Headers: map[string][]string{"X-Webhook-Id": {"a", "b"}, "Empty": {}},
		Body: []byte("{\"id\":\"bc-1\"}\x00\xff"), Verdict: bridge.VerdictAccepted, ReceivedAt: epoch}
}

func testDeliveries(t *testing.T, open Open) {
	s, first := open(t), delivery(0)
	noZeroField(t, first)
	add := func(d bridge.Delivery) (isNew bool) {
		mustUpdate(t, s, func(tx *bridge.Scene) (err error) {
			isNew, err = tx.InsertDelivery(d)
			return err
		})
		return isNew
	}
	equal(t, "the first is new", add(first), true)
	again := delivery(1)
	again.WebhookID, again.Body, again.ReceivedAt = "wh-2", []byte("{}"), at(time.Hour)
	equal(t, "the same again", add(again), false)
	for n, vary := range []func(*bridge.Delivery){
		func(d *bridge.Delivery) { d.Op = "agt_2" },
		func(d *bridge.Delivery) { d.External = "bc-2" },
		func(d *bridge.Delivery) { d.Status = "ERROR" },
		func(d *bridge.Delivery) { d.SentAt = "2026-03-04T05:06:08Z" },
	} {
		other := delivery(n + 2)
		other.Body, other.Headers = nil, nil
		vary(&other)
		equal(t, "another operation, agent, status or time is new", add(other), true)
	}
	list := func(op bridge.AgentID, limit int) (ids []bridge.DeliveryID) {
		for _, d := range read(t, s, func(tx *bridge.Scene) ([]bridge.Delivery, error) { return tx.Deliveries(op, limit) }) {
			ids = append(ids, d.ID)
		}
		return ids
	}
	equal(t, "an operation's, newest first", list("agt_1", 3), []bridge.DeliveryID{"dlv_0005", "dlv_0004", "dlv_0003"})
	equal(t, "everybody's", len(list("", 0)), 5)
	equal(t, "nobody's", len(list("agt_none", 1)), 0)
	got := read(t, s, func(tx *bridge.Scene) ([]bridge.Delivery, error) { return tx.Deliveries("agt_1", 10) })
	equal(t, "delivery", got[len(got)-1], first)
	equal(t, "empty body", len(got[0].Body), 0)
}

// testFirstCompletionWins: webhook, stream and poll may meet in one instant.
func testFirstCompletionWins(t *testing.T, open Open) {
	s := open(t)
	var wins, deliveries atomic.Int32
	var all errgroup.Group
	for n := range 64 {
		all.Go(func() error {
			var won, fresh bool
			err := s.Update(t.Context(), func(tx *bridge.Scene) (err error) {
				if won, err = tx.InsertCompletion(completion(n)); err != nil {
					return err
				}
				fresh, err = tx.InsertDelivery(delivery(n))
				return err
			})
			if won {
				wins.Add(1)
			}
			if fresh {
				deliveries.Add(1)
			}
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	equal(t, "first completions", wins.Load(), 1)
	equal(t, "first deliveries", deliveries.Load(), 1)
}

// testEchoes: words that are heard again last longer, an agent has its own, and those
// are dropped that are old both in turns and in time.
func testEchoes(t *testing.T, open Open) {
	s := open(t)
	full := bridge.Echo{Agent: "agt_1", Key: "full", Digest: []byte{0, 1, 255}, Source: bridge.EchoTree, Author: "docs-bot", Place: "the result of docs-bot", Turn: "trn_1", Seq: 3, At: at(time.Minute)}
	old := bridge.Echo{Agent: "agt_1", Key: "old", Source: bridge.EchoOutside, Seq: 1, At: epoch}
	again := old
	again.Key, again.Place = "again", "a place"
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		other := full
		other.Agent = "agt_2"
		return errors.Join(tx.PutEcho(full), tx.PutEcho(old), tx.PutEcho(again), tx.PutEcho(other))
	})
	again.Place, again.Seq, again.At = "another place", 2, at(time.Hour)
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PutEcho(again) })
	echoes := func(agent bridge.AgentID, age bridge.EchoAge, limit int) []bridge.Echo {
		return read(t, s, func(tx *bridge.Scene) ([]bridge.Echo, error) { return tx.Echoes(agent, age, limit) })
	}
	equal(t, "all", echoes("agt_1", bridge.EchoAge{}, 10), []bridge.Echo{again, full, old})
	equal(t, "the first", echoes("agt_1", bridge.EchoAge{}, 1), []bridge.Echo{again})
	equal(t, "old in turns alone", len(echoes("agt_1", bridge.EchoAge{Seq: 9, At: at(-time.Second)}, 10)), 3)
	equal(t, "old in time alone", len(echoes("agt_1", bridge.EchoAge{Seq: 0, At: at(2 * time.Hour)}, 10)), 3)
	equal(t, "what is old in both", echoes("agt_1", bridge.EchoAge{Seq: 3, At: at(time.Minute)}, 10), []bridge.Echo{again})
	equal(t, "to nobody", len(echoes("agt_3", bridge.EchoAge{}, 10)), 0)
	var dropped int
	mustUpdate(t, s, func(tx *bridge.Scene) (err error) {
		dropped, err = tx.DropEchoes("agt_1", bridge.EchoAge{Seq: 3, At: at(time.Minute)})
		return err
	})
	equal(t, "dropped", dropped, 2)
	equal(t, "what is left", echoes("agt_1", bridge.EchoAge{}, 10), []bridge.Echo{again})
	equal(t, "another agent's", len(echoes("agt_2", bridge.EchoAge{}, 10)), 1)
}

func testApprovals(t *testing.T, open Open) {
	s := open(t)
	put := func(until time.Time) {
		mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PutApproval("agt_1", "key", until) })
	}
	approved := func(root bridge.AgentID, key string, when time.Time) bool {
		return read(t, s, func(tx *bridge.Scene) (bool, error) { return tx.Approved(root, key, when) })
	}
	put(at(time.Hour))
	equal(t, "in time", approved("agt_1", "key", at(time.Hour-time.Microsecond)), true)
	equal(t, "when it ends", approved("agt_1", "key", at(time.Hour)), false)
	equal(t, "another key", approved("agt_1", "kex", epoch), false)
	equal(t, "another root", approved("agt_2", "key", epoch), false)
	put(at(3 * time.Hour))
	equal(t, "put again for longer", approved("agt_1", "key", at(2*time.Hour)), true)
	put(epoch)
	equal(t, "put again for shorter", approved("agt_1", "key", at(time.Minute)), false)
	t.Run("Yeses", func(t *testing.T) { testYeses(t, open) })
}

func fullYes() bridge.Yes {
	return bridge.Yes{Root: "agt_full", Target: "target", Effect: []bridge.Fact{{Name: "prompt", Text: "line\nline \u202e \x00 \"end"}, {}}, At: at(time.Hour)}
}

func testYeses(t *testing.T, open Open) {
	s := open(t)
	want := fullYes()
	noZeroField(t, want)
	last := func(root bridge.AgentID, target string) func(*bridge.Scene) (bridge.Yes, error) {
		return func(tx *bridge.Scene) (bridge.Yes, error) { return tx.LastYes(root, target) }
	}
	for range 2 {
		mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PutYes(want) })
		equal(t, "the last yes", read(t, s, last(want.Root, want.Target)), want)
		want.Effect, want.At = []bridge.Fact{{Name: "prompt", Text: "another"}}, at(2*time.Hour) // and once more in its place
	}
	for _, other := range []struct{ root, target string }{{"agt_full", "Target"}, {"agt_full", ""}, {"agt_other", "target"}} {
		err := s.View(t.Context(), func(tx *bridge.Scene) error {
			_, err := tx.LastYes(bridge.AgentID(other.root), other.target)
			return err
		})
		if !errors.Is(err, bridge.ErrNoRow) {
			t.Errorf("the yes of %q for %q: %v", other.root, other.target, err)
		}
	}
}

func testEvents(t *testing.T, open Open) {
	s := open(t)
	want := bridge.Event{Seq: 1, At: epoch, Kind: bridge.EventGranted, Agent: "agt_1", Name: "name", Root: "agt_0", Turn: "trn_1", Command: "cmd_1", Text: "text", Fields: map[string]string{"a": "b", "": ""}}
	noZeroField(t, want)
	events := func(after int64, limit int) []bridge.Event {
		return read(t, s, func(tx *bridge.Scene) ([]bridge.Event, error) { return tx.Events(after, limit) })
	}
	equal(t, "events of an empty store", len(events(0, 10)), 0)
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		for range 120 {
			e := want
			e.Seq = 77 // the store numbers, not the caller
			if err := tx.AppendEvent(e); err != nil {
				return err
			}
		}
		return nil
	})
	got := events(0, 0)
	equal(t, "default limit", len(got), 100)
	want.Seq = got[0].Seq
	equal(t, "event", got[0], want)
	rest := events(got[99].Seq, 1000)
	equal(t, "after the last one seen", len(rest), 20)
	all := slices.Concat(got, rest)
	for i := range all[1:] {
		if all[i].Seq >= all[i+1].Seq {
			t.Fatalf("numbers do not grow: %d, %d", all[i].Seq, all[i+1].Seq)
		}
	}
	equal(t, "nothing after the last", len(events(rest[19].Seq, 10)), 0)
}

// testHistory: the newest events come first, by tree, agent and kind. Of a rare kind the list goes on over a long past.
func testHistory(t *testing.T, open Open) {
	s := open(t)
	history := func(f bridge.EventFilter, limit int) (seqs []int64, next int64) {
		mustView(t, s, func(tx *bridge.Scene) error {
			list, n, err := tx.History(f, limit)
			seqs = nil
			for _, e := range list {
				seqs = append(seqs, e.Seq)
			}
			next = n
			return err
		})
		return seqs, next
	}
	last := func() int64 { return read(t, s, (*bridge.Scene).LastEvent) }
	seqs, next := history(bridge.EventFilter{Kinds: bridge.EventAlarm}, 10)
	equal(t, "an empty store", fmt.Sprint(seqs, next, last()), "[] 0 0")
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		for _, id := range []bridge.AgentID{"agt_1", "agt_2"} {
			if err := tx.InsertAgent(bridge.Agent{ID: id, Name: string(id), OpKey: string(id), Root: "agt_1"}); err != nil {
				return err
			}
		}
		return nil
	})
	tell := func(events ...bridge.Event) {
		mustUpdate(t, s, func(tx *bridge.Scene) error {
			for _, e := range events {
				e.At = epoch
				if err := tx.AppendEvent(e); err != nil {
					return err
				}
			}
			return nil
		})
	}
	of := func(kind string, agent, root bridge.AgentID) bridge.Event {
		return bridge.Event{Kind: kind, Agent: agent, Root: root}
	}
	tell(of(bridge.EventAlarm, "agt_1", "agt_1"), of(bridge.EventTurn, "agt_2", "agt_1"), of(bridge.EventReply, "agt_2", "agt_1"), of(bridge.EventTurn, "agt_9", "agt_9"), of(bridge.EventReply, "agt_1", "agt_1"))
	for _, tt := range []struct {
		name  string
		f     bridge.EventFilter
		limit int
		want  string
	}{
		{"all", bridge.EventFilter{}, 0, "[5 4 3 2 1] 0"},
		{"a page", bridge.EventFilter{}, 2, "[5 4] 4"},
		{"the next page", bridge.EventFilter{Before: 4}, 2, "[3 2] 2"},
		{"the last page", bridge.EventFilter{Before: 2}, 2, "[1] 0"},
		{"a tree", bridge.EventFilter{Root: "agt_1"}, 0, "[5 3 2 1] 0"},
		{"an agent", bridge.EventFilter{Agent: "agt_2"}, 1, "[3] 3"},
		{"kinds", bridge.EventFilter{Kinds: bridge.EventTurn + " " + bridge.EventReply}, 0, "[5 4 3 2] 0"},
		{"kinds of an agent", bridge.EventFilter{Agent: "agt_1", Kinds: bridge.EventReply}, 0, "[5] 0"},
		{"nothing", bridge.EventFilter{Root: "agt_9", Kinds: bridge.EventReply}, 0, "[] 0"},
	} {
		seqs, next := history(tt.f, tt.limit)
		equal(t, tt.name, fmt.Sprint(seqs, next), tt.want)
	}
	equal(t, "the last event", last(), 5)
	seqs, next = history(bridge.EventFilter{Kinds: bridge.EventAlarm, Before: 1_000_000}, 10)
	equal(t, "from far behind the end", fmt.Sprint(seqs, next), "[1] 0")
	many := make([]bridge.Event, 20_010)
	for i := range many {
		many[i] = of(bridge.EventTurn, "agt_9", "agt_9")
	}
	tell(many...)
	seqs, next = history(bridge.EventFilter{Kinds: bridge.EventAlarm}, 10)
	equal(t, "a rare kind", fmt.Sprint(len(seqs), next > 1), "0 true")
	seqs, next = history(bridge.EventFilter{Kinds: bridge.EventAlarm, Before: next}, 10)
	equal(t, "a rare kind, further back", fmt.Sprint(seqs, next), "[1] 0")
}

// testEventsMissNothing: a reader that goes on after the last number it saw
// sees every event, while many write. Numbers that become visible out of order
// would lose some.
func testEventsMissNothing(t *testing.T, open Open) {
	const writers, each = 8, 25
	s := open(t)
	var all errgroup.Group
	for range writers {
		all.Go(func() error {
			for range each {
				if err := s.Update(t.Context(), func(tx *bridge.Scene) error {
					return tx.AppendEvent(bridge.Event{At: epoch, Kind: bridge.EventTurn})
				}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	seen, last := 0, int64(0)
	done := make(chan error, 1)
	go func() { done <- all.Wait() }()
	for ended := false; ; {
		got := read(t, s, func(tx *bridge.Scene) ([]bridge.Event, error) { return tx.Events(last, 7) })
		seen += len(got)
		if len(got) > 0 {
			last = got[len(got)-1].Seq
			continue
		}
		if ended {
			break
		}
		select {
		case err := <-done:
			if ended = true; err != nil {
				t.Fatal(err)
			}
		default:
		}
	}
	equal(t, "events seen", seen, writers*each)
}

// testMisses: whatever is not there is ErrNoRow and nothing else.
func testMisses(t *testing.T, open Open) {
	s := open(t)
	mustUpdate(t, s, insert(agent(1))) // its external id and chat user are empty
	misses := map[string]func(*bridge.Scene) error{
		"agent":              func(tx *bridge.Scene) error { return second(tx.Agent("agt_none")) },
		"agent by name":      func(tx *bridge.Scene) error { return second(tx.FindAgent(bridge.ByName, "nobody")) },
		"agent by no name":   func(tx *bridge.Scene) error { return second(tx.FindAgent(bridge.ByName, "")) },
		"agent by external":  func(tx *bridge.Scene) error { return second(tx.FindAgent(bridge.ByExternal, "bc-none")) },
		"by no external":     func(tx *bridge.Scene) error { return second(tx.FindAgent(bridge.ByExternal, "")) },
		"by no chat user":    func(tx *bridge.Scene) error { return second(tx.FindAgent(bridge.ByChatUser, "")) },
		"turn":               func(tx *bridge.Scene) error { return second(tx.Turn("trn_none")) },
		"open turn":          func(tx *bridge.Scene) error { return second(tx.OpenTurn("agt_0001")) },
		"command":            func(tx *bridge.Scene) error { return second(tx.Command("cmd_none")) },
		"update of agent":    func(tx *bridge.Scene) error { return tx.UpdateAgent(agent(9)) },
		"update of turn":     func(tx *bridge.Scene) error { return tx.UpdateTurn(turn("agt_0001", 9)) },
		"update of command":  func(tx *bridge.Scene) error { return tx.UpdateCommand(fullCommand(9)) },
		"carrying a notice":  func(tx *bridge.Scene) error { return tx.CarryNotices([]bridge.NoticeID{"ntc_none"}, "trn_1") },
		"turn of no agent":   func(tx *bridge.Scene) error { return second(tx.InsertTurn(turn("agt_none", 1))) },
		"done":               func(tx *bridge.Scene) error { return second(tx.FindDone("agt_none", "none")) },
		"token":              func(tx *bridge.Scene) error { return second(tx.FindToken("none")) },
		"use of no token":    func(tx *bridge.Scene) error { return tx.UseToken("tok_none", epoch) },
		"revoking no token":  func(tx *bridge.Scene) error { return tx.RevokeToken("tok_none", epoch) },
		"an agent's id only": func(tx *bridge.Scene) error { return second(tx.Agent("AGT_0001")) },
	}
	for what, miss := range misses {
		if err := s.Update(t.Context(), miss); !errors.Is(err, bridge.ErrNoRow) {
			t.Errorf("%s: %v, want ErrNoRow", what, err)
		}
	}
}

func testTold(t *testing.T, open Open) {
	s := open(t)
	by := func(agent bridge.AgentID, item bridge.ItemID) (turn bridge.TurnID) {
		_ = s.View(t.Context(), func(tx *bridge.Scene) (err error) {
			turn, err = tx.ToldBy(agent, item)
			if (turn == "") != errors.Is(err, bridge.ErrNoRow) {
				t.Errorf("told by %q: %v", turn, err)
			}
			return nil
		})
		return turn
	}
	equal(t, "told by none", by("agt_1", "a"), "")
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		return errors.Join(tx.PutTold("agt_1", []bridge.ItemID{"a", "b"}, "trn_1"), tx.PutTold("agt_2", []bridge.ItemID{"a"}, "trn_2"), tx.PutTold("agt_1", []bridge.ItemID{"b"}, "trn_3"), tx.PutTold("agt_1", nil, "trn_4"))
	})
	equal(t, "told by", by("agt_1", "a"), "trn_1")
	equal(t, "told to another agent", by("agt_2", "a"), "trn_2")
	equal(t, "told again", by("agt_1", "b"), "trn_3")
	undone(t, s, func(tx *bridge.Scene) error { return tx.PutTold("agt_1", []bridge.ItemID{"c"}, "trn_5") })
	equal(t, "taken back", by("agt_1", "c"), "")
	s = reopen(t, s, open)
	equal(t, "after another start", by("agt_1", "b"), "trn_3")
}

func testRestored(t *testing.T, open Open) {
	s := open(t)
	word := func() bridge.Restored {
		return read(t, s, func(tx *bridge.Scene) (bridge.Restored, error) { return tx.Restored() })
	}
	equal(t, "no word", word(), bridge.Restored{})
	for n, told := range []bool{true, false, true} {
		want := bridge.Restored{Told: told, At: at(time.Duration(n) * time.Second)}
		mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PutRestored(want) })
		equal(t, "the latest word", word(), want)
	}
	undone(t, s, func(tx *bridge.Scene) error { return tx.PutRestored(bridge.Restored{}) })
	s = reopen(t, s, open)
	equal(t, "after another start", word(), bridge.Restored{Told: true, At: at(2 * time.Second)})
}

// undone runs fn in a transaction that fails afterwards.
func undone(t *testing.T, s bridge.Store, fn func(*bridge.Scene) error) {
	t.Helper()
	err := s.Update(t.Context(), func(tx *bridge.Scene) error { return errors.Join(fn(tx), errUndo) })
	if err == nil || err.Error() != errUndo.Error() {
		t.Errorf("an update that failed: %v", err)
	}
}
