package parser_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"drawbridge/parser"

	"github.com/google/go-cmp/cmp"
)

var everything = parser.Options{Fenced: parser.FencedRun, Remind: true, WebhookResult: true}

var dialects = []parser.Options{
	{}, {Remind: true, WebhookResult: true}, {Fenced: parser.FencedRun}, everything,
}

// feed parses text in chunks that end at the given cuts.
func feed(text []byte, opts parser.Options, cuts ...int) parser.Result {
	res := parser.Result{Commands: []parser.Command{}, NearMisses: []parser.NearMiss{}}
	p := parser.New(opts, parser.Handler{
		Command:  func(c parser.Command) { res.Commands = append(res.Commands, c) },
		NearMiss: func(m parser.NearMiss) { res.NearMisses = append(res.NearMisses, m) },
	})
	from := 0
	for _, cut := range append(cuts, len(text)) {
		// The parser must not keep what it was given.
		chunk := append([]byte(nil), text[from:cut]...)
		p.Write(chunk)
		for i := range chunk {
			chunk[i] = '\n'
		}
		from = cut
	}
	p.Close()
	return res
}

// everyByte returns all cuts, so that each chunk is one byte.
func everyByte(n int) []int {
	cuts := make([]int, n)
	for i := range cuts {
		cuts[i] = i
	}
	return cuts
}

func TestResultDoesNotDependOnChunks(t *testing.T) {
	t.Parallel()
	for _, c := range readCorpus(t) {
		for form, text := range c.forms {
			t.Run(c.Name+"/"+form, func(t *testing.T) {
				t.Parallel()
				for _, opts := range dialects {
					want := parser.Parse(text, opts)
					if diff := cmp.Diff(want, feed(text, opts, everyByte(len(text))...)); diff != "" {
						t.Fatalf("single bytes (-whole +chunks)\n%s", diff)
					}
					step := 1 + len(text)/2000
					for cut := 0; cut <= len(text); cut += step {
						if diff := cmp.Diff(want, feed(text, opts, cut)); diff != "" {
							t.Fatalf("cut at %d (-whole +chunks)\n%s", cut, diff)
						}
					}
				}
			})
		}
	}
}

func TestTranscriptInRandomChunks(t *testing.T) {
	t.Parallel()
	text := transcript()[:2<<20]
	want := parser.Parse(text, parser.Options{})
	if len(want.Commands) < 10 || len(want.NearMisses) < 10 {
		t.Fatalf("transcript holds %d commands and %d near misses", len(want.Commands), len(want.NearMisses))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, most := range []int{3, 100, 5000, 200_000} {
		var cuts []int
		for at := r.IntN(most); at < len(text); at += r.IntN(most) {
			cuts = append(cuts, at)
		}
		if diff := cmp.Diff(want, feed(text, parser.Options{}, cuts...)); diff != "" {
			t.Errorf("chunks below %d bytes (-whole +chunks)\n%s", most, diff)
		}
	}
}

func TestTranscriptAgainstReference(t *testing.T) {
	t.Parallel()
	compareWithReference(t, transcript()[:2<<20], parser.Options{})
}

func TestCorpusAgainstReference(t *testing.T) {
	t.Parallel()
	for _, c := range readCorpus(t) {
		for _, text := range c.forms {
			for _, opts := range dialects {
				compareWithReference(t, text, opts)
			}
		}
	}
}

func compareWithReference(t *testing.T, text []byte, opts parser.Options) {
	t.Helper()
	got, want := parser.Parse(text, opts), refParse(string(text), opts)
	if diff := cmp.Diff(want.Commands, got.Commands); diff != "" {
		t.Errorf("%+v %.300q (-reference +parser)\n%s", opts, text, diff)
	}
	if diff := cmp.Diff(codes(want.NearMisses), codes(got.NearMisses)); diff != "" {
		t.Errorf("%+v %.300q (-reference +parser)\n%s", opts, text, diff)
	}
}

// codes reduces near misses to line and code, with one word for all the ways
// in which a line can fail its grammar.
func codes(misses []parser.NearMiss) []string {
	out := []string{}
	for _, m := range misses {
		code := m.Code
		switch code {
		case parser.CodeMalformed, parser.CodeMissingKey, parser.CodeEmptyValue, parser.CodeUnknownKey,
			parser.CodeRepeatedKey, parser.CodeBadRepo, parser.CodeBadTime, parser.CodeBadValue:
			code = refMalformed
		case parser.CodeBadCharacter:
			if strings.Contains(m.Reason, "action id") {
				code = refMalformed
			}
		}
		out = append(out, fmt.Sprintf("%d %s", m.Line, code))
	}
	return out
}

// checkInvariants states what holds for every result, whatever the text.
func checkInvariants(t *testing.T, text string, res parser.Result) {
	t.Helper()
	if res.Commands == nil || res.NearMisses == nil {
		t.Fatal("nil slice")
	}
	lines := strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n")
	last := 0
	for _, c := range res.Commands {
		if c.Line <= last || c.Line > len(lines) || strings.TrimSuffix(lines[c.Line-1], "\r") != c.Raw {
			t.Errorf("line %d after %d is not %q", c.Line, last, c.Raw)
		}
		last = c.Line
		checkCommand(t, c)
	}
	last = 0
	for _, m := range res.NearMisses {
		if m.Line <= last || m.Line > len(lines) {
			t.Errorf("near miss on line %d after %d", m.Line, last)
		}
		last = m.Line
		checkNearMiss(t, m)
	}
}

func checkCommand(t *testing.T, c parser.Command) {
	t.Helper()
	if !strings.HasPrefix(c.Raw, string(c.Verb)+":") || len(c.Raw) > 64<<10 {
		t.Errorf("raw %.100q", c.Raw)
	}
	required := map[parser.Verb][]string{
		parser.Subagent: {c.Repo, c.Prompt}, parser.LocalAction: {c.Action},
		parser.Remind: {c.When, c.Message}, parser.WebhookResult: {c.AgentID, c.Status},
	}
	for verb, fields := range required {
		for _, f := range fields {
			if (f != "") != (verb == c.Verb) || strings.Trim(f, " \t") != f || !strings.Contains(c.Raw, f) {
				t.Errorf("%s has field %q", c.Verb, f)
			}
		}
	}
	if !utf8.ValidString(c.Raw) || strings.ContainsFunc(c.Raw, func(r rune) bool { return r != '\t' && unicode.IsControl(r) }) {
		t.Errorf("control character in %q", c.Raw)
	}
	for _, id := range []string{c.Repo, c.Action, c.When, c.AgentID, c.Status} {
		if strings.ContainsFunc(id, func(r rune) bool { return r > '~' }) {
			t.Errorf("identifier %q is not ASCII", id)
		}
	}
	if strings.ContainsAny(c.Repo, " \t,\"'<>`\\") {
		t.Errorf("repo %q", c.Repo)
	}
}

func checkNearMiss(t *testing.T, m parser.NearMiss) {
	t.Helper()
	if m.Code == "" || !strings.HasPrefix(m.Reason, fmt.Sprintf("line %d ", m.Line)) || len(m.Reason) > 400 {
		t.Errorf("near miss %+v", m)
	}
	if len(strings.TrimSuffix(m.Text, "…")) > 200 {
		t.Errorf("text of %d bytes", len(m.Text))
	}
	for _, s := range []string{m.Text, m.Reason} {
		if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q is not safe to show", s)
		}
	}
}
