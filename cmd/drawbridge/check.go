package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"drawbridge/cmd/drawbridge/internal/handout"
	"drawbridge/cmd/drawbridge/internal/probe"
	"drawbridge/config"
	"drawbridge/policy"
	"drawbridge/scripted"
)

type checkCmd struct {
	Config  string `help:"Check this configuration. The default is bridge.yaml here, that of a running drawbridge up, or one in a folder above." env:"DRAWBRIDGE_CONFIG" placeholder:"FILE" type:"path"`
	Offline bool   `help:"Only read the files, and contact no server."`
	Free    uint32 `help:"Require this many MiB of free space on the disks of the database and of the files." default:"512" env:"DRAWBRIDGE_CHECK_FREE" placeholder:"MIB"`
	JSON    bool   `help:"Print JSON."`
}

// Help shows an example.
func (checkCmd) Help() string {
	return "The exit code is 0 if the check finds no problem, and 1 otherwise.\n\nExample:\n  drawbridge check --config bridge.yaml"
}

// Run checks everything and lists all problems at once.
func (c checkCmd) Run(ctx context.Context, a app) error {
	c.Config, _ = connection{Config: c.Config}.find(a)
	findings, cfg := c.files(a)
	if cfg != nil && !c.Offline {
		findings = append(findings, probe.Disks(cfg, uint64(c.Free)<<20)...)
		findings = append(findings, probe.All(ctx, cfg, newCloud)...)
		findings = append(findings, askModels(ctx, cfg)...)
		findings = append(findings, askEndpoints(ctx, cfg)...)
	}
	ok := true
	for _, f := range findings {
		ok = ok && f.OK
		if !c.JSON {
			word := "ok     "
			what := f.What + ": "
			switch {
			case !f.OK:
				word = "PROBLEM"
			case f.What == "warning":
				word, what = "WARNING", ""
			}
			if strings.HasPrefix(f.Detail, f.What) {
				what = "" // a problem names its file itself
			}
			fmt.Fprintf(a.stdout, "%s %s%s\n", word, what, f.Detail)
		}
	}
	if c.JSON {
		if err := printJSON(a.stdout, map[string]any{"ok": ok, "findings": findings}); err != nil {
			return err
		}
	}
	if !ok {
		return errNo
	}
	return nil
}

// files checks what stands on disk.
func (c checkCmd) files(a app) (out []probe.Finding, cfg *config.Bridge) {
	cfg, problems := config.Load(c.Config, a.getenv)
	if cfg != nil {
		problems = append(problems, cfg.ServeProblems()...)
	}
	out = append(out, problemFindings(c.Config, problems)...)
	if cfg != nil {
		out = append(out, runtimeFindings(cfg)...)
		out = append(out, nameFindings(cfg)...)
		out = append(out, warningFindings(cfg.Warnings())...)
		if notice, wanted := cfg.CloudNotice(); notice != "" && !wanted {
			out = append(out, probe.Finding{What: "Cloud Agents API", OK: true, Detail: notice})
		}
	}
	if cfg == nil {
		for _, p := range besideProblems(c.Config) {
			out = append(out, probe.Finding{What: p.At, Detail: p.String()})
		}
		return out, nil
	}
	rules, problems := config.LoadAllowlist(cfg.Allowlist)
	if len(problems) == 0 {
		var warnings []config.Problem
		p, more := cfg.Policy(rules)
		problems = more
		if p != nil {
			warnings = config.Problems(p.Warnings())
		}
		out = append(out, warningFindings(warnings)...)
		if p != nil {
			out = append(out, muteTeams(cfg, rules)...)
			out = append(out, toolCaps(cfg, rules)...)
		}
		if p != nil && len(rules.Repos)+len(rules.Actions) == 0 {
			out = append(out, probe.Finding{What: "warning", OK: true, Detail: cfg.Allowlist + " is empty, so agents may do nothing; list repositories and actions there"})
		}
		if p != nil {
			out = append(out, pageFindings(filepath.Join(filepath.Dir(c.Config), "drawbridge.mdc"), p, cfg)...)
		}
	}
	return append(out, problemFindings(cfg.Allowlist, problems)...), cfg
}

// pageFindings compares the page for agents with what drawbridge protocol would write now: for all agents, or for one of the
// orchestrators. A folder without the page has no finding.
func pageFindings(path string, p *policy.Policy, cfg *config.Bridge) []probe.Finding {
	there, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	names := []string{""}
	for _, o := range cfg.Orchestrators[:min(len(cfg.Orchestrators), maxPages)] {
		names = append(names, o.Name)
	}
	for _, name := range names {
		var now bytes.Buffer
		if err := handout.Write(&now, p, pageOptions(cfg, name)); err == nil && bytes.Equal(now.Bytes(), there) {
			return []probe.Finding{{What: path, OK: true, Detail: "agrees with the allowlist"}}
		}
	}
	return []probe.Finding{{What: path, Detail: "differs from the allowlist; write the page again with `drawbridge protocol > " + path + "`, and commit it into the orchestrator's repository"}}
}

// nameFindings warns of orchestrators that have a name which a new agent could not get.
// They keep it: rules and agents may refer to it already.
func nameFindings(cfg *config.Bridge) (out []probe.Finding) {
	for _, o := range cfg.Orchestrators {
		if word := policy.ReservedName(o.Name); word != "" {
			out = append(out, probe.Finding{What: "warning", OK: true, Detail: fmt.Sprintf(
				"orchestrator %s keeps its name, but the name reads like %q, which the bridge reserves; name a new orchestrator after its task, such as docs", o.Name, word)})
		}
	}
	return out
}

// maxPages is for how many orchestrators the page is compared; writing one takes its time with a long allowlist.
const maxPages = 20

// runtimeFindings says where agents live besides the cloud, and reads what stand-ins follow.
func runtimeFindings(cfg *config.Bridge) (out []probe.Finding) {
	for _, name := range slices.Sorted(maps.Keys(cfg.Runtimes)) {
		r := cfg.Runtimes[name]
		if r.Kind == "relay" {
			out = append(out, probe.Finding{What: "runtime " + name, OK: true, Detail: fmt.Sprintf("the entry %s of relay %s hosts its agents; to see whether they start, run at that machine: drawbridge-relay check --agents", r.Agent, r.Relay)})
			continue
		}
		if r.Kind == kindChat {
			out = append(out, probe.Finding{What: "runtime " + name, OK: true, Detail: fmt.Sprintf("a chat model: %s at %s; its agents act by tools alone", r.Model, r.URL)})
			continue
		}
		f := probe.Finding{What: "runtime " + name, OK: true, Detail: "a stand-in without a model: its agents follow " + r.Script}
		if _, err := scripted.Load(r.Script); err != nil {
			f.OK, f.Detail = false, err.Error()
		}
		out = append(out, f)
	}
	return out
}

func warningFindings(warnings []config.Problem) (out []probe.Finding) {
	for _, w := range warnings {
		out = append(out, probe.Finding{What: "warning", OK: true, Detail: w.String()})
	}
	return out
}

func problemFindings(file string, problems []config.Problem) []probe.Finding {
	if len(problems) == 0 {
		return []probe.Finding{{What: file, OK: true, Detail: "reads well"}}
	}
	out := make([]probe.Finding, len(problems))
	for i, p := range problems {
		out[i] = probe.Finding{What: file, Detail: p.String()}
	}
	return out
}
