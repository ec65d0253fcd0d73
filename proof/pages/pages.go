// Package pages helps tests to keep the documentation and the programs the same: it finds the commands that pages show, which a test
// parses, and compares pages that are made from a program. It starts no command.
package pages

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Command is one call of a program on a page.
type Command struct {
	// At is the file with the line on which the call begins.
	At string
	// Words are the arguments behind the program.
	Words []string
	// Whole says that the call stands in a block to copy. One within a sentence may leave arguments out.
	Whole bool
}

// Program is what pages show calls of.
type Program struct {
	Name string
	// Examples are the calls in its helps.
	Examples []Command
	// Least is how many calls there are at least, helps and pages together.
	Least int
}

// Check fails for each call in the helps, or on the pages below root, that parse refuses.
func (p Program) Check(t *testing.T, root string, parse func(Command) error) {
	t.Helper()
	all := p.Examples
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, Find(strings.TrimPrefix(filepath.ToSlash(file), filepath.ToSlash(root)+"/"), string(text), p.Name)...)
		}
	}
	if len(all) < p.Least {
		t.Errorf("%d calls, and not %d: the test looks in the wrong place", len(all), p.Least)
	}
	for _, c := range all {
		if err := parse(c); err != nil {
			t.Errorf("%s: %s %s: %v", c.At, p.Name, strings.Join(c.Words, " "), err)
		}
	}
}

// span is text between backquotes; it may go on in the next line.
var span = regexp.MustCompile("`([^`]+)`")

// Find returns the calls of a program in one text in Markdown.
func Find(name, text, program string) (all []Command) {
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); {
		if fence := strings.TrimSpace(lines[i]); strings.HasPrefix(fence, "```") {
			end := i + 1
			for end < len(lines) && strings.TrimSpace(lines[end]) != "```" {
				end++
			}
			if kind := strings.TrimPrefix(fence, "```"); kind == "" || kind == "sh" || kind == "console" {
				all = append(all, block(place{name, i + 2}, lines[i+1:min(end, len(lines))], program)...)
			}
			i = end + 1
			continue
		}
		// A paragraph: spans break over lines.
		end := i + 1
		for end < len(lines) && strings.TrimSpace(lines[end]) != "" && !strings.HasPrefix(strings.TrimSpace(lines[end]), "```") {
			end++
		}
		paragraph := strings.Join(lines[i:end], "\n")
		for _, m := range span.FindAllStringSubmatchIndex(paragraph, -1) {
			line := i + 1 + strings.Count(paragraph[:m[2]], "\n")
			for _, words := range calls(strings.ReplaceAll(paragraph[m[2]:m[3]], "\n", " "), program) {
				all = append(all, Command{At: place{name, line}.String(), Words: words})
			}
		}
		i = end
	}
	return all
}

// Examples returns the calls of a program in the text of a help: an example is a line that begins with blanks.
func Examples(name, text, program string) (all []Command) {
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, " ") {
			all = append(all, block(place{name, i + 1}, []string{line}, program)...)
		}
	}
	return all
}

// place is a line of a text.
type place struct {
	name string
	line int
}

func (p place) String() string { return p.name + ":" + strconv.Itoa(p.line) }

// block returns the calls in the lines of a block, which begins at a place. A line that ends in a backslash goes on.
func block(from place, lines []string, program string) (all []Command) {
	for i := 0; i < len(lines); i++ {
		line, start := lines[i], place{from.name, from.line + i}
		for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
			i++
			line = strings.TrimSuffix(line, `\`) + lines[i]
		}
		for _, words := range calls(line, program) {
			all = append(all, Command{At: start.String(), Words: words, Whole: true})
		}
	}
	return all
}

// calls splits a line as a shell does, as far as pages need it, and returns the arguments of each call of the program. The program has to
// be the first word behind a prompt and variables. A line with a quote that does not end shows no call.
func calls(line, program string) (all [][]string) {
	var words []string
	end := func() {
		for len(words) > 0 && (words[0] == "$" || isAssignment(words[0])) {
			words = words[1:]
		}
		if len(words) > 1 && words[0] == program {
			all = append(all, words[1:])
		}
		words = nil
	}
	for rest := line; rest != ""; {
		switch {
		case rest[0] == ' ' || rest[0] == '\t':
			rest = rest[1:]
			continue
		case rest[0] == '#':
			rest = ""
			continue
		case strings.ContainsRune("|;&()", rune(rest[0])):
			end()
			rest = rest[1:]
			continue
		case rest[0] == '<' || rest[0] == '>' || strings.HasPrefix(rest, "2>"):
			_, after, ok := word(strings.TrimLeft(rest, "2<>& "))
			if !ok {
				return all
			}
			rest = after
			continue
		}
		w, after, ok := word(rest)
		if !ok {
			return all
		}
		words, rest = append(words, w), after
	}
	end()
	return all
}

var assignment = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*=`)

func isAssignment(word string) bool { return assignment.MatchString(word) }

// word takes the first word of a line, without its quotes.
func word(line string) (text, rest string, ok bool) {
	var b strings.Builder
	for line != "" && !strings.ContainsRune(" \t|;&()<>", rune(line[0])) {
		if quote := line[0]; quote == '"' || quote == '\'' {
			inner, after, closed := strings.Cut(line[1:], string(quote))
			if !closed {
				return "", "", false
			}
			b.WriteString(inner)
			line = after
			continue
		}
		b.WriteByte(line[0])
		line = line[1:]
	}
	return b.String(), line, true
}

var update = flag.Bool("update", false, "write the pages again that are made from a program")

// Same fails when a page is not the text that a program makes of it. With the flag -update it writes the page first.
func Same(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is not what the program says; run this test with -update (-want +got):\n%s", path, diff)
	}
}

// Cell makes a text fit for a cell of a table.
func Cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\n", " "), "|", "\\|")
}
