package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type corpusCommand struct {
	Kind   string `json:"kind"`
	Repo   string `json:"repo"`
	Prompt string `json:"prompt"`
	Action string `json:"action"`
}

// Every case of the parser's corpus, through the command: the bytes as they are, and their lossy form.
func TestParseOnCorpus(t *testing.T) {
	t.Parallel()
	cases := 0
	dec := json.NewDecoder(bytes.NewReader(readTestFile(t, "../../parser/testdata/parser-cases.jsonl")))
	for dec.More() {
		var c struct {
			Name, Text, Why string
			Raw             []byte `json:"text_b64"`
			Expect          []corpusCommand
		}
		if err := dec.Decode(&c); err != nil {
			t.Fatal(err)
		}
		forms := map[string]string{"text": c.Text}
		if c.Raw != nil {
			forms["raw"] = string(c.Raw)
		}
		for form, text := range forms {
			cases++
			if diff := cmp.Diff(c.Expect, parseByProgram(t, text)); diff != "" {
				t.Errorf("%s (%s): %s\n%s", c.Name, form, c.Why, diff)
			}
		}
	}
	if cases < 100 {
		t.Errorf("%d cases", cases)
	}
}

// parseByProgram also checks the contract of the output: its fields and no other, lists never null.
func parseByProgram(t *testing.T, text string) []corpusCommand {
	t.Helper()
	got := callInside(t, text, "parse", "--json")
	if got.code != exitOK || got.stderr != "" {
		t.Errorf("exit code %d, stderr %q", got.code, got.stderr)
	}
	var out struct {
		Commands   []map[string]any `json:"commands"`
		NearMisses []struct {
			Line               int
			Text, Reason, Code string
		} `json:"near_misses"`
	}
	d := json.NewDecoder(strings.NewReader(got.stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil || out.Commands == nil || out.NearMisses == nil {
		t.Fatalf("%v: %s", err, got.stdout)
	}
	for _, n := range out.NearMisses {
		if n.Line < 1 || n.Reason == "" {
			t.Errorf("near miss without line or reason: %s", got.stdout)
		}
	}
	found := []corpusCommand{}
	for _, c := range out.Commands {
		found = append(found, commandOf(t, c))
	}
	return found
}

func commandOf(t *testing.T, c map[string]any) corpusCommand {
	t.Helper()
	want := map[string][]string{"SUBAGENT": {"repo", "prompt"}, "LOCAL_ACTION": {"action"}}[c["verb"].(string)]
	fields := map[string]string{}
	for _, name := range want {
		fields[name] = c[name].(string)
	}
	if len(c) != len(want)+2 || c["line"].(float64) < 1 {
		t.Errorf("the fields of %v are not line, verb and %v", c, want)
	}
	return corpusCommand{Kind: c["verb"].(string), Repo: fields["repo"], Prompt: fields["prompt"], Action: fields["action"]}
}

// A long text must cost neither its commands nor its line numbers: 70 kB of prose without a line end once hid every
// command after it.
func TestParseLongText(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("prose without an end ", 200_000)
	got := call(t, t.TempDir(), long+"\nLOCAL_ACTION: backup_script\n"+long, "parse", "--json")
	want := `{"commands":[{"line":2,"verb":"LOCAL_ACTION","action":"backup_script"}],"near_misses":[]}` + "\n"
	if diff := cmp.Diff(want, got.stdout); diff != "" {
		t.Error(diff)
	}
}

// Raw bytes that are no UTF-8 must come out of a near miss as valid JSON.
func TestParseRawBytes(t *testing.T) {
	t.Parallel()
	raw, err := base64.StdEncoding.DecodeString("U1VCQUdFTlQ6IHJlcG89Z2l0aHViLmNvbS9tZS9teS1hcHAsIHByb21wdD1BZGQg//4gdGVzdHM=")
	if err != nil {
		t.Fatal(err)
	}
	got := call(t, t.TempDir(), string(raw), "parse", "--json")
	if !json.Valid([]byte(got.stdout)) || !strings.Contains(got.stdout, `"near_misses":[{"line":1,`) {
		t.Errorf("%q", got.stdout)
	}
}
