package policy

import "strings"

// maxReserved is the longest name, in bytes, that is judged. No door takes a longer one.
const maxReserved = 64

// ReservedName returns the reserved word that a reader would take an agent's name for,
// or "". It is safe for concurrent use.
//
// The rule, in the order in which it is tried:
//
//  1. A name is read as its letters look: case, look-alike characters and hidden
//     characters make no difference. Parts end at separators, at case changes and
//     beside digits. A number, a version, or a single letter says nothing.
//  2. A name is refused that holds only reserved words, with articles before them:
//     "everyone", "the-operator", "bridge-system", "system2", "drawbridge-v2".
//  3. A name is refused that begins with a word for a person or for the bridge, after
//     titles and adjectives ("mr-operator", "real-user"), unless it ends with a thing
//     that agents work on or a kind of work: "operator-kim" and "operator_says" are
//     refused, "operator-docs-bot" and "user-service" are not.
//  4. A name is refused that ends with a word for those in charge: "kim-operator",
//     "it-admin". So is one that ends with an article and a word for a person.
//
// The last word of an English name says what it names, and the first one whose it is:
// "operator-docs-bot" is a bot for docs, while "operator-kim" is an operator.
// Refusing an honest name costs its giver another word; the error says so.
//
// The rule is for names under which somebody writes or acts: agents and relays. It is
// not for texts that stand behind a name, such as titles and labels.
func ReservedName(name string) string {
	return read(name, false)
}

// SoleReservedName is ReservedName for a name that is one reserved word, apart from an
// article, digits and separators. A configuration with such a name does not load. One
// with another reserved name does, because its agents are there already.
func SoleReservedName(name string) string {
	return read(name, true)
}

func read(name string, sole bool) string {
	if len(name) > maxReserved {
		return ""
	}
	cells := look(name)
	r := reading{cells: cells, n: len(cells), sole: sole, seen: map[step]bool{}}
	return r.from(step{})
}

// step is how far a name was read, and what the words so far say.
type step struct {
	at int
	// begun is the class of the first word that is not an opener.
	begun class
	// mixed is set by the first word that is neither reserved nor an article.
	mixed bool
	// thing is set while the last word that counts is a thing, charge while it is a
	// word for those in charge.
	thing, charge bool
	// article is set directly behind an article, apart by a person behind one.
	article, apart bool
	// many is set by a second word that is not an article.
	many bool
	// word is the reserved word that the name is taken for so far.
	word string
}

// reading tries each way to cut a name into words.
type reading struct {
	cells []cell
	n     int
	// sole asks for names of one reserved word.
	sole bool
	seen map[step]bool
}

// from returns the reserved word that the rest of a name leads to, or "".
func (r *reading) from(s step) string {
	if s.at == r.n {
		return s.verdict(r.sole)
	}
	if r.seen[s] {
		return ""
	}
	r.seen[s] = true
	for end := s.at + 1; end <= r.n; end++ {
		found := r.words(s.at, end)
		for _, w := range found {
			if word := r.from(s.next(w, end)); word != "" {
				return word
			}
		}
		if len(found) == 0 && r.isOther(s.at, end) {
			if word := r.from(s.next(known{class: other}, end)); word != "" {
				return word
			}
		}
	}
	return ""
}

// words returns the known words that a reader sees in cells at to end.
func (r *reading) words(at, end int) (found []known) {
	var seen, plain strings.Builder
	digits, inner := true, false
	for i, c := range r.cells[at:end] {
		seen.WriteString(c.seen)
		plain.WriteString(c.plain)
		digits = digits && c.digit
		inner = inner || (i > 0 && c.edge)
	}
	apart := r.isEdge(at) && r.isEdge(end)
	switch {
	case apart && digits:
		found = append(found, known{})
	case apart && end == at+1:
		found = append(found, known{text: plain.String()})
	}
	for _, w := range vocabulary[seen.String()] {
		switch {
		case len(w.text) <= shortWord && plain.String() != w.text:
		case apart, !inner && len(w.text) >= gluedWord && w.class != blank && w.class != opener, r.isEdge(at) && !inner && w.class == opener && len(w.text) > 1:
			found = append(found, w)
		}
	}
	return found
}

func (r *reading) isEdge(at int) bool { return at == r.n || r.cells[at].edge }

// isOther reports whether cells at to end are a whole part, or what is left of one
// beside a long reserved word.
func (r *reading) isOther(at, end int) bool {
	for _, c := range r.cells[at+1 : end] {
		if c.edge {
			return false
		}
	}
	return (r.isEdge(at) || r.long(0, at, at)) && (r.isEdge(end) || r.long(end, end, r.n))
}

// long reports whether a long reserved word begins between from and at and ends at
// at, or begins at at and ends by to.
func (r *reading) long(from, at, to int) bool {
	for i := from; i <= at; i++ {
		for j := at; j <= to; j++ {
			if j-i < longWord {
				continue
			}
			for _, w := range r.words(i, j) {
				if w.isReserved() && len(w.text) >= longWord {
					return true
				}
			}
		}
	}
	return false
}

// next is the step behind one more word.
func (s step) next(w known, end int) step {
	behind := s.article
	s.at, s.article = end, w.article
	s.many = s.many || (w.class == blank && w.text != "") || (w.class != blank && !w.article && s.begun != blank)
	switch w.class {
	case blank:
	case opener:
		s.mixed = s.mixed || !w.article
		s.apart = s.apart && w.article
	case speech:
		s.mixed, s.thing = true, false
	case tail:
		s.mixed = true
	default:
		return s.counts(w, behind)
	}
	if s.begun == blank && (w.class == speech || w.class == tail) {
		s.begun = other
	}
	return s
}

// counts is the step behind a word that may decide what the name says.
func (s step) counts(w known, article bool) step {
	if w.isReserved() && (s.word == "" || !isVoice(s.begun) && isVoice(w.class)) {
		s.word = w.text
	}
	if s.begun == blank {
		s.begun = w.class
	}
	s.mixed = s.mixed || !w.isReserved()
	s.thing, s.charge = w.class == thing, w.class == charge
	s.apart = article && (w.class == charge || w.class == person)
	return s
}

// verdict is the reserved word that a whole name is taken for, or "".
func (s step) verdict(sole bool) string {
	switch {
	case s.begun == blank || sole && (s.mixed || s.many):
		return ""
	case !s.mixed, isVoice(s.begun) && !s.thing, s.charge, s.apart:
		return s.word
	}
	return ""
}

func isVoice(c class) bool { return c == charge || c == person || c == machine }
