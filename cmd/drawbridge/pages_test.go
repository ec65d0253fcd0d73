package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"drawbridge/proof/pages"
)

// TestPagesShowCommandsThatParse: the program understands each call that a page or a help shows. A call within a sentence may leave
// arguments out.
func TestPagesShowCommandsThatParse(t *testing.T) {
	t.Parallel()
	program := pages.Program{Name: "drawbridge", Least: 200}
	for _, leaf := range testParser(t).Model.Leaves(true) {
		program.Examples = append(program.Examples, pages.Examples(leaf.FullPath()+" --help", leaf.Detail, program.Name)...)
	}
	program.Check(t, "../..", func(c pages.Command) error {
		_, err := testParser(t).Parse(c.Words) // a parser keeps what it has read
		if err != nil && !c.Whole && missesOnly(err) {
			return nil
		}
		return err
	})
}

// missesOnly reports whether a call is right as far as it goes.
func missesOnly(err error) bool {
	return strings.HasPrefix(err.Error(), "expected ") || strings.HasPrefix(err.Error(), "missing ")
}

func testParser(t *testing.T) *kong.Kong {
	t.Helper()
	k, err := newParser(app{stdin: strings.NewReader("text"), stdout: io.Discard, stderr: io.Discard}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

//go:generate go test . -run TestReference -update

// TestReference keeps docs/reference/drawbridge.md and the program the same.
func TestReference(t *testing.T) {
	t.Parallel()
	pages.Same(t, "../../docs/reference/drawbridge.md", referencePage(testParser(t).Model.Node))
}

func referencePage(root *kong.Node) string {
	var b strings.Builder
	b.WriteString("# drawbridge\n\nMade from the program by `go generate ./cmd/drawbridge`; a test keeps both the same. `drawbridge help COMMAND` explains each flag,\n" +
		"with examples. `drawbridge completion bash` (or `zsh`, `fish`) prints what makes your shell complete commands and flags.\n\n" +
		"Commands with ° talk to a running bridge. They take the first of these that there is:\n\n" +
		"1. `--url` and `--token`, or `DRAWBRIDGE_URL` and `DRAWBRIDGE_TOKEN`\n2. `--config FILE`, or `DRAWBRIDGE_CONFIG`\n3. `bridge.yaml` in this folder\n" +
		"4. the `drawbridge up` that runs\n5. the nearest `bridge.yaml` in a folder above, if it is yours\n6. the configuration that `drawbridge up` left\n\n" +
		"From 4 on a line on standard error says which one. The address is `operator.listen`, or `listen` without that. Lists and answers come as JSON\n" +
		"with `--json`.\n\n| exit code | means |\n|---|---|\n| 0 | done |\n| 1 | no: refused, failed, or problems found |\n| 2 | the command line is wrong |\n")
	group := ""
	for _, leaf := range root.Leaves(true) {
		if title := leaf.ClosestGroup().Title; title != group {
			group = title
			fmt.Fprintf(&b, "\n## %s\n\n| command | does |\n|---|---|\n", group)
		}
		usage, mark := usageOf(leaf)
		fmt.Fprintf(&b, "| `%s`%s | %s |\n", usage, mark, pages.Cell(leaf.Help))
	}
	return b.String()
}

// usageOf returns a command with its arguments and flags, and a mark for one that talks to a bridge.
func usageOf(leaf *kong.Node) (usage, mark string) {
	words := []string{strings.TrimPrefix(leaf.FullPath(), "drawbridge ")}
	for _, argument := range leaf.Positional {
		words = append(words, strings.ReplaceAll(argument.Summary(), "\n", " "))
	}
	var flags []string
	for _, f := range leaf.Flags {
		flags = append(flags, f.Name)
	}
	talks := slices.Contains(flags, "url") && slices.Contains(flags, "token")
	for _, f := range leaf.Flags {
		if f.Hidden || f.Name == "help" || talks && slices.Contains([]string{"url", "token", "config", "json"}, f.Name) {
			continue
		}
		words = append(words, "["+pages.Cell(f.Summary())+"]")
	}
	if talks {
		mark = " °"
	}
	return strings.Join(words, " "), mark
}
