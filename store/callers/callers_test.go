package callers_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"drawbridge/openai"
	"drawbridge/proof/pg"
	"drawbridge/store"
	"drawbridge/store/callers"
)

func TestMain(m *testing.M) { os.Exit(pg.Main(m)) }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// onEach runs a test on SQLite and, where there is one, on PostgreSQL.
func onEach(t *testing.T, fn func(t *testing.T, r *callers.Records)) {
	t.Helper()
	open := func(t *testing.T, database string) *callers.Records {
		s, err := store.Open(t.Context(), database)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return callers.New(s)
	}
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		fn(t, open(t, filepath.Join(t.TempDir(), "drawbridge.db")))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		fn(t, open(t, pg.Database(t)))
	})
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

// turn is the nth turn of a token, begun n seconds after noon.
func turn(token string, n int) openai.Turn {
	return openai.Turn{ID: fmt.Sprintf("chatcmpl-%s-%d", token, n), Session: "ses_" + token, Token: token, Model: "m", State: openai.TurnStarting,
		Body: "sum", Holder: "one", Held: noon.Add(time.Minute), StartedAt: noon.Add(time.Duration(n) * time.Second)}
}

func ids(turns []openai.Turn) (out []string) {
	for _, t := range turns {
		out = append(out, t.ID)
	}
	return out
}

func TestTurnsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, r *callers.Records) {
		full := openai.Turn{ID: "chatcmpl-1", Session: "ses_1", Token: "tom", Model: "gpt", State: openai.TurnEnded, Key: "k", Body: "b", Before: "h0", After: "h1", Ref: "trn_1", Holder: "one",
			Held: noon, StartedAt: noon, BrokenAt: noon.Add(1), EndedAt: noon.Add(time.Hour), HadAt: noon.Add(2 * time.Hour), Answer: []byte("{}\x00"), Tokens: 7}
		full.BrokenAt = noon.Add(time.Microsecond)
		session := openai.Session{ID: "ses_1", Token: "tom", Key: "abc", Model: "gpt", CreatedAt: noon, Used: noon}
		call := openai.CallRow{ID: "call_1", Turn: "chatcmpl-1", Upstream: "u", Name: "bash", Arguments: []byte(`{"a":1}`), State: openai.CallAnswered, Result: []byte(`"x"`), Seq: 1}
		ok(t, r.Save(t.Context(), openai.Change{Session: &session, Turns: []openai.Turn{full}, Calls: []openai.CallRow{call}}))
		full.Version = 1
		for name, q := range map[string]openai.Query{
			"id": {Token: "tom", Turn: "chatcmpl-1"}, "key": {Token: "tom", Key: "k"}, "history": {Token: "tom", Histories: []string{"h0", "h1"}},
			"history of a session": {Token: "tom", Histories: []string{"h1"}, SessionKey: "abc"},
		} {
			f, err := r.Look(t.Context(), q)
			ok(t, err)
			equal(t, name, f, openai.Found{Turns: []openai.Turn{full}, Sessions: []openai.Session{session}})
		}
		f, err := r.Look(t.Context(), openai.Query{Token: "tom", Calls: []string{"call_none", "call_1"}})
		ok(t, err)
		equal(t, "call", f, openai.Found{Turns: []openai.Turn{full}, Sessions: []openai.Session{session}, Calls: []openai.CallRow{call}})
		f, err = r.Look(t.Context(), openai.Query{Token: "tom", SessionKey: "abc"})
		ok(t, err)
		equal(t, "session", f, openai.Found{Sessions: []openai.Session{session}})
		for name, q := range map[string]openai.Query{
			"nothing": {Token: "tom"}, "another's": {Token: "eve", Turn: "chatcmpl-1", Key: "k", Body: "b", SessionKey: "abc", Calls: []string{"call_1"}, Histories: []string{"h1"}},
			"a turn with a key": {Token: "tom", Body: "b", Since: noon}, "history of another session": {Token: "tom", Histories: []string{"h1"}, SessionKey: "none"},
		} {
			f, err := r.Look(t.Context(), q)
			ok(t, err)
			equal(t, name, f, openai.Found{})
		}
	})
}

func TestOneTurnForAKey(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, r *callers.Records) {
		const racers = 8
		errs := make(chan error, racers)
		for n := range racers {
			a := turn("tom", n)
			a.Key = "same"
			go func() { errs <- r.Save(t.Context(), openai.Change{Turns: []openai.Turn{a}}) }()
		}
		won := 0
		for range racers {
			if err := <-errs; err == nil {
				won++
			} else if !errors.Is(err, openai.ErrConflict) {
				t.Error(err)
			}
		}
		equal(t, "winners", won, 1)
		other := turn("eve", 1)
		other.Key = "same"
		ok(t, r.Save(t.Context(), openai.Change{Turns: []openai.Turn{other}}))
	})
}

func TestAChangeOfAnOldVersionLeavesNoTrace(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, r *callers.Records) {
		a := turn("tom", 1)
		ok(t, r.Save(t.Context(), openai.Change{Turns: []openai.Turn{a}}))
		a.Version, a.State = 1, openai.TurnRunning
		ok(t, r.Save(t.Context(), openai.Change{Turns: []openai.Turn{a}}))
		a.State = openai.TurnLost
		s := openai.Session{ID: "ses_x", Token: "tom", Key: "x"}
		err := r.Save(t.Context(), openai.Change{Turns: []openai.Turn{a}, Session: &s, Calls: []openai.CallRow{{ID: "call_x", Turn: a.ID}}})
		if !errors.Is(err, openai.ErrConflict) {
			t.Fatalf("a save of version 1 over version 2: %v", err)
		}
		f, err := r.Look(t.Context(), openai.Query{Token: "tom", Turn: a.ID, SessionKey: "x"})
		ok(t, err)
		a.Version, a.State = 2, openai.TurnRunning
		equal(t, "after it", f, openai.Found{Turns: []openai.Turn{a}})
	})
}

func TestWhoHoldsATurn(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, r *callers.Records) {
		for n := range 3 {
			a := turn("tom", n)
			if n == 2 {
				a.State, a.EndedAt = openai.TurnEnded, noon
			}
			ok(t, r.Save(t.Context(), openai.Change{Turns: []openai.Turn{a}}))
		}
		first, second := turn("tom", 0).ID, turn("tom", 1).ID
		lost, err := r.Hold(t.Context(), "one", []string{first, "chatcmpl-none"}, noon.Add(time.Hour))
		ok(t, err)
		equal(t, "lost", lost, []string{"chatcmpl-none"})
		lost, err = r.Hold(t.Context(), "two", []string{first}, noon.Add(time.Hour))
		ok(t, err)
		equal(t, "another's", lost, []string{first})
		for _, step := range []struct {
			at   time.Time
			want []string
		}{{noon, nil}, {noon.Add(2 * time.Minute), []string{second}}, {noon.Add(2 * time.Hour), []string{second, first}}} {
			left, err := r.Left(t.Context(), step.at, 10)
			ok(t, err)
			equal(t, step.at.String(), ids(left), step.want)
		}
	})
}

// TestLookIsBounded: however many turns of one body or one history there are, a look finds the newest, and of a body those whose answer nobody had.
func TestLookIsBounded(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, r *callers.Records) {
		var all []openai.Turn
		for n := range 140 {
			a := turn("tom", n)
			a.Session, a.After = fmt.Sprint("ses_", n), "history"
			if n%2 == 1 {
				a.HadAt = noon
			}
			all = append(all, a)
		}
		ok(t, r.Save(t.Context(), openai.Change{Turns: all}))
		f, err := r.Look(t.Context(), openai.Query{Token: "tom", Body: "sum", Since: noon})
		ok(t, err)
		equal(t, "turns of a body", []any{len(f.Turns), f.Turns[0].ID, f.Turns[63].ID}, []any{64, turn("tom", 138).ID, turn("tom", 12).ID})
		f, err = r.Look(t.Context(), openai.Query{Token: "tom", Body: "sum", Since: noon.Add(136 * time.Second)})
		ok(t, err)
		equal(t, "turns since a time", ids(f.Turns), []string{turn("tom", 138).ID, turn("tom", 136).ID})
		f, err = r.Look(t.Context(), openai.Query{Token: "tom", Histories: []string{"longer", "history", "shorter"}})
		ok(t, err)
		equal(t, "turns of a history", []any{len(f.Turns), f.Turns[0].ID}, []any{8, turn("tom", 139).ID})
	})
}

// TestForget: a session that nobody uses any more goes whole; of one that is used the last turn stays, and those that run.
func TestForget(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, r *callers.Records) {
		later := noon.AddDate(0, 0, 40)
		for token, used := range map[string]time.Time{"unused": noon, "used": later, "running": noon} {
			s := openai.Session{ID: "ses_" + token, Token: token, CreatedAt: noon, Used: used}
			for n, after := range []string{"one", "two", ""} { // the last turn failed, and the session goes on by the one before
				a := turn(token, n)
				a.After, a.EndedAt = after, noon.Add(time.Duration(n)*time.Hour)
				if token == "running" && n == 2 {
					a.EndedAt = time.Time{}
				}
				ok(t, r.Save(t.Context(), openai.Change{Session: &s, Turns: []openai.Turn{a}, Calls: []openai.CallRow{{ID: "call_" + a.ID, Turn: a.ID, State: openai.CallWaiting, Seq: 1}}}))
				ok(t, r.SetState(t.Context(), s.ID, openai.BodyKey(a.ID), []byte("body")))
			}
			ok(t, r.SetState(t.Context(), s.ID, "history", []byte("h")))
		}
		for _, want := range []int{1, 1, 1, 0} { // a session and two turns
			n, err := r.Forget(t.Context(), later.AddDate(0, 0, -1), 1)
			ok(t, err)
			equal(t, "forgotten at once", n, want)
		}
		for token, want := range map[string][]string{"unused": nil, "used": {turn("used", 2).ID, turn("used", 1).ID}, "running": {turn("running", 2).ID, turn("running", 1).ID}} {
			var calls []string
			for n := range 3 {
				calls = append(calls, "call_"+turn(token, n).ID)
			}
			f, err := r.Look(t.Context(), openai.Query{Token: token, Calls: calls})
			ok(t, err)
			equal(t, token, ids(f.Turns), want)
			equal(t, token+": calls", len(f.Calls), len(want))
			equal(t, token+": session", len(f.Sessions), min(1, len(want)))
			value, err := r.State(t.Context(), "ses_"+token, "history")
			ok(t, err)
			equal(t, token+": state", value != nil, want != nil)
		}
		_, err := r.Forget(t.Context(), noon.AddDate(10, 0, 0), 10)
		ok(t, err)
		for key, want := range map[string]bool{"history": true, openai.BodyKey(turn("running", 2).ID): false} {
			value, err := r.State(t.Context(), "ses_running", key)
			ok(t, err)
			equal(t, key, value != nil, want)
		}
	})
}

func TestSpentAndState(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, r *callers.Records) {
		for n := range 3 {
			a := turn("tom", n)
			a.Tokens = 10
			ok(t, r.Save(t.Context(), openai.Change{Turns: []openai.Turn{a}}))
		}
		tokens, turns, err := r.Spent(t.Context(), "tom", noon.Add(time.Second))
		ok(t, err)
		equal(t, "spent", []int64{tokens, turns}, []int64{20, 2})
		tokens, turns, err = r.Spent(t.Context(), "eve", noon)
		ok(t, err)
		equal(t, "spent by another", []int64{tokens, turns}, []int64{0, 0})
		value, err := r.State(t.Context(), "ses_1", "k")
		ok(t, err)
		equal(t, "before", value, []byte(nil))
		ok(t, r.SetState(t.Context(), "ses_1", "k", []byte("a")))
		ok(t, r.SetState(t.Context(), "ses_1", "k", []byte{}))
		value, err = r.State(t.Context(), "ses_1", "k")
		ok(t, err)
		equal(t, "an empty value is there", value != nil && len(value) == 0, true)
		ok(t, r.SetState(t.Context(), "ses_1", "k", nil))
		value, err = r.State(t.Context(), "ses_1", "k")
		ok(t, err)
		equal(t, "unset", value, []byte(nil))
	})
}

func TestTokens(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, r *callers.Records) {
		a := openai.Token{ID: "otk_1", Name: "laptop", Hash: "h1", Models: []string{"agent/*"}, Budget: 5, PerMinute: 6, Commands: "main", SpeaksFor: "operator", CreatedAt: noon}
		ok(t, r.SaveToken(t.Context(), a))
		got, err := r.TokenBy(t.Context(), "h1")
		ok(t, err)
		equal(t, "token", got, a)
		if _, err := r.TokenBy(t.Context(), "h2"); !errors.Is(err, openai.ErrNoToken) {
			t.Errorf("an unknown hash: %v", err)
		}
		again := openai.Token{ID: "otk_2", Name: "laptop", Hash: "h2", CreatedAt: noon}
		if err := r.SaveToken(t.Context(), again); !errors.Is(err, openai.ErrConflict) {
			t.Errorf("a second token of that name: %v", err)
		}
		a.RevokedAt, a.LastUsed = noon, noon
		ok(t, r.SaveToken(t.Context(), a))
		ok(t, r.SaveToken(t.Context(), again))
		list, err := r.Tokens(t.Context())
		ok(t, err)
		equal(t, "tokens", list, []openai.Token{a, again})
	})
}
