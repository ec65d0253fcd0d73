package words

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// escape writes text as printable ASCII on one line, and loses nothing of it: a
// backslash is doubled, and every other character that is not printable ASCII
// becomes an escape such as \n or \u202e. What looks like an ASCII letter and is
// not one is seen (facts: approvals are escaped).
func escape(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case r == '\\':
			b.WriteString(`\\`)
		case r >= ' ' && r <= '~':
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		text = text[size:]
	}
	return b.String()
}
