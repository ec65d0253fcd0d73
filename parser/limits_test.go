package parser_test

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"drawbridge/parser"

	"github.com/google/go-cmp/cmp"
)

const limit = 64 << 10

// padded returns a line of exactly n bytes.
func padded(prefix string, n int) string {
	return prefix + strings.Repeat("x", n-len(prefix))
}

func TestLineLimit(t *testing.T) {
	t.Parallel()
	const head = "SUBAGENT: repo=github.com/me/my-app, prompt="
	for name, c := range map[string]struct {
		text string
		want []string
		cmds int
	}{
		"longest":           {padded(head, limit) + "\n", []string{}, 1},
		"longest, CRLF":     {padded(head, limit) + "\r\n", []string{}, 1},
		"longest, at end":   {padded(head, limit), []string{}, 1},
		"too long":          {padded(head, limit+1) + "\nLOCAL_ACTION: x", []string{"1 too_long"}, 1},
		"too long, CRLF":    {padded(head, limit+1) + "\r\nLOCAL_ACTION: x", []string{"1 too_long"}, 1},
		"too long, at end":  {padded(head, limit+1), []string{"1 too_long"}, 0},
		"CR at the limit":   {padded(head, limit) + "\r", []string{"1 too_long"}, 0},
		"far too long":      {padded(head, 5*limit) + "\nLOCAL_ACTION: x", []string{"1 too_long"}, 1},
		"long list item":    {padded("- LOCAL_ACTION: ", 2*limit) + "\nLOCAL_ACTION: x", []string{"1 list_item"}, 1},
		"long in a fence":   {"```\n" + padded(head, 2*limit) + "\n```\nLOCAL_ACTION: x", []string{"2 fenced"}, 1},
		"long prose":        {padded("Subtle ", 3*limit) + "\nLOCAL_ACTION: x", []string{}, 1},
		"long under a task": {head + "a\n" + padded("b ", 2*limit) + "\n", []string{"2 continued"}, 1},
		"long fence opens":  {padded("```go ", 2*limit) + "\nLOCAL_ACTION: x", []string{"2 fenced"}, 0},
		"long tilde fence":  {padded("~~~ `", 2*limit) + "\nLOCAL_ACTION: x", []string{"2 fenced"}, 0},
		"long inline code":  {padded("```", 2*limit) + "```\nLOCAL_ACTION: x", []string{}, 1},
		"long line never closes a fence": {
			"```\n```" + strings.Repeat(" ", 2*limit) + "\nLOCAL_ACTION: x", []string{"3 fenced"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := parser.ParseString(c.text, parser.Options{})
			if diff := cmp.Diff(c.want, codes(got.NearMisses)); diff != "" {
				t.Errorf("near misses (-want +got)\n%s", diff)
			}
			if len(got.Commands) != c.cmds {
				t.Errorf("%d commands, want %d", len(got.Commands), c.cmds)
			}
			compareWithReference(t, []byte(c.text), parser.Options{})
			for _, size := range []int{1, 7, 4096, limit, limit + 1} {
				var cuts []int
				for at := size; at < len(c.text); at += size {
					cuts = append(cuts, at)
				}
				if diff := cmp.Diff(got, feed([]byte(c.text), parser.Options{}, cuts...)); diff != "" {
					t.Errorf("chunks of %d (-whole +chunks)\n%.2000s", size, diff)
				}
			}
		})
	}
}

func TestManyCommandsAreAllReturned(t *testing.T) {
	t.Parallel()
	got := parser.ParseString(strings.Repeat("LOCAL_ACTION: backup_script\n", 5000), parser.Options{})
	if len(got.Commands) != 5000 || got.Commands[4999].Line != 5000 {
		t.Errorf("%d commands", len(got.Commands))
	}
}

// TestTextCostsNoMemory cannot run in parallel: it counts allocations.
func TestTextCostsNoMemory(t *testing.T) {
	text := prose()
	found := 0
	handler := parser.Handler{
		Command:  func(parser.Command) { found++ },
		NearMiss: func(parser.NearMiss) { found++ },
	}
	if n := testing.AllocsPerRun(3, func() {
		p := parser.New(parser.Options{}, handler)
		p.Write(text)
		p.Close()
	}); n != 0 {
		t.Errorf("a parser for one text allocates %v times", n)
	}
	if n := testing.AllocsPerRun(3, func() { parser.Parse(text, parser.Options{}) }); n != 0 {
		t.Errorf("Parse allocates %v times", n)
	}
	p := parser.New(parser.Options{}, handler)
	// Room for an unfinished line is made once.
	p.Write([]byte(padded("S", limit)))
	p.Write([]byte("\n"))
	if n := testing.AllocsPerRun(3, func() {
		for chunk := range chunks(text, 1000) {
			p.Write(chunk)
		}
	}); n != 0 {
		t.Errorf("Write allocates %v times", n)
	}
	if found != 0 {
		t.Errorf("found %d lines in prose", found)
	}
}

func chunks(text []byte, size int) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(text) > 0 {
			n := min(size, len(text))
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}

// TestMemoryIsBounded writes 64 MiB in one line and measures what is allocated. It is not parallel, so that nothing else allocates.
func TestMemoryIsBounded(t *testing.T) {
	chunk := bytes.Repeat([]byte("S"), 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p := parser.New(parser.Options{}, parser.Handler{})
	for range 64 {
		p.Write(chunk)
	}
	p.Close()
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 128<<10 {
		t.Errorf("one line of 64 MiB costs %d bytes", n)
	}
}
