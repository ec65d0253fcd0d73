package stores

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
)

func token(agent bridge.AgentID, n int) bridge.DoorToken {
	return bridge.DoorToken{ID: bridge.TokenID(fmt.Sprintf("tok_%04d", n)), Agent: agent, Hash: bridge.HashDoorToken(fmt.Sprint("dbt_", n)), CreatedAt: epoch}
}

func testTokens(t *testing.T, open Open) {
	s, full := open(t), token("agt_1", 1)
	full.Generation, full.Client, full.LastUsed, full.RevokedAt = 3, "codex", at(time.Second), at(time.Minute)
	noZeroField(t, full)
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		return errors.Join(tx.InsertToken(full), tx.InsertToken(token("agt_1", 2)), tx.InsertToken(token("agt_2", 3)), tx.InsertToken(token("agt_1", 4)))
	})
	of := func(agent bridge.AgentID) []bridge.DoorToken {
		return read(t, s, func(tx *bridge.Scene) ([]bridge.DoorToken, error) { return tx.Tokens(agent) })
	}
	find := func(hash string) bridge.DoorToken {
		return read(t, s, func(tx *bridge.Scene) (bridge.DoorToken, error) { return tx.FindToken(hash) })
	}
	equal(t, "tokens, newest first", of("agt_1"), []bridge.DoorToken{token("agt_1", 4), token("agt_1", 2), full})
	equal(t, "tokens of nobody", len(of("agt_none")), 0)
	equal(t, "a revoked one is found", find(full.Hash), full)

	sameHash, sameID := token("agt_2", 9), token("agt_2", 2)
	sameHash.Hash, sameID.Hash = full.Hash, bridge.HashDoorToken("another")
	for what, k := range map[string]bridge.DoorToken{"the same hash": sameHash, "the same id": sameID} {
		mustUpdate(t, s, func(tx *bridge.Scene) error {
			if err := tx.InsertToken(k); errors.Is(err, bridge.ErrLacking) {
				return err
			} else if bridge.KindOf(err) != bridge.Conflict {
				t.Errorf("insert a token with %s: %v, want a Conflict", what, err)
			}
			return second(tx.Tokens("agt_1")) // the transaction goes on
		})
	}

	use := func(id bridge.TokenID, when time.Time) {
		mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.UseToken(id, when) })
	}
	older := token("agt_1", 2)
	use(older.ID, at(time.Hour))
	use(older.ID, at(time.Minute)) // late news
	older.LastUsed = at(time.Hour)
	equal(t, "a used token", find(older.Hash), older)

	mustUpdate(t, s, func(tx *bridge.Scene) error {
		return errors.Join(tx.RevokeToken(older.ID, at(2*time.Hour)), tx.RevokeToken(older.ID, at(3*time.Hour)))
	})
	older.RevokedAt = at(2 * time.Hour)
	equal(t, "a revoked token keeps its time", find(older.Hash), older)
	equal(t, "it is revoked", find(older.Hash).Revoked(), true)
	equal(t, "another is not", find(token("agt_2", 3).Hash).Revoked(), false)

	revoke := func() (n int) {
		mustUpdate(t, s, func(tx *bridge.Scene) (err error) {
			n, err = tx.RevokeTokens("agt_1", at(4*time.Hour))
			return err
		})
		return n
	}
	equal(t, "revoked the agent's good ones", revoke(), 1)
	equal(t, "revoked again", revoke(), 0)
	last := token("agt_1", 4)
	last.RevokedAt = at(4 * time.Hour)
	equal(t, "all are revoked", of("agt_1"), []bridge.DoorToken{last, older, full})
	equal(t, "another agent's are good", of("agt_2"), []bridge.DoorToken{token("agt_2", 3)})
}

func runMessage(turn bridge.TurnID, n int, kind bridge.RunMessageKind) bridge.RunMessage {
	return bridge.RunMessage{Turn: turn, Kind: kind, Name: "send_message", CallID: fmt.Sprint("call-", n), Payload: `{"text":"'; DROP TABLE run_messages; --"}`, At: at(time.Duration(n) * time.Second)}
}

func testRuns(t *testing.T, open Open) {
	s := open(t)
	appendTo := func(m bridge.RunMessage) (seq int64) {
		mustUpdate(t, s, func(tx *bridge.Scene) (err error) {
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
			equal(t, "its number", appendTo(m), m.Seq)
		}
	}
	noZeroField(t, want[0])
	again := want[2]
	again.Payload, again.Name = "another", "another"
	equal(t, "the same call and kind again", appendTo(again), 0)
	equal(t, "the same call in another turn", appendTo(runMessage("trn_2", 1, bridge.ToolCallMessage)), 1)
	messages := func(turn bridge.TurnID, after int64, limit int) []bridge.RunMessage {
		return read(t, s, func(tx *bridge.Scene) ([]bridge.RunMessage, error) { return tx.RunMessages(turn, after, limit) })
	}
	equal(t, "the run, in order", messages("trn_1", 0, 0), want)
	equal(t, "a page of it", messages("trn_1", 3, 2), want[3:5])
	equal(t, "behind its end", len(messages("trn_1", 99, 0)), 0)
	equal(t, "of nobody", len(messages("trn_none", 0, 0)), 0)

	long := runMessage("trn_long", 1, bridge.ToolCallMessage)
	long.Payload, long.Seq = bridge.RunPayload([]byte(strings.Repeat("ß\"", bridge.MaxRunPayload))), 1
	appendTo(long)
	equal(t, "the longest payload", messages("trn_long", 0, 0), []bridge.RunMessage{long})
	for n := range 120 {
		appendTo(runMessage("trn_many", n, bridge.ToolCallMessage))
	}
	equal(t, "no limit is 100", len(messages("trn_many", 0, 0)), 100)
	equal(t, "a larger limit", len(messages("trn_many", 0, 1000)), 120)
}
