package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// A text stands whole in the turn that it belongs to. Two kinds of rows show it and do not store it again:
//   - a notice that brings a reply shows the reply of the turn that its completion ended;
//   - an event about a turn's words shows the turn's reply, its sent text or its prompt.
//
// The store leaves a text out only when the turn gives the same bytes. A reply belongs to a turn that is over. When a
// later attempt sends another text, the turn keeps what the events of earlier attempts show.

// saidSQL is the untrusted text of notices n.
const saidSQL = "CASE WHEN n.quotes = 1 THEN (SELECT r.reply FROM completions c JOIN turns r ON r.id = c.turn WHERE c.id = n.completion) ELSE n.untrusted END"

// saidElsewhere reports whether a notice's untrusted text is the reply of the turn that its completion ended.
func saidElsewhere(sc *bridge.Scene, n *bridge.Notice) bool {
	c := sc.Rows.Completions.Row(n.Completion)
	if c == nil || n.Message != "" || n.Untrusted == "" {
		return false
	}
	t := sc.Rows.Turns.Row(c.Turn)
	return t != nil && t.State.Over() && t.Reply == n.Untrusted && quotable(t.Reply)
}

// quotable reports whether both databases cut and measure a text as Go does.
func quotable(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// shownOf is the field in which an event of a kind shows words of its turn, and these words.
func shownOf(kind string, t *bridge.Turn) (field, text string) {
	switch kind {
	case bridge.EventTurn:
		return "text", t.Sent
	case bridge.EventReply:
		return "text", t.Reply
	case bridge.EventLaunched:
		return "prompt", t.Text
	}
	return "", ""
}

// lessOf is an event without what it shows of its turn, and the attempt of the turn that it shows, 0 for none.
func lessOf(sc *bridge.Scene, e bridge.Event) (less bridge.Event, attempt int) {
	t := sc.Rows.Turns.Row(e.Turn)
	if t == nil {
		return e, 0
	}
	field, text := shownOf(e.Kind, t)
	if text == "" || !quotable(text) || e.Fields[field] != words.Clip(text, words.Shown) {
		return e, 0
	}
	if e.Kind == bridge.EventTurn && replaced(sc, t) && sc.Rows.Turns.Was(t.ID).Attempts == t.Attempts {
		return e, 0 // the attempt is one of those whose text was replaced
	}
	e.Fields = maps.Clone(e.Fields)
	delete(e.Fields, field)
	return e, max(1, t.Attempts)
}

// replaced reports whether a step sends another text than an earlier attempt of the turn did.
func replaced(sc *bridge.Scene, t *bridge.Turn) bool {
	was := sc.Rows.Turns.Was(t.ID)
	return was != nil && was.Sent != "" && was.Attempts > 0 && was.Sent != t.Sent
}

// earlierText is what events show of a sent text that was replaced.
type earlierText struct {
	// UpTo is the last attempt that sent the text.
	UpTo int    `json:"up_to"`
	Text string `json:"text"`
}

// keepEarlier keeps what events show of a sent text that is replaced.
func keepEarlier(was *bridge.Turn) (statement, error) {
	line, err := json.Marshal(earlierText{was.Attempts, words.Clip(was.Sent, words.Shown)})
	return statement{sql: "UPDATE turns SET earlier = earlier || $2 WHERE id = $1", args: []any{was.ID, string(line) + "\n"}}, err
}

// ofTurn selects something of the turn that an event shows, and an empty text where it shows none.
func ofTurn(what string) string {
	return "CASE WHEN attempt = 0 THEN '' ELSE COALESCE((SELECT " + what + " FROM turns t WHERE t.id = events.turn), '') END"
}

// wordsSQL are the words of a turn t that an event shows.
const wordsSQL = "CASE events.kind WHEN '" + bridge.EventTurn + "' THEN t.sent WHEN '" + bridge.EventReply + "' THEN t.reply ELSE t.body END"

// eventSelect is what scanEvent reads.
var eventSelect = strings.Join([]string{
	"seq, at, kind, agent, name, root, turn, command, body, fields, attempt",
	ofTurn("octet_length(" + wordsSQL + ") || ' ' || substr(" + wordsSQL + ", 1, " + strconv.Itoa(words.Shown) + ")"),
	ofTurn("CASE WHEN events.kind = '" + bridge.EventTurn + "' THEN t.earlier ELSE '' END"),
}, ", ")

func scanEvent(row scanner) (e bridge.Event, err error) {
	var attempt int
	var latest, earlier string
	if err = row.Scan(&e.Seq, microTime{&e.At}, &e.Kind, &e.Agent, &e.Name, &e.Root, &e.Turn, &e.Command, &e.Text, jsonText{&e.Fields}, &attempt, &latest, &earlier); err != nil || attempt == 0 {
		return e, err
	}
	text, err := wordsAt(attempt, earlier, latest)
	if err != nil {
		return e, fmt.Errorf("what event %d shows of its turn: %w", e.Seq, err)
	}
	if e.Fields == nil {
		e.Fields = map[string]string{}
	}
	field, _ := shownOf(e.Kind, &bridge.Turn{})
	e.Fields[field] = text
	return e, nil
}

// wordsAt is what an event shows of the words that its turn had with an attempt; latest is a length in bytes and the beginning of
// the latest.
func wordsAt(attempt int, earlier, latest string) (string, error) {
	for line := range strings.Lines(earlier) {
		var e earlierText
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return "", err
		}
		if attempt <= e.UpTo {
			return e.Text, nil
		}
	}
	length, beginning, _ := strings.Cut(latest, " ")
	total, err := strconv.Atoi(length)
	if err != nil {
		return "", err
	}
	return words.ClipOf(beginning, total, words.Shown), nil
}

// without is a list of columns without some of them.
func without(columns string, some ...string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(columns, ", "), func(c string) bool { return slices.Contains(some, c) }), ", ")
}
