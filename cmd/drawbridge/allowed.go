package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"drawbridge/internal/logs"
	"drawbridge/parser"
	"drawbridge/policy"
)

type allowedCmd struct {
	Kind      string   `arg:"" enum:"repo,action" help:"Look up values of this kind: repo or action."`
	Values    []string `arg:"" optional:"" help:"Look up these values. Without values, the command reads standard input, with one JSON string on each line."`
	Allowlist string   `help:"Use this allowlist. The default is allowlist.yaml of this folder." placeholder:"FILE" type:"path"`
	JSON      bool     `help:"Print JSON lines on a terminal, too. Into a pipe, the command always prints JSON lines."`
	asking
}

// Help shows examples.
func (allowedCmd) Help() string {
	return "The exit code is 0 if all values are allowed, and 1 if one is not.\n\nExamples:\n  drawbridge allowed repo github.com/me/my-app\n  drawbridge allowed action backup_script --allowlist allowlist.yaml --json"
}

type allowedRow struct {
	Value     string `json:"value"`
	Allowed   bool   `json:"allowed"`
	Canonical string `json:"canonical"`
	Reason    string `json:"reason"`
}

// Run looks each value up.
func (c allowedCmd) Run(a app) error {
	path, err := allowlistPath(c.Allowlist)
	if err != nil {
		return err
	}
	p, _, err := c.rules(path, a)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(a.stdout)
	all := true
	lookUp := func(value string) error {
		row := c.row(p, value)
		all = all && row.Allowed
		return c.print(out, a, row)
	}
	err = c.each(a.stdin, lookUp)
	if e := out.Flush(); err == nil {
		err = e
	}
	if err == nil && !all {
		return errNo
	}
	return err
}

// each calls fn for every value of the call, or of standard input.
func (c allowedCmd) each(in io.Reader, fn func(string) error) error {
	for _, v := range c.Values {
		if err := fn(v); err != nil {
			return err
		}
	}
	if len(c.Values) > 0 {
		return nil
	}
	lines := bufio.NewReader(in)
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n')
		if text := trimBlank(line); text != "" {
			var value string
			if e := json.Unmarshal([]byte(text), &value); e != nil {
				return usageError{fmt.Errorf("standard input line %d is not a JSON string; write each value in double quotes", n)}
			}
			if e := fn(value); e != nil {
				return e
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read standard input: %w", err)
		}
	}
}

func trimBlank(s string) string {
	for len(s) > 0 && (s[len(s)-1] == '\n' || s[len(s)-1] == '\r' || s[len(s)-1] == ' ') {
		s = s[:len(s)-1]
	}
	return s
}

// row asks the policy about one value, as if an agent had asked for it.
func (c allowedCmd) row(p *policy.Policy, value string) allowedRow {
	cmd := parser.Command{Verb: parser.LocalAction, Action: value}
	if c.Kind == "repo" {
		cmd = parser.Command{Verb: parser.Subagent, Repo: value, Prompt: "x"}
	}
	v := p.Grant(c.names(), cmd, true)
	row := allowedRow{Value: value, Allowed: v.Decision == policy.Granted, Canonical: v.Canonical, Reason: v.Reason}
	if row.Allowed && v.Approval.Mode != "" && v.Approval.Mode != policy.ApprovalNever {
		row.Reason = "needs a person's approval: " + v.Approval.String()
	}
	return row
}

func (c allowedCmd) print(w io.Writer, a app, row allowedRow) error {
	if c.JSON || !logs.IsTerminal(a.stdout) {
		return printJSON(w, row)
	}
	word := "allowed"
	if !row.Allowed {
		word = "refused"
	}
	_, err := fmt.Fprintf(w, "%-8s %q %s\n", word, row.Value, row.Reason)
	return err
}
