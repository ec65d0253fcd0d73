package stores

import (
	"context"
	"fmt"
	"time"

	"drawbridge/bridge"
	"drawbridge/parser"
)

// GrownAt is the time at which a grown store's work is due.
var GrownAt = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// GrownAgent returns the id of the n-th agent of a grown store, from 1.
func GrownAgent(n int) bridge.AgentID { return bridge.AgentID(fmt.Sprintf("agt_%06d", n)) }

// Grow fills a store as it looks after n turns, for benchmarks: 50 turns and
// commands an agent, of which the last turn is open, a message to it for each turn,
// every other one in the channel GrownChannel, half of the work waiting in one long lane, and the rest in lanes of their own of which ten are due at GrownAt.
func Grow(ctx context.Context, s bridge.Store, n int) error {
	const page = 1000
	for from := 0; from < n; from += page {
		if err := s.Update(ctx, func(tx *bridge.Scene) error {
			for i := from; i < min(from+page, n); i++ {
				if err := growOne(tx, i); err != nil {
					return fmt.Errorf("grow row %d: %w", i, err)
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func growOne(tx *bridge.Scene, i int) error {
	id := GrownAgent(1 + i/50)
	agent := bridge.Agent{ID: id, Name: string(id), Root: id, State: bridge.AgentDone, Parent: "agt_parent", External: fmt.Sprint("bc-", i)}
	if i%50 == 0 {
		if err := tx.InsertAgent(agent); err != nil {
			return err
		}
	}
	state, turn := bridge.TurnReplied, bridge.TurnID(fmt.Sprintf("trn_%06d", i))
	if i%50 == 49 {
		state = bridge.TurnQueued
	}
	if _, err := tx.InsertTurn(bridge.Turn{ID: turn, Agent: agent.ID, State: state, Text: "a prompt of some words", Reply: "a reply of some more words"}); err != nil {
		return err
	}
	m := bridge.Command{ID: bridge.CommandID(fmt.Sprintf("cmd_%06d", i)), Turn: turn, Agent: agent.ID, Parsed: parser.Command{Verb: parser.Subagent},
		OpKey: fmt.Sprint(i), State: bridge.CommandReported, Child: "agt_child", UpdatedAt: GrownAt.Add(-time.Duration(i) * time.Minute)}
	if err := tx.InsertCommand(m); err != nil {
		return err
	}
	if err := growMail(tx, i, bridge.Notice{ID: bridge.NoticeID(fmt.Sprintf("ntc_%06d", i)), Agent: agent.ID, Turn: turn}); err != nil {
		return err
	}
	w := bridge.Work{Lane: "long", Kind: bridge.WorkTurn, Ref: string(turn), Due: GrownAt.Add(-time.Hour)}
	if i%2 == 0 {
		w.Lane, w.Due = fmt.Sprint("lane/", i), GrownAt.Add(time.Hour)
		if i < 20 {
			w.Due = GrownAt
		}
	}
	return tx.Enqueue(w)
}

// GrownChannel is the channel in which half of a grown store's messages stand.
const GrownChannel bridge.ConversationID = "chn_grown"

// growMail writes a message whose notice a turn carried.
func growMail(tx *bridge.Scene, i int, n bridge.Notice) error {
	m := bridge.Message{ID: bridge.MessageID(fmt.Sprintf("msg_%07d", i)), Kind: bridge.MailDirect, From: GrownAgent(1 + i%50), To: []bridge.AgentID{n.Agent},
		Text: "a message of some words", CreatedAt: GrownAt.Add(time.Duration(i-10_000_000) * time.Second)}
	if i%2 == 1 {
		m.Kind, m.Conversation, m.To = bridge.MailChannel, GrownChannel, nil
	}
	n.Message = m.ID
	if err := tx.InsertNotice(n); err != nil {
		return err
	}
	if err := tx.InsertMessage(m); err != nil {
		return err
	}
	return tx.InsertLetter(bridge.Letter{Message: m.ID, Agent: n.Agent, From: m.From, Notice: n.ID, Direct: i%2 == 0, CreatedAt: m.CreatedAt})
}
