package search

import (
	"crypto/sha256"
	"encoding/base32"
	"strconv"
	"strings"

	"drawbridge/bridge"
)

// An index term is the agent's scope, a letter that says what it is, and the
// word or tag. With the agent in the term, what a search costs depends on that
// agent's passages alone.
const (
	scopeBytes = 5
	wordMark   = "w"
	tagMark    = "t"
)

var lower = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// scope is eight characters. Two agents may share one by chance: Best lets only
// the agent's own passages pass.
func scope(agent bridge.AgentID) string {
	sum := sha256.Sum256([]byte(agent))
	return lower.EncodeToString(sum[:scopeBytes])
}

// tagTerm stands for a tag, which may hold any character.
func tagTerm(scope, tag string) string {
	sum := sha256.Sum256([]byte(tag))
	return scope + tagMark + lower.EncodeToString(sum[:10])
}

// IndexTerms returns what a passage is found by in a full-text index: words of
// a–z, 0–9 and characters beyond ASCII, in order and as often as they stand in the
// passage, then one for each tag.
func IndexTerms(p bridge.Passage) []string {
	s := scope(p.Agent)
	terms := Words(p.Content)
	for i, w := range terms {
		terms[i] = s + wordMark + w
	}
	for _, tag := range p.Tags {
		terms = append(terms, tagTerm(s, tag))
	}
	return terms
}

// QueryTerms returns what a passage must hold in the index, all of it. None
// means that every passage of the agent is wanted.
func (q Query) QueryTerms() []Term {
	s := scope(q.Agent)
	var terms []Term
	for _, t := range q.Terms {
		terms = append(terms, Term{Word: s + wordMark + t.Word, Prefix: t.Prefix})
	}
	for _, tag := range q.Tags {
		terms = append(terms, Term{Word: tagTerm(s, tag)})
	}
	return terms
}

// FTS5 writes terms as a query of SQLite's FTS5: each quoted, all required.
func FTS5(terms []Term) string {
	return joined(terms, " AND ", func(t Term) string {
		word := `"` + strings.ReplaceAll(t.Word, `"`, `""`) + `"`
		if t.Prefix {
			return word + "*"
		}
		return word
	})
}

// TSQuery writes terms as a tsquery of PostgreSQL: each quoted, all required.
func TSQuery(terms []Term) string {
	return joined(terms, " & ", func(t Term) string {
		if t.Prefix {
			return lexeme(t.Word) + ":*"
		}
		return lexeme(t.Word)
	})
}

func joined(terms []Term, with string, write func(Term) string) string {
	words := make([]string, len(terms))
	for i, t := range terms {
		words[i] = write(t)
	}
	return strings.Join(words, with)
}

// PostgreSQL's limits on positions (manual, 12.11 Limitations).
const (
	maxPosition  = 16383
	maxPositions = 255
)

// TSVector writes index terms as a tsvector of PostgreSQL with the positions
// that its ranking counts, without its parser, which knows other words than we do.
func TSVector(terms []string) string {
	positions := map[string][]string{}
	for i, t := range terms {
		if at := positions[t]; len(at) < maxPositions {
			positions[t] = append(at, strconv.Itoa(min(i+1, maxPosition)))
		}
	}
	var b strings.Builder
	for word, at := range positions {
		b.WriteString(lexeme(word) + ":" + strings.Join(at, ",") + " ")
	}
	return b.String()
}

// lexeme quotes a word. It never holds a quote, but that is not this function's to know.
func lexeme(word string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(word) + "'"
}
