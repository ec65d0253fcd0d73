// Package output keeps the end of what a process writes, in memory that does not grow, and makes it fit to be shown:
// secrets taken out, controls and invalid UTF-8 escaped.
//
// It does not run processes and does not know where a text goes. Rule of thumb: no byte of a process leaves the machine
// but through here.
package output

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Tail keeps the last bytes that were written to it. It is safe for concurrent use.
type Tail struct {
	limit  int
	secret *Redactor

	mu    sync.Mutex
	ring  []byte
	next  int
	total int64
}

// NewTail returns a Tail of which at most limit bytes are shown. It allocates nothing large: most actions print little.
// The ring holds more than the limit by the longest secret, so that one that the limit would cut in two is found whole.
func NewTail(limit int, secret *Redactor) *Tail {
	return &Tail{limit: limit, secret: secret}
}

func (t *Tail) capacity() int {
	if t.secret == nil {
		return t.limit
	}
	return t.limit + t.secret.overlap
}

// Write never fails and never blocks, so that a chatty process is neither stopped nor slowed.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total += int64(len(p))
	rest, capacity := p, t.capacity()
	if len(rest) > capacity {
		rest = rest[len(rest)-capacity:]
	}
	if room := capacity - len(t.ring); room > 0 {
		n := min(room, len(rest))
		t.ring = append(t.ring, rest[:n]...)
		rest = rest[n:]
	}
	for len(rest) > 0 {
		n := copy(t.ring[t.next:], rest)
		t.next = (t.next + n) % capacity
		rest = rest[n:]
	}
	return len(p), nil
}

// Total is how many bytes were written in all.
func (t *Tail) Total() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

func (t *Tail) kept() (kept []byte, total int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append(bytes.Clone(t.ring[t.next:]), t.ring[:t.next]...), t.total
}

// Text returns what may be shown of a stream that is over, and how many bytes before it were dropped.
func (t *Tail) Text() (shown string, omitted int64) {
	kept, total := t.kept()
	spans := t.secret.spans(kept)
	from := t.start(kept, spans, total)
	return render(kept, from, spans), total - int64(len(kept)-from)
}

// Sofar returns the end of what may be shown of a stream that goes on, at most limit bytes. What could turn out to be the
// beginning of a secret is held back until more is known.
func (t *Tail) Sofar(limit int) string {
	kept, total := t.kept()
	kept = kept[:len(kept)-t.secret.undecided(kept)]
	spans := t.secret.spans(kept)
	shown := render(kept, t.start(kept, spans, total), spans)
	from := max(0, len(shown)-limit)
	for from < len(shown) && !utf8.RuneStart(shown[from]) {
		from++
	}
	return shown[from:]
}

// start returns where in kept to begin: within the limit, not inside a secret, and on a whole rune.
func (t *Tail) start(kept []byte, spans []span, total int64) int {
	from := max(0, len(kept)-t.limit)
	if from == 0 && total == int64(len(kept)) {
		return 0
	}
	for _, s := range spans {
		if s.from < from && from < s.to {
			from = s.to
		}
	}
	for i := 0; i < utf8.UTFMax-1 && from < len(kept) && !utf8.RuneStart(kept[from]); i++ {
		from++
	}
	return from
}

func render(kept []byte, from int, spans []span) string {
	var out strings.Builder
	for at := from; at < len(kept); {
		for len(spans) > 0 && spans[0].to <= at {
			spans = spans[1:]
		}
		if len(spans) > 0 && spans[0].from <= at {
			out.WriteString(redacted)
			at = spans[0].to
			continue
		}
		r, n := utf8.DecodeRune(kept[at:])
		writeSafe(&out, r, kept[at:at+n])
		at += n
	}
	return out.String()
}

// Line returns text on one line of printable ASCII, every other character and the backslash escaped, so that a person can
// judge it by its looks (facts: relay, rule 10).
func Line(text string) string {
	var out strings.Builder
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRuneInString(text[at:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&out, `\x%02x`, text[at])
		case r == '\\':
			out.WriteString(`\\`)
		case r >= ' ' && r <= '~':
			out.WriteRune(r)
		case r < utf8.RuneSelf:
			fmt.Fprintf(&out, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			fmt.Fprintf(&out, `\U%08x`, r)
		}
		at += n
	}
	return out.String()
}

// writeSafe writes one rune, or its escape when a terminal or a reader could be misled by it.
func writeSafe(out *strings.Builder, r rune, raw []byte) {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		fmt.Fprintf(out, `\x%02x`, raw[0])
	case r == '\n' || r == '\t':
		out.WriteRune(r)
	case r < utf8.RuneSelf && unicode.IsControl(r):
		fmt.Fprintf(out, `\x%02x`, r)
	case misleads(r):
		fmt.Fprintf(out, `\u%04x`, r)
	default:
		out.Write(raw)
	}
}

// misleads reports C1 controls, line and paragraph separators, the marks that reorder text, and tag characters.
func misleads(r rune) bool {
	return unicode.IsControl(r) || r == 0x2028 || r == 0x2029 ||
		r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r >= 0xe0000 && r <= 0xe007f
}
