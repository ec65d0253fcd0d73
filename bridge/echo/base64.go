package echo

import (
	"strings"
	"unicode/utf8"
)

// Least sizes of what is read as base64: its digits, and the bytes of a part that is text.
const (
	minDigits = 14
	minText   = 10
)

// maxIndent is how many signs may begin the next line of base64, in bytes.
const maxIndent = 10

// sextets are the values of base64's digits in both alphabets of RFC 4648, -1 for what is none.
var sextets = func() (value [256]int8) {
	for i := range value {
		value[i] = -1
	}
	for _, signs := range []string{"+/", "-_"} {
		digits := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789" + signs
		for i := range len(digits) {
			value[digits[i]] = int8(i) //nolint:gosec // an alphabet has 64 digits
		}
	}
	return value
}()

// unbase64 writes the base64 in s as the text that it stands for.
func unbase64(s string) string {
	var b strings.Builder
	done := 0
	for i := 0; i < len(s); {
		if sextets[s[i]] < 0 {
			i++
			continue
		}
		digits, end := takeDigits(s[i:])
		if text := textOf(digits); text != "" {
			b.WriteString(s[done:i])
			b.WriteString(text)
			b.WriteString(strings.Repeat("\n", strings.Count(s[i:i+end], "\n"))) // so that lines keep their numbers
			done = i + end
		}
		i += end
	}
	if done == 0 {
		return s
	}
	return b.String() + s[done:]
}

// takeDigits returns the values of the digits that s begins with and where they end. They
// go on in the next line behind a line that is long enough.
func takeDigits(s string) (digits []byte, end int) {
	begin := 0
	for end < len(s) {
		if v := sextets[s[end]]; v >= 0 {
			digits = append(digits, byte(v))
			end++
			continue
		}
		next := end + indent(s[end:])
		if next == end || next >= len(s) || len(digits)-begin < 8 || sextets[s[next]] < 0 {
			break
		}
		begin, end = len(digits), next
	}
	return digits, end
}

// indent is the length of a line's end and of what begins the next line, 0 when no line ends.
func indent(s string) int {
	i := 0
	for i < min(len(s), maxIndent) && strings.IndexByte("\\\r ", s[i]) >= 0 {
		i++
	}
	if i == len(s) || s[i] != '\n' {
		return 0
	}
	limit := min(len(s), i+1+maxIndent)
	for i++; i < limit && strings.IndexByte("\t >|+", s[i]) >= 0; i++ {
	}
	return i
}

// textOf returns what digits stand for, wherever the first byte begins: a word before the
// base64 may look like digits.
func textOf(digits []byte) string {
	if len(digits) < minDigits {
		return ""
	}
	var found []string
	for from := range 4 {
		if text := segments(bytesOf(digits[from:])); text != "" {
			found = append(found, text)
		}
	}
	return strings.Join(found, "\v")
}

func bytesOf(digits []byte) []byte {
	out := make([]byte, 0, len(digits)*6/8)
	held, n := uint(0), 0
	for _, d := range digits {
		held, n = held<<6|uint(d), n+6
		if n >= 8 {
			n -= 8
			out = append(out, byte(held>>n))
			held &= 1<<n - 1
		}
	}
	return out
}

// segments returns the parts of b that are text, a vertical tab between each two. Parts
// of fewer than minText bytes are dropped. Zero bytes do not count: UTF-16 has them.
func segments(b []byte) string {
	var out, part []byte
	end := func() {
		if len(part) >= minText {
			out = append(append(out, '\v'), part...)
		}
		part = part[:0]
	}
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == 0:
		case r == '\n' || r == '\r':
			part = append(part, '\v') // ends a line and is not counted as one
		case r < ' ' && r != '\t' || r == 0x7f || r == utf8.RuneError:
			end()
		default:
			part = append(part, b[:n]...)
		}
		b = b[n:]
	}
	end()
	if len(out) == 0 {
		return ""
	}
	return string(out[1:])
}
