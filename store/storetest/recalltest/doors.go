package recalltest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/store/storetest/kit"
)

func token(agent bridge.AgentID, n int) bridge.DoorToken {
	return bridge.DoorToken{ID: bridge.TokenID(fmt.Sprintf("tok_%04d", n)), Agent: agent, Hash: bridge.HashDoorToken(fmt.Sprint("dbt_", n)), CreatedAt: kit.Epoch}
}

func testTokens(t *testing.T, open Open) {
	s, full := open(t), token("agt_1", 1)
	full.Generation, full.Client, full.LastUsed, full.RevokedAt = 3, "codex", kit.At(time.Second), kit.At(time.Minute)
	kit.NoZeroField(t, full)
	kit.Update(t, s, func(tx bridge.Tx) error {
		return errors.Join(tx.InsertToken(full), tx.InsertToken(token("agt_1", 2)), tx.InsertToken(token("agt_2", 3)), tx.InsertToken(token("agt_1", 4)))
	})
	of := func(agent bridge.AgentID) []bridge.DoorToken {
		return kit.Read(t, s, func(tx bridge.Tx) ([]bridge.DoorToken, error) { return tx.Tokens(agent) })
	}
	find := func(hash string) bridge.DoorToken {
		return kit.Read(t, s, func(tx bridge.Tx) (bridge.DoorToken, error) { return tx.FindToken(hash) })
	}
	kit.Equal(t, "tokens, newest first", of("agt_1"), []bridge.DoorToken{token("agt_1", 4), token("agt_1", 2), full})
	kit.Equal(t, "tokens of nobody", len(of("agt_none")), 0)
	kit.Equal(t, "a revoked one is found", find(full.Hash), full)

	sameHash, sameID := token("agt_2", 9), token("agt_2", 2)
	sameHash.Hash, sameID.Hash = full.Hash, bridge.HashDoorToken("another")
	for what, k := range map[string]bridge.DoorToken{"the same hash": sameHash, "the same id": sameID} {
		kit.Update(t, s, func(tx bridge.Tx) error {
			if err := tx.InsertToken(k); errors.Is(err, bridge.ErrLacking) {
				return err
			} else if bridge.KindOf(err) != bridge.Conflict {
				t.Errorf("insert a token with %s: %v, want a Conflict", what, err)
			}
			return kit.Second(tx.Tokens("agt_1")) // the transaction goes on
		})
	}

	use := func(id bridge.TokenID, when time.Time) {
		kit.Update(t, s, func(tx bridge.Tx) error { return tx.UseToken(id, when) })
	}
	older := token("agt_1", 2)
	use(older.ID, kit.At(time.Hour))
	use(older.ID, kit.At(time.Minute)) // late news
	older.LastUsed = kit.At(time.Hour)
	kit.Equal(t, "a used token", find(older.Hash), older)

	kit.Update(t, s, func(tx bridge.Tx) error {
		return errors.Join(tx.RevokeToken(older.ID, kit.At(2*time.Hour)), tx.RevokeToken(older.ID, kit.At(3*time.Hour)))
	})
	older.RevokedAt = kit.At(2 * time.Hour)
	kit.Equal(t, "a revoked token keeps its time", find(older.Hash), older)
	kit.Equal(t, "it is revoked", find(older.Hash).Revoked(), true)
	kit.Equal(t, "another is not", find(token("agt_2", 3).Hash).Revoked(), false)

	revoke := func() (n int) {
		kit.Update(t, s, func(tx bridge.Tx) (err error) {
			n, err = tx.RevokeTokens("agt_1", kit.At(4*time.Hour))
			return err
		})
		return n
	}
	kit.Equal(t, "revoked the agent's good ones", revoke(), 1)
	kit.Equal(t, "revoked again", revoke(), 0)
	last := token("agt_1", 4)
	last.RevokedAt = kit.At(4 * time.Hour)
	kit.Equal(t, "all are revoked", of("agt_1"), []bridge.DoorToken{last, older, full})
	kit.Equal(t, "another agent's are good", of("agt_2"), []bridge.DoorToken{token("agt_2", 3)})
}

func runMessage(turn bridge.TurnID, n int, kind bridge.RunMessageKind) bridge.RunMessage {
	return bridge.RunMessage{Turn: turn, Kind: kind, Name: "send_message", CallID: fmt.Sprint("call-", n), Payload: `{"text":"'; DROP TABLE run_messages; --"}`, At: kit.At(time.Duration(n) * time.Second)}
}

func testRuns(t *testing.T, open Open) {
	s := open(t)
	appendTo := func(m bridge.RunMessage) (seq int64) {
		kit.Update(t, s, func(tx bridge.Tx) (err error) {
			seq, err = tx.AppendRunMessage(m)
			return err
		})
		return seq
	}
	var want []bridge.RunMessage
	for n := range 4 {
		for _, kind := range []bridge.RunMessageKind{bridge.ToolCallMessage, bridge.ToolReturnMessage} {
			m := runMessage("trn_1", n, kind)
			m.Seq = int64(len(want) + 1)
			want = append(want, m)
			kit.Equal(t, "its number", appendTo(m), m.Seq)
		}
	}
	kit.NoZeroField(t, want[0])
	again := want[2]
	again.Payload, again.Name = "another", "another"
	kit.Equal(t, "the same call and kind again", appendTo(again), 0)
	kit.Equal(t, "the same call in another turn", appendTo(runMessage("trn_2", 1, bridge.ToolCallMessage)), 1)
	messages := func(turn bridge.TurnID, after int64, limit int) []bridge.RunMessage {
		return kit.Read(t, s, func(tx bridge.Tx) ([]bridge.RunMessage, error) { return tx.RunMessages(turn, after, limit) })
	}
	kit.Equal(t, "the run, in order", messages("trn_1", 0, 0), want)
	kit.Equal(t, "a page of it", messages("trn_1", 3, 2), want[3:5])
	kit.Equal(t, "behind its end", len(messages("trn_1", 99, 0)), 0)
	kit.Equal(t, "of nobody", len(messages("trn_none", 0, 0)), 0)

	long := runMessage("trn_long", 1, bridge.ToolCallMessage)
	long.Payload, long.Seq = bridge.RunPayload([]byte(strings.Repeat("ß\"", bridge.MaxRunPayload))), 1
	appendTo(long)
	kit.Equal(t, "the longest payload", messages("trn_long", 0, 0), []bridge.RunMessage{long})
	for n := range 120 {
		appendTo(runMessage("trn_many", n, bridge.ToolCallMessage))
	}
	kit.Equal(t, "no limit is 100", len(messages("trn_many", 0, 0)), 100)
	kit.Equal(t, "a larger limit", len(messages("trn_many", 0, 1000)), 120)
}
