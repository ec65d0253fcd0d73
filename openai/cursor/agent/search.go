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

	acp "github.com/coder/acp-go-sdk"

	"drawbridge/openai/cursor/wire"
)

// Bounds of one search: files and lines that an answer has, and bytes of a line.
const (
	maxFound = 5000
	maxLine  = 2000
)

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
	about *regexp.Regexp // nil for files by their names
	globs []*glob
	kind  *glob
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
	title := fmt.Sprintf("Search %q in %s", a.GetPattern(), a.GetPath())
	if a.GetPattern() == "" {
		title = "Find files " + a.GetGlob()
	}
	return &deed{
		kind: acp.ToolKindSearch, title: title, input: map[string]any{"path": h.full(a.GetPath())}, path: h.full(a.GetPath()), never: h.never(a.GetPath()), refuse: fail,
		do: func(ctx context.Context, say func(*wire.ExecClientMessage)) string {
			f := &finder{hands: h, a: a}
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
		pattern := kinds[a.GetType()]
		if pattern == "" {
			return fmt.Errorf("file type %q is not known; use one of %s", a.GetType(), strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
		}
		if f.kind, err = newGlob(pattern); err != nil {
			return err
		}
	}
	return nil
}

func (f *finder) run(ctx context.Context) error {
	if err := f.prepare(); err != nil {
		return err
	}
	rel, err := f.within(f.a.GetPath())
	if err != nil {
		return err
	}
	info, err := f.root.Stat(rel)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("Path does not exist: " + f.full(f.a.GetPath())) //nolint:staticcheck,revive // the service knows these words
	case outside(err):
		return errOutside
	case err != nil:
		return err
	case !info.IsDir():
		f.file(filepath.ToSlash(rel))
		return nil
	}
	return f.folder(ctx, filepath.ToSlash(rel), above(f.root.FS(), filepath.ToSlash(rel)))
}

func (f *finder) folder(ctx context.Context, dir string, l ignores) error {
	entries, err := fs.ReadDir(f.root.FS(), dir)
	if err != nil {
		return nil //nolint:nilerr // what cannot be read has nothing in it
	}
	l = l.enter(f.root.FS(), dir)
	for _, e := range entries {
		at := path.Join(dir, e.Name())
		switch {
		case ctx.Err() != nil:
			return errors.New("the search was stopped before its end")
		case f.cut || e.Name() == ".git":
		case e.IsDir():
			if !l.has(at, true) {
				if err := f.folder(ctx, at, l); err != nil {
					return err
				}
			}
		case f.wants(at) && (len(f.globs) > 0 || !l.has(at, false)): // a file that is asked for by its name is not ignored
			f.file(at)
		}
	}
	return nil
}

func (f *finder) wants(at string) bool {
	return (len(f.globs) == 0 || matchAny(f.globs, at)) && (f.kind == nil || f.kind.fits.MatchString(at))
}

// file searches one file. One that is no text, or that cannot be read, has nothing in it.
func (f *finder) file(at string) {
	hit := found{name: at}
	if f.a.GetPath() == "" || f.full(f.a.GetPath()) == f.dir || f.full(f.a.GetPath()) == f.real {
		hit.name = "./" + at
	}
	if f.about != nil {
		data, err := f.load(at)
		if err != nil || bytes.IndexByte(data, 0) >= 0 {
			return
		}
		f.match(&hit, data)
		if hit.matches == 0 {
			return
		}
	}
	f.files = append(f.files, hit)
	f.lines += len(hit.lines)
	f.cut = len(f.files) >= maxFound || f.lines >= maxFound
}

// match finds the lines of a file, and those around them that are asked for.
func (f *finder) match(hit *found, data []byte) {
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	is := map[int]bool{}
	if f.a.GetMultiline() {
		for _, span := range f.about.FindAllIndex(data, maxFound) {
			first := bytes.Count(data[:span[0]], []byte("\n"))
			for n := first; n <= first+bytes.Count(data[span[0]:max(span[0], span[1]-1)], []byte("\n")); n++ {
				is[n] = true
			}
		}
	} else {
		for n, line := range lines {
			if f.about.MatchString(strings.TrimSuffix(line, "\r")) {
				is[n] = true
			}
		}
	}
	hit.matches = len(is)
	if f.mode != "content" {
		return
	}
	before, after := int(max(f.a.GetContext(), f.a.GetContextBefore())), int(max(f.a.GetContext(), f.a.GetContextAfter()))
	shown := map[int]bool{}
	for n := range is {
		for i := max(0, n-before); i <= min(len(lines)-1, n+after); i++ {
			shown[i] = true
		}
	}
	for _, n := range slices.Sorted(maps.Keys(shown)) {
		text := strings.ToValidUTF8(lines[n], "\ufffd")
		line := &wire.GrepLine{LineNumber: int32(n + 1), Content: text, IsContextLine: !is[n]}
		if len(text) > maxLine {
			line.Content, line.ContentTruncated = strings.ToValidUTF8(text[:maxLine], ""), true
		}
		hit.lines = append(hit.lines, line)
	}
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
