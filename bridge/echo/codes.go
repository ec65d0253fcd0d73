package echo

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"drawbridge/internal/lookalike"
)

// Least sizes of what is read as text, in bytes: of a row of digits and of a list of codes.
const (
	minRow  = 10
	minList = 6
)

// maxGap is how many signs may stand between two codes of a list, in bytes.
const maxGap = 10

// segments returns the parts of b that are text, a vertical tab between each two. Parts
// of fewer than least bytes are dropped. Zero bytes do not count: UTF-16 has them.
func segments(b []byte, least int) string {
	var out, part []byte
	end := func() {
		if len(part) >= least {
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

// row is an encoding of bytes as digits that stand side by side.
type row struct {
	bits  int // of one digit
	group int // digits after which a byte begins again
	least int // digits of a row
	value [256]int8
}

func rowOf(bits, group, least int, alphabets ...string) *row {
	r := &row{bits: bits, group: group, least: least}
	for i := range r.value {
		r.value[i] = -1
	}
	for _, digits := range alphabets {
		for i := range len(digits) {
			r.value[digits[i]] = int8(i) //nolint:gosec // an alphabet has at most 64 digits
		}
	}
	return r
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

var rows = []*row{
	rowOf(6, 4, 14, alphabet+"+/", alphabet+"-_"), // base64
	rowOf(5, 8, 16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "abcdefghijklmnopqrstuvwxyz234567"),
	rowOf(4, 2, 20, "0123456789abcdef", "0123456789ABCDEF"),
	rowOf(1, 8, 80, "01"),
}

// decode writes the rows of digits in s as the text that they stand for.
func (r *row) decode(s string) string {
	var b strings.Builder
	done := 0
	for i := 0; i < len(s); {
		if r.value[s[i]] < 0 {
			i++
			continue
		}
		digits, end := r.take(s[i:])
		if text := r.text(digits); text != "" {
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

// take returns the values of the digits that s begins with and where they end. They go
// on in the next line behind a line that is long enough.
func (r *row) take(s string) (digits []byte, end int) {
	begin := 0
	for end < len(s) {
		if v := r.value[s[end]]; v >= 0 {
			digits = append(digits, byte(v))
			end++
			continue
		}
		next := end + indent(s[end:])
		if next == end || next >= len(s) || len(digits)-begin < 8 || r.value[s[next]] < 0 {
			break
		}
		begin, end = len(digits), next
	}
	return digits, end
}

// indent is the length of a line's end and of what begins the next line, 0 when no line ends.
func indent(s string) int {
	i := 0
	for i < min(len(s), maxGap) && strings.IndexByte("\\\r ", s[i]) >= 0 {
		i++
	}
	if i == len(s) || s[i] != '\n' {
		return 0
	}
	limit := min(len(s), i+1+maxGap)
	for i++; i < limit && strings.IndexByte("\t >|+", s[i]) >= 0; i++ {
	}
	return i
}

// text returns what digits stand for, wherever the first byte begins.
func (r *row) text(digits []byte) string {
	if len(digits) < r.least {
		return ""
	}
	var found []string
	for from := range r.group {
		if text := segments(r.bytes(digits[from:]), minRow); text != "" {
			found = append(found, text)
		}
	}
	return strings.Join(found, "\v")
}

func (r *row) bytes(digits []byte) []byte {
	out := make([]byte, 0, len(digits)*r.bits/8)
	held, n := uint(0), 0
	for _, d := range digits {
		held, n = held<<r.bits|uint(d), n+r.bits
		if n >= 8 {
			n -= 8
			out = append(out, byte(held>>n))
			held &= 1<<n - 1
		}
	}
	return out
}

// code reads one code of a list: the bytes that it stands for, none when it is not a code.
type code func(token string) []byte

// codes are the ways in which a list may write its characters.
var codes = []code{hexBytes, hexPoint,
	func(s string) []byte { return point(s, 10, 2, 6) },
	func(s string) []byte { return point(strings.TrimLeft(strings.TrimPrefix(s, "0o"), "0"), 8, 2, 6) },
	func(s string) []byte { return point(strings.TrimPrefix(s, "0b"), 2, 6, 8) },
}

// hexBytes reads two hexadecimal digits a byte, as a dump has them.
func hexBytes(token string) []byte {
	token = bareHex(token)
	if len(token)%2 != 0 || len(token) > 64 {
		return nil
	}
	var b []byte
	for i := 0; i < len(token); i += 2 {
		v, err := strconv.ParseUint(token[i:i+2], 16, 8)
		if err != nil {
			return nil
		}
		b = append(b, byte(v))
	}
	return b
}

// hexPoint reads the number of a character, as in U+FF2C.
func hexPoint(token string) []byte { return point(bareHex(token), 16, 2, 8) }

// bareHex drops what says that a number is hexadecimal.
func bareHex(token string) string {
	token = strings.TrimRight(token, "hHuUxX")
	for _, p := range []string{"0x", "0X", "u", "U", "x", "X"} {
		if rest, ok := strings.CutPrefix(token, p); ok {
			return rest
		}
	}
	return token
}

// point reads a number with so many digits of a base as a character that a reader takes
// for an ASCII letter or sign.
func point(token string, base, least, most int) []byte {
	if len(token) < least || len(token) > most {
		return nil
	}
	v, err := strconv.ParseUint(token, base, 32)
	if err != nil || v > utf8.MaxRune || v == 0 {
		return nil
	}
	r := rune(v)
	if r >= utf8.RuneSelf {
		plain, class := lookalike.Append(nil, r)
		if class != lookalike.Letter || plain[0] >= utf8.RuneSelf {
			return nil
		}
	} else if r < ' ' && r != '\t' && r != '\n' && r != '\r' {
		return nil
	}
	return utf8.AppendRune(nil, r)
}

// fillers are words that stand between the codes of a list and say nothing.
var fillers = map[string]bool{"chr": true, "Chr": true, "CHR": true, "char": true, "CHAR": true, "0x": true}

// holdsDigits reports whether a text has the digits that a list of codes needs.
func holdsDigits(s string) bool {
	n := 0
	for i := range len(s) {
		if s[i] >= '0' && s[i] <= '9' {
			if n++; n == minList {
				return true
			}
		}
	}
	return false
}

// listed writes the lists of codes in s as the text that they stand for.
func listed(s string, read code) string {
	if !holdsDigits(s) {
		return s
	}
	var b strings.Builder
	var text []byte
	done, first, last := 0, -1, 0 // the list takes s[first:last]
	end := func() {
		if found := segments(text, minList); found != "" {
			b.WriteString(s[done:first])
			b.WriteString(found)
			b.WriteString(strings.Repeat("\n", strings.Count(s[first:last], "\n")))
			done = last
		}
		text, first = text[:0], -1
	}
	for i := 0; i < len(s); {
		from := i
		for i < len(s) && letterOrDigit(s[i]) {
			i++
		}
		token := s[from:i]
		got := []byte(nil)
		if len(token) > 1 && len(token) <= 66 {
			got = read(token)
		}
		switch {
		case len(got) > 0:
			if first < 0 {
				first = from
			}
			text, last = append(text, got...), i
		case len(token) > 1 && !fillers[token] && first >= 0:
			end()
		}
		from = i
		for i < len(s) && !letterOrDigit(s[i]) {
			i++
		}
		if i-from > maxGap && first >= 0 {
			end()
		}
	}
	end()
	if done == 0 {
		return s
	}
	return b.String() + s[done:]
}

// dumped writes the lines of dumps, such as hexdump -C, xxd and od -c make them, as the
// text that they stand for.
func dumped(s string) string {
	var b strings.Builder
	var text []byte
	lines, found := 0, false
	end := func() {
		if got := segments(text, minList); got != "" {
			b.WriteString(got)
			found = true
		}
		b.WriteString(strings.Repeat("\n", lines))
		text, lines = text[:0], 0
	}
	for s != "" {
		one, rest, broken := strings.Cut(s, "\n")
		if got := dumpLine(one); len(got) > 0 {
			text = append(text, got...)
			lines++
		} else {
			end()
			b.WriteString(one)
			if broken {
				b.WriteByte('\n')
			}
		}
		s = rest
	}
	if end(); !found {
		return ""
	}
	return b.String()
}

// dumpLine returns the bytes of one line of a dump, without its address and the column
// of characters, nil when it is not one.
func dumpLine(s string) []byte {
	if len(s) > 400 {
		return nil
	}
	address, rest, ok := strings.Cut(strings.TrimLeft(s, " \t>|"), " ")
	if address = strings.TrimRight(address, ":h"); !ok || len(address) < 4 || strings.Trim(address, "0123456789abcdefABCDEF") != "" {
		return nil
	}
	if i := strings.IndexByte(rest, '|'); i > 0 {
		rest = rest[:i]
	} else if i := strings.LastIndex(strings.TrimSpace(rest), "  "); i > 0 {
		if b := hexFields(strings.TrimSpace(rest)[:i]); b != nil {
			return b
		}
	}
	if b := hexFields(rest); b != nil {
		return b
	}
	fields := strings.Fields(rest)
	for i, f := range fields {
		switch {
		case len(f) == 2 && f[0] == '\\':
			fields[i] = " "
		case len(f) != 1:
			return nil
		}
	}
	return []byte(strings.Join(fields, " ") + " ")
}

func hexFields(s string) (b []byte) {
	for _, f := range strings.Fields(s) {
		got := hexBytes(f)
		if len(got) == 0 {
			return nil
		}
		b = append(b, got...)
	}
	return b
}

// utf7 reads the characters that + begins and - ends.
func utf7(s string) string {
	if strings.IndexByte(s, '+') < 0 {
		return s
	}
	var b strings.Builder
	for s != "" {
		i := strings.IndexByte(s, '+')
		if i < 0 {
			break
		}
		b.WriteString(s[:i])
		s = s[i+1:]
		end := 0
		for end < len(s) && s[end] != '-' && s[end] != '_' && rows[0].value[s[end]] >= 0 && s[end] != '+' {
			end++
		}
		text := shifted(s[:end])
		if text == "" {
			b.WriteByte('+')
		}
		b.WriteString(text)
		switch {
		case text == "":
			b.WriteString(s[:end])
		case end < len(s) && s[end] == '-':
			end++
		}
		s = s[end:]
	}
	return b.String() + s
}

// shifted reads base64 of UTF-16, "" when it is not text.
func shifted(digits string) string {
	values := make([]byte, len(digits))
	for i := range len(digits) {
		values[i] = byte(rows[0].value[digits[i]]) //nolint:gosec // the caller looked at each
	}
	raw := rows[0].bytes(values)
	units := make([]uint16, len(raw)/2)
	for i := range units {
		units[i] = uint16(raw[2*i])<<8 | uint16(raw[2*i+1])
	}
	return segments([]byte(string(utf16.Decode(units))), 1)
}
