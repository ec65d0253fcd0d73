package store_test

import (
	"errors"
	"maps"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/proof/stores"
	"drawbridge/store"
)

// TestPlans asserts that no statement of the hot paths reads a whole table,
// so that a bridge that has run for a year is as fast as a new one.
func TestPlans(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "drawbridge.db"))
	if err := stores.Grow(t.Context(), s, 2000); err != nil {
		t.Fatal(err)
	}
	checkPlans(t, s)
	// Statistics must not lead the planner astray either.
	if err := s.Exec(t.Context(), "ANALYZE"); err != nil {
		t.Fatal(err)
	}
	checkPlans(t, s)
}

func checkPlans(t *testing.T, s *store.Store) {
	t.Helper()
	paths := hotPaths()
	maps.Copy(paths, mailPaths())
	for name, fn := range paths {
		plans, err := s.Plans(t.Context(), func(tx *bridge.Scene) error {
			if err := fn(tx); !errors.Is(err, bridge.ErrNoRow) && !errors.Is(err, bridge.ErrLeaseLost) {
				return err
			}
			return nil
		})
		judgePlans(t, name, plans, err)
	}
	for name, fn := range lanePaths() {
		plans, err := s.LanePlans(t.Context(), func(l store.Lanes) error {
			if err := fn(l); !errors.Is(err, bridge.ErrLeaseLost) {
				return err
			}
			return nil
		})
		judgePlans(t, name, plans, err)
	}
}

func ofList[V any](_ []V, _ int64, err error) error { return err }

// judgePlans reports statements that read whole tables or sort.
func judgePlans(t *testing.T, name string, plans []store.Plan, err error) {
	t.Helper()
	if err != nil || len(plans) == 0 {
		t.Errorf("%s: %d statements explained, %v", name, len(plans), err)
	}
	for _, p := range plans {
		for _, step := range p.Steps {
			if byWords(p, step) {
				continue
			}
			if strings.HasPrefix(step, "SCAN") && step != "SCAN CONSTANT ROW" || strings.Contains(step, "TEMP B-TREE") {
				t.Errorf("%s: %s\n\t%s", name, step, p.Query)
			}
		}
	}
}

// matched is a look into the full-text index by the words of MATCH.
var matched = regexp.MustCompile(`^SCAN passage_index VIRTUAL TABLE INDEX \d+:M\d+$`)

// byWords reports a step of a search: what it finds by words, and the sorting of
// that, of which there is no more than bridge.SearchNewest.
func byWords(p store.Plan, step string) bool {
	sorted := strings.Contains(p.Query, "ORDER BY rowid DESC LIMIT $3) ORDER BY cost") && (step == "SCAN (subquery-1)" || step == "USE TEMP B-TREE FOR ORDER BY")
	return matched.MatchString(step) || sorted
}

// lanePaths are what is done with work.
func lanePaths() map[string]func(store.Lanes) error {
	w := bridge.Work{ID: 1, Lane: "action/1", Fence: 1}
	claim := bridge.Claim{Now: benchTime, Lease: time.Minute, Limit: 3}
	narrow := bridge.Claim{Now: benchTime, Lease: time.Minute, Limit: 3, Without: []bridge.WorkKind{bridge.WorkTurn}, Spent: []string{"action/laptop"}}
	change := func(c bridge.LaneChange) func(store.Lanes) error {
		return func(l store.Lanes) error { return l.Apply(c) }
	}
	return map[string]func(store.Lanes) error{
		"Claim":             func(l store.Lanes) error { return last(l.Claim(claim)) },
		"Claim of shares":   func(l store.Lanes) error { return last(l.Claim(narrow)) },
		"NextFor":           func(l store.Lanes) error { return last(l.NextFor(claim)) },
		"NextFor of shares": func(l store.Lanes) error { return last(l.NextFor(narrow)) },
		"Extend":            func(l store.Lanes) error { return l.Extend(w, benchTime) },
		"Enqueue":           change(bridge.LaneChange{Verb: bridge.LaneEnqueue, Work: w}),
		"FinishWork":        change(bridge.LaneChange{Verb: bridge.LaneFinish, Work: w}),
		"PutBack":           change(bridge.LaneChange{Verb: bridge.LaneBack, Work: w, Due: benchTime}),
		"WakeLanes":         change(bridge.LaneChange{Verb: bridge.LaneWake, Lanes: []string{"lane/1", "lane/2", "none"}, Due: benchTime}),
	}
}

// hotPaths are what the engine, the doors and the page ask all the time.
func hotPaths() map[string]func(*bridge.Scene) error {
	w := bridge.Work{ID: 1, Lane: "lane/1", Fence: 1}
	return map[string]func(*bridge.Scene) error{
		"History":         func(tx *bridge.Scene) error { return ofList(tx.History(bridge.EventFilter{}, 0)) },
		"History, a tree": func(tx *bridge.Scene) error { return ofList(tx.History(bridge.EventFilter{Root: "agt_000001"}, 0)) },
		"History, an agent": func(tx *bridge.Scene) error {
			return ofList(tx.History(bridge.EventFilter{Agent: "agt_000001", Before: 7, Kinds: bridge.EventTurn}, 0))
		},
		"History, kinds": func(tx *bridge.Scene) error {
			return ofList(tx.History(bridge.EventFilter{Kinds: bridge.EventTurn + " " + bridge.EventReply, Before: 7}, 0))
		},
		"InsertDone": func(tx *bridge.Scene) error { return tx.InsertDone(bridge.Done{Agent: "agt_000001"}) },
		"FindDone":   func(tx *bridge.Scene) error { return last(tx.FindDone("agt_000001", "key")) },
		"Watches":    func(tx *bridge.Scene) error { return last(tx.Watches(0)) },
		"DropWatch":  func(tx *bridge.Scene) error { return last(tx.DropWatch("agt_1", "agt_2")) },
		"Enqueue":    func(tx *bridge.Scene) error { return tx.Enqueue(w) },
		"PutBack":    func(tx *bridge.Scene) error { return tx.PutBack(w, benchTime) },
		"WakeLane":   func(tx *bridge.Scene) error { return tx.WakeLane("lane/1", benchTime) },
		"WakeLanes":  func(tx *bridge.Scene) error { return tx.WakeLanes([]string{"lane/1", "lane/2", "none"}, benchTime) },
		"InsertTurn": func(tx *bridge.Scene) error {
			return last(tx.InsertTurn(bridge.Turn{ID: "trn_plan", Agent: "agt_000001"}))
		},
		"UpdateTurn":   func(tx *bridge.Scene) error { return tx.UpdateTurn(bridge.Turn{ID: "trn_000001"}) },
		"OpenTurn":     func(tx *bridge.Scene) error { return last(tx.OpenTurn("agt_000001")) },
		"HasOpenTurn":  func(tx *bridge.Scene) error { return last(tx.HasOpenTurn("agt_000001")) },
		"CurrentTurn":  func(tx *bridge.Scene) error { return last(tx.CurrentTurn("agt_000001")) },
		"Turns":        func(tx *bridge.Scene) error { return last(tx.Turns(bridge.TurnFilter{Agent: "agt_000001"})) },
		"Turns before": func(tx *bridge.Scene) error { return last(tx.Turns(bridge.TurnFilter{Agent: "agt_000001", Before: 7})) },
		"Turns after": func(tx *bridge.Scene) error {
			return last(tx.Turns(bridge.TurnFilter{Agent: "agt_000001", Oldest: true, After: 7}))
		},
		"Turns in a state":   func(tx *bridge.Scene) error { return last(tx.Turns(bridge.TurnFilter{State: bridge.TurnUncertain})) },
		"WaitingNotices":     func(tx *bridge.Scene) error { return last(tx.WaitingNotices("agt_000001", 50)) },
		"CarriedNotices":     func(tx *bridge.Scene) error { return last(tx.CarriedNotices("trn_000001")) },
		"CarryNotices":       func(tx *bridge.Scene) error { return tx.CarryNotices([]bridge.NoticeID{"ntc_000001"}, "trn_1") },
		"CountOpenSubagents": func(tx *bridge.Scene) error { return last(tx.CountOpenSubagents("")) },
		"CountLaunches":      func(tx *bridge.Scene) error { return last(tx.CountLaunches(benchTime)) },
		"CountOpenCommands":  func(tx *bridge.Scene) error { return last(tx.CountOpenCommands("agt_000001", "")) },
		"Commands of agent":  func(tx *bridge.Scene) error { return last(tx.Commands(bridge.CommandFilter{Agent: "agt_000001"})) },
		"Commands of turn":   func(tx *bridge.Scene) error { return last(tx.Commands(bridge.CommandFilter{Turn: "trn_000001"})) },
		"Commands in a state": func(tx *bridge.Scene) error {
			return last(tx.Commands(bridge.CommandFilter{State: bridge.CommandHeld}))
		},
		"Agents of root":    func(tx *bridge.Scene) error { return last(tx.Agents(bridge.AgentFilter{Root: "agt_000001"})) },
		"Agents of parent":  func(tx *bridge.Scene) error { return last(tx.Agents(bridge.AgentFilter{Parent: "agt_000001"})) },
		"Agents in a state": func(tx *bridge.Scene) error { return last(tx.Agents(bridge.AgentFilter{State: bridge.AgentGated})) },
		"Agent":             func(tx *bridge.Scene) error { return last(tx.Agent("agt_000001")) },
		"FindAgent name":    func(tx *bridge.Scene) error { return last(tx.FindAgent(bridge.ByName, "agent-1")) },
		"FindAgent in a tree": func(tx *bridge.Scene) error {
			return last(tx.Agents(bridge.AgentFilter{Root: "agt_000001", Name: "agent-1", Limit: 1}))
		},
		"FindAgent external":  func(tx *bridge.Scene) error { return last(tx.FindAgent(bridge.ByExternal, "bc-1")) },
		"FindAgent chat user": func(tx *bridge.Scene) error { return last(tx.FindAgent(bridge.ByChatUser, "user")) },
		"UpdateAgent":         func(tx *bridge.Scene) error { return tx.UpdateAgent(plainAgent(1)) },
		"Completions":         func(tx *bridge.Scene) error { return last(tx.Completions("agt_000001")) },
		"DeliverCompletions": func(tx *bridge.Scene) error {
			return tx.DeliverCompletions([]bridge.CompletionID{"cpl_1"}, "trn_1", benchTime)
		},
		"PutBlock": func(tx *bridge.Scene) error {
			return tx.PutBlock(bridge.Block{Agent: "agt_000001", Label: "mood", Version: 1})
		},
		"Block":         func(tx *bridge.Scene) error { return last(tx.Block("agt_000001", "mood")) },
		"Blocks":        func(tx *bridge.Scene) error { return last(tx.Blocks("agt_000001")) },
		"BlockVersions": func(tx *bridge.Scene) error { return last(tx.BlockVersions("agt_000001", "mood", 5)) },
		"InsertPassage": func(tx *bridge.Scene) error {
			return last(tx.InsertPassage(bridge.Passage{ID: "psg_1", Agent: "agt_000001"}))
		},
		"SearchPassages": func(tx *bridge.Scene) error { return last(tx.SearchPassages(bridge.PassageQuery{Agent: "agt_000001"})) },
		"SearchPassages by tag": func(tx *bridge.Scene) error {
			return last(tx.SearchPassages(bridge.PassageQuery{Agent: "agt_000001", Tags: []string{"tag"}}))
		},
		"SearchPassages by word": func(tx *bridge.Scene) error {
			return last(tx.SearchPassages(bridge.PassageQuery{Agent: "agt_000001", Text: "word"}))
		},
		"DropVersions": func(tx *bridge.Scene) error { return tx.DropVersions("agt_000001", "mood") },
		"DropBlock":    func(tx *bridge.Scene) error { return last(tx.DropBlock("agt_000001", "mood")) },
		"DropPassage":  func(tx *bridge.Scene) error { return last(tx.DropPassage("agt_000001", "psg_1")) },
		"MemoryBytes":  func(tx *bridge.Scene) error { return last(tx.MemoryBytes("agt_000001")) },
		"FilesFrom": func(tx *bridge.Scene) error {
			_, _, err := tx.FilesFrom("agt_000001")
			return err
		},
		"CountThreads":   func(tx *bridge.Scene) error { return last(tx.CountThreads("agt_000001", 100)) },
		"CountThreadsOf": func(tx *bridge.Scene) error { return last(tx.CountThreadsOf("agt_000001", 100)) },
		"FindToken":      func(tx *bridge.Scene) error { return last(tx.FindToken("hash")) },
		"Tokens":         func(tx *bridge.Scene) error { return last(tx.Tokens("agt_000001")) },
		"UseToken":       func(tx *bridge.Scene) error { return tx.UseToken("tok_1", benchTime) },
		"RevokeToken":    func(tx *bridge.Scene) error { return tx.RevokeToken("tok_1", benchTime) },
		"RevokeTokens":   func(tx *bridge.Scene) error { return last(tx.RevokeTokens("agt_000001", benchTime)) },
		"AppendRunMessage": func(tx *bridge.Scene) error {
			return last(tx.AppendRunMessage(bridge.RunMessage{Turn: "trn_000001", Kind: bridge.ToolCallMessage, CallID: "1"}))
		},
		"RunMessages": func(tx *bridge.Scene) error { return last(tx.RunMessages("trn_000001", 5, 100)) },
		"Deliveries":  func(tx *bridge.Scene) error { return last(tx.Deliveries("agt_000001", 1)) },
		"Events":      func(tx *bridge.Scene) error { return last(tx.Events(5, 100)) },
		"Echoes":      func(tx *bridge.Scene) error { return last(tx.Echoes("agt_000001", bridge.EchoAge{Seq: 1}, 10)) },
		"DropEchoes":  func(tx *bridge.Scene) error { return last(tx.DropEchoes("agt_000001", bridge.EchoAge{Seq: 1})) },
		"Approved":    func(tx *bridge.Scene) error { return last(tx.Approved("agt_000001", "key", benchTime)) },
		"PutRelay":    func(tx *bridge.Scene) error { return tx.PutRelay(bridge.Relay{Name: "relay-1"}) },
		"Relay":       func(tx *bridge.Scene) error { return last(tx.Relay("relay-1")) },
		"Relays":      func(tx *bridge.Scene) error { return last(tx.Relays(bridge.RelayFilter{After: "relay-1"})) },
		"Relays to cut off": func(tx *bridge.Scene) error {
			return last(tx.Relays(bridge.RelayFilter{Replica: "rep_1", State: bridge.RelayRevoked}))
		},
		"PutOffers":    func(tx *bridge.Scene) error { return tx.PutOffers("relay-1", []bridge.RelayOffer{{Action: "a"}}) },
		"OfferedBy":    func(tx *bridge.Scene) error { return last(tx.OfferedBy("a")) },
		"Join":         func(tx *bridge.Scene) error { return last(tx.RelayJoin("j")) },
		"PutReplica":   func(tx *bridge.Scene) error { return tx.PutReplica("rep_1", benchTime) },
		"PutCall":      func(tx *bridge.Scene) error { return tx.PutCall(bridge.RelayCall{ID: "c"}) },
		"Call":         func(tx *bridge.Scene) error { return last(tx.Call("c")) },
		"WaitingCalls": func(tx *bridge.Scene) error { return last(tx.WaitingCalls("rep_1")) },
		"BindRequest":  func(tx *bridge.Scene) error { return last(tx.BindRequest("op", "relay-1", benchTime)) },
		"PurgeRelays":  func(tx *bridge.Scene) error { return tx.PurgeRelays(benchTime) },
	}
}

// mailPaths are what the post office asks for each message.
func mailPaths() map[string]func(*bridge.Scene) error {
	m := bridge.Message{ID: "msg_plan", Conversation: stores.GrownChannel}
	l := bridge.Letter{Message: "msg_0000001", Agent: "agt_000001"}
	return map[string]func(*bridge.Scene) error{
		"InsertMessage": func(tx *bridge.Scene) error { return tx.InsertMessage(m) },
		"UpdateMessage": func(tx *bridge.Scene) error { return tx.UpdateMessage(bridge.Message{ID: "msg_0000001"}) },
		"Message":       func(tx *bridge.Scene) error { return last(tx.Message("msg_0000001")) },
		"Messages to": func(tx *bridge.Scene) error {
			return last(tx.Messages(bridge.MessageFilter{To: "agt_000001", Limit: 3}))
		},
		"Messages before": func(tx *bridge.Scene) error {
			return last(tx.Messages(bridge.MessageFilter{To: "agt_000001", Before: "msg_0000011", Limit: 3}))
		},
		"Messages in": func(tx *bridge.Scene) error {
			return last(tx.Messages(bridge.MessageFilter{Conversation: stores.GrownChannel}))
		},
		"Messages to USER": func(tx *bridge.Scene) error { return last(tx.Messages(bridge.MessageFilter{To: bridge.User})) },
		"InsertLetter": func(tx *bridge.Scene) error {
			return tx.InsertLetter(bridge.Letter{Message: "msg_plan", Agent: "agt_1"})
		},
		"UpdateLetter":   func(tx *bridge.Scene) error { return tx.UpdateLetter(l) },
		"DropLetter":     func(tx *bridge.Scene) error { return last(tx.DropLetter(l.Message, l.Agent)) },
		"Letter":         func(tx *bridge.Scene) error { return last(tx.Letter("msg_0000001", "agt_000001")) },
		"Letters":        func(tx *bridge.Scene) error { return last(tx.Letters("msg_0000001")) },
		"AwaitedFrom":    func(tx *bridge.Scene) error { return last(tx.AwaitedFrom("agt_000001", 0)) },
		"AwaitedBy":      func(tx *bridge.Scene) error { return last(tx.AwaitedBy("agt_000001", 0)) },
		"AwaitedLetter":  func(tx *bridge.Scene) error { return last(tx.AwaitedLetter("agt_000002", "agt_000001")) },
		"CountUnread":    func(tx *bridge.Scene) error { return last(tx.CountUnread("agt_000001", 1000)) },
		"LetterBack":     func(tx *bridge.Scene) error { return last(tx.LetterBack("agt_000002", "agt_000001", 10)) },
		"PostBack":       func(tx *bridge.Scene) error { return last(tx.PostBack("agt_000002", stores.GrownChannel, 10)) },
		"WaitingMail":    func(tx *bridge.Scene) error { return last(tx.WaitingMail("agt_000001", 50)) },
		"NoticesOf":      func(tx *bridge.Scene) error { return last(tx.NoticesOf("msg_0000001")) },
		"RewriteNotices": func(tx *bridge.Scene) error { return last(tx.RewriteNotices("msg_0000001", "", "x")) },
		"RouseNotice":    func(tx *bridge.Scene) error { return tx.RouseNotice("ntc_000001") },
		"Conversation":   func(tx *bridge.Scene) error { return last(tx.Conversation(stores.GrownChannel)) },
		"FindChannel":    func(tx *bridge.Scene) error { return last(tx.FindChannel("general")) },
		"Conversations": func(tx *bridge.Scene) error {
			return last(tx.Conversations(bridge.ConversationFilter{Kind: bridge.MailChannel}))
		},
		"AddMember": func(tx *bridge.Scene) error {
			return last(tx.AddMember(stores.GrownChannel, "agt_000001", benchTime))
		},
		"RemoveMember":   func(tx *bridge.Scene) error { return last(tx.RemoveMember(stores.GrownChannel, "agt_000001")) },
		"IsMember":       func(tx *bridge.Scene) error { return last(tx.IsMember(stores.GrownChannel, "agt_000001")) },
		"Members":        func(tx *bridge.Scene) error { return last(tx.Members(stores.GrownChannel)) },
		"Posters":        func(tx *bridge.Scene) error { return last(tx.Posters(stores.GrownChannel)) },
		"ShareChannel":   func(tx *bridge.Scene) error { return last(tx.ShareChannel("agt_000001", "agt_000002")) },
		"AddReaction":    func(tx *bridge.Scene) error { return last(tx.AddReaction(bridge.Reaction{Message: "msg_0000001"})) },
		"RemoveReaction": func(tx *bridge.Scene) error { return last(tx.RemoveReaction(bridge.Reaction{Message: "msg_0000001"})) },
		"Reactions":      func(tx *bridge.Scene) error { return last(tx.Reactions("msg_0000001")) },
		"File":           func(tx *bridge.Scene) error { return last(tx.File("fil_1")) },
	}
}

func last[T any](_ T, err error) error { return err }
