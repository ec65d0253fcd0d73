package runner

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tail keeps the last bytes that were written to it, in memory that does not grow with what is written. One goroutine
// writes; the others may look when it is done.
type tail struct {
	// limit is how much may be shown. The ring holds more by the longest secret, so that a secret that the limit would
	// cut in two is still found whole.
	limit   int
	secrets []string
	ring    []byte
	next    int
	total   int64
}

// newTail allocates nothing large: most actions print little.
func newTail(limit int, secrets []string) *tail {
	return &tail{limit: limit, secrets: secrets}
}

func (t *tail) capacity() int {
	longest := 0
	for _, secret := range t.secrets {
		longest = max(longest, len(secret))
	}
	return t.limit + longest
}

// Write never fails and never blocks, so that a chatty process is neither stopped nor slowed.
func (t *tail) Write(p []byte) (int, error) {
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

// text returns what may be shown of the stream, and how many bytes before it were dropped.
func (t *tail) text() (shown string, omitted int64) {
	kept := append(bytes.Clone(t.ring[t.next:]), t.ring[:t.next]...)
	var out strings.Builder
	from := t.start(kept)
	for at := from; at < len(kept); {
		if n := t.secretAt(kept[at:]); n > 0 {
			out.WriteString("[redacted]")
			at += n
			continue
		}
		r, n := utf8.DecodeRune(kept[at:])
		writeSafe(&out, r, kept[at:at+n])
		at += n
	}
	return out.String(), t.total - int64(len(kept)-from)
}

// start returns where in kept to begin: within the limit, not inside a secret, and on a whole rune.
func (t *tail) start(kept []byte) int {
	limit := max(0, len(kept)-t.limit)
	if limit == 0 && t.total == int64(len(kept)) {
		return 0
	}
	from := limit
	for at := range limit {
		if n := t.secretAt(kept[at:]); at+n > from {
			from = at + n
		}
	}
	for i := 0; i < utf8.UTFMax-1 && from < len(kept) && !utf8.RuneStart(kept[from]); i++ {
		from++
	}
	return from
}

// secretAt returns the length of the longest secret that b begins with.
func (t *tail) secretAt(b []byte) int {
	length := 0
	for _, secret := range t.secrets {
		if len(secret) > length && bytes.HasPrefix(b, []byte(secret)) {
			length = len(secret)
		}
	}
	return length
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
