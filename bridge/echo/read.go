package echo

import (
	"slices"
	"strings"

	"drawbridge/internal/lookalike"
)

// mark is a kind of character that separates words.
type mark uint8

const (
	blank  mark = 1 << iota
	line        // the end of a line
	markup      // quotes and brackets of any kind, emphasis, code, headings
	colon       // a colon or what stands for one
	bar         // a table's
	glue        // what an id may hold: _ . - and / between the parts of a name
	remark      // what begins a remark behind a word, or ends a sentence
	quote       // an apostrophe, which may be a quote
)

const (
	markups = "`*_~\"“”„‟«»‹›‘‛[]{}<>|#＂＇「」『』【】〈〉《》〔〕［］｛｝＜＞｀＊＿～＃"
	colons  = ":：﹕︓∶ː꞉ː:׃܃܄᠄⁝⁚﹔→⇒⟶➔➜⇨↦►▶=＝≔≕﹦"
	quotes  = "'’′´ʼ"
	glues   = "_.-/‐‑‒–—−﹘－＿．／⁄∕"
	remarks = "(（[{#/-–—;；!！?？.。,，…~^<"
)

var asciiMarks, otherMarks = func() (ascii [128]mark, other map[rune]mark) {
	other = map[rune]mark{}
	set := func(chars string, m mark) {
		for _, r := range chars {
			if r < 128 {
				ascii[r] |= m
			} else {
				other[r] |= m
			}
		}
	}
	set(markups, markup)
	set(colons, colon)
	set(quotes, quote)
	set(glues, glue)
	set(remarks, remark)
	set("|｜¦│┃❘", bar)
	set("\n\r\v\f\u0085\u2028\u2029", line)
	return ascii, other
}()

func markOf(r rune) mark {
	m := mark(0)
	if r < 128 {
		m = asciiMarks[r]
	} else {
		m = otherMarks[r]
	}
	if m == 0 {
		return blank // whatever else separates words
	}
	return m
}

// word is a run of letters and digits that nothing visible separates.
type word struct {
	from, to int // in reading.letters
	// first, last and all are the separators before the word, since the line
	// began: the first of them, the last of them, and all.
	first, last, all mark
	// opens is the last character of the separators, closes are the first two.
	opens  rune
	closes [2]rune
	line   int
	code   bool // in a code span or a fence
	fenced bool // in a fence
	number bool // digits alone, or one letter
}

// reading is a text as a reader takes it.
type reading struct {
	letters []byte
	words   []word
	// end holds the separators behind the last word.
	end word
}

// reader builds a reading.
type reader struct {
	reading
	gap    word
	inWord bool
	ticks  int  // backticks on this line
	fenced bool // within a code fence
	line   int
	prev   rune
}

// read takes a text apart. It is linear in the text's size.
func read(s string) reading {
	r := &reader{line: 1}
	r.letters = make([]byte, 0, len(s)+16)
	r.words = make([]word, 0, len(s)/6+1)
	r.gap = word{line: 1, all: line, first: line, last: line}
	for _, c := range s {
		r.take(c)
	}
	r.end = r.gap
	if r.inWord || r.end.all == 0 {
		r.end = word{}
	}
	r.end.all |= line
	return r.reading
}

func (r *reader) take(c rune) {
	n := len(r.letters)
	var class lookalike.Class
	if r.letters, class = lookalike.Append(r.letters, c); class == lookalike.Hidden {
		return
	}
	if class == lookalike.Separator {
		r.separate(c)
		r.prev = c
		return
	}
	if !r.inWord {
		r.gap.from, r.gap.line, r.gap.fenced, r.gap.code = n, r.line, r.fenced, r.fenced || r.ticks%2 == 1
		r.words = append(r.words, r.gap)
		r.words[len(r.words)-1].number = true
		r.inWord = true
	} else if c < '0' || c > '9' || r.prev < '0' || r.prev > '9' {
		r.words[len(r.words)-1].number = false
	}
	r.words[len(r.words)-1].to = len(r.letters)
	r.prev = c
}

func (r *reader) separate(c rune) {
	if r.inWord {
		r.inWord, r.gap = false, word{}
	}
	r.gap.opens = c
	if i := slices.Index(r.gap.closes[:], 0); i >= 0 {
		r.gap.closes[i] = c
	}
	m := markOf(c)
	if c == '>' && (r.prev == '-' || r.prev == '=') { // an arrow
		m |= colon
	}
	if c == '`' {
		if r.ticks++; r.ticks == 3 && r.gap.all&line != 0 {
			r.fenced, r.ticks = !r.fenced, 0
		}
	}
	if m&line != 0 {
		if c == '\n' {
			r.line++
		}
		r.ticks = 0
		r.gap.last, r.gap.all = line, line|r.gap.all&^(colon|markup|bar|quote)
		if r.gap.first == 0 {
			r.gap.first = line
		}
		return
	}
	if r.gap.first == 0 {
		r.gap.first = m
	}
	r.gap.last = m
	r.gap.all |= m
}

// after returns the separators behind word i.
func (r *reading) after(i int) word {
	if i+1 < len(r.words) {
		return r.words[i+1]
	}
	return r.end
}

// starts reports whether word i is the first of its line, list numbers aside.
func (r *reading) starts(i int) bool {
	w := r.words[i]
	if w.all&line != 0 || i == 0 {
		return true
	}
	before := r.words[i-1]
	return before.number && before.all&line != 0 && w.first&blank == 0 && w.all&blank != 0
}

// text is a word's letters.
func (r *reading) text(i int) []byte { return r.letters[r.words[i].from:r.words[i].to] }

// plain returns the letters of a text alone, escapes read.
func plain(s string) string { return lookalike.Skeleton(decode(s)) }

// passing reports whether a word is said in passing, although markup or a colon stands
// beside it: a key, a label, the beginning of a longer name or sentence, a string in code.
// It is for ids of one word: everyday words stand there all the time.
func (r *reading) passing(i int) bool {
	w, after := r.words[i], r.after(i)
	quoted := strings.ContainsRune("\"'([{", w.opens)
	switch {
	case after.closes[0] == ':' || strings.ContainsRune("\"'", after.closes[0]) && after.closes[1] == ':': // "test": "go test ./..."
		return true
	case i+1 < len(r.words) && after.closes[1] == 0 && strings.ContainsRune("-_./", after.closes[0]): // test-linux
		return true
	case w.opens == '[' && after.closes == [2]rune{']', ' '} && after.all&line == 0: // [test] done in 43 s
		return true
	case w.all&colon != 0:
		return r.goesOn(i)
	case quoted && w.fenced: // exec.Command("make", "test")
		return !r.starts(i) || !endsClause(after)
	}
	return quoted && after.first&(markup|quote) == 0 && !endsClause(after) // [test 3/5]
}

// orderly are words that may follow an order and do not make it a sentence of its own.
var orderly = keySet("and", "then", "please", "now", "next", "first", "immediately", "asap", "again", "today", "at", "once")

// goesOn reports whether a sentence goes on behind word i, as in "fix: build the index first".
func (r *reading) goesOn(i int) bool {
	return i+2 < len(r.words) && r.words[i+1].all == blank && r.words[i+2].all == blank && !orderly[string(r.text(i+1))]
}
