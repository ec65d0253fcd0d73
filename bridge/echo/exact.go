package echo

import (
	"strings"

	"drawbridge/parser"
	"drawbridge/policy"
)

// Bounds of exactly: how many keywords are looked at, and how far behind each.
const (
	maxExact = 1000
	maxLine  = 64<<10 + 1
)

var exactWords = []string{string(parser.Subagent) + ":", string(parser.LocalAction) + ":", string(parser.Remind) + ":"}

// exactly returns the keys of the commands that stand in a text, however they are
// decorated and wherever a reader might see a line begin.
func exactly(text string) Digest {
	d := Digest{Keys: map[string]int{}}
	seen := map[string]bool{}
	number := 1
	for one := range lines(text) {
		for _, word := range exactWords {
			rest := one
			for {
				i := strings.Index(rest, word)
				if i < 0 {
					break
				}
				rest = rest[i:]
				if form := rest[:min(len(rest), maxLine)]; !seen[form] {
					if seen[form] = true; len(seen) > maxExact {
						return Digest{All: number}
					}
					d.add(form, number)
				}
				rest = rest[len(word):]
			}
		}
		if strings.HasSuffix(one, "\n") {
			number++
		}
	}
	return d
}

// lines yields what a reader might take for a line, with its end.
func lines(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for text != "" {
			end := strings.IndexFunc(text, func(r rune) bool { return markOf(r)&line != 0 })
			if end < 0 {
				yield(text)
				return
			}
			for end++; end < len(text) && text[end]&0xc0 == 0x80; end++ { // the rest of the character
			}
			if !yield(text[:end]) {
				return
			}
			text = text[end:]
		}
	}
}

// add reads a command as it stands and without the decoration that may close behind it.
func (d Digest) add(form string, number int) {
	form = strings.TrimRightFunc(form, func(r rune) bool { return markOf(r)&line != 0 })
	for _, form := range []string{form, strings.TrimRight(form, " \t`*_~\"'”’)]>|.")} {
		for _, c := range parser.ParseString(form, parser.Options{Remind: true}).Commands {
			if key := policy.CommandKey(c); d.Keys[key] == 0 {
				d.Keys[key] = number
			}
		}
	}
}
