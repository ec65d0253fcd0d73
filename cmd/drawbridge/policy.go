package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/config"
	"drawbridge/parser"
	"drawbridge/policy"
)

// policyCmd is "drawbridge policy …": what the allowlist does to what agents ask for.
type policyCmd struct {
	Test    policyTestCmd    `cmd:"" help:"Test an allowlist with cases of your own: what agents say, and which answers you want."`
	Compare policyCompareCmd `cmd:"" help:"Show what an edited allowlist would have made of the commands of the last 30 days."`
	Uses    policyUsesCmd    `cmd:"" help:"List what agents asked for in the last 30 days, and which rule allows it."`
}

// Help shows examples.
func (policyCmd) Help() string {
	return "Examples:\n  drawbridge policy test\n  drawbridge policy compare allowlist.new.yaml\n  drawbridge policy uses"
}

type policyTestCmd struct {
	File      string `arg:"" optional:"" type:"path" help:"Read the tests from this file. The default is allowlist_test.yaml beside the allowlist."`
	Allowlist string `help:"Test this allowlist. The default is allowlist.yaml of this folder." placeholder:"FILE" type:"path"`
	Config    string `help:"Decide as a bridge with this configuration would. The default is bridge.yaml beside the allowlist, if it exists." placeholder:"FILE" type:"path"`
	JSON      bool   `help:"Print JSON."`
}

// Help shows a file of tests.
func (policyTestCmd) Help() string {
	return `The exit code is 0 if all tests pass, and 1 if one fails. No bridge runs, and nothing is recorded.

A test has what an agent says, and the answer that you want for each command: granted, held, refused or noted. This is an allowlist_test.yaml:

  tests:
    - says: "LOCAL_ACTION: backup_script"
      want: [granted]
    - name: docs-bot may not deploy
      agent: docs-bot
      says: "LOCAL_ACTION: deploy"
      want: [refused]
    - name: a bold line is no command
      says: "**LOCAL_ACTION: backup_script**"
      want: []

Example:

    drawbridge policy test`
}

// testFile is where tests of an allowlist stand.
const testFile = "allowlist_test.yaml"

// policyTests is what policy test --json prints.
type policyTests struct {
	Passed int          `json:"passed"`
	Failed []policyFail `json:"failed"`
}

// policyFail is a test that failed.
type policyFail struct {
	At   string   `json:"at"`
	Name string   `json:"name,omitempty"`
	Want []string `json:"want"`
	Got  []string `json:"got"`
	// Why has a sentence for each command that was answered in another way, and for each line that only looks like a command.
	Why []string `json:"why"`
}

// Run judges each test.
func (c policyTestCmd) Run(a app) error {
	allowlist, err := allowlistPath(c.Allowlist)
	if err != nil {
		return err
	}
	file := c.File
	if file == "" {
		file = filepath.Join(filepath.Dir(allowlist), testFile)
	}
	tests, problems := config.LoadCases(file)
	if len(problems) > 0 {
		return a.problems(file, problems)
	}
	p, cfg, err := asking{Config: c.Config}.rules(allowlist, a)
	if err != nil {
		return err
	}
	opts := parser.Options{}
	if cfg != nil {
		opts = parserOptions(cfg)
	}
	out := policyTests{Failed: []policyFail{}}
	for _, test := range tests {
		if fail := tested(p, opts, test); fail != nil {
			out.Failed = append(out.Failed, *fail)
		} else {
			out.Passed++
		}
	}
	if err := c.print(a, file, out); err != nil || len(out.Failed) == 0 {
		return err
	}
	return errNo
}

// tested judges what a test says; nil when it passes.
func tested(p *policy.Policy, opts parser.Options, test config.Case) *policyFail {
	found := parser.Read(test.Says, opts)
	judged := p.Judge(policy.Request{Agents: asking{Agent: test.Agent}.names(), Commands: found.Commands})
	fail := policyFail{At: test.At, Name: test.Name, Want: []string{}, Got: []string{}, Why: []string{}}
	for _, want := range test.Want {
		fail.Want = append(fail.Want, want.String())
	}
	wrong := found.Total != len(test.Want)
	for i, v := range judged.Verdicts {
		fail.Got = append(fail.Got, config.Answer{Decision: v.Decision, Code: v.Code}.String())
		want := "no command"
		if i < len(test.Want) {
			if test.Want[i].Decision == v.Decision && (test.Want[i].Code == "" || test.Want[i].Code == v.Code) {
				continue
			}
			want = fail.Want[i]
		}
		wrong = true
		cmd := found.Commands[i]
		fail.Why = append(fail.Why, fmt.Sprintf("line %d, %s: the allowlist says %s, but the test wants %s", cmd.Line, cmd.Verb, orAllowed(v), want))
	}
	if !wrong {
		return nil
	}
	if missing := len(test.Want) - found.Total; missing > 0 {
		fail.Why = append(fail.Why, fmt.Sprintf("the test wants %s, but the text has %s", words.Count(len(test.Want), "answer"), words.Count(found.Total, "command")))
	}
	for _, n := range found.NearMisses {
		fail.Why = append(fail.Why, fmt.Sprintf("line %d is not a command: %s", n.Line, n.Reason))
	}
	return &fail
}

// orAllowed is a verdict with its reason, or with the rule that allows it.
func orAllowed(v policy.Verdict) string {
	if v.Decision == policy.Granted && v.Rule != "" {
		return "granted by " + v.Rule
	}
	return v.String()
}

func (c policyTestCmd) print(a app, file string, out policyTests) error {
	if c.JSON {
		return printJSON(a.stdout, out)
	}
	var b strings.Builder
	for _, f := range out.Failed {
		fmt.Fprintf(&b, "FAIL %s", f.At)
		if f.Name != "" {
			fmt.Fprintf(&b, ": %s", short(f.Name, maxNote))
		}
		b.WriteString("\n")
		for _, why := range f.Why {
			fmt.Fprintf(&b, "     %s\n", why)
		}
	}
	if all := len(out.Failed) + out.Passed; len(out.Failed) > 0 {
		fmt.Fprintf(&b, "%d of %d tests in %s failed\n", len(out.Failed), all, file)
	} else {
		fmt.Fprintf(&b, "ok   %d tests in %s\n", all, file)
	}
	_, err := fmt.Fprint(a.stdout, shown(b.String()))
	return err
}

type policyCompareCmd struct {
	File string `arg:"" type:"path" help:"The edited allowlist."`
	target
}

// Help shows an example.
func (policyCompareCmd) Help() string {
	return "The bridge judges each recorded launch and action twice: with the allowlist in force, and with the edited one. It compares lists and approvals. It names the limits that change, and does not try them. Nothing changes. The exit code is 0 without a difference, and 1 with one.\n\nExample:\n  drawbridge policy compare allowlist.new.yaml"
}

// Run asks the bridge.
func (c policyCompareCmd) Run(ctx context.Context, a app) error {
	text, err := os.ReadFile(c.File)
	var path *fs.PathError
	if errors.As(err, &path) {
		return usageError{fmt.Errorf("read %s: %w; name the file with the edited allowlist", c.File, path.Err)}
	}
	if err != nil {
		return err
	}
	out, err := ask(c.target, a, func(client *api.Client) (api.Comparison, error) { return client.Compare(ctx, string(text)) })
	if err != nil {
		return err
	}
	if c.JSON {
		err = printJSON(a.stdout, out)
	} else {
		err = c.print(a, out)
	}
	if err == nil && len(out.Differences)+len(out.Limits) > 0 {
		return errNo
	}
	return err
}

func (c policyCompareCmd) print(a app, out api.Comparison) error {
	list := rows{head: []string{"NOW", "BEFORE", "COMMANDS", "LAST", "WHAT"}, none: fmt.Sprintf("the edited allowlist gives the same answer to all %s since %s", words.Count(out.Commands, "command"), out.Since.Format(time.DateOnly))}
	for _, d := range out.Differences {
		list.rows = append(list.rows, row{
			cells: []string{d.Now, d.Was, fmt.Sprint(d.Count), age(d.LastAt, time.Now()), d.Verb + " " + shown(d.Target)},
			notes: []string{"by " + shown(d.Users.String()), shown(d.Why)},
		})
	}
	if len(list.rows) > 0 || len(out.Limits) == 0 {
		if err := list.print(a.stdout); err != nil {
			return err
		}
	}
	for _, l := range out.Limits {
		fmt.Fprintln(a.stdout, shown(l))
	}
	if out.More {
		fmt.Fprintln(a.stdout, "There were too many different commands. The oldest are left out.")
	}
	return nil
}

type policyUsesCmd struct{ target }

// Help shows an example.
func (policyUsesCmd) Help() string {
	return "RULE is what allows it now, - if nothing does. The counts say how many commands passed, wait for a person, or were refused. The agents in parentheses are those at the top of the trees.\n\nExample:\n  drawbridge policy uses"
}

// Run lists uses.
func (c policyUsesCmd) Run(ctx context.Context, a app) error {
	out, err := ask(c.target, a, func(client *api.Client) (api.UseList, error) { return client.Uses(ctx) })
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.stdout, out)
	}
	list := rows{head: []string{"GRANTED", "WAITING", "REFUSED", "LAST", "RULE", "WHAT"}, none: "no agent asked for anything since " + out.Since.Format(time.DateOnly), wide: true}
	for _, u := range out.Uses {
		rule := u.Rule
		if rule == "" {
			rule = "-"
		}
		list.rows = append(list.rows, row{cells: []string{fmt.Sprint(u.Granted), fmt.Sprint(u.Waiting), fmt.Sprint(u.Refused), age(u.LastAt, time.Now()), repoShown(rule),
			fmt.Sprintf("%s %s (%s)", u.Verb, shown(repoShown(u.Target)), shown(u.Users.String()))}})
	}
	if err := list.print(a.stdout); err != nil || !out.More {
		return err
	}
	_, err = fmt.Fprintln(a.stdout, "There were too many different commands. The oldest are left out.")
	return err
}

// allowlistFile is the allowlist of a configuration.
type allowlistFile struct{ config *config.Bridge }

// Text implements api.AllowlistFile.
func (f allowlistFile) Text() (string, error) {
	text, err := os.ReadFile(f.config.Allowlist)
	if err != nil {
		return "", bridge.Errorf(bridge.Unavailable, "the allowlist file cannot be read: %s", err)
	}
	return string(text), nil
}

// Compile implements api.AllowlistFile.
func (f allowlistFile) Compile(text string) (*policy.Policy, error) {
	rules, problems := config.EditedAllowlist(text)
	if len(problems) == 0 {
		var p *policy.Policy
		if p, problems = f.config.Policy(rules); p != nil {
			return p, nil
		}
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.String()
	}
	return nil, bridge.Errorf(bridge.Invalid, "%s\nthe edited allowlist has %s; correct it and try again", strings.Join(lines, "\n"), words.Count(len(problems), "problem"))
}
