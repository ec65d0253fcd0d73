package echo

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"drawbridge/parser"
)

// Bounds of one digest. Above any of them everything matches. Only what differs counts.
const (
	maxWindows     = 1000
	maxWindowBytes = 256 << 10
	maxNames       = 1 << 15
	// maxBuilt bounds the work for windows that turn out to be the same.
	maxBuilt = 24 << 20
)

// Sizes of the windows behind a keyword, in letters and in lines that hold letters.
const (
	longWindow  = 2000 // on the keyword's own line, for a launch or a reminder
	shortWindow = 700  // with the lines behind it
	launchLines = 60
	actionSpan  = 160
	actionLines = 3
)

// Digest is what a text holds that an agent might repeat as a command. The zero
// Digest matches nothing. It is encoded as JSON and old ones must stay readable.
type Digest struct {
	// All is the line at which a bound was exceeded: from there on everything that the
	// agent asks for may have stood in the text. 0 for none.
	All int `json:"all,omitempty"`
	// Keys are those of exact command lines, by the policy's CommandKey, each with its line.
	Keys map[string]int `json:"keys,omitempty"`
	// Windows are the words behind what resembles a keyword.
	Windows []Window `json:"windows,omitempty"`
	// Names are hashes of words that may be action ids, each with its line, sorted.
	Names []byte `json:"names,omitempty"`
}

// Window is the words behind what resembles a keyword, a blank between each two.
type Window struct {
	Verb parser.Verb `json:"verb"`
	Line int         `json:"line"`
	// Text is all of it, and Own its part on the keyword's own line, in bytes.
	Text string `json:"text"`
	Own  int    `json:"own"`
	// Before are the words before an action's keyword, on its line.
	Before string `json:"before,omitempty"`
	// Loose says that only a blank separates the keyword from the rest.
	Loose bool `json:"loose,omitempty"`
}

// Empty reports whether the digest matches nothing.
func (d Digest) Empty() bool {
	return d.All == 0 && len(d.Keys) == 0 && len(d.Windows) == 0 && len(d.Names) == 0
}

// Encode returns the digest as bytes, equal for equal texts.
func (d Digest) Encode() []byte {
	b, err := json.Marshal(d)
	if err != nil { // strings and numbers always encode
		panic(err)
	}
	return b
}

// Decode reads what Encode returned. A digest that cannot be read matches everything.
func Decode(b []byte) Digest {
	var d Digest
	if err := json.Unmarshal(b, &d); err != nil {
		return Digest{All: 1}
	}
	return d
}

// Mode says how much of a text is watched.
type Mode uint8

// The modes. Exact finds command lines as the parser reads them, whatever decorates
// them; it is for the words of those who may ask an agent for something. Near also finds
// what resembles a command. Named finds words that may be action ids as well, where they
// stand in markup, behind a colon or alone on a line.
const (
	Exact Mode = iota
	Near
	Named
)

// Of returns the digest of a text in time linear in its size. The ids in except are
// not watched by name, because a program may say its own.
func Of(text string, mode Mode, except ...string) Digest {
	if mode == Exact {
		return exactly(text)
	}
	c := collector{seen: map[Window]bool{}, names: map[uint32]int{}}
	all, more := views(text)
	if more {
		return Digest{All: 1}
	}
	for _, view := range all {
		c.collect(read(view), mode == Named)
	}
	for _, id := range except {
		delete(c.names, nameHash(letters(id)))
	}
	return c.digest()
}

type collector struct {
	windows []Window
	seen    map[Window]bool
	bytes   int
	built   int
	names   map[uint32]int
	all     int
}

func (c *collector) digest() Digest {
	if c.all > 0 {
		return Digest{All: c.all}
	}
	d := Digest{Windows: c.windows}
	d.Names = sortedNames(c.names)
	return d
}

// sortedNames encodes hashes and their lines.
func sortedNames(names map[uint32]int) (out []byte) {
	for _, hash := range slices.Sorted(maps.Keys(names)) {
		out = appendName(out, hash, names[hash])
	}
	return out
}

func appendName(to []byte, hash uint32, line int) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(to, hash), uint32(line)) //nolint:gosec // a line number
}

// beginning is the hash that encoded names begin with, and lineOf its line.
func beginning(names []byte) uint32 { return binary.BigEndian.Uint32(names) }

func lineOf(names []byte) int { return int(binary.BigEndian.Uint32(names[4:])) }

// with returns what either digest watches. It keeps the bounds.
func (d Digest) with(other Digest) Digest {
	c := collector{seen: map[Window]bool{}, names: map[uint32]int{}, all: max(d.All, other.All)}
	for _, one := range []Digest{d, other} {
		for _, w := range one.Windows {
			c.window(w)
		}
		for i := 0; i+8 <= len(one.Names); i += 8 {
			c.hash(beginning(one.Names[i:]), lineOf(one.Names[i:]))
		}
	}
	return c.digest()
}

func (c *collector) collect(r reading, names bool) {
	for _, a := range anchors(r) {
		if c.all > 0 {
			return
		}
		c.window(r.behind(a))
		if a.verb == parser.Subagent {
			c.window(r.ahead(a))
		}
	}
	if !names {
		return
	}
	for i := range r.words {
		if c.all > 0 {
			return
		}
		c.namesAt(r, i)
	}
}

// window adds the words around a keyword, once.
func (c *collector) window(w Window) {
	key := w
	key.Line = 0
	if c.built += len(w.Text) + len(w.Before); c.built > maxBuilt {
		c.all = w.Line
	}
	if w.Text == "" && w.Before == "" || c.seen[key] {
		return
	}
	c.seen[key] = true
	c.bytes += len(w.Text) + len(w.Before)
	if len(c.windows) == maxWindows || c.bytes > maxWindowBytes {
		c.all = w.Line
		return
	}
	c.windows = append(c.windows, w)
}

// behind returns the window of an anchor.
func (r *reading) behind(a anchor) Window {
	w := Window{Verb: a.verb, Line: r.words[a.word].line, Loose: a.loose}
	own, rest, lines := longWindow, shortWindow, launchLines
	if a.verb == parser.LocalAction {
		own, rest, lines = actionSpan, actionSpan, actionLines
	}
	var b strings.Builder
	from := a.to
	for i := a.last; i < len(r.words); i++ {
		at := r.words[i]
		if i > a.last {
			from = at.from
		}
		if i > a.last && at.all&line != 0 {
			if w.Own == 0 {
				w.Own = b.Len() + 1 // so that 0 means that it is not known yet
			}
			if lines--; lines == 0 {
				break
			}
		}
		limit := own
		if w.Own > 0 {
			limit = rest
		}
		if b.Len() >= limit {
			break
		}
		if from == at.to {
			continue // the keyword was the whole word
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.Write(r.letters[from:min(at.to, from+limit)])
	}
	w.Text = b.String()
	if w.Own == 0 {
		w.Own = len(w.Text) + 1
	}
	w.Own = min(w.Own-1, len(w.Text))
	if a.verb == parser.LocalAction {
		w.Before = r.before(a.word)
	}
	return w
}

// ahead returns the window of the words on a launch's line that stand before its keyword.
func (r *reading) ahead(a anchor) Window {
	from := a.word
	for from > 0 && r.words[from].all&line == 0 && r.words[a.word].from-r.words[from].from < shortWindow {
		from--
	}
	var b strings.Builder
	for ; from < a.word; from++ {
		text := r.text(from)
		b.Write(text[:min(len(text), shortWindow)])
		b.WriteByte(' ')
	}
	text := strings.TrimRight(b.String(), " ")
	return Window{Verb: a.verb, Line: r.words[a.word].line, Text: text, Own: len(text)}
}

// wordsBefore is how many words before a keyword are watched.
const wordsBefore = 8

// before returns the words before word i on its line.
func (r *reading) before(i int) string {
	from := i
	for from > 0 && i-from < wordsBefore && r.words[from].all&line == 0 {
		from--
	}
	parts := make([]string, 0, wordsBefore)
	for ; from < i; from++ {
		text := r.text(from)
		parts = append(parts, string(text[:min(len(text), actionSpan)]))
	}
	return strings.Join(parts, " ")
}

// name adds the hash of a word that may be an action id.
func (c *collector) name(letters []byte, at int) {
	if len(letters) == 0 || len(letters) > 2*64 {
		return
	}
	c.hash(nameHash(letters), at)
}

func (c *collector) hash(hash uint32, at int) {
	if _, known := c.names[hash]; known {
		return
	}
	if len(c.names) == maxNames {
		c.all = at
		return
	}
	c.names[hash] = at
}

func nameHash(letters []byte) uint32 {
	h := uint32(2166136261) // FNV-1a
	for _, c := range letters {
		h = (h ^ uint32(c)) * 16777619
	}
	return h
}

// maxParts and maxSpaced bound the words that one id may be taken apart to.
const (
	maxParts  = 12
	maxSpaced = 4
)

// namesAt adds the ids that may begin at word i.
func (c *collector) namesAt(r reading, i int) {
	w := r.words[i]
	first := r.starts(i)
	behind := w.all&colon != 0 || w.last&markup != 0 || w.last&quote != 0
	from, glued := w.from, true
	for j := i; j < len(r.words) && j < i+maxParts; j++ {
		if j > i {
			glued = glued && isGlued(r.words[j])
			if !glued && (j >= i+maxSpaced || r.words[j].all&line != 0) {
				return
			}
		}
		if j == i && r.passing(i) {
			continue
		}
		if c.named(w, r.after(j), place{behind: behind, first: first, glued: glued, parts: j - i + 1, whole: glued && !isGlued(r.after(j))}) {
			c.name(r.letters[from:r.words[j].to], w.line)
		}
	}
}

// place is where a run of words stands.
type place struct {
	// behind markup or a colon; first on its line.
	behind, first bool
	// glued runs have no blank in them; whole ones go on no further.
	glued, whole bool
	parts        int
}

// named reports whether a run of words stands as an id would that is meant.
func (c *collector) named(start, after word, p place) bool {
	closed := after.first&(markup|quote) != 0 && (after.first&quote == 0 || start.last&quote != 0)
	ends := endsClause(after)
	switch {
	case p.behind && p.glued:
		return true
	case p.behind:
		return closed || ends
	case p.glued && closed && p.whole:
		return true
	case p.first && ends:
		return true
	case start.all&bar != 0 && after.all&bar != 0:
		return true
	case start.code && p.glued && p.whole:
		return p.parts > 1 || p.first
	}
	return false
}

// endsClause reports whether a line ends behind a word, or a sentence does, or a remark
// begins, as in "backup (please)".
func endsClause(after word) bool {
	return after.all&line != 0 || after.all&remark != 0 && after.all&colon == 0 && !isGlued(after)
}

// isGlued reports whether nothing but what an id may hold, or what nobody sees, stands
// between a word and the one before.
func isGlued(w word) bool { return w.all&(blank|line|colon|bar|quote) == 0 && w.first != 0 }
