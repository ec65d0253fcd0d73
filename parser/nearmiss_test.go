package parser_test

import (
	"strings"
	"testing"

	"drawbridge/parser"

	"github.com/google/go-cmp/cmp"
)

const goodTask = "SUBAGENT: repo=github.com/me/my-app, prompt=Add tests"

func TestNearMisses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"fenced":                  {"```\n" + goodTask + "\n```", []string{"2 fenced"}},
		"fenced and indented":     {"- do:\n  ```\n  LOCAL_ACTION: x\n  ```", []string{"3 fenced"}},
		"fenced, in tildes":       {"~~~ `info`\nLOCAL_ACTION: x\n~~~~  ", []string{"2 fenced"}},
		"fenced diff":             {"```diff\n+LOCAL_ACTION: x\n- LOCAL_ACTION: y\n```", []string{}},
		"fenced in other case":    {"```\nlocal_action: x\n```", []string{}},
		"fenced, CRLF":            {"```\r\nLOCAL_ACTION: x\r\n```\r\n- LOCAL_ACTION: y\r\n", []string{"2 fenced", "4 list_item"}},
		"BOM before a fence":      {"\ufeff```\nLOCAL_ACTION: x", []string{"2 fenced"}},
		"indented":                {" LOCAL_ACTION: x\n\tLOCAL_ACTION: y", []string{"1 indented", "2 indented"}},
		"indented deeply":         {strings.Repeat(" ", 40) + "LOCAL_ACTION: x\n", []string{"1 indented"}},
		"quoted":                  {"> LOCAL_ACTION: x\n>> LOCAL_ACTION: y\n> - LOCAL_ACTION: z", []string{"1 quoted", "2 quoted", "3 quoted"}},
		"list item":               {"- LOCAL_ACTION: a\n+ LOCAL_ACTION: b\n12) LOCAL_ACTION: c\n  * LOCAL_ACTION: d", []string{"1 list_item", "2 list_item", "3 list_item", "4 list_item"}},
		"task and bullet":         {"- [x] LOCAL_ACTION: a\n• LOCAL_ACTION: b", []string{"1 list_item", "2 list_item"}},
		"heading":                 {"## LOCAL_ACTION: x\n#LOCAL_ACTION: y", []string{"1 heading"}},
		"emphasis":                {"**LOCAL_ACTION:** x\n__LOCAL_ACTION__: y\n*SUBAGENT: z*", []string{"1 emphasis", "2 emphasis", "3 emphasis"}},
		"strikethrough":           {"~~LOCAL_ACTION: x~~", []string{"1 emphasis"}},
		"code span":               {"`LOCAL_ACTION: x`\n```LOCAL_ACTION: y```", []string{"1 code_span", "2 code_span"}},
		"invisible":               {"ok\n\ufeffLOCAL_ACTION: a\n\u200bLOCAL_ACTION: b\n\x00LOCAL_ACTION: c\n\u00a0LOCAL_ACTION: d", []string{"2 invisible_prefix", "3 invisible_prefix", "4 invisible_prefix", "5 invisible_prefix"}},
		"color":                   {"\x1b[1;31mLOCAL_ACTION: x\x1b[0m", []string{"1 invisible_prefix"}},
		"case":                    {"local_action: x\nSubagent: y\nLOCAL_action: z", []string{"1 lower_case", "2 lower_case", "3 lower_case"}},
		"blank before colon":      {"LOCAL_ACTION : x", []string{"1 keyword_spacing"}},
		"full-width colon":        {"LOCAL_ACTION：x", []string{"1 keyword_colon"}},
		"spelling":                {"LOCAL-ACTION: x\nLOCAL ACTION: y\nSUB_AGENTS: z", []string{"1 keyword_spelling", "2 keyword_spelling", "3 keyword_spelling"}},
		"no pairs":                {"SUBAGENT:\nSUBAGENT: repo: a, prompt: b\nSUBAGENT:: repo=a, prompt=b", []string{"1 malformed", "2 malformed", "3 malformed"}},
		"missing key":             {"SUBAGENT: prompt=a\nSUBAGENT: repo=github.com/a/b\nSUBAGENT: repo=a prompt=b", []string{"1 missing_key", "2 missing_key", "3 missing_key"}},
		"empty":                   {"SUBAGENT: repo=, prompt=a\nSUBAGENT: repo=a, prompt=\t\nLOCAL_ACTION: \nSUBAGENT: prompt=,repo=a", []string{"1 empty_value", "2 empty_value", "3 empty_value", "4 empty_value"}},
		"unknown key":             {"SUBAGENT: repo=a, branch=dev, prompt=b\nSUBAGENT: branch=dev, repo=a, prompt=b\nSUBAGENT: myrepo=a, prompt=b", []string{"1 unknown_key", "2 unknown_key", "3 unknown_key"}},
		"unknown key, swapped":    {"SUBAGENT: prompt=b, repo=a, branch=dev", []string{"1 unknown_key"}},
		"repeated key":            {"SUBAGENT: repo=a, repo=b, prompt=c\nSUBAGENT: prompt=a, repo=b, repo=c\nSUBAGENT: prompt=a, prompt=b, repo=c", []string{"1 repeated_key", "2 repeated_key", "3 repeated_key"}},
		"bad repo":                {"SUBAGENT: repo=\"a\", prompt=b\nSUBAGENT: repo=a b, prompt=c\nSUBAGENT: repo=mу, prompt=c\nSUBAGENT: repo=a,b, prompt=c", []string{"1 bad_repo", "2 bad_repo", "3 bad_repo", "4 bad_repo"}},
		"bad character":           {"LOCAL_ACTION: a\rb\nLOCAL_ACTION: a\u2028\nLOCAL_ACTION: é\n" + goodTask + "\xff\n" + goodTask + "\u202e", []string{"1 bad_character", "2 bad_character", "3 bad_character", "4 bad_character", "5 bad_character"}},
		"CR at the end":           {"LOCAL_ACTION: x\r\r\nLOCAL_ACTION: y\r", []string{"1 bad_character", "2 bad_character"}},
		"off":                     {"REMIND: 2h, tea\nWEBHOOK_RESULT: agent_id=a, status=b", []string{"1 not_enabled", "2 not_enabled"}},
		"off and decorated":       {"- REMIND: 2h, tea\nremind: x\n```\nREMIND: 2h, tea\n```", []string{}},
		"continued":               {goodTask + "\nand docs.\nMore.", []string{"2 continued"}},
		"continued by a list":     {goodTask + ":\n- unit\n- whole", []string{"2 continued"}},
		"not continued":           {goodTask + "\n\nThen I wait.\n" + goodTask + "\nLOCAL_ACTION: x\n" + goodTask + "\r\n---\n", []string{}},
		"fence under a task":      {goodTask + "\n```\nx\n```", []string{}},
		"near miss under a task":  {goodTask + "\n- LOCAL_ACTION: x", []string{"2 list_item"}},
		"prose":                   {"The LOCAL_ACTION: line runs it.\nUser: LOCAL_ACTION: x\n\"LOCAL_ACTION: x\"\n| LOCAL_ACTION: x\nLocal action: I did.\nRemember: tea.\nSUBAGENT lines: two", []string{}},
		"homoglyphs of the fold":  {"ſUBAGENT: x\nWEBHOO\u212a_RESULT: y", []string{}},
		"short lines":             {"S\n*\n-\n1.\n`\n~\n#\n\t\n \n\r\n\x1b[\n\xe2\n", []string{}},
		"keyword without a colon": {"LOCAL_ACTION\nSUBAGENT", []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := parser.ParseString(c.text, parser.Options{})
			checkInvariants(t, c.text, got)
			exact := []string{}
			for _, m := range got.NearMisses {
				exact = append(exact, codes([]parser.NearMiss{{Line: m.Line}})[0]+m.Code)
			}
			if diff := cmp.Diff(c.want, exact); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			compareWithReference(t, []byte(c.text), parser.Options{})
		})
	}
}

func TestReasonsAndText(t *testing.T) {
	t.Parallel()
	long := "- LOCAL_ACTION: " + strings.Repeat("é", 200)
	for name, c := range map[string]struct{ text, reason, shown string }{
		"fence": {"```\nLOCAL_ACTION: x",
			"line 2 is inside the code fence that opens on line 1, so it was not run; write it outside the fence to run it",
			"LOCAL_ACTION: x"},
		"list": {"- LOCAL_ACTION: x",
			"line 1 is a list item, so it was not run; write it on a line of its own without the list marker to run it",
			"- LOCAL_ACTION: x"},
		"continued": {goodTask + "\nand docs",
			"line 2 is not part of the prompt of the SUBAGENT on line 1, which ends with its line; if it belongs to the task, write the whole prompt on one line, otherwise ignore this",
			"and docs"},
		"key": {"SUBAGENT: repo=a, branch=dev, prompt=b",
			`line 1 has the unknown key "branch"; only repo and prompt exist, so it was not run; write it as one line: SUBAGENT: repo=<repository URL>, prompt=<task>`,
			"SUBAGENT: repo=a, branch=dev, prompt=b"},
		"escapes": {"LOCAL_ACTION: a\x1b[8m\t\xff\u200b\U000e0041",
			"line 1 holds the character U+001B, so it was not run; write it again without that character",
			`LOCAL_ACTION: a\x1b[8m\x09\xff\u200b\U000e0041`},
		"long": {long,
			"line 1 is a list item, so it was not run; write it on a line of its own without the list marker to run it",
			long[:200] + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := parser.ParseString(c.text, parser.Options{}).NearMisses
			if len(got) != 1 {
				t.Fatalf("near misses %v", got)
			}
			if diff := cmp.Diff(c.reason, got[0].Reason); diff != "" {
				t.Errorf("reason (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(c.shown, got[0].Text); diff != "" {
				t.Errorf("text (-want +got)\n%s", diff)
			}
		})
	}
}
