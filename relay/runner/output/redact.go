package output

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strings"
)

const (
	// MinSecret is the shortest literal that is redacted, in bytes: shorter ones would blacken ordinary text.
	MinSecret = 8
	// MaxMatch is the longest match of a pattern that is found whatever a limit cuts, in bytes.
	MaxMatch = 1 << 10

	redacted = "[redacted]"
)

// Redactor finds what must not leave the machine. It is safe for concurrent use; nil finds nothing.
type Redactor struct {
	literals []string
	patterns []*regexp.Regexp
	// overlap is how much more than a limit has to be kept, so that what the limit cuts in two is found whole.
	overlap int
}

// NewRedactor takes literals of at least [MinSecret] bytes; shorter ones are left out. A literal of several lines, such as
// a private key, counts as a whole and by each of its lines, because programs print such files line by line.
func NewRedactor(literals []string, patterns []*regexp.Regexp) *Redactor {
	r := &Redactor{patterns: patterns}
	add := func(text string) {
		if len(text) >= MinSecret && !slices.Contains(r.literals, text) {
			r.literals = append(r.literals, text)
			r.overlap = max(r.overlap, len(text))
		}
	}
	for _, literal := range literals {
		add(literal)
		if strings.ContainsRune(literal, '\n') {
			for line := range strings.Lines(literal) {
				add(strings.TrimRight(line, "\r\n"))
			}
		}
	}
	if len(patterns) > 0 {
		r.overlap = max(r.overlap, MaxMatch)
	}
	return r
}

// With returns a Redactor that finds what r finds, and more.
func (r *Redactor) With(literals []string, patterns []*regexp.Regexp) *Redactor {
	if r == nil {
		return NewRedactor(literals, patterns)
	}
	return NewRedactor(append(slices.Clone(r.literals), literals...), append(slices.Clone(r.patterns), patterns...))
}

// Hide takes what is secret out of a text that is whole. It escapes nothing.
func (r *Redactor) Hide(text string) string {
	var out strings.Builder
	at := 0
	for _, s := range r.spans([]byte(text)) {
		out.WriteString(text[at:s.from] + redacted)
		at = s.to
	}
	out.WriteString(text[at:])
	return out.String()
}

// span is a part of a stream, from and up to.
type span struct{ from, to int }

// spans returns what is secret in b, in order and without overlaps. A literal that b ends in the middle of counts from
// its half on: a process that was cut off may have written most of it.
func (r *Redactor) spans(b []byte) []span {
	if r == nil {
		return nil
	}
	var found []span
	for _, literal := range r.literals {
		for at := 0; ; at++ {
			next := bytes.Index(b[at:], []byte(literal))
			if next < 0 {
				break
			}
			at += next
			found = append(found, span{at, at + len(literal)})
		}
		if n := begun(b, literal); n >= max(MinSecret, len(literal)/2) {
			found = append(found, span{len(b) - n, len(b)})
		}
	}
	for _, pattern := range r.patterns {
		for _, match := range pattern.FindAllIndex(b, -1) {
			if match[1] > match[0] {
				found = append(found, span{match[0], match[1]})
			}
		}
	}
	return merge(found)
}

// merge makes one span of those that touch, so that a pattern of single characters cannot blow up what is shown tenfold.
func merge(found []span) []span {
	slices.SortFunc(found, func(a, b span) int {
		if c := cmp.Compare(a.from, b.from); c != 0 {
			return c
		}
		return cmp.Compare(b.to, a.to)
	})
	var merged []span
	for _, s := range found {
		if last := len(merged) - 1; last >= 0 && s.from <= merged[last].to {
			merged[last].to = max(merged[last].to, s.to)
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// begun returns how many bytes at the end of b are the beginning, and not the whole, of literal.
func begun(b []byte, literal string) int {
	for n := min(len(b), len(literal)-1); n > 0; n-- {
		if bytes.HasSuffix(b, []byte(literal[:n])) {
			return n
		}
	}
	return 0
}

// undecided returns how many bytes at the end of b may become part of a secret with the next write.
func (r *Redactor) undecided(b []byte) int {
	if r == nil {
		return 0
	}
	hold := 0
	for _, literal := range r.literals {
		hold = max(hold, begun(b, literal))
	}
	if len(r.patterns) > 0 {
		hold = max(hold, min(MaxMatch, len(b)-1-bytes.LastIndexByte(b, '\n')))
	}
	return hold
}
