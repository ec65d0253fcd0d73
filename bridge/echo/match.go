package echo

import (
	"bytes"
	"math"
	"slices"
	"sort"
	"strings"

	"drawbridge/internal/lookalike"
	"drawbridge/parser"
	"drawbridge/policy"
)

// Command is what an agent asks for, as Match compares it. The zero Command matches
// only digests above their bounds.
type Command struct {
	verb parser.Verb
	key  string
	// name is an action's id, or a repository's name; whole is the repository with its owner.
	name, whole []byte
	prompt      []byte
	// parts is how many words an id has, and words are a prompt's that say something.
	parts int
	words []string
	grams map[string]int
}

// gram is how many letters of a prompt are compared at a time.
const gram = 5

// CommandOf prepares a command for Match.
func CommandOf(cmd parser.Command) Command {
	c := Command{verb: cmd.Verb, key: policy.CommandKey(cmd)}
	text := cmd.Prompt
	switch cmd.Verb {
	case parser.LocalAction:
		c.name, c.parts = []byte(plain(cmd.Action)), len(strings.Fields(Normalized(cmd.Action)))
		return c
	case parser.Remind:
		text = cmd.Message
	default:
		owner, name := splitRepo(policy.RepoText(cmd.Repo))
		c.name, c.whole = []byte(plain(name)), []byte(plain(owner+name))
	}
	c.prompt = []byte(plain(text))
	c.prompt = c.prompt[:min(len(c.prompt), longWindow)]
	c.grams = grams(c.prompt)
	c.words = telling(Normalized(text[:min(len(text), longWindow)]))
	c.words = c.words[:min(len(c.words), maxWords)]
	return c
}

// common words say nothing of what a prompt asks for.
var common = keySet("a", "an", "and", "any", "are", "as", "at", "be", "but", "by", "do", "for", "from", "if", "in", "into", "is", "it", "its", "no", "not", "of", "on", "or",
	"please", "so", "that", "the", "their", "then", "there", "this", "to", "up", "was", "with", "you", "your")

// telling returns the words of a normalized text that are not common, each once.
func telling(text string) (words []string) {
	for _, w := range strings.Fields(text) {
		if !common[w] && !slices.Contains(words, w) {
			words = append(words, w)
		}
	}
	return words
}

// minWords is how many telling words a prompt needs to be compared word by word, and
// maxWords how many are.
const (
	minWords = 3
	maxWords = 60
)

// saidIn returns how much of the command's telling words stands in a text, in any
// order, with one letter of each wrong.
func (c Command) saidIn(text string) float64 {
	if len(c.words) < minWords {
		return 0
	}
	there := telling(text)
	n := 0
	for _, w := range c.words {
		if slices.ContainsFunc(there, func(t string) bool {
			return t == w || len(w) > minWords && len(t) > minWords && near([]byte(t), []byte(w))
		}) {
			n++
		}
	}
	return float64(n) / float64(len(c.words))
}

// splitRepo takes the last two parts of a repository's address.
func splitRepo(repo string) (owner, name string) {
	for len(repo) > 0 && repo[len(repo)-1] == '/' {
		repo = repo[:len(repo)-1]
	}
	cut := func() (part string) {
		i := len(repo)
		for i > 0 && repo[i-1] != '/' {
			i--
		}
		part, repo = repo[i:], repo[:max(i-1, 0)]
		return part
	}
	name = cut()
	return cut(), name
}

// Match returns the line of the digest's text that the command repeats, 0 for none.
func (d Digest) Match(c Command) int {
	if d.All > 0 {
		return d.All
	}
	if line := d.Keys[c.key]; line > 0 {
		return line
	}
	for _, w := range d.Windows {
		if w.matches(c) {
			return w.Line
		}
	}
	if c.verb == parser.LocalAction {
		return d.named(c.name)
	}
	return 0
}

// named returns the line at which an id stands, 0 for none.
func (d Digest) named(id []byte) int {
	hash, n := nameHash(id), len(d.Names)/8
	i := sort.Search(n, func(i int) bool { return beginning(d.Names[8*i:]) >= hash })
	if i < n && beginning(d.Names[8*i:]) == hash {
		return lineOf(d.Names[8*i:])
	}
	return 0
}

func (w Window) matches(c Command) bool {
	if w.Verb != c.verb {
		return false
	}
	switch c.verb {
	case parser.LocalAction:
		return w.holdsAction(c)
	case parser.Remind:
		return w.resembles(c, w.Text, w.Text[:w.Own]) >= closely
	}
	return w.launches(c)
}

// minFuzzy is how many letters an id or a name needs to be found with one of them wrong.
const minFuzzy = 6

// looseStarts is how many words behind a keyword without a colon an id may begin.
const looseStarts = 3

func (w Window) holdsAction(c Command) bool {
	if c.parts > 1 && holds(w.Before, c.name, math.MaxInt) || c.parts == 1 && lastSaid(w.Before) == string(c.name) {
		return true
	}
	starts := math.MaxInt
	if w.Loose {
		starts = looseStarts
	}
	return holds(w.Text, c.name, starts)
}

// links are words between an id and the keyword behind it, as in "test, as a LOCAL_ACTION".
var links = keySet("as", "via", "by", "with", "using", "through", "is", "a", "an", "the", "our", "your")

// lastSaid is the last word that says something. One plain word elsewhere before a
// keyword means nothing.
func lastSaid(before string) string {
	words := strings.Fields(before)
	for len(words) > 0 && links[words[len(words)-1]] {
		words = words[:len(words)-1]
	}
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}

// holds reports whether words in a row spell a name, with one letter wrong if it is long.
func holds(text string, name []byte, starts int) bool {
	return len(name) > 0 && runs(text, starts, len(name)+1, func(run []byte) bool {
		return bytes.Equal(run, name) || len(name) >= minFuzzy && len(run) >= len(name)-1 && near(run, name)
	})
}

// How much of a prompt has to stand in a text: where the repository stands there
// too, and where it does not.
const (
	closely  = 0.6
	strongly = 0.8
	// minStrong is how many letters a prompt needs for strongly to count.
	minStrong = 24
	// minWhole is how much text, in bytes, is compared as a part of a longer prompt.
	minWhole = 300
)

// launches reports whether the window asks for this launch, or for one that is much like it.
func (w Window) launches(c Command) bool {
	text, own := w.prompt()
	like := w.resembles(c, text, own)
	if like >= strongly && len(c.prompt) >= minStrong {
		return true
	}
	if !holds(w.Text, c.name, math.MaxInt) && !holds(w.Text, c.whole, math.MaxInt) {
		return false
	}
	return like >= closely || c.saidIn(text) >= closely
}

// prompt returns what stands behind the name of the prompt, or all, and its part on the first line.
func (w Window) prompt() (text, own string) {
	from := 0
	for i := 0; i < len(w.Text); {
		end := len(w.Text)
		if n := strings.IndexByte(w.Text[i:], ' '); n >= 0 {
			end = i + n
		}
		if promptKeys[w.Text[i:end]] {
			from = min(end+1, len(w.Text))
			break
		}
		i = end + 1
	}
	return w.Text[from:], w.Text[min(from, w.Own):w.Own]
}

// resembles returns how much of the command's words stands in the text, or how much
// of the text's first line, or of a long text, in the command's. The most counts, from 0 to 1.
func (w Window) resembles(c Command, text, own string) float64 {
	if len(c.prompt) < 2*gram {
		if holds(text, c.prompt, math.MaxInt) {
			return 1
		}
	}
	mine, whole := c.shares(squeeze(text))
	_, theirs := c.shares(squeeze(own))
	if len(text) < minWhole { // a prompt that the window cuts off is longer
		whole = 0
	}
	return max(mine, theirs, whole)
}

// shares returns how much of the command stands in the letters, and how much of the
// letters in the command. Next to nothing is not a part of anything.
func (c Command) shares(letters []byte) (mine, theirs float64) {
	positions, hits := len(letters)-gram+1, 0
	seen := make([]bool, len(c.grams))
	distinct := 0
	for i := 0; i < positions; i++ {
		n, ok := c.grams[string(letters[i:i+gram])]
		if !ok {
			continue
		}
		hits++
		if !seen[n] {
			seen[n] = true
			distinct++
		}
	}
	if len(c.grams) >= 2 {
		mine = float64(distinct) / float64(len(c.grams))
	}
	if positions >= 2 {
		theirs = float64(hits) / float64(positions)
	}
	return mine, theirs
}

// grams numbers the runs of letters of a text.
func grams(letters []byte) map[string]int {
	set := make(map[string]int, len(letters))
	for i := 0; i+gram <= len(letters); i++ {
		if g := string(letters[i : i+gram]); !has(set, g) {
			set[g] = len(set)
		}
	}
	return set
}

func has(set map[string]int, key string) bool {
	_, ok := set[key]
	return ok
}

func squeeze(text string) []byte { return bytes.ReplaceAll([]byte(text), []byte(" "), nil) }

// Normalized returns a text as Match sees it: its letters and digits as a reader takes
// them, a blank between each two words. It is the same for what it returns.
func Normalized(text string) string {
	r := read(decode(text))
	out := make([]byte, 0, len(r.letters)+len(r.words))
	for i := range r.words {
		if i > 0 {
			out = append(out, ' ')
		}
		out = append(out, r.text(i)...)
	}
	return string(out)
}

// letters are what a reader takes an id for.
func letters(id string) []byte { return []byte(lookalike.Skeleton(id)) }
