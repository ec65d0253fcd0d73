package mcpserver_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/mail"
	"drawbridge/mcpserver"
	"drawbridge/policy"
)

// crashes is a world with two agents of this process: main, and its child boss, which stays at work.
type crashes struct {
	*world
	main, boss bridge.Agent
	cut        *cutOff
	turns      map[bridge.AgentID]bridge.TurnID
	// spare are children of main that are idle.
	spare []bridge.Agent
}

// crashCall is a call of one tool. who is main, or "boss" where the caller has to be in a turn.
type crashCall struct {
	who  string
	args func(c *crashes, n int) args
}

// plain are arguments that differ from call to call by their number alone.
func plain(with args) crashCall {
	return crashCall{args: func(_ *crashes, n int) args {
		out := args{}
		for name, v := range with {
			if text, ok := v.(string); ok {
				v = strings.ReplaceAll(text, "#", fmt.Sprint(n))
			}
			out[name] = v
		}
		return out
	}}
}

// crashCalls has a call of each tool that changes something.
var crashCalls = map[string]crashCall{
	"launch_agent":         plain(args{"repo": "github.com/me/careful", "prompt": "Work #."}),
	"run_local_action":     plain(args{"action": "lock_screen"}),
	"remind":               plain(args{"when": "2h", "message": "Tea #."}),
	"spawn_agent":          plain(args{"name": "made#", "instructions": "Work.", "repo": "github.com/me/careful"}),
	"send_message":         plain(args{"recipient": "boss", "text": "one #", "sync": false}),
	"complete":             plain(args{"result": "done #"}),
	"send_channel_message": plain(args{"channelId": "general", "text": "four #"}),
	"send_dm":              plain(args{"targetAgentId": "boss", "text": "five #"}),
	"threads_send_message": plain(args{"sender_id": "main", "recipient_id": "boss", "content": "six #"}),
	"broadcast_message":    plain(args{"sender_id": "main", "recipient_ids": []string{"boss"}, "content": "seven #"}),
	"create_thread":        plain(args{"creator_id": "main", "title": "eight #", "participants": []string{"boss"}}),
	"transfer_file":        plain(args{"sender_id": "main", "recipient_id": "boss", "source_path": "a.txt", "content": "nine #"}),
	"store_memory":         plain(args{"content": "ten #"}),
	"update_memory":        plain(args{"label": "plan", "content": "eleven #"}),
	"broadcast":            {who: "boss", args: func(_ *crashes, n int) args { return args{"text": fmt.Sprint("two ", n)} }},
	"poke":                 {args: func(c *crashes, n int) args { return args{"agent": c.spare[n].Name} }},
	"subscribe":            {args: func(c *crashes, n int) args { return args{"agent": c.spare[n].Name} }},
	"cancel_reminder": {args: func(c *crashes, n int) args {
		set := c.inside(c.main, bridge.ToolCall{Turn: c.turns[c.main.ID], ID: fmt.Sprint("set ", n), Name: "remind", Args: json.RawMessage(fmt.Sprintf(`{"when":"3h","message":"No %d."}`, n))})
		return args{"reminder_id": field(c, set.Payload, "command_id")}
	}},
	"check_inbox":  {who: "boss", args: func(c *crashes, n int) args { c.tellBoss(n); return nil }},
	"get_messages": {who: "boss", args: func(c *crashes, n int) args { c.tellBoss(n); return args{"agent_id": string(c.boss.ID), "limit": 1} }},
	"react_to_message": {args: func(c *crashes, n int) args {
		return args{"messageId": string(c.tellBoss(n)), "emoji": "\U0001f44d"}
	}},
	"join_thread": {who: "boss", args: func(c *crashes, n int) args { return args{"thread_id": c.thread(n), "agent_id": string(c.boss.ID)} }},
	"add_participant_to_thread": {args: func(c *crashes, n int) args {
		return args{"thread_id": c.thread(n), "agent_id_to_add": "boss", "inviting_agent_id": "main"}
	}},
	"remove_participant_from_thread": {who: "boss", args: func(c *crashes, n int) args {
		return args{"thread_id": c.thread(n, "boss"), "agent_id_to_remove": "boss", "removing_agent_id": "boss"}
	}},
}

func newCrashes(t *testing.T) *crashes {
	c := &crashes{turns: map[bridge.AgentID]bridge.TurnID{}}
	var first bridge.TurnID
	c.world, c.main, first, c.cut = insider(t, mcpserver.SetNames()...)
	c.turns[c.main.ID] = first
	var err error
	if c.mail, err = mail.New(mail.Options{Steps: c.engine, Files: t.TempDir(), Workspace: func(bridge.Agent) string { return c.workspace }, PerPair: -1}); err != nil {
		t.Fatal(err)
	}
	many := rules
	many.Limits.CommandsPerTurn, many.Limits.OpenSubagents = 1000, 1000
	p, problems := policy.New(many)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	c.policy.Store(p)
	c.door = c.serve(func(o *mcpserver.Options) { o.Engine, o.Mail = c.cut, c.mail })
	spawn := func(name string) bridge.Agent {
		made := c.inside(c.main, bridge.ToolCall{Turn: first, ID: name, Name: "spawn_agent", Args: json.RawMessage(`{"name":"` + name + `","instructions":"Work.","repo":"github.com/me/my-app"}`)})
		var a bridge.Agent
		c.until(name+" has a turn", func(tx *bridge.Scene) (ok bool) {
			var err error
			a, err = tx.Agent(bridge.AgentID(field(c, made.Payload, "agent_id")))
			turn, noTurn := tx.CurrentTurn(a.ID)
			c.turns[a.ID] = turn.ID
			return err == nil && noTurn == nil && (c.slow.Load() || a.State != bridge.AgentBusy)
		})
		return a
	}
	for n := range 5 {
		c.spare = append(c.spare, spawn(fmt.Sprint("spare", n)))
	}
	c.slow.Store(true)
	c.boss = spawn("boss")
	if _, err := c.mail.CreateChannel(t.Context(), "general", "main", "boss"); err != nil {
		t.Fatal(err)
	}
	return c
}

func field(t testing.TB, payload, name string) string {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal([]byte(payload), &all); err != nil {
		t.Fatalf("%s: %v", payload, err)
	}
	text, _ := all[name].(string)
	if text == "" {
		t.Fatalf("%s has no %s", payload, name)
	}
	return text
}

// tellBoss leaves a message for boss, which waits because boss is at work.
func (c *crashes) tellBoss(n int) bridge.MessageID {
	c.Helper()
	sent, err := c.mail.Send(c.Context(), c.main.ID, mail.Draft{To: "boss", Text: fmt.Sprint("wait ", n)})
	if err != nil {
		c.Fatal(err)
	}
	return sent.Message.ID
}

// thread makes a thread of main's, with members.
func (c *crashes) thread(n int, members ...string) string {
	c.Helper()
	made, _, err := c.mail.CreateThread(c.Context(), c.main.ID, mail.ThreadDraft{Title: fmt.Sprint("thread ", n), Participants: members})
	if err != nil {
		c.Fatal(err)
	}
	return string(made.ID)
}

// crashed makes calls of one tool, each of which a crash cuts off one write later than the one before.
func (c *crashes) crashed(name string, call crashCall) {
	c.Helper()
	who, effects := c.main, 0
	if call.who != "" {
		who = c.boss
	}
	for n := 0; ; n++ {
		if n == len(c.spare) {
			c.Fatalf("%s writes more than %d times", name, n)
		}
		data, err := json.Marshal(call.args(c, n))
		if err != nil {
			c.Fatal(err)
		}
		k := bridge.ToolCall{Turn: c.turns[who.ID], ID: fmt.Sprintf("%s %d", name, n), Name: name, Args: data}
		before := c.effects(who)
		c.cut.left.Store(int64(n))
		_, err = c.door.Call(c.Context(), who.ID, k)
		c.cut.left.Store(-1)
		if err == nil {
			break // nothing was cut off
		}
		if !errors.Is(err, errCut) {
			c.Fatalf("%s: %v", name, err)
		}
		cut := c.effects(who)
		answer := c.inside(who, k)
		if answer.Failed {
			c.Errorf("%s, cut off at write %d: the call was made again and failed: %s", name, n, answer.Payload)
		}
		switch after := c.effects(who); {
		case after == before:
			c.Errorf("%s, cut off at write %d: the call had no effect: %s", name, n, after)
		case cut != before:
			if effects++; after != cut {
				c.Errorf("%s, cut off at write %d: it happened twice: %s, then %s", name, n, cut, after)
			}
			if n := fmt.Sprint("wait ", n); call.who != "" && strings.Contains(name, "_inbox") && !strings.Contains(answer.Payload, n) {
				c.Errorf("%s lost the message %q: %s", name, n, answer.Payload)
			}
		}
	}
	if effects == 0 {
		c.Errorf("%s was never cut off behind its effect", name)
	}
}

// effects counts what calls of an agent leave behind. What agents do by themselves is left out.
func (c *crashes) effects(who bridge.Agent) string {
	c.Helper()
	counts := map[string]int{}
	if err := c.engine.View(c.Context(), func(tx *bridge.Scene) error {
		for after := int64(0); ; {
			events, err := tx.Events(after, 1000)
			if err != nil || len(events) == 0 {
				break
			}
			for _, e := range events {
				after = e.Seq
				switch e.Kind {
				case bridge.EventMessageCreated, bridge.EventReactionAdded, bridge.EventMemory, bridge.EventCancelled:
					counts[e.Kind]++
				}
			}
		}
		commands, err := tx.Commands(bridge.CommandFilter{Agent: who.ID})
		if err != nil {
			return err
		}
		watches, err := tx.Watches(1000)
		if err != nil {
			return err
		}
		unread, err := tx.CountUnread(who.ID, 1000)
		counts["commands"], counts["watches"], counts["unread"] = len(commands), len(watches), unread
		for _, a := range c.spare {
			turns, err := tx.Turns(bridge.TurnFilter{Agent: a.ID})
			if err != nil {
				return err
			}
			waiting, err := tx.WaitingNotices(a.ID, 100)
			if err != nil {
				return err
			}
			counts["told"] += len(waiting)
			for _, turn := range turns { // those turns do not end, and keep what they tell
				carried, err := tx.CarriedNotices(turn.ID)
				if err != nil {
					return err
				}
				counts["told"] += len(carried)
			}
		}
		return err
	}); err != nil {
		c.Fatal(err)
	}
	return fmt.Sprint(counts)
}
