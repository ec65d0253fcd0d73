// Package search says what it means that a passage of memory matches a query and
// which passage is better, once for all stores: a store's own full-text index
// only finds candidates, by the words that this package makes. It knows no
// database and no language in particular. Rule of thumb: whatever a person or an
// agent writes is words to look for and never syntax.
package search

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// maxWord cuts words, in characters; longer ones that begin alike are the same.
const maxWord = 64

// Words returns what a text is found by, in order and as often as it stands
// there: runs of letters, digits and marks, in one case, without accents. A run
// in a script that sets no blanks between words (Han, kana, Thai, Lao, Khmer,
// Burmese) gives each of its characters and each pair of neighbors; a symbol
// such as an emoji is a word of its own. A word holds no ASCII but a–z and 0–9.
func Words(text string) []string {
	c := cutter{dense: denseIndex}
	c.cut(text)
	return c.words
}

// cutter cuts a text into words.
type cutter struct {
	words []string
	run   []rune
	kind  kind
	// dense adds the words of a run in a script without blanks.
	dense func(c *cutter)
}

// kind is what a character is to a word.
type kind int

const (
	between kind = iota // ends a word
	letter              // belongs to a word
	dense               // belongs to a run without blanks
	alone               // is a word
	nothing             // is as if it were not there
)

func (c *cutter) cut(text string) {
	for _, r := range plain(text) {
		k := kindOf(r)
		if k == nothing {
			continue
		}
		if k != c.kind || k == alone {
			c.flush()
		}
		c.kind = k
		if k != between {
			c.run = append(c.run, r)
		}
	}
	c.flush()
}

func (c *cutter) flush() {
	switch {
	case len(c.run) == 0:
	case c.kind == dense:
		c.dense(c)
	default:
		c.words = append(c.words, string(c.run[:min(len(c.run), maxWord)]))
	}
	c.run = c.run[:0]
}

// denseIndex adds each character and each pair, so that any part of the run can be found.
func denseIndex(c *cutter) {
	for i := range c.run {
		c.words = append(c.words, string(c.run[i:i+1]))
		if i+1 < len(c.run) {
			c.words = append(c.words, string(c.run[i:i+2]))
		}
	}
}

// denseQuery adds the pairs alone: they say all that the characters say.
func denseQuery(c *cutter) {
	if len(c.run) == 1 {
		c.words = append(c.words, string(c.run))
	}
	for i := range len(c.run) - 1 {
		c.words = append(c.words, string(c.run[i:i+2]))
	}
}

// plain brings what looks or means the same to one spelling: compatibility
// forms (full width, ligatures) to the ordinary ones, one case, no accents.
func plain(text string) string {
	if isASCII(text) {
		return lowerASCII(text)
	}
	open := norm.NFKD.String(text)
	bare := make([]byte, 0, len(open))
	for _, r := range open {
		if !unicode.Is(accents, r) {
			bare = utf8.AppendRune(bare, r)
		}
	}
	return norm.NFKC.String(cases.Fold().String(string(bare)))
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// accents are marks that people leave out when they look for a word: those of
// Latin, Greek and Cyrillic, Hebrew points, Arabic vowels and the tatweel, and
// selectors of a glyph. In other scripts a mark is as good as a letter.
var accents = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x0300, Hi: 0x036f, Stride: 1},
		{Lo: 0x0591, Hi: 0x05bd, Stride: 1},
		{Lo: 0x05bf, Hi: 0x05bf, Stride: 1},
		{Lo: 0x05c1, Hi: 0x05c2, Stride: 1},
		{Lo: 0x05c4, Hi: 0x05c5, Stride: 1},
		{Lo: 0x05c7, Hi: 0x05c7, Stride: 1},
		{Lo: 0x0640, Hi: 0x0640, Stride: 1},
		{Lo: 0x064b, Hi: 0x0652, Stride: 1},
		{Lo: 0x0670, Hi: 0x0670, Stride: 1},
		{Lo: 0xfe00, Hi: 0xfe0f, Stride: 1},
	},
	R32: []unicode.Range32{{Lo: 0xe0100, Hi: 0xe01ef, Stride: 1}},
}

// prolonged is the mark for a long vowel, which Unicode counts to no script.
const prolonged = '\u30fc'

var denseScripts = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar}

func kindOf(r rune) kind {
	switch {
	case r < utf8.RuneSelf:
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return letter
		}
		return between
	case unicode.Is(unicode.Cf, r):
		return nothing // joiners, soft hyphens, direction marks
	case unicode.IsLetter(r), unicode.IsNumber(r), unicode.IsMark(r):
		if r == prolonged || unicode.In(r, denseScripts...) {
			return dense
		}
		return letter
	case unicode.Is(unicode.So, r), unicode.Is(unicode.Sc, r):
		if r == utf8.RuneError {
			return between
		}
		return alone
	}
	return between
}
