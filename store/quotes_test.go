package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/proof/pg"
)

const (
	needle = "needle"
	body   = "agent helper ended with status FINISHED.\nIts last words:"
)

// TestWordsStandInTheirTurn: a result stands in the turn that said it and in the text of the turn that tells it. The notice and the
// events show it and do not store it.
func TestWordsStandInTheirTurn(t *testing.T) {
	t.Parallel()
	for driver, place := range map[string]string{"sqlite": filepath.Join(t.TempDir(), "once.db"), "pgx": pg.Database(t)} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			s := open(t, place)
			result := strings.Repeat("What the subagent found. ", 20) + needle
			if err := s.Update(t.Context(), func(tx *bridge.Scene) error { return tellOnce(tx, result) }); err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open(driver, place)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			var in []string
			for _, column := range []string{"turns.reply", "turns.sent", "turns.body", "notices.untrusted", "notices.body", "events.body", "events.fields"} {
				table, name, _ := strings.Cut(column, ".")
				var n int
				if err := db.QueryRowContext(t.Context(), fmt.Sprintf("SELECT count(*) FROM %s WHERE %s LIKE '%%%s%%'", table, name, needle)).Scan(&n); err != nil {
					t.Fatal(err)
				}
				if n > 0 {
					in = append(in, fmt.Sprint(n, " ", column))
				}
			}
			if got := strings.Join(in, ", "); got != "1 turns.reply, 1 turns.sent" {
				t.Errorf("the result stands in %s", got)
			}
			// What shows the one copy goes with it.
			if _, err := db.ExecContext(t.Context(), "UPDATE turns SET reply = $1 WHERE id = $2", strings.Replace(result, needle, "(gone)", 1), onceTurn(1)); err != nil {
				t.Fatal(err)
			}
			if left := shown(t, s); strings.Count(left, needle) != 2 || strings.Count(left, "(gone)") != 2 {
				t.Errorf("after the one copy changed: %s", left)
			}
		})
	}
}

func onceTurn(n int) bridge.TurnID { return bridge.TurnID(fmt.Sprintf("trn_%026d", n)) }

func tellOnce(tx *bridge.Scene, result string) error {
	now := time.Unix(1e9, 0).UTC()
	for n, a := range []bridge.AgentID{"agt_1", "agt_2"} {
		if err := tx.InsertAgent(bridge.Agent{ID: a, Name: string(a), Root: a, State: bridge.AgentIdle, CreatedAt: now, UpdatedAt: now}); err != nil {
			return err
		}
		t := bridge.Turn{ID: onceTurn(n + 1), Agent: a, Cause: bridge.CauseUser, State: bridge.TurnReplied, Attempts: 1, CreatedAt: now}
		if n == 0 {
			t.Text, t.Sent, t.Reply = "Look for it.", "Look for it.", result
		} else {
			t.Sent = "What happened:\n\n1. " + body + "\n| " + result + "\n\nThat is all."
		}
		if _, err := tx.InsertTurn(t); err != nil {
			return err
		}
		e := bridge.Event{At: now, Kind: bridge.EventReply, Agent: a, Turn: t.ID, Text: "What the subagent found. …", Fields: map[string]string{"text": result}}
		if n == 1 {
			e.Kind, e.Text, e.Fields = bridge.EventTurn, "What happened: …", map[string]string{"text": t.Sent}
		}
		if err := tx.AppendEvent(e); err != nil {
			return err
		}
	}
	if _, err := tx.InsertCompletion(bridge.Completion{ID: "cpl_1", Op: "agt_1", Turn: onceTurn(1), Run: "run", Status: bridge.RunFinished, CreatedAt: now}); err != nil {
		return err
	}
	return tx.InsertNotice(bridge.Notice{ID: "ntc_00000000000000000000000001", Agent: "agt_2", Cause: bridge.CauseCompletion, Completion: "cpl_1", Text: body, Untrusted: result, Turn: onceTurn(2), CreatedAt: now})
}

// shown is what readers get of the texts beside the reply itself; a sent text and the event of it count as they are.
func shown(t *testing.T, s bridge.Store) (out string) {
	t.Helper()
	if err := s.View(context.Background(), func(tx *bridge.Scene) error {
		told, err := tx.Turn(onceTurn(2))
		if err != nil {
			return err
		}
		carried, err := tx.CarriedNotices(told.ID)
		if err != nil || len(carried) != 1 {
			return fmt.Errorf("%d notices, %w", len(carried), err)
		}
		events, err := tx.Events(0, 0)
		out = told.Sent + "|" + carried[0].Untrusted
		for _, e := range events {
			out += "|" + string(e.Agent) + " " + e.Text + " " + e.Fields["text"]
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}
