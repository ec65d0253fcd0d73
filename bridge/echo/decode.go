package echo

import (
	"html"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxRounds bounds how often escapes within escapes are read.
const maxRounds = 3

// decode reads the escapes that a model resolves when it repeats a text: of HTML,
// URLs, JSON, Markdown and terminals.
func decode(s string) string {
	for range maxRounds {
		before := s
		if strings.IndexByte(s, 0x1b) >= 0 {
			s = dropTerminal(s)
		}
		if strings.IndexByte(s, '&') >= 0 {
			s = html.UnescapeString(s)
		}
		if strings.ContainsAny(s, `\%`) {
			s = unescape(s)
		}
		if s == before {
			break
		}
	}
	return s
}

// dropTerminal removes terminal sequences: colors, and links with their address.
func dropTerminal(s string) string {
	var b strings.Builder
	for s != "" {
		i := strings.IndexByte(s, 0x1b)
		if i < 0 {
			break
		}
		b.WriteString(s[:i])
		s = s[i+terminal(s[i:]):]
	}
	return b.String() + s
}

// terminal is the length of the terminal sequence that s begins with.
func terminal(s string) int {
	if len(s) < 2 {
		return 1
	}
	switch s[1] {
	case '[':
		for i := 2; i < min(len(s), 40); i++ {
			if s[i] >= '@' && s[i] <= '~' {
				return i + 1
			}
		}
	case ']':
		limit := s[:min(len(s), 400)]
		if end := strings.IndexAny(limit, "\a\n"); end >= 0 && limit[end] == '\a' {
			return end + 1
		}
		if end := strings.Index(limit, "\x1b\\"); end >= 0 {
			return end + 2
		}
	}
	return 1
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
	case c < utf8.RuneSelf && c > ' ' && !letterOrDigit(c):
		b.WriteByte(c)
	default:
		return 0
	}
	return 2
}

// codePoint reads \xHH, \uHHHH, \u{H…} and \UHHHHHHHH.
func codePoint(b *strings.Builder, s string) int {
	digits, n := "", 0
	if strings.HasPrefix(s[2:], "{") {
		end := strings.IndexByte(s[:min(len(s), 12)], '}')
		if end < 0 {
			return 0
		}
		digits, n = s[3:end], end+1
	} else {
		n = 2 + map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[1]]
		if len(s) < n {
			return 0
		}
		digits = s[2:n]
	}
	v, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || v > utf8.MaxRune {
		return 0
	}
	b.WriteRune(rune(v))
	return n
}

// percent reads a run of %HH, which may be several bytes of one character.
func percent(b *strings.Builder, s string) int {
	n := 0
	var raw []byte
	for n+2 < len(s) && s[n] == '%' {
		v, err := strconv.ParseUint(s[n+1:n+3], 16, 8)
		if err != nil {
			break
		}
		raw = append(raw, byte(v))
		n += 3
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

// dropTags replaces HTML tags and comments by a mark. What a tag holds is read as
// text as well, by those who call it.
func dropTags(s string) string {
	var b strings.Builder
	for s != "" {
		i := strings.IndexByte(s, '<')
		if i < 0 {
			break
		}
		b.WriteString(s[:i])
		s = s[i:]
		n := tag(s)
		if n == 0 {
			b.WriteByte('<')
			s = s[1:]
			continue
		}
		b.WriteByte(tagMark)
		b.WriteString(strings.Repeat("\n", strings.Count(s[:n], "\n"))) // so that lines keep their numbers
		s = s[n:]
	}
	return b.String() + s
}

// tagMark stands where a tag was: markup that separates nothing that a reader sees.
const tagMark = '`'

// tag is the length of the tag or comment at the start of s, 0 for none.
func tag(s string) int {
	limit := s[:min(len(s), 400)]
	if strings.HasPrefix(limit, "<!--") {
		if end := strings.Index(limit, "-->"); end >= 0 {
			return end + len("-->")
		}
		return 0
	}
	i := 1
	if i < len(limit) && limit[i] == '/' {
		i++
	}
	name := i
	for i < len(limit) && letterOrDigit(limit[i]) {
		i++
	}
	if i == name || i-name > 16 || i == len(limit) || !strings.ContainsRune(" />\t\n", rune(limit[i])) {
		return 0
	}
	end := strings.IndexAny(limit[1:], "<>")
	if end < 0 || limit[1+end] != '>' {
		return 0
	}
	return end + 2
}
