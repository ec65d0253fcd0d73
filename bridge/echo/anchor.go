package echo

import (
	"bytes"
	"slices"
	"sort"
	"strings"

	"drawbridge/internal/lookalike"
	"drawbridge/parser"
)

// anchor is what resembles a keyword.
type anchor struct {
	verb parser.Verb
	// word is where it begins, last where it ends, and to the end in letters.
	word, last, to int
	// loose keywords have nothing but a blank behind them.
	loose bool
}

// keyword is how a reader sees a keyword, or the name of the tool that does the same.
type keyword struct {
	verb    parser.Verb
	letters []byte
	// fuzzy ones are recognized with one letter wrong, missing or too many.
	fuzzy bool
}

var keywords = []keyword{
	{parser.Subagent, letters("SUBAGENT"), true},
	{parser.LocalAction, letters("LOCAL_ACTION"), true},
	{parser.Remind, letters("REMIND"), false},
	{parser.Subagent, letters("launch_agent"), false},
	{parser.Subagent, letters("spawn_agent"), false},
}

// keys are the names of what a launch takes: one of each kind, each with its value,
// make a launch without its keyword.
var (
	repoKeys   = keySet("repo", "repos", "repository")
	promptKeys = keySet("prompt", "prompts", "instructions", "instruction", "task")
)

func keySet(names ...string) map[string]bool {
	set := map[string]bool{}
	for _, n := range names {
		set[lookalike.Skeleton(n)] = true
	}
	return set
}

// anchors finds what resembles keywords, in the order of the text.
func anchors(r reading) []anchor {
	var out []anchor
	for _, k := range keywords {
		for at := 0; ; {
			i := bytes.Index(r.letters[at:], k.letters)
			if i < 0 {
				break
			}
			at += i
			out = append(out, r.anchor(k.verb, at, at+len(k.letters)))
			at += len(k.letters)
		}
	}
	out = append(out, r.misspelt()...)
	slices.SortFunc(out, func(a, b anchor) int { return a.to - b.to })
	out = slices.CompactFunc(out, func(a, b anchor) bool { return a.to == b.to && a.verb == b.verb })
	return append(out, r.pairs(out)...)
}

// anchor is the keyword that takes letters from to to.
func (r *reading) anchor(verb parser.Verb, from, to int) anchor {
	a := anchor{verb: verb, word: r.wordAt(from), last: r.wordAt(to - 1), to: to}
	a.loose = to == r.words[a.last].to && r.after(a.last).all == blank
	return a
}

// wordAt is the index of the word that holds a letter.
func (r *reading) wordAt(letter int) int {
	return sort.Search(len(r.words), func(i int) bool { return r.words[i].to > letter })
}

// misspelt finds keywords with one letter wrong.
func (r *reading) misspelt() (out []anchor) {
	for i, w := range r.words {
		for last := i; last < min(i+2, len(r.words)); last++ {
			seen := r.letters[w.from:r.words[last].to]
			for _, k := range keywords {
				if k.fuzzy && len(seen) >= len(k.letters)-1 && len(seen) <= len(k.letters)+1 && near(seen, k.letters) {
					out = append(out, r.anchor(k.verb, w.from, r.words[last].to))
				}
			}
		}
	}
	return out
}

// pairs finds launches without their keyword: a repository and a prompt, each with its
// name before it. Those behind one of found are in its window.
func (r *reading) pairs(found []anchor) (out []anchor) {
	next := 0
	for _, i := range r.paired() {
		w := r.words[i]
		for next < len(found) && found[next].to <= w.from {
			next++
		}
		if next > 0 && found[next-1].verb == parser.Subagent && w.from-found[next-1].to < shortWindow/2 {
			continue
		}
		out = append(out, anchor{verb: parser.Subagent, word: i, last: i, to: w.from})
	}
	return out
}

// keyReach is how many words behind a repository its prompt may begin, and the other way round.
const keyReach = 400

// paired returns the names of repositories that have one of a prompt in reach behind
// them, and the other way round, in the order of the text.
func (r *reading) paired() (out []int) {
	far := len(r.words) + keyReach + 1
	repo, prompt := far, far
	for i := len(r.words) - 1; i >= 0; i-- {
		name, other := string(r.text(i)), 0
		switch isRepo := repoKeys[name]; {
		case !isRepo && !promptKeys[name] || !r.names(i):
			continue
		case isRepo:
			repo, other = i, prompt
		default:
			prompt, other = i, repo
		}
		if other-i <= keyReach {
			out = append(out, i)
		}
	}
	slices.Reverse(out)
	return out
}

// names reports whether word i names what stands behind it: with a colon, in a table,
// or as a program's flag, as in "--repo X".
func (r *reading) names(i int) bool {
	w := r.words[i]
	return r.after(i).all&(colon|bar) != 0 || w.last&glue != 0 && w.all&blank != 0
}

// near reports whether two words differ by at most one letter: one that is another,
// is missing, is too many, or two side by side that changed places.
func near(a, b []byte) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(b)-len(a) > 1 {
		return false
	}
	head := 0
	for head < len(a) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	switch left, right := a[head:len(a)-tail], b[head:len(b)-tail]; {
	case len(left) == 2 && len(right) == 2:
		return left[0] == right[1] && left[1] == right[0]
	default:
		return len(left) <= 1 && len(right) <= 1
	}
}

// runs calls yield with each run of words in text that begins at one of the first
// starts words, until yield returns true, and reports whether it did.
func runs(text string, starts, letters int, yield func(run []byte) bool) bool {
	words := strings.Fields(text)
	for i := range words[:min(starts, len(words))] {
		var run []byte
		for _, w := range words[i:] {
			if len(run)+len(w) > letters {
				break
			}
			if run = append(run, w...); yield(run) {
				return true
			}
		}
	}
	return false
}
