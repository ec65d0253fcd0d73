package parser_test

import (
	"testing"

	"drawbridge/parser"

	"github.com/google/go-cmp/cmp"
)

func TestCommandFields(t *testing.T) {
	t.Parallel()
	text := "\ufeffLOCAL_ACTION: a\tb \r\n" +
		"SUBAGENT: Prompt = Say hi , REPO = github.com/me/x \n" +
		"REMIND: 2030-01-01T09:00:00Z, water, then rest\n" +
		"REMIND:10m,tea\n" +
		"WEBHOOK_RESULT: agent_id=bc-1, status=done\n" +
		"WEBHOOK_RESULT: STATUS = FINISHED ,agent_id= bc-2"
	want := []parser.Command{
		{Verb: parser.LocalAction, Line: 1, Action: "a\tb", Raw: "LOCAL_ACTION: a\tb "},
		{Verb: parser.Subagent, Line: 2, Repo: "github.com/me/x", Prompt: "Say hi",
			Raw: "SUBAGENT: Prompt = Say hi , REPO = github.com/me/x "},
		{Verb: parser.Remind, Line: 3, When: "2030-01-01T09:00:00Z", Message: "water, then rest",
			Raw: "REMIND: 2030-01-01T09:00:00Z, water, then rest"},
		{Verb: parser.Remind, Line: 4, When: "10m", Message: "tea", Raw: "REMIND:10m,tea"},
		{Verb: parser.WebhookResult, Line: 5, AgentID: "bc-1", Status: "done",
			Raw: "WEBHOOK_RESULT: agent_id=bc-1, status=done"},
		{Verb: parser.WebhookResult, Line: 6, AgentID: "bc-2", Status: "FINISHED",
			Raw: "WEBHOOK_RESULT: STATUS = FINISHED ,agent_id= bc-2"},
	}
	got := parser.ParseString(text, everything)
	if diff := cmp.Diff(want, got.Commands); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(got.NearMisses) != 0 {
		t.Errorf("near misses %v", got.NearMisses)
	}
}

func TestOptionalVerbsRefuse(t *testing.T) {
	t.Parallel()
	for line, code := range map[string]string{
		"REMIND: tomorrow":                          parser.CodeMalformed,
		"REMIND: , tea":                             parser.CodeEmptyValue,
		"REMIND: 2h, ":                              parser.CodeEmptyValue,
		"REMIND: tomorrow, tea":                     parser.CodeBadTime,
		"REMIND: 2 h, tea":                          parser.CodeBadTime,
		"REMIND: 1234567d, tea":                     parser.CodeBadTime,
		"REMIND: h, tea":                            parser.CodeBadTime,
		"REMIND: 2030-13-01T09:00:00Z, tea":         parser.CodeBadTime,
		"WEBHOOK_RESULT:":                           parser.CodeMalformed,
		"WEBHOOK_RESULT: bc-1":                      parser.CodeMalformed,
		"WEBHOOK_RESULT: agent_id=a":                parser.CodeMissingKey,
		"WEBHOOK_RESULT: agent_id=a, status=":       parser.CodeEmptyValue,
		"WEBHOOK_RESULT: agent_id=, status=b":       parser.CodeEmptyValue,
		"WEBHOOK_RESULT: agent_id=a, agent_id=b":    parser.CodeRepeatedKey,
		"WEBHOOK_RESULT: agent_id=a, state=b":       parser.CodeUnknownKey,
		"WEBHOOK_RESULT: agent_id=a, status=b c":    parser.CodeBadValue,
		"WEBHOOK_RESULT: agent_id=a b, status=c":    parser.CodeBadValue,
		"WEBHOOK_RESULT: agent_id=a, \u017ftatus=b": parser.CodeUnknownKey,
		"- REMIND: 2h, tea":                         parser.CodeListItem,
		"webhook result: x":                         "",
		"WEBHOOK RESULT: x":                         parser.CodeSpelling,
		"Remind: me":                                parser.CodeLowerCase,
	} {
		got := parser.ParseString(line, everything)
		if len(got.Commands) != 0 {
			t.Errorf("%q is a command", line)
		}
		if code == "" != (len(got.NearMisses) == 0) || code != "" && got.NearMisses[0].Code != code {
			t.Errorf("%q: near misses %v, want %q", line, got.NearMisses, code)
		}
	}
}

// TestFences states where a command may stand; each text holds exactly the
// actions named in want.
func TestFences(t *testing.T) {
	t.Parallel()
	const a, b = "LOCAL_ACTION: a\n", "LOCAL_ACTION: b\n"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"closed by more":            {"```\n" + a + "`````\n" + b, []string{"b"}},
		"not closed by less":        {"````\n" + a + "```\n" + b, []string{}},
		"closed with blanks behind": {"```\n" + a + "``` \t\n" + b, []string{"b"}},
		"closed with indent":        {"```\n" + a + "   ```\n" + b, []string{"b"}},
		"not closed by indent four": {"```\n" + a + "    ```\n" + b, []string{}},
		"not closed by tab":         {"```\n" + a + "\t```\n" + b, []string{}},
		"not opened by tab":         {"\t```\n" + a, []string{"a"}},
		"not opened by two":         {"``\n" + a, []string{"a"}},
		"opened under a quote":      {"> text\n```\n" + a, []string{}},
		"quote does not close":      {"```\n> ```\n" + a, []string{}},
		"CR behind the close":       {"```\n" + a + "```\r\r\n" + b, []string{}},
		"close at the end with CR":  {"```\n" + a + "```\r", []string{}},
		"info with CR":              {"```text\r\n" + a + "```\r\n" + b, []string{"b"}},
		"two fences":                {"```\n```\n" + a + "~~~\n~~~\n" + b, []string{"a", "b"}},
		"list item":                 {"- ```\n  x\n  ```\n" + a, []string{"a"}},
		"list item left open":       {"- ```\n  x\n" + a + "- y\n" + b, []string{"a", "b"}},
		"list item, blank line":     {"1. ```\n\n   x\n   ```\n" + a, []string{"a"}},
		"list item, then a fence":   {"- ```\n  x\n```\n" + a + "```\n" + b, []string{"b"}},
		"wide list item":            {"10. ```\n    x\n    ```\n" + a, []string{"a"}},
		"own line in a list item":   {"- x\n  ```\n" + a + "  ```\n" + b, []string{"b"}},
		"NEL ends no line":          {"```\u0085" + a + b, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := []string{}
			for _, cmd := range parser.ParseString(c.text, parser.Options{}).Commands {
				got = append(got, cmd.Action)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			compareWithReference(t, []byte(c.text), parser.Options{})
		})
	}
}

func TestUnknownFencedSettingIsTheStrictOne(t *testing.T) {
	t.Parallel()
	got := parser.ParseString("```\nLOCAL_ACTION: a\n", parser.Options{Fenced: "RUN"})
	if len(got.Commands) != 0 {
		t.Errorf("commands %v", got.Commands)
	}
}

func TestNothingIsReportedAfterClose(t *testing.T) {
	t.Parallel()
	found := 0
	p := parser.New(parser.Options{}, parser.Handler{Command: func(parser.Command) { found++ }})
	for range 2 {
		if n, err := p.Write([]byte("LOCAL_ACTION: a")); n != 15 || err != nil {
			t.Errorf("Write returned %d, %v", n, err)
		}
		if err := p.Close(); err != nil {
			t.Errorf("Close returned %v", err)
		}
	}
	if found != 1 {
		t.Errorf("%d commands", found)
	}
}

func TestUnclosedTurnDoesNotRunItsLastLine(t *testing.T) {
	t.Parallel()
	p := parser.New(parser.Options{}, parser.Handler{Command: func(c parser.Command) { t.Errorf("ran %q", c.Raw) }})
	p.Write([]byte("text\nLOCAL_ACTION: backup_script"))
}

func TestNilHandlersAreFine(t *testing.T) {
	t.Parallel()
	p := parser.New(parser.Options{}, parser.Handler{})
	p.Write([]byte("LOCAL_ACTION: a\n- LOCAL_ACTION: b\n"))
	p.Close()
}
