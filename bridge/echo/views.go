package echo

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// views returns what readers may take a text for: as it stands, with its escapes
// read, and as terminals, browsers and mail programs show it. Each is compared, because
// what one reader drops another may repeat. more reports that escapes are nested too deep.
func views(s string) (all []string, more bool) {
	all, more = rounds(s)
	add := func(s string) {
		if s != "" && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	read := all[len(all)-1]
	shown := dropTerminal(read)
	add(shown)
	add(dropTags(shown))
	add(turnAround(shown))
	add(decode(quotedPrintable(read)))
	add(decode(unhide(read)))
	add(decode(unbase64(read)))
	return all, more
}

// dropTerminal removes terminal sequences: colors, also those that lost their escape
// character, and links with their address. A backspace takes the character before it.
func dropTerminal(s string) string {
	if !strings.ContainsAny(s, "\x1b\b[") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		n := 0
		switch s[i] {
		case 0x1b:
			n = terminal(s[i:])
		case '\b':
			_, size := utf8.DecodeLastRune(out)
			out, n = out[:len(out)-size], 1
		case '[':
			n = color(s[i:])
		}
		if n == 0 {
			out = append(out, s[i])
			n = 1
		}
		i += n
	}
	return string(out)
}

// color is the length of a color without its escape character, such as [1;31m, that s
// begins with, 0 for none.
func color(s string) int {
	end := strings.IndexByte(s[:min(len(s), 20)], 'm')
	if end < 2 || strings.Trim(s[1:end], "0123456789;") != "" {
		return 0
	}
	return end + 1
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

// Marks that show text from right to left, and the end of what they reach.
const (
	rightToLeft = "\u202e"
	leftAgain   = "\u202c\u202d\n\r\v\f\u0085\u2028\u2029"
)

// turnAround writes what a right-to-left override shows backwards as it is shown.
func turnAround(s string) string {
	return replaceAt(s, rightToLeft, func(b *strings.Builder, at string) int {
		after := at[len(rightToLeft):]
		end := strings.IndexAny(after, leftAgain)
		if end < 0 {
			end = len(after)
		}
		turned := []rune(after[:end])
		slices.Reverse(turned)
		b.WriteString(string(turned))
		return len(rightToLeft) + end
	})
}

// Characters that do not show and stand for bytes.
const (
	tagLetters = 0xE0000
	selectors  = 0xE0100 - 16 // of bytes from 16
	maxByte    = 0x7e
)

// unhide writes the letters that tags and variation selectors stand for.
func unhide(s string) string {
	if !strings.Contains(s, "\xf3\xa0") {
		return s
	}
	return strings.Map(func(r rune) rune {
		for _, base := range []rune{tagLetters, selectors} {
			if c := r - base; c >= ' ' && c <= maxByte {
				return c
			}
		}
		return r
	}, s)
}

// replaceAt calls read at each sign in s, with the text from the sign on. read writes what it stands for
// and returns how many bytes it read. With 0 the sign stays as it is.
func replaceAt(s, sign string, read func(b *strings.Builder, at string) int) string {
	if !strings.Contains(s, sign) {
		return s
	}
	var b strings.Builder
	for {
		i := strings.Index(s, sign)
		if i < 0 {
			return b.String() + s
		}
		b.WriteString(s[:i])
		s = s[i:]
		n := read(&b, s)
		if n == 0 {
			b.WriteString(sign)
			n = len(sign)
		}
		s = s[n:]
	}
}

// softBreaks removes the = at the end of a mail's line that goes on, with the end.
var softBreaks = strings.NewReplacer("=\r\n", "", "=\n", "")

// quotedPrintable reads a mail's =HH, and its lines that = continues.
func quotedPrintable(s string) string {
	if strings.IndexByte(s, '=') < 0 {
		return s
	}
	return replaceAt(softBreaks.Replace(s), "=", encoding{"=", 2, 16}.read)
}

// dropTags replaces HTML tags and comments by a mark. Its callers read what a tag
// holds as text as well.
func dropTags(s string) string {
	return replaceAt(s, "<", func(b *strings.Builder, at string) int {
		n := tag(at)
		if n > 0 {
			b.WriteByte(tagMark)
			b.WriteString(strings.Repeat("\n", strings.Count(at[:n], "\n"))) // so that lines keep their numbers
		}
		return n
	})
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
