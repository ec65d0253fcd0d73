package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"drawbridge/api"
	"drawbridge/config"
	"drawbridge/parser"
	"drawbridge/policy"
)

type parseCmd struct {
	JSON      bool     `help:"Print JSON."`
	Allowlist string   `help:"Check the commands against this allowlist and the bridge.yaml beside it." placeholder:"FILE" type:"path"`
	Fenced    string   `help:"Choose what to do with commands in code fences: ignore or run. bridge.yaml can also choose run." enum:"ignore,run" default:"ignore"`
	Enable    []string `help:"Also read these optional commands: remind, webhook_result." enum:"remind,webhook_result" placeholder:"NAME"`
	asking
}

// Help shows an example.
func (parseCmd) Help() string {
	return "Reads a turn's text from standard input.\n\nExample:\n  echo 'LOCAL_ACTION: backup_script' | drawbridge parse --allowlist allowlist.yaml"
}

// Run parses standard input.
func (c parseCmd) Run(a app) error {
	var p *policy.Policy
	opts := parser.Options{Fenced: parser.Fenced(c.Fenced)}
	if c.Allowlist != "" {
		var cfg *config.Bridge
		var err error
		if p, cfg, err = c.rules(c.Allowlist, a); err != nil {
			return err
		}
		if cfg != nil {
			opts = parserOptions(cfg)
		}
		if c.Fenced == string(parser.FencedRun) {
			opts.Fenced = parser.FencedRun
		}
	} else if c.Config != "" || c.Agent != "" {
		return usageError{errors.New("--config and --agent need an allowlist; add --allowlist FILE")}
	}
	commands, misses, err := c.read(a.stdin, opts)
	if err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	var judged *policy.Judgement
	if p != nil {
		j := p.Judge(policy.Request{Agents: c.names(), Commands: commands})
		judged = &j
	}
	out := api.ReadingOf(commands, misses, judged)
	if c.JSON {
		return printJSON(a.stdout, out)
	}
	return printParsed(a.stdout, out)
}

// read feeds the parser from a stream, so that prose of any size costs no memory.
func (c parseCmd) read(r io.Reader, opts parser.Options) (commands []parser.Command, misses []parser.NearMiss, err error) {
	for _, name := range c.Enable {
		opts.Remind = opts.Remind || name == "remind"
		opts.WebhookResult = opts.WebhookResult || name == "webhook_result"
	}
	p := parser.New(opts, parser.Handler{
		Command:  func(c parser.Command) { commands = append(commands, c) },
		NearMiss: func(n parser.NearMiss) { misses = append(misses, n) },
	})
	if _, err := io.CopyBuffer(p, onlyReader{r}, make([]byte, 256<<10)); err != nil {
		return nil, nil, err
	}
	return commands, misses, p.Close()
}

// onlyReader hides WriterTo, so that the copy uses our buffer.
type onlyReader struct{ io.Reader }

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func printParsed(out io.Writer, p api.Reading) error {
	w := bufio.NewWriter(out)
	if p.OverCap != "" {
		fmt.Fprintf(w, "nothing runs: %s\n", p.OverCap)
	}
	for _, c := range p.Commands {
		fmt.Fprintf(w, "line %d: %s\n", c.Line, describeRow(c))
		if c.Verdict != nil {
			fmt.Fprintf(w, "  %s%s\n", *c.Verdict, verdictTail(c))
		}
	}
	for _, n := range p.NearMisses {
		fmt.Fprintf(w, "line %d: not a command: %s\n  %s\n", n.Line, n.Text, n.Reason)
	}
	if len(p.Commands)+len(p.NearMisses) == 0 {
		fmt.Fprintln(w, "no commands and nothing that looks like one")
	}
	return w.Flush()
}

func verdictTail(c api.ReadCommand) string {
	switch {
	case *c.Reason != "":
		return ": " + *c.Reason
	case *c.Canonical != "":
		return ": " + *c.Canonical
	}
	return ""
}

func describeRow(c api.ReadCommand) string {
	s := c.Verb
	for _, f := range []struct {
		name  string
		value *string
	}{{"repo", c.Repo}, {"prompt", c.Prompt}, {"action", c.Action}, {"when", c.When}, {"message", c.Message}, {"agent_id", c.AgentID}, {"status", c.Status}} {
		if f.value != nil {
			s += fmt.Sprintf(" %s=%q", f.name, *f.value)
		}
	}
	return s
}

// asking says for whom and for which bridge the policy judges.
type asking struct {
	Config string `help:"Decide as a bridge with this configuration would, with its orchestrators, relays and parser settings. The default is bridge.yaml beside the allowlist, if it exists." placeholder:"FILE" type:"path"`
	Agent  string `help:"Judge the commands as those of this agent: the allowlist may give it less." placeholder:"NAME"`
}

// names are the agents of a policy request.
func (k asking) names() []string {
	if k.Agent == "" {
		return nil
	}
	return []string{k.Agent}
}

// rules compiles an allowlist as the bridge would: with the orchestrators' own repositories, which agents may not use, and
// the relays of bridge.yaml. cfg is nil where there is not a bridge.yaml; only what LoadToJudge reads of it counts.
func (k asking) rules(allowlist string, a app) (p *policy.Policy, cfg *config.Bridge, err error) {
	path := k.Config
	if path == "" {
		path = filepath.Join(filepath.Dir(allowlist), "bridge.yaml")
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			p, err := loadPolicy(allowlist, a)
			return p, nil, err
		}
	}
	cfg, problems := config.LoadToJudge(path, a.getenv)
	if len(problems) > 0 {
		return nil, nil, a.problems(path, problems)
	}
	rules, problems := config.PreviewAllowlist(allowlist)
	if len(problems) > 0 {
		return nil, nil, a.problems(allowlist, problems)
	}
	p, problems = cfg.Policy(rules)
	if len(problems) > 0 {
		return nil, nil, a.problems(allowlist, problems)
	}
	return p, cfg, nil
}

// loadPolicy reads an allowlist and compiles it, or tells every problem.
func loadPolicy(path string, a app) (*policy.Policy, error) {
	rules, problems := config.PreviewAllowlist(path)
	if len(problems) > 0 {
		return nil, a.problems(path, problems)
	}
	p, bad := policy.New(rules)
	if len(bad) > 0 {
		return nil, a.problems(path, config.Problems(bad))
	}
	return p, nil
}

// defaultAllowlist is used when no --allowlist is given.
const defaultAllowlist = "allowlist.yaml"

func allowlistPath(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	if _, err := os.Stat(defaultAllowlist); errors.Is(err, fs.ErrNotExist) {
		return "", usageError{fmt.Errorf("no %s in this folder; name one with --allowlist FILE, or write one with `drawbridge init`", defaultAllowlist)}
	}
	return defaultAllowlist, nil
}
