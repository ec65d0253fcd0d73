package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	acp "github.com/coder/acp-go-sdk"

	"drawbridge/openai/cursor/wire"
)

// Bounds of one search: files and lines that an answer has, bytes of a line that it has and that are looked at, bytes of a file for matches over several
// lines, lines around a match, bytes of a pattern, and its time.
const (
	maxFound    = 5000
	maxLine     = 2000
	maxSearched = 64 << 10
	maxSpanned  = 256 << 10
	maxAround   = 100
	maxPattern  = 1000
	searchFor   = time.Minute
)

var errStopped = errors.New("the search took too long, or was stopped; search a smaller folder")

// kinds are the files of the usual names of languages.
var kinds = map[string]string{
	"c": "*.[ch]", "cpp": "*.{cc,cpp,cxx,h,hh,hpp,hxx}", "cs": "*.cs", "css": "*.{css,scss}", "go": "*.go", "html": "*.{htm,html}", "java": "*.java",
	"js": "*.{js,jsx,cjs,mjs,vue}", "json": "*.json", "kotlin": "*.{kt,kts}", "lua": "*.lua", "md": "*.{md,markdown,mdx}", "php": "*.php", "py": "*.{py,pyi}",
	"ruby": "*.{rb,gemspec}", "rust": "*.rs", "sh": "*.{sh,bash,zsh}", "sql": "*.sql", "swift": "*.swift", "toml": "*.toml", "ts": "*.{ts,tsx,cts,mts}",
	"txt": "*.txt", "xml": "*.xml", "yaml": "*.{yaml,yml}",
}

// found are the lines of one file.
type found struct {
	name    string
	lines   []*wire.GrepLine
	matches int
}

// finder is one search.
type finder struct {
	hands
	a     *wire.GrepArgs
	at    *place
	about *regexp.Regexp // nil for files by their names
	globs []glob
	kind  []glob
	mode  string
	files []found
	lines int
	cut   bool
}

func (h hands) search(a *wire.GrepArgs) *deed {
	result := func(r *wire.GrepResult) *wire.ExecClientMessage {
		return &wire.ExecClientMessage{Message: &wire.ExecClientMessage_GrepResult{GrepResult: r}}
	}
	fail := func(why string) *wire.ExecClientMessage {
		return result(&wire.GrepResult{Result: &wire.GrepResult_Error{Error: &wire.GrepError{Error: why}}})
	}
	at := h.place(a.GetPath(), false)
	title := fmt.Sprintf("Search %q in %s", a.GetPattern(), at.full)
	if a.GetPattern() == "" {
		title = "Find files in " + at.full
	}
	for name, narrower := range map[string]string{"glob": a.GetGlob(), "type": a.GetType()} {
		if narrower != "" {
			title += " " + name + " " + narrower
		}
	}
	return &deed{
		kind: acp.ToolKindSearch, title: title, input: map[string]any{"path": at.real}, at: at, refuse: fail,
		do: func(ctx context.Context, say func(*wire.ExecClientMessage)) string {
			ctx, stop := context.WithTimeout(ctx, searchFor)
			defer stop()
			f := &finder{hands: h, a: a, at: at}
			if err := f.run(ctx); err != nil {
				return one(say, fail(err.Error()), err.Error())
			}
			done := &wire.GrepSuccess{Pattern: a.GetPattern(), Path: a.GetPath(), OutputMode: f.mode, WorkspaceResults: map[string]*wire.GrepUnion{h.dir: f.union()}}
			return one(say, result(&wire.GrepResult{Result: &wire.GrepResult_Success{Success: done}}), "")
		},
	}
}

// prepare reads what is asked for.
func (f *finder) prepare() (err error) {
	a := f.a
	f.mode = a.GetOutputMode()
	if f.mode == "" {
		f.mode = "content"
	}
	switch {
	case a.GetPattern() == "" && a.GetGlob() == "":
		return errors.New("a search needs a pattern or a glob")
	case a.GetPattern() == "":
		f.mode = "files_with_matches"
	case f.mode != "content" && f.mode != "count" && f.mode != "files_with_matches":
		return fmt.Errorf("output mode %q is not known; use content, count or files_with_matches", f.mode)
	case len(a.GetPattern()) > maxPattern:
		return fmt.Errorf("the pattern has more than %d bytes", maxPattern)
	default:
		if _, err = regexp.Compile(a.GetPattern()); err != nil {
			return err
		}
		flags := "(?m)"
		if a.GetCaseInsensitive() {
			flags = "(?mi)"
		}
		if f.about, err = regexp.Compile(flags + a.GetPattern()); err != nil {
			return err
		}
	}
	if a.GetGlob() != "" {
		if f.globs, err = newGlobs([]string{a.GetGlob()}); err != nil {
			return err
		}
	}
	if a.GetType() != "" {
		pattern, known := kinds[a.GetType()]
		if !known {
			return fmt.Errorf("file type %q is not known; use one of %s", a.GetType(), strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
		}
		f.kind, err = newGlobs([]string{pattern})
	}
	return err
}

func (f *finder) run(ctx context.Context) error {
	if err := f.prepare(); err != nil {
		return err
	}
	rel := filepath.ToSlash(f.at.rel)
	err := f.still(f.at, false)
	var info fs.FileInfo
	if err == nil {
		info, err = f.root.Stat(f.at.rel)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("Path does not exist: " + f.at.full) //nolint:staticcheck,revive // the service knows these words
	case outside(err):
		return errOutside
	case err != nil:
		return err
	case !info.IsDir():
		return f.file(ctx, rel)
	}
	return f.folder(ctx, rel, above(f.rulesOf, rel))
}

func (f *finder) folder(ctx context.Context, dir string, l ignores) error {
	entries, err := fs.ReadDir(f.root.FS(), dir)
	if err != nil {
		return nil //nolint:nilerr // what cannot be read has nothing in it
	}
	l = l.enter(f.rulesOf, dir)
	for _, e := range entries {
		at := path.Join(dir, e.Name())
		switch {
		case ctx.Err() != nil:
			return errStopped
		case !e.IsDir() && !e.Type().IsRegular() && e.Type() != fs.ModeSymlink:
		case f.cut || e.Name() == ".git":
		case e.IsDir():
			if !l.has(at, true) {
				if err := f.folder(ctx, at, l); err != nil {
					return err
				}
			}
		case f.wants(at) && (f.named() || !l.has(at, false)):
			if err := f.file(ctx, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// named reports whether files are asked for by their names. Those are not ignored.
func (f *finder) named() bool { return len(f.globs) > 0 && !f.globs[0].negated }

func (f *finder) wants(at string) bool {
	return (len(f.globs) == 0 || matchAny(f.globs, at)) && (f.kind == nil || matchAny(f.kind, at))
}

// file searches one file. One that is no text, or that cannot be read, has nothing in it.
func (f *finder) file(ctx context.Context, at string) error {
	hit := found{name: at}
	if f.at.rel == "." {
		hit.name = "./" + at
	}
	if f.about != nil {
		data, err := f.load(at)
		if err != nil || bytes.IndexByte(data, 0) >= 0 {
			return nil //nolint:nilerr // see above
		}
		if err := f.match(ctx, &hit, data); err != nil || hit.matches == 0 {
			return err
		}
	}
	f.files = append(f.files, hit)
	f.lines += len(hit.lines)
	f.cut = f.cut || len(f.files) >= maxFound || f.lines >= maxFound
	return nil
}

// match finds the lines of a file, and those around them that are asked for.
func (f *finder) match(ctx context.Context, hit *found, data []byte) error {
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	var is []int // in their order
	if f.a.GetMultiline() {
		is = f.spans(data, len(lines))
	} else {
		for n, line := range lines {
			if n%100 == 0 && ctx.Err() != nil {
				return errStopped
			}
			if f.about.MatchString(strings.TrimSuffix(line[:min(len(line), maxSearched)], "\r")) {
				is = append(is, n)
			}
		}
	}
	hit.matches = len(is)
	if f.mode != "content" {
		return nil
	}
	around := func(n int32) int { return int(min(maxAround, max(n, f.a.GetContext(), 0))) }
	before, after, next := around(f.a.GetContextBefore()), around(f.a.GetContextAfter()), 0
	for i, n := range is {
		if f.lines+len(hit.lines) >= maxFound {
			f.cut, hit.matches = true, i
			break
		}
		for at := max(next, n-before); at <= min(len(lines)-1, n+after); at++ {
			if i+1 < len(is) && at >= is[i+1] {
				break // that one has its own turn
			}
			hit.lines = append(hit.lines, grepLine(at, lines[at], at != n))
			next = at + 1
		}
	}
	return nil
}

func grepLine(n int, text string, around bool) *wire.GrepLine {
	line := &wire.GrepLine{LineNumber: int32(n + 1), Content: text, IsContextLine: around}
	if len(text) > maxLine {
		line.Content, line.ContentTruncated = text[:maxLine], true
	}
	return line
}

// spans are the lines that matches over several lines cover. Of a large file, only its beginning is looked at.
func (f *finder) spans(data []byte, lines int) (is []int) {
	data = data[:min(len(data), maxSpanned)]
	line, at, next := 0, 0, 0
	for _, span := range f.about.FindAllIndex(data, maxFound) {
		line += bytes.Count(data[at:span[0]], []byte("\n"))
		at = span[0]
		last := line + bytes.Count(data[at:max(at, span[1]-1)], []byte("\n"))
		for n := max(next, line); n <= min(last, lines-1); n++ {
			is = append(is, n)
			next = n + 1
		}
	}
	return is
}

// union is what was found, in the form that was asked for.
func (f *finder) union() *wire.GrepUnion {
	switch f.mode {
	case "count":
		out := &wire.GrepCount{TotalFiles: int32(len(f.files)), ClientTruncated: f.cut}
		for _, hit := range f.files {
			out.Counts = append(out.Counts, &wire.GrepFileCount{File: hit.name, Count: int32(hit.matches)})
			out.TotalMatches += int32(hit.matches)
		}
		return &wire.GrepUnion{Result: &wire.GrepUnion_Count{Count: out}}
	case "files_with_matches":
		out := &wire.GrepFiles{TotalFiles: int32(len(f.files)), ClientTruncated: f.cut}
		for _, hit := range f.files {
			out.Files = append(out.Files, hit.name)
		}
		return &wire.GrepUnion{Result: &wire.GrepUnion_Files{Files: out}}
	}
	out := &wire.GrepContent{ClientTruncated: f.cut}
	groups := 0
	for _, hit := range f.files {
		out.Matches = append(out.Matches, &wire.GrepFile{File: hit.name, Matches: hit.lines})
		out.TotalMatchedLines += int32(hit.matches)
		out.TotalLines += int32(len(hit.lines))
		for i, line := range hit.lines {
			if i == 0 || line.GetLineNumber() > hit.lines[i-1].GetLineNumber()+1 {
				groups++
			}
		}
	}
	if f.a.GetContext() > 0 || f.a.GetContextBefore() > 0 || f.a.GetContextAfter() > 0 { // grep writes a line between groups, and it counts
		out.TotalLines += int32(max(0, groups-1))
	}
	return &wire.GrepUnion{Result: &wire.GrepUnion_Content{Content: out}}
}
