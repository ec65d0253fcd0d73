package agent

import (
	"fmt"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// glob is a pattern for paths that have "/" between their parts.
type glob struct {
	pattern string
	negated bool
	// folders fits folders alone.
	folders bool
}

// newGlob reads a pattern: *, **, ?, [a-z] and {a,b}. "!" in front negates it, and "/" behind it means folders. A pattern without a "/" before its
// end fits the last part of a path, as in .gitignore(5).
func newGlob(pattern string) (glob, error) {
	g := glob{}
	rest := pattern
	rest, g.negated = strings.CutPrefix(rest, "!")
	rest, g.folders = strings.CutSuffix(rest, "/")
	if rest = strings.TrimPrefix(rest, "./"); !strings.Contains(rest, "/") {
		rest = "**/" + rest
	}
	g.pattern = strings.TrimPrefix(rest, "/")
	if !doublestar.ValidatePattern(g.pattern) {
		return g, fmt.Errorf("the pattern %q is not valid; use *, **, ?, [a-z] and {a,b}", pattern)
	}
	return g, nil
}

func (g glob) fits(p string) bool { return doublestar.MatchUnvalidated(g.pattern, p) }

func newGlobs(patterns []string) (out []glob, err error) {
	for _, pattern := range patterns {
		g, err := newGlob(pattern)
		if err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, nil
}

func matchAny(globs []glob, p string) bool {
	for _, g := range globs {
		if g.fits(p) != g.negated {
			return true
		}
	}
	return false
}

// rules are what one .gitignore says of the folder that it is in.
type rules struct {
	dir   string
	globs []glob
}

// ignores are the rules on the way to a folder, the outermost first.
type ignores []rules

// above are the rules of the folders above one.
func above(rulesOf func(dir string) ([]byte, error), dir string) (l ignores) {
	for dir != "." {
		dir = path.Dir(dir)
		l = append(ignores(nil).enter(rulesOf, dir), l...)
	}
	return l
}

// literally keeps braces from being alternatives, which git does not know.
var literally = strings.NewReplacer("{", `\{`, "}", `\}`)

// enter adds the rules of a folder. A file that cannot be read has none, and neither has a line that is no pattern.
func (l ignores) enter(rulesOf func(dir string) ([]byte, error), dir string) ignores {
	data, err := rulesOf(dir)
	if err != nil || len(data) > 1<<20 {
		return l
	}
	r := rules{dir: dir}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, " \t\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		if g, err := newGlob(literally.Replace(line)); err == nil {
			r.globs = append(r.globs, g)
		}
	}
	return append(l[:len(l):len(l)], r)
}

// has reports whether a path is ignored: the last pattern that fits decides.
func (l ignores) has(p string, folder bool) bool {
	ignored := false
	for _, r := range l {
		rel := p
		if r.dir != "." {
			rel = strings.TrimPrefix(p, r.dir+"/")
		}
		for _, g := range r.globs {
			if (folder || !g.folders) && g.fits(rel) {
				ignored = !g.negated
			}
		}
	}
	return ignored
}
