package parser

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isAlnum(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c |= 0x20
	}
	return c
}

// fold compares ASCII without regard to case. strings.EqualFold would take the
// Kelvin sign for a k and the long s for an s.
func fold[T string | []byte](s T, want string) bool {
	if len(s) != len(want) {
		return false
	}
	for i := range len(want) {
		if lower(s[i]) != lower(want[i]) {
			return false
		}
	}
	return true
}

// BadCharacter names the first character of a text that no command line may hold, or
// returns "". A line break is one of them. Other doors than the text use it, so that
// all refuse the same.
func BadCharacter(text string) string { return badCharacter([]byte(text)) }

// badCharacter names the first thing in a command line that a reader could not
// see or that changes what is seen, or returns "". Marks that honest text needs
// (zero-width joiner, LRM, RLM) pass; what may stand in an identifier is
// narrower still.
func badCharacter(line []byte) string {
	for i := 0; i < len(line); {
		c := line[i]
		if c >= ' ' && c < 0x7f || c == '\t' {
			i++
			continue
		}
		r, size := utf8.DecodeRune(line[i:])
		if r == utf8.RuneError && size == 1 {
			return fmt.Sprintf("the byte 0x%02X, which is not UTF-8", c)
		}
		if forbidden(r) {
			return fmt.Sprintf("the character U+%04X", r)
		}
		i += size
	}
	return ""
}

// forbidden holds the characters that make a command line malformed: controls,
// Unicode line ends, bidi embeddings, overrides and isolates (CVE-2021-42574),
// tag characters, and the mark of bytes that were lost on the way.
func forbidden(r rune) bool {
	switch {
	case r == '\t':
		return false
	case r < ' ', r >= 0x7f && r <= 0x9f:
		return true
	case r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return r == utf8.RuneError || r >= 0xe0000 && r <= 0xe007f
}

// notASCII names the first character outside printable ASCII and tab, or
// returns "".
func notASCII(s string) string {
	for _, r := range s {
		if r != '\t' && (r < ' ' || r > '~') {
			return fmt.Sprintf("U+%04X", r)
		}
	}
	return ""
}

// invisible returns the length of a character at the start of s that a reader
// does not see, or 0: controls, terminal sequences, no-break and typographic blanks,
// zero-width characters and stray bytes.
func invisible(s []byte) int {
	switch c := s[0]; {
	case c == 0x1b:
		return escapeSequence(s)
	case c < ' ' || c == 0x7f:
		return 1
	case c < utf8.RuneSelf:
		return 0
	}
	r, size := utf8.DecodeRune(s)
	if r == utf8.RuneError && size == 1 {
		return stray(s[0])
	}
	if forbidden(r) {
		return size
	}
	switch {
	case r == 0xa0, r == 0xad, r == 0xfeff,
		r >= 0x2000 && r <= 0x200f, r == 0x202f, r >= 0x205f && r <= 0x206f:
		return size
	}
	return 0
}

// stray returns 1 for a byte that begins no UTF-8 sequence, or 0. The beginning
// of a sequence that breaks off is not taken for something invisible: it was a
// letter once.
func stray(c byte) int {
	if c <= 0xc1 || c >= 0xf5 {
		return 1
	}
	return 0
}

// escapeSequence returns the length of a terminal sequence for colors and the
// like at the start of s: ESC, a bracket, numbers, a letter. Otherwise it is 1,
// for the ESC alone.
func escapeSequence(s []byte) int {
	if len(s) < 2 || s[1] != '[' {
		return 1
	}
	n := 2
	for n < len(s) && (isDigit(s[n]) || s[n] == ';' || s[n] == '?') {
		n++
	}
	if n < len(s) && isAlnum(s[n]) {
		return n + 1
	}
	return 1
}

const maxShown = 200

// show makes a line safe to display: what is not printable, and bytes that are
// not UTF-8, are written as escapes; the result is cut to 200 bytes between
// characters and then ends with an ellipsis.
func show(line []byte) string {
	out := make([]byte, 0, maxShown+len("…"))
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRune(line[i:])
		before := len(out)
		out = appendShown(out, r, line[i:i+size])
		if len(out) > maxShown {
			return string(out[:before]) + "…"
		}
		i += size
	}
	return string(out)
}

func appendShown(out []byte, r rune, raw []byte) []byte {
	switch {
	case r == utf8.RuneError && len(raw) == 1, r < utf8.RuneSelf && !unicode.IsPrint(r):
		return fmt.Appendf(out, `\x%02x`, raw[0])
	case unicode.IsPrint(r):
		return append(out, raw...)
	case r > 0xffff:
		return fmt.Appendf(out, `\U%08x`, r)
	}
	return fmt.Appendf(out, `\u%04x`, r)
}
