// Package quoting takes out of a turn's sent text what notices say already, and puts it in again. It knows no database. Rule of
// thumb: it leaves a text out only when putting it in gives the same bytes.
package quoting

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"drawbridge/bridge"
)

// IDWidth is the length of an id that a turn's quotes name, in bytes; MostQuoted is how many there may be.
const IDWidth, MostQuoted = 30, 16

// hole begins a place in a sent text where a part of a notice stands; shortest is the length from which a text is quoted.
const hole, shortest = "\x1a", 32

// Part is what one notice says: its own words, and what it brings with a bar in front of each line.
type Part struct{ body, barred string }

// bar puts a bar in front of each line, as a turn tells what others wrote. Stored texts depend on it: it must stay as it is.
func bar(text string) string { return "| " + strings.ReplaceAll(text, "\n", "\n| ") }

// Quotable reports whether a text can be quoted: both databases cut and measure it as Go does.
func Quotable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsAny(text, "\x00"+hole)
}

// LeaveOut puts holes in a turn's sent text where notices that the turn told say the same. The ids are those of the notices.
func LeaveOut(t *bridge.Turn, told []*bridge.Notice) (sent, ids string) {
	if !Quotable(t.Sent) {
		return t.Sent, ""
	}
	rest, parts := t.Sent, map[string]Part{}
	var b strings.Builder
	for _, n := range told {
		if len(n.ID) != IDWidth || n.Message != "" || !Quotable(string(n.Text)+n.Untrusted) || len(ids) == MostQuoted*IDWidth {
			continue
		}
		p, before := Part{string(n.Text), bar(n.Untrusted)}, b.Len()
		kept := rest
		for kind, text := range []string{p.body, p.barred} {
			if at, n := shared(rest, text); n > 0 {
				fmt.Fprintf(&b, "%s%s%d %d %d;", rest[:at], hole, kind, len(ids)/IDWidth, n)
				rest = rest[at+n:]
			}
		}
		if b.Len() > before && len(kept) > len(rest) {
			ids += string(n.ID)
			parts[string(n.ID)] = p
		}
	}
	sent = b.String() + rest
	if back, err := PutIn(sent, ids, parts); ids == "" || err != nil || back != t.Sent {
		return t.Sent, ""
	}
	return sent, ids
}

// shared finds where the beginning of a text stands in another, and how many bytes of it follow there.
func shared(in, text string) (at, n int) {
	if len(text) < shortest {
		return 0, 0
	}
	head := shortest
	for !utf8.RuneStart(text[head-1]) || text[head-1] >= utf8.RuneSelf {
		if head--; head == 0 {
			return 0, 0
		}
	}
	if at = strings.Index(in, text[:head]); at < 0 {
		return 0, 0
	}
	for n = head; n < len(text) && at+n < len(in) && text[n] == in[at+n]; n++ {
	}
	for n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
	return at, n
}

// PutIn fills the holes of a sent text. A hole that nothing fills is an error.
func PutIn(sent, ids string, parts map[string]Part) (string, error) {
	var b strings.Builder
	for {
		text, rest, more := strings.Cut(sent, hole)
		b.WriteString(text)
		if !more {
			return b.String(), nil
		}
		var kind, which, n int
		what, rest, closed := strings.Cut(rest, ";")
		if _, err := fmt.Sscanf(what, "%d %d %d", &kind, &which, &n); err != nil || !closed || which < 0 || (which+1)*IDWidth > len(ids) {
			return "", fmt.Errorf("a sent text has a hole %q that nothing fills", what)
		}
		p, there := parts[ids[which*IDWidth:(which+1)*IDWidth]]
		from := p.body
		if kind == 1 {
			from = p.barred
		}
		if !there || n < 0 || n > len(from) {
			return "", fmt.Errorf("a sent text quotes %d bytes of notice %q, which are not there", n, ids[which*IDWidth:(which+1)*IDWidth])
		}
		b.WriteString(from[:n])
		sent = rest
	}
}

// PartsOf reads what partsSQL gave.
func PartsOf(text string) (map[string]Part, error) {
	parts := map[string]Part{}
	for text != "" {
		head := strings.SplitN(text, " ", 4)
		if len(head) < 4 {
			return nil, fmt.Errorf("quoted notices end early")
		}
		body, err := strconv.Atoi(head[1])
		said, err2 := strconv.Atoi(head[2])
		if err != nil || err2 != nil || body < 0 || said < 0 || body+said > len(head[3]) {
			return nil, fmt.Errorf("quoted notices have no lengths")
		}
		parts[head[0]] = Part{head[3][:body], bar(head[3][body : body+said])}
		text = head[3][body+said:]
	}
	return parts, nil
}
