package echo

import (
	"html"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxRounds bounds how often escapes within escapes are read.
const maxRounds = 8

// decode reads the escapes that a model resolves when it repeats a text: of HTML,
// URLs, JSON, Markdown and terminals.
func decode(s string) string {
	all, _ := rounds(s)
	return all[len(all)-1]
}

// rounds returns a text as it stands and after each round in which escapes were read.
// It reports whether the last of them still holds escapes.
func rounds(s string) (all []string, more bool) {
	all = []string{s}
	for range maxRounds {
		before := s
		if strings.IndexByte(s, '&') >= 0 {
			s = html.UnescapeString(s)
		}
		if strings.ContainsAny(s, `\%`) {
			s = unescape(s)
		}
		if s == before {
			return all, false
		}
		all = append(all, s)
	}
	return all, true
}

// unescape reads backslashes and percent signs.
func unescape(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		n := 0
		switch s[i] {
		case '\\':
			n = backslash(&b, s[i:])
		case '%':
			n = percent(&b, s[i:])
		}
		if n == 0 {
			b.WriteByte(s[i])
			n = 1
		}
		i += n
	}
	return b.String()
}

// backslash writes what the escape at the start of s stands for and returns its
// length, 0 when it is none.
func backslash(b *strings.Builder, s string) int {
	if len(s) < 2 {
		return 0
	}
	switch c := s[1]; {
	case c == 'n', c == 'r':
		b.WriteByte('\v') // ends a line and is not counted as one
	case c == 't':
		b.WriteByte(' ')
	case c == 'u' || c == 'x' || c == 'U':
		return codePoint(b, s)
	case c == 'o' || c == 'N':
		return braced(b, s)
	case c >= '0' && c <= '3':
		return octal(b, s)
	case c == 'e' && strings.HasPrefix(s[2:], "["):
		b.WriteByte(0x1b)
	case c == '\\':
		b.WriteByte(c) // for a run of any length, or its length would ask for more rounds
		return len(s) - len(strings.TrimLeft(s, `\`))
	case c < utf8.RuneSelf && c > ' ' && !letterOrDigit(c):
		b.WriteByte(c)
	default:
		return 0
	}
	return 2
}

// codePoint reads \xHH, \uHHHH, \u{H…} and \UHHHHHHHH. Two \uHHHH may be one character.
func codePoint(b *strings.Builder, s string) int {
	if strings.HasPrefix(s[2:], "{") {
		return braced(b, s)
	}
	r, n := fixed(s)
	if low, more := fixed(s[n:]); n > 0 && utf16.IsSurrogate(r) && more == n {
		if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
			b.WriteRune(both)
			return 2 * n
		}
	}
	if n > 0 {
		b.WriteRune(r)
	}
	return n
}

// fixed reads \xHH, \uHHHH, %uHHHH and \UHHHHHHHH. A length of 0 is for what is not one.
func fixed(s string) (rune, int) {
	if len(s) < 2 || s[0] != '\\' && s[0] != '%' {
		return 0, 0
	}
	n := map[byte]int{'x': 4, 'u': 6, 'U': 10}[s[1]]
	if n == 0 || len(s) < n {
		return 0, 0
	}
	v, err := strconv.ParseUint(s[2:n], 16, 32)
	if err != nil || v > utf8.MaxRune {
		return 0, 0
	}
	return rune(v), n
}

// braced reads \x{H…}, \u{H…}, \o{O…} and \N{U+H…}.
func braced(b *strings.Builder, s string) int {
	end := strings.IndexByte(s[:min(len(s), 14)], '}')
	if end < 0 || s[2] != '{' {
		return 0
	}
	base := 16
	if s[1] == 'o' {
		base = 8
	}
	v, err := strconv.ParseUint(strings.TrimPrefix(s[3:end], "U+"), base, 32)
	if err != nil || v > utf8.MaxRune {
		return 0
	}
	b.WriteRune(rune(v))
	return end + 1
}

// percent reads a run of %HH, which may be several bytes of one character, or %uHHHH.
func percent(b *strings.Builder, s string) int {
	if len(s) > 1 && s[1] == 'u' {
		return codePoint(b, s)
	}
	return encoding{"%", 2, 16}.read(b, s)
}

// octal reads a run of \NNN.
func octal(b *strings.Builder, s string) int { return encoding{`\`, 3, 8}.read(b, s) }

// encoding writes bytes as a sign and so many digits of a base.
type encoding struct {
	sign         string
	digits, base int
}

// read writes the run of bytes at the start of s. It returns the length of the run, 0
// when its bytes are not text.
func (e encoding) read(b *strings.Builder, s string) int {
	n := 0
	var raw []byte
	for n+e.digits < len(s) && strings.HasPrefix(s[n:], e.sign) {
		v, err := strconv.ParseUint(s[n+1:n+1+e.digits], e.base, 8)
		if err != nil {
			break
		}
		raw = append(raw, byte(v))
		n += 1 + e.digits
	}
	if !utf8.Valid(raw) {
		return 0
	}
	b.Write(raw)
	return n
}

func letterOrDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
