package parser_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"os"
	"testing"

	"drawbridge/parser"

	"github.com/google/go-cmp/cmp"
)

// corpusCase is one line of parser-cases.jsonl: a turn, the commands in it, and
// why. Raw holds the bytes where JSON cannot carry them.
type corpusCase struct {
	Name   string          `json:"name"`
	Text   string          `json:"text"`
	Raw    string          `json:"text_b64"`
	Expect []corpusCommand `json:"expect"`
	Why    string          `json:"why"`
	forms  map[string][]byte
}

type corpusCommand struct {
	Kind   string `json:"kind"`
	Repo   string `json:"repo"`
	Prompt string `json:"prompt"`
	Action string `json:"action"`
}

func readCorpus(t testing.TB) []corpusCase {
	t.Helper()
	f, err := os.Open("testdata/parser-cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var cases []corpusCase
	dec := json.NewDecoder(bufio.NewReader(f))
	for dec.More() {
		var c corpusCase
		if err := dec.Decode(&c); err != nil {
			t.Fatal(err)
		}
		c.forms = map[string][]byte{"text": []byte(c.Text)}
		if c.Raw != "" {
			raw, err := base64.StdEncoding.DecodeString(c.Raw)
			if err != nil {
				t.Fatal(err)
			}
			c.forms["raw"] = raw
		}
		cases = append(cases, c)
	}
	if len(cases) < 100 {
		t.Fatalf("corpus holds %d cases", len(cases))
	}
	return cases
}

func corpusView(cmds []parser.Command) []corpusCommand {
	out := []corpusCommand{}
	for _, c := range cmds {
		out = append(out, corpusCommand{Kind: string(c.Verb), Repo: c.Repo, Prompt: c.Prompt, Action: c.Action})
	}
	return out
}

func TestCorpus(t *testing.T) {
	t.Parallel()
	for _, c := range readCorpus(t) {
		for form, text := range c.forms {
			t.Run(c.Name+"/"+form, func(t *testing.T) {
				t.Parallel()
				got := parser.Parse(text, parser.Options{})
				if diff := cmp.Diff(c.Expect, corpusView(got.Commands)); diff != "" {
					t.Errorf("%s\n(-want +got)\n%s", c.Why, diff)
				}
			})
		}
	}
}

// silent lists the corpus cases without a command that are prose, so that
// nothing is to be reported. Every other line that asked for something and did
// not get it must be.
var silent = map[string]bool{
	"empty_text": true, "speaker_label": true,
	"html_entity_colon": true, "html_comment_same_line": true,
	"subagent_result_prefixed": true, "zwsp_in_keyword": true, "fullwidth_keyword": true,
	"paragraph_separator_u2029_before_keyword": true,
}

func TestCorpusReportsWhatItRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range readCorpus(t) {
		if len(c.Expect) > 0 {
			continue
		}
		for form, text := range c.forms {
			got := parser.Parse(text, parser.Options{})
			if reported := len(got.NearMisses) > 0; reported == silent[c.Name] {
				t.Errorf("%s/%s: near misses %v", c.Name, form, got.NearMisses)
			}
		}
	}
}
