package parser_test

import (
	"testing"

	"drawbridge/parser"

	"github.com/google/go-cmp/cmp"
)

// FuzzParse compares whole turns with the reference and with themselves in two
// chunks, in every dialect, and checks what holds for all results.
func FuzzParse(f *testing.F) {
	for _, c := range readCorpus(f) {
		for _, text := range c.forms {
			if len(text) < 4096 {
				f.Add(text, uint8(0), uint16(len(text)/2))
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, dialect uint8, cut uint16) {
		opts := dialects[int(dialect)%len(dialects)]
		res := parser.Parse(text, opts)
		checkInvariants(t, string(text), res)
		if diff := cmp.Diff(res, feed(text, opts, int(cut)%(len(text)+1))); diff != "" {
			t.Errorf("cut (-whole +chunks)\n%s", diff)
		}
		compareWithReference(t, text, opts)
	})
}

// FuzzLine surrounds one line with prose, in a fence and out of it, so that the
// fuzzer spends its time on the grammar of a line.
func FuzzLine(f *testing.F) {
	for _, c := range readCorpus(f) {
		for _, text := range c.forms {
			if len(text) < 4096 {
				f.Add(string(text))
			}
		}
	}
	f.Fuzz(func(t *testing.T, line string) {
		for _, text := range []string{line, "Prose.\n" + line + "\nmore prose\n", "```\n" + line + "\n", "- ```\n" + line + "\n  ```\n" + line} {
			checkInvariants(t, text, parser.ParseString(text, everything))
			for _, opts := range dialects {
				compareWithReference(t, []byte(text), opts)
			}
		}
	})
}
