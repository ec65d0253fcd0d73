// Package lookalike reduces text to what a reader takes it for: one plain letter for
// all that look like it, nothing for what cannot be seen. It is not a normalization for
// storing or showing text, and two honest words may get one skeleton. Rule of thumb: use
// it to find what resembles a forbidden or watched word, never to grant anything.
package lookalike

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Class says what a character is to a reader.
type Class uint8

// The classes. Hidden characters are not seen at all; everything that is neither
// letter, digit nor hidden separates words.
const (
	Separator Class = iota
	Letter
	Hidden
)

// ascii holds the skeleton of each ASCII letter and digit. Pairs that many fonts
// cannot tell apart share one: i, l and 1, rn and m, vv and w.
var ascii = func() (t [128]string) {
	for c := byte('a'); c <= 'z'; c++ {
		t[c] = string(rune(c))
	}
	t['i'], t['m'], t['w'] = "l", "rn", "vv"
	for c := byte('A'); c <= 'Z'; c++ {
		t[c] = t[c|0x20]
	}
	for i, plain := range []string{"o", "l", "2", "e", "a", "s", "6", "t", "b", "9"} {
		t['0'+i] = plain
	}
	return t
}()

var table = func() map[rune]string {
	t := make(map[rune]string, 1000)
	for _, row := range alike {
		plain := ""
		for _, c := range []byte(row.plain) {
			plain += ascii[c]
		}
		for _, r := range row.others {
			t[r] = plain
		}
	}
	return t
}()

// Append appends what a reader takes r for, and says what r is. Nothing is appended
// for hidden characters and separators. It is safe for concurrent use.
func Append(dst []byte, r rune) ([]byte, Class) {
	if r < utf8.RuneSelf {
		return appendASCII(dst, byte(r))
	}
	if plain, ok := table[r]; ok {
		return append(dst, plain...), Letter
	}
	if hidden(r) {
		return dst, Hidden
	}
	if base := letterBlock(r); base != 0 {
		return append(dst, ascii['a'+(r-base)]...), Letter
	}
	if unchanged(r) {
		return utf8.AppendRune(dst, r), Letter
	}
	return decomposed(dst, r)
}

func appendASCII(dst []byte, c byte) ([]byte, Class) {
	if s := ascii[c]; s != "" {
		return append(dst, s...), Letter
	}
	if c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\v' && c != '\f' || c == 0x7f {
		return dst, Hidden
	}
	return dst, Separator
}

// letterBlock returns where a block of 26 letters begins that has no decomposition: letters in
// black circles and squares, and those that flags are made of.
func letterBlock(r rune) rune {
	for _, base := range []rune{0x1f150, 0x1f170, 0x1f1e6} {
		if r >= base && r < base+26 {
			return base
		}
	}
	return 0
}

// unchanged holds the big blocks that need no look: kana, Chinese, Korean syllables.
func unchanged(r rune) bool {
	return r >= 0x3041 && r <= 0x30ff || r >= 0x4e00 && r <= 0x9fff || r >= 0xac00 && r <= 0xd7a3
}

// decomposed maps r by its compatibility decomposition (NFKD), without marks.
func decomposed(dst []byte, r rune) ([]byte, Class) {
	var buf [utf8.UTFMax]byte
	class := Separator
	for _, part := range string(norm.NFKD.Append(nil, utf8.AppendRune(buf[:0], r)...)) {
		lower := unicode.ToLower(part)
		switch plain, known := table[part]; {
		case known:
			dst, class = append(dst, plain...), Letter
		case table[lower] != "":
			dst, class = append(dst, table[lower]...), Letter
		case part < utf8.RuneSelf && ascii[part] != "":
			dst, class = append(dst, ascii[part]...), Letter
		case part >= utf8.RuneSelf && (unicode.IsLetter(part) || unicode.IsDigit(part)):
			dst, class = utf8.AppendRune(dst, lower), Letter
		}
	}
	return dst, class
}

// hidden reports whether a reader sees nothing of r: marks on the letter before, format
// characters, variation selectors, tags, and fillers that look like nothing.
func hidden(r rune) bool {
	switch {
	case r == 0x85, r == 0x2028, r == 0x2029: // line ends
		return false
	case r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0, r == 0x2800, r == utf8.RuneError:
		return true
	}
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Cc, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// Skeleton returns the letters and digits of s as a reader takes them, without
// anything between them. Words with one skeleton look alike.
func Skeleton(s string) string {
	out := make([]byte, 0, len(s)+8)
	for _, r := range s {
		out, _ = Append(out, r)
	}
	return string(out)
}
