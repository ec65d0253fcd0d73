package echo

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// inPlace are readings that write parts of a text otherwise and leave the rest as it is.
var inPlace = func() []func(string) string {
	all := []func(string) string{utf7, dropComments, joinQuotes, joinLetters, dumped, unhide, spelledOut}
	for _, r := range rows {
		all = append(all, r.decode)
	}
	for _, c := range codes {
		all = append(all, func(s string) string { return listed(s, c) })
	}
	return all
}()

// cssEscapes reads \HHHHHH, which a blank may end.
func cssEscapes(s string) string {
	return replaceAt(s, `\`, func(b *strings.Builder, at string) int {
		code := strings.TrimLeft(at, `\`) // of any length, as in backslash
		n, slashes := 0, len(at)-len(code)
		for n < min(len(code), 6) && strings.IndexByte("0123456789abcdefABCDEF", code[n]) >= 0 {
			n++
		}
		v, err := strconv.ParseUint(code[:n], 16, 32)
		if err != nil || v < ' ' || v > utf8.MaxRune {
			b.WriteByte('\\')
			return slashes
		}
		b.WriteRune(rune(v))
		if strings.HasPrefix(code[n:], " ") {
			n++
		}
		return slashes + n
	})
}

// comments are what opens and closes one that may stand within a word.
var comments = [][2]string{{"/*", "*/"}, {"{#", "#}"}, {"{{!", "}}"}, {"[//]: # (", ")"}}

// maxComment is how long a comment within a word may be, in bytes.
const maxComment = 200

// dropComments removes short comments within a line.
func dropComments(s string) string {
	for _, c := range comments {
		s = dropComment(s, c[0], c[1])
	}
	return s
}

func dropComment(s, open, closing string) string {
	return replaceAt(s, open, func(_ *strings.Builder, at string) int {
		rest := at[len(open):]
		end := strings.Index(rest[:min(len(rest), maxComment)], closing)
		if end < 0 || strings.IndexByte(rest[:end], '\n') >= 0 {
			return 0
		}
		return len(open) + end + len(closing)
	})
}

// joinQuotes joins strings that a program would: "LOCAL" + "_ACTION".
func joinQuotes(s string) string {
	var b strings.Builder
	done, newlines := 0, 0
	for i := 0; i < len(s); i++ {
		if s[i] == '\n' && newlines > 0 { // so that lines keep their numbers
			b.WriteString(s[done:i])
			b.WriteString(strings.Repeat("\n", newlines))
			done, newlines = i, 0
		}
		if !isQuote(s[i]) || i == 0 || isQuote(s[i-1]) {
			continue
		}
		end := i + 1
		for end < min(len(s), i+2*maxGap) && strings.IndexByte(" \t\r\n\\+.&,()", s[end]) >= 0 {
			end++
		}
		if end == i+1 || end == len(s) || s[end] != s[i] {
			continue
		}
		b.WriteString(s[done:i])
		newlines += strings.Count(s[i:end], "\n")
		done, i = end+1, end
	}
	if done == 0 {
		return s
	}
	return b.String() + s[done:]
}

func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }

// Bounds of lines that are joined: how many in a row, and how many characters of each say something.
const (
	minShort = 5
	maxShort = 4
)

// joinLetters joins lines that hold a few letters each.
func joinLetters(s string) string {
	var b strings.Builder
	var text, raw strings.Builder
	short, lines, found := 0, 0, false
	end := func() {
		if short >= minShort {
			b.WriteString(text.String())
			b.WriteString(strings.Repeat("\n", lines))
			found = true
		} else {
			b.WriteString(raw.String())
		}
		text.Reset()
		raw.Reset()
		short, lines = 0, 0
	}
	for s != "" {
		one, rest, broken := strings.Cut(s, "\n")
		piece, ok := shortLine(one)
		if ok {
			text.WriteString(piece)
			if strings.TrimSpace(piece) != "" {
				short++
			}
		} else {
			end()
			raw.Reset()
			b.WriteString(one)
		}
		switch {
		case ok:
			raw.WriteString(one)
			if broken {
				raw.WriteByte('\n')
				lines++
			}
		case broken:
			b.WriteByte('\n')
		}
		s = rest
	}
	if end(); !found {
		return ""
	}
	return b.String()
}

// shortLine returns the letters of a line that holds a few, without a list's number or mark.
func shortLine(s string) (piece string, ok bool) {
	if len(s) > 40 {
		return "", false
	}
	s = strings.TrimRight(s, "\r")
	text := strings.TrimPrefix(strings.TrimLeft(s, " \t|>*[(#"), "- ")
	if n := len(text) - len(strings.TrimLeft(text, "0123456789")); n > 0 && n < len(text) {
		text = strings.TrimLeft(text[n:], " ")
		if text != "" && strings.IndexByte(".):]=|", text[0]) >= 0 {
			text = text[1:]
		}
	}
	text = strings.Trim(text, " \t|>*`'\",")
	if text == "" {
		return strings.Repeat(" ", min(len(s), 1)), strings.Trim(s, " \t|>*-[(#.):]=`'\",0123456789") == ""
	}
	return text, utf8.RuneCountInString(text) <= maxShort
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

// signNames are words for signs and letters.
var signNames = func() map[string]string {
	all := map[string]string{"underscore": "_", "hyphen": "-", "dash": "-", "colon": ":", "slash": "/", "dot": ".", "space": " ", "alpha": "a", "juliet": "j", "x-ray": "x"}
	for _, w := range strings.Fields("alfa bravo charlie delta echo foxtrot golf hotel india juliett kilo lima mike november oscar papa quebec romeo sierra tango uniform victor whiskey xray yankee zulu") {
		all[w] = w[:1]
	}
	for c := 'a'; c <= 'z'; c++ {
		all["regional_indicator_"+string(c)] = string(c)
	}
	return all
}()

// spelledOut writes the names of signs and letters as what they name, without the blanks
// and brackets around them.
func spelledOut(s string) string {
	var b strings.Builder
	done, found := 0, false
	for i := 0; i < len(s); {
		if !letterOrDigit(s[i]) {
			i++
			continue
		}
		from := i
		for i < len(s) && (letterOrDigit(s[i]) || s[i] == '_') {
			i++
		}
		if i-from > 24 {
			continue
		}
		sign := signNames[strings.ToLower(strings.Trim(s[from:i], "_"))]
		if sign == "" {
			continue
		}
		b.WriteString(strings.TrimRight(s[done:from], " ([{:"))
		b.WriteString(sign)
		for i < len(s) && strings.IndexByte(" )]}:", s[i]) >= 0 {
			i++
		}
		done, found = i, true
	}
	if !found {
		return s
	}
	return b.String() + s[done:]
}

// cipher is a reading that writes all of a text otherwise.
type cipher struct {
	// hint reports whether the reading may hold a keyword. It is quick, and gets the
	// text's ASCII letters as well.
	hint func(s string, bare []byte) bool
	read func(string) string
}

// ciphers are read only if a keyword stands in them, and no ids: else every word would
// have several readings.
var ciphers = []cipher{
	{holdsAny(mapped(rot13)), func(s string) string { return strings.Map(rot13, s) }},
	{holdsAny(backwards), func(s string) string { return turned(s, "\n") }},
	{holdsAny(backwards), func(s string) string { return turned(s, "\n \t") }},
	{holdsRune('\u0250', '\u02ff'), func(s string) string { return turned(strings.Map(upright, s), "\n") }},
	{func(s string, _ []byte) bool { return strings.ContainsAny(s, "@$!|(+€£¢") }, signLetters.Replace},
	{holdsRune('\u2801', '\u28ff'), func(s string) string { return strings.Map(braille, s) }},
	{func(s string, _ []byte) bool {
		return strings.Contains(s, ". ") || strings.Contains(s, "· ") || strings.Contains(s, "• ")
	}, morse},
}

// ciphered returns the readings of s in which a keyword stands.
func ciphered(s string) (out []string) {
	bare := bareLetters(s)
	for _, c := range ciphers {
		if !c.hint(s, bare) {
			continue
		}
		if text := c.read(s); text != s && holdsKeyword(bareLetters(text)) {
			out = append(out, text)
		}
	}
	return out
}

// holdsAny looks for the keywords as a cipher writes them.
func holdsAny(write func([]byte) []byte) func(string, []byte) bool {
	var written [][]byte
	for _, k := range keywordLetters {
		written = append(written, write(k))
	}
	return func(_ string, bare []byte) bool {
		return slices.ContainsFunc(written, func(k []byte) bool { return bytes.Contains(bare, k) })
	}
}

// holdsRune looks for characters from one to another, in two bytes of UTF-8 or more.
func holdsRune(from, to rune) func(string, []byte) bool {
	return func(s string, bare []byte) bool {
		return len(bare) < len(s) && strings.IndexFunc(s, func(r rune) bool { return r >= from && r <= to }) >= 0
	}
}

func mapped(f func(rune) rune) func([]byte) []byte {
	return func(b []byte) []byte { return bytes.Map(f, b) }
}

func backwards(b []byte) []byte {
	b = slices.Clone(b)
	slices.Reverse(b)
	return b
}

// signLetters are signs that stand for letters between letters.
var signLetters = strings.NewReplacer("@", "a", "$", "s", "!", "i", "|", "l", "(", "c", "+", "t", "€", "e", "£", "l", "¢", "c")

// keywordLetters are what a reading has to hold to be read: the keywords' letters, in lower case.
var keywordLetters = [][]byte{[]byte("localaction"), []byte("subagent"), []byte("launchagent"), []byte("spawnagent"), []byte("remind")}

// bareLetters returns the ASCII letters of s in lower case.
func bareLetters(s string) []byte {
	bare := make([]byte, 0, len(s))
	for i := range len(s) {
		if c := s[i] | 0x20; c >= 'a' && c <= 'z' {
			bare = append(bare, c)
		}
	}
	return bare
}

// holdsKeyword reports whether a keyword's letters stand in others.
func holdsKeyword(bare []byte) bool {
	return slices.ContainsFunc(keywordLetters, func(k []byte) bool { return bytes.Contains(bare, k) })
}

func rot13(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z':
		return 'a' + (r-'a'+13)%26
	case r >= 'A' && r <= 'Z':
		return 'A' + (r-'A'+13)%26
	}
	return r
}

// turned writes what stands between the signs in ends backwards.
func turned(s, ends string) string {
	out := make([]rune, 0, len(s))
	from := 0
	for _, r := range s {
		if strings.ContainsRune(ends, r) {
			slices.Reverse(out[from:])
			out = append(out, r)
			from = len(out)
			continue
		}
		out = append(out, r)
	}
	slices.Reverse(out[from:])
	return string(out)
}

// pairs maps each character of from to the one of to at the same place.
func pairs(from, to string) func(rune) rune {
	table := map[rune]rune{}
	plain := []rune(to)
	for i, r := range []rune(from) {
		table[r] = plain[i]
	}
	return func(r rune) rune {
		if c, ok := table[r]; ok {
			return c
		}
		return r
	}
}

var (
	upright = pairs("ɐqɔpǝɟƃɓɥᴉıɾʞlɯuodbɹʇnʌʍʎ∀ƆƎℲפſ⅂WԀ⊥∩Λ", "abcdefgghiijklmnopqrtuvwyACEFGJLMPTUV")
	braille = pairs("⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠺⠭⠽⠵", "abcdefghijklmnopqrstuvwxyz")
)

// morseCodes are the letters and signs that Morse code writes.
var morseCodes = func() map[string]string {
	all := map[string]string{"..--.-": "_", "---...": ":", "-....-": "-", "-..-.": "/", ".-.-.-": ".", "/": " ", "-...-": "=", "--..--": ","}
	for i, code := range strings.Fields(".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --..") {
		all[code] = string(rune('a' + i))
	}
	return all
}()

// morse reads groups of dots and dashes.
func morse(s string) string {
	s = strings.NewReplacer("·", ".", "•", ".", "−", "-", "–", "-", "—", "-").Replace(s)
	if !strings.Contains(s, ". -") && !strings.Contains(s, "- .") {
		return ""
	}
	var b strings.Builder
	for s != "" {
		i := strings.IndexAny(s, " \n")
		group, rest := s, ""
		if i >= 0 {
			group, rest = s[:i], s[i:]
		}
		if c, ok := morseCodes[group]; ok {
			group = c
		}
		b.WriteString(group)
		s = rest
		if s != "" {
			if s[0] == '\n' {
				b.WriteByte('\n')
			}
			s = s[1:]
		}
	}
	return b.String()
}
