package search

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"drawbridge/bridge"
)

// MaxTerms bounds the words of one query.
const MaxTerms = 32

// Term is one word that a passage must hold.
type Term struct {
	Word string
	// Prefix lets words pass that only begin with Word.
	Prefix bool
}

// Query is a bridge.PassageQuery, read.
type Query struct {
	Agent bridge.AgentID
	// Terms are without repetition, in the order in which they were written.
	Terms []Term
	Tags  []string
	Limit int
	// Never is true for a text in which there is nothing to look for.
	Never bool
}

// Parse reads a query. Every character of its text is harmless. A word of three
// or more characters, or of Korean, also finds those that begin with it, unless it
// is a number or of a script without blanks. Invalid for more than MaxTerms words.
func Parse(q bridge.PassageQuery) (Query, error) {
	c := cutter{dense: denseQuery}
	c.cut(q.Text)
	out := Query{Agent: q.Agent, Tags: q.Tags, Limit: q.Limit, Never: len(c.words) == 0 && strings.TrimSpace(q.Text) != ""}
	if out.Limit <= 0 {
		out.Limit = bridge.DefaultPassages
	}
	for _, w := range c.words {
		t := Term{Word: w, Prefix: opens(w)}
		if !slices.Contains(out.Terms, t) {
			out.Terms = append(out.Terms, t)
		}
		if len(out.Terms) > MaxTerms {
			return Query{}, bridge.Errorf(bridge.Invalid, "the query has more than %d words; look for fewer, because every one of them must be in the passage", MaxTerms)
		}
	}
	return out, nil
}

// opens reports whether a word also finds longer ones. Two letters begin too
// many words, but two Korean syllables are a word, to which particles are tied;
// and 12 is not meant to be 1200. Where no blanks stand, no word is that long.
func opens(word string) bool {
	first, _ := utf8.DecodeRuneInString(word)
	if unicode.Is(unicode.Hangul, first) {
		return true
	}
	return utf8.RuneCountInString(word) >= 3 && strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsNumber(r) })
}

// k1 and b are Okapi BM25's usual constants, and usual is the length in words of
// a passage that is neither preferred nor held back.
const (
	k1    = 1.2
	b     = 0.75
	usual = 60
)

// score returns how well words answer the query, and whether they do at all. It is BM25
// with words that are all equally rare and an average length that is fixed, so
// that the score of a passage depends on nothing but itself: no store has
// to keep statistics, and no agent's search is moved by what others stored. A
// word that only begins with the term counts half.
func (q Query) score(words []string) (score float64, ok bool) {
	slack := k1 * (1 - b + b*float64(len(words))/usual)
	for _, t := range q.Terms {
		hits := 0.0
		for _, w := range words {
			switch {
			case w == t.Word:
				hits++
			case t.Prefix && strings.HasPrefix(w, t.Word):
				hits += 0.5
			}
		}
		if hits == 0 {
			return 0, false
		}
		score += hits / (hits + slack)
	}
	return score, true
}

// matches reports whether a passage is the agent's, has every tag and answers the query, and how well.
func (q Query) matches(p bridge.Passage) (float64, bool) {
	if q.Never || p.Agent != q.Agent {
		return 0, false
	}
	for _, tag := range q.Tags {
		if !slices.Contains(p.Tags, tag) {
			return 0, false
		}
	}
	if len(q.Terms) == 0 {
		return 0, true
	}
	return q.score(Words(p.Content))
}

// Best returns those of the candidates that match, the best first and among
// equals the newest, no more than the query's limit.
func (q Query) Best(candidates []bridge.Passage) []bridge.Passage {
	type scored struct {
		bridge.Passage
		score float64
	}
	var all []scored
	for _, p := range candidates {
		if score, ok := q.matches(p); ok {
			all = append(all, scored{p, score})
		}
	}
	slices.SortFunc(all, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.Seq, a.Seq))
	})
	var best []bridge.Passage
	for _, s := range all[:min(len(all), q.Limit)] {
		best = append(best, s.Passage)
	}
	return best
}
