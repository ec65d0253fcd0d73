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
	"drawbridge/store/quoting"
)

// A text is stored once; other rows that show it quote it, and the database puts it in when it loads them:
//   - a turn's reply and its text stand in the turn;
//   - a notice that brings a reply quotes the turn that said it, by its completion;
//   - a turn's sent text quotes the turn's own text or, once the turn has replied, the notices that it told;
//   - an event quotes its turn.
//
// The store leaves a text out only when what it puts in gives the same bytes. A text that is quoted never changes:
// a reply belongs to a turn that is over, and only a notice that waits and brings mail is rewritten.

// sameAsBody says that a turn sent its own text and nothing else.
const sameAsBody = "="

// saidSQL is the untrusted text of notices n.
const saidSQL = "CASE WHEN n.quotes = 1 THEN (SELECT r.reply FROM completions c JOIN turns r ON r.id = c.turn WHERE c.id = n.completion) ELSE n.untrusted END"

// partsSQL is what the notices that a turn quotes say, each with its id and two lengths.
func partsSQL(turns string) string {
	ids := make([]string, quoting.MostQuoted)
	for i := range ids {
		ids[i] = fmt.Sprintf("substr(%s.quotes, %d, %d)", turns, i*quoting.IDWidth+1, quoting.IDWidth)
	}
	return "CASE WHEN " + turns + ".quotes IN ('', '" + sameAsBody + "') THEN '' ELSE COALESCE((SELECT string_agg(" +
		"q.id || ' ' || octet_length(q.body) || ' ' || octet_length(q.said) || ' ' || q.body || q.said, '') FROM " +
		"(SELECT n.id, n.body, " + saidSQL + " AS said FROM notices n WHERE n.id IN (" + strings.Join(ids, ", ") + ")) q), '') END"
}

// wholeSent is a turn's sent text from what is stored.
func wholeSent(sent, body, quotes, parts string) (string, error) {
	switch quotes {
	case "":
		return sent, nil
	case sameAsBody:
		return body, nil
	}
	told, err := quoting.PartsOf(parts)
	if err != nil {
		return "", err
	}
	return quoting.PutIn(sent, quotes, told)
}

// sentOf is what of a turn's sent text is stored, and what it quotes. A turn that may be sent again keeps its text whole.
func sentOf(sc *bridge.Scene, t *bridge.Turn) (sent, quotes string) {
	switch {
	case t.Sent != "" && t.Sent == t.Text:
		return "", sameAsBody
	case t.State != bridge.TurnReplied || t.Sent == "":
		return t.Sent, ""
	}
	var told []*bridge.Notice
	for n := range sc.Rows.Notices.All() {
		if n.Turn == t.ID {
			told = append(told, n)
		}
	}
	return quoting.LeaveOut(t, told)
}

// saidElsewhere reports whether a notice's untrusted text is the reply of the turn that its completion ended.
func saidElsewhere(sc *bridge.Scene, n *bridge.Notice) bool {
	c := sc.Rows.Completions.Row(n.Completion)
	if c == nil || n.Message != "" || n.Untrusted == "" {
		return false
	}
	t := sc.Rows.Turns.Row(c.Turn)
	return t != nil && t.State.Over() && t.Reply == n.Untrusted && quoting.Quotable(t.Reply)
}

// What an event quotes: the lowest bits say which text of its turn, the others where that stands. The attempts of the turn
// stand above, because a later attempt may send another text.
const (
	quotesSent = iota + 1
	quotesReply
	quotesText
	quotesSource = 7
	inText       = 8
	inPrompt     = 16
	inLine       = 32
	ofAgent      = 64
	inExternal   = 128
	attemptShift = 8
)

// eventFields are the fields of an event that may quote.
var eventFields = map[int64]string{inText: "text", inPrompt: "prompt"}

// shownBytes and shownRunes are what an event shows of a text, and of its first line.
const shownBytes, shownRunes = 4000, 300

// beginning is what is needed of a text to show it.
type beginning struct {
	Text string `json:"text"`
	// Total is the length of the whole text in bytes.
	Total int `json:"total"`
	// UpTo is the last attempt that sent the text.
	UpTo int64 `json:"up_to,omitempty"`
}

func beginningOf(text string) beginning {
	cut := min(len(text), 4*shownBytes)
	for n, i := 0, 0; i < cut; n++ {
		if n == shownBytes {
			cut = i
			break
		}
		_, size := utf8.DecodeRuneInString(text[i:])
		i += size
	}
	return beginning{Text: text[:cut], Total: len(text)}
}

func (b beginning) clipped() string {
	if b.Total <= shownBytes {
		return b.Text
	}
	cut := min(shownBytes, len(b.Text))
	for cut > 0 && cut < len(b.Text) && !utf8.RuneStart(b.Text[cut]) {
		cut--
	}
	return fmt.Sprintf("%s\n… (%d more bytes)", b.Text[:cut], b.Total-cut)
}

func (b beginning) line() string {
	text := strings.TrimSpace(b.Text)
	if first, _, more := strings.Cut(text, "\n"); more {
		text = first + " …"
	}
	if utf8.RuneCountInString(text) > shownRunes {
		text = string([]rune(text)[:shownRunes]) + "…"
	}
	return text
}

// textOf is the text of its turn that an event of a kind shows, and its number.
func textOf(kind string, t *bridge.Turn) (string, int64) {
	switch kind {
	case bridge.EventTurn:
		return t.Sent, quotesSent
	case bridge.EventReply:
		return t.Reply, quotesReply
	case bridge.EventLaunched:
		return t.Text, quotesText
	}
	return "", 0
}

// lessOf is an event without what it shows of its turn and its agent, and its quotes.
func lessOf(sc *bridge.Scene, e bridge.Event) (less bridge.Event, quotes int64) {
	t := sc.Rows.Turns.Row(e.Turn)
	if t == nil {
		return e, 0
	}
	fields := maps.Clone(e.Fields)
	if t.Agent == e.Agent && e.Agent != "" {
		quotes, e.Agent = ofAgent, ""
		if a := sc.Rows.Agents.Row(t.Agent); a != nil && a.External != "" && fields["external"] == a.External {
			quotes |= inExternal
			delete(fields, "external")
		}
	}
	text, source := textOf(e.Kind, t)
	if text != "" && quoting.Quotable(text) && (source != quotesSent || !replaced(sc, t) || sc.Rows.Turns.Was(t.ID).Attempts < t.Attempts) {
		where := leaveText(&e, fields, beginningOf(text))
		if where != 0 {
			quotes |= source | where | int64(t.Attempts)<<attemptShift
		}
	}
	e.Fields = fields
	return e, quotes
}

// leaveText takes a text out of an event and says where it stood.
func leaveText(e *bridge.Event, fields map[string]string, shown beginning) (where int64) {
	for bit, name := range eventFields {
		if value, there := fields[name]; there && value == shown.clipped() {
			where |= bit
			delete(fields, name)
		}
	}
	if e.Text == shown.line() {
		where |= inLine
		e.Text = ""
	}
	return where
}

// fill puts into an event what it quotes of a text.
func fill(e *bridge.Event, quotes int64, b beginning) {
	for bit, name := range eventFields {
		if quotes&bit != 0 {
			e.Fields[name] = b.clipped()
		}
	}
	if quotes&inLine != 0 {
		e.Text = b.line()
	}
}

// replaced reports whether a step sends another text than an earlier attempt of the turn did.
func replaced(sc *bridge.Scene, t *bridge.Turn) bool {
	was := sc.Rows.Turns.Was(t.ID)
	return was != nil && was.Sent != "" && was.Attempts > 0 && was.Sent != t.Sent
}

// keepEarlier keeps what events quote of a sent text that is replaced.
func keepEarlier(was *bridge.Turn) (statement, error) {
	b := beginningOf(was.Sent)
	b.UpTo = int64(was.Attempts)
	line, err := json.Marshal(b)
	return statement{sql: "UPDATE turns SET earlier = earlier || $2 WHERE id = $1", args: []any{was.ID, string(line) + "\n"}}, err
}

// sentAt is the text that a turn sent with an attempt; last is the latest.
func sentAt(attempt int64, earlier, last string) (beginning, error) {
	for line := range strings.Lines(earlier) {
		var b beginning
		if err := json.Unmarshal([]byte(line), &b); err != nil {
			return b, fmt.Errorf("earlier texts of a turn: %w", err)
		}
		if attempt <= b.UpTo {
			return b, nil
		}
	}
	return beginningOf(last), nil
}

// ofTurn selects something of an event's turn, ” where the event quotes none.
func ofTurn(when, what string) string {
	return "CASE WHEN " + when + " THEN COALESCE((SELECT " + what + " FROM turns t WHERE t.id = events.turn), '') ELSE '' END"
}

// eventSelect is what scanEvent reads.
var eventSelect = strings.Join([]string{
	"seq, at, kind, CASE WHEN (quotes & 64) <> 0 THEN COALESCE((SELECT t.agent FROM turns t WHERE t.id = events.turn), '') ELSE agent END, name, turn, command, body, fields, quotes",
	ofTurn("(quotes & 128) <> 0", "(SELECT a.external FROM agents a WHERE a.id = t.agent)"),
	ofTurn("(quotes & 7) = 1", "t.sent"), ofTurn("(quotes & 7) IN (1, 3)", "t.body"), ofTurn("(quotes & 7) = 1", "t.quotes"),
	ofTurn("(quotes & 7) = 1", partsSQL("t")), ofTurn("(quotes & 7) = 1", "t.earlier"),
	ofTurn("(quotes & 7) = 2", "octet_length(t.reply) || ' ' || substr(t.reply, 1, "+strconv.Itoa(shownBytes)+")"),
}, ", ")

func scanEvent(row scanner) (e bridge.Event, err error) {
	var quotes int64
	var external, sent, body, quoted, parts, earlier, reply string
	if err = row.Scan(&e.Seq, microTime{&e.At}, &e.Kind, &e.Agent, &e.Name, &e.Turn, &e.Command, &e.Text, jsonText{&e.Fields}, &quotes,
		&external, &sent, &body, &quoted, &parts, &earlier, &reply); err != nil {
		return e, err
	}
	if quotes&(inText|inPrompt|inExternal) != 0 && e.Fields == nil {
		e.Fields = map[string]string{}
	}
	if quotes&inExternal != 0 {
		e.Fields["external"] = external
	}
	if quotes&quotesSource == 0 {
		return e, nil
	}
	var b beginning
	switch quotes & quotesSource {
	case quotesReply:
		total, text, _ := strings.Cut(reply, " ")
		b.Text = text
		if b.Total, err = strconv.Atoi(total); err != nil {
			return e, fmt.Errorf("the reply that event %d quotes: %w", e.Seq, err)
		}
	case quotesText:
		b = beginningOf(body)
	case quotesSent:
		if sent, err = wholeSent(sent, body, quoted, parts); err == nil {
			b, err = sentAt(quotes>>attemptShift, earlier, sent)
		}
		if err != nil {
			return e, err
		}
	}
	fill(&e, quotes, b)
	return e, nil
}

// without is a list of columns without some of them.
func without(columns string, some ...string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(columns, ", "), func(c string) bool { return slices.Contains(some, c) }), ", ")
}
