package agent

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// glob is a pattern for paths that have "/" between their parts. One without "/" fits the last part, as in .gitignore(5).
type glob struct {
	fits    *regexp.Regexp
	negated bool
	// folders fits folders alone.
	folders bool
}

// newGlob reads a pattern: *, **, ?, [a-z] and {a,b}; "!" in front negates it, and "/" behind it means folders.
func newGlob(pattern string) (*glob, error) {
	g := &glob{}
	rest, negated := strings.CutPrefix(pattern, "!")
	g.negated = negated
	rest, g.folders = strings.CutSuffix(rest, "/")
	var b strings.Builder
	b.WriteString("^")
	if rest = strings.TrimPrefix(rest, "./"); !strings.Contains(rest, "/") {
		b.WriteString("(?:.*/)?")
	}
	rest = strings.TrimPrefix(rest, "/")
	braces := 0
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case strings.HasPrefix(rest[i:], "**/"):
			b.WriteString("(?:.*/)?")
			i += 2
		case strings.HasPrefix(rest[i:], "**"):
			b.WriteString(".*")
			i++
		case c == '*':
			b.WriteString("[^/]*")
		case c == '?':
			b.WriteString("[^/]")
		case c == '[' && strings.IndexByte(rest[i+1:], ']') > 0:
			end := i + 1 + strings.IndexByte(rest[i+1:], ']')
			set := strings.ReplaceAll(rest[i+1:end], `\`, `\\`)
			if set[0] == '!' {
				set = "^" + set[1:]
			}
			b.WriteString("[" + set + "]")
			i = end
		case c == '{':
			b.WriteString("(?:")
			braces++
		case c == '}' && braces > 0:
			b.WriteString(")")
			braces--
		case c == ',' && braces > 0:
			b.WriteString("|")
		case c == '\\' && i+1 < len(rest):
			i++
			b.WriteString(regexp.QuoteMeta(rest[i : i+1]))
		default:
			b.WriteString(regexp.QuoteMeta(rest[i : i+1]))
		}
	}
	b.WriteString("$")
	var err error
	if g.fits, err = regexp.Compile(b.String()); err != nil {
		return nil, fmt.Errorf("the pattern %q cannot be read", pattern)
	}
	return g, nil
}

func newGlobs(patterns []string) (out []*glob, err error) {
	for _, pattern := range patterns {
		g, err := newGlob(pattern)
		if err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, nil
}

func matchAny(globs []*glob, p string) bool {
	for _, g := range globs {
		if g.fits.MatchString(p) != g.negated {
			return true
		}
	}
	return false
}

// rules are what one .gitignore says of the folder that it is in.
type rules struct {
	dir   string
	globs []*glob
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
		if g, err := newGlob(line); err == nil {
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
			if (folder || !g.folders) && g.fits.MatchString(rel) {
				ignored = !g.negated
			}
		}
	}
	return ignored
}
