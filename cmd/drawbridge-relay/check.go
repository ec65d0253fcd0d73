package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"drawbridge/relay/runner"
	"drawbridge/relay/runner/audit"
	"drawbridge/relay/runner/control"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/sandbox"
	"drawbridge/relay/runner/service"
	"drawbridge/relay/runner/settings"
)

type checkCmd struct {
	Config string `default:"relay.yaml" placeholder:"FILE" help:"Path of relay.yaml."`
}

// Help is what check --help says beside the flags.
func (checkCmd) Help() string {
	return `Every problem of the file comes with its line and remedy; then what this machine can do, and what of each action it cannot.
Nothing is started and nothing is changed.

Example:
  drawbridge-relay check --config relay.yaml`
}

// Run prints what a good file allows, and what the machine makes of it.
func (c checkCmd) Run(ctx context.Context, s streams) error {
	config, err := settings.Load(c.Config, os.LookupEnv)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s: all is well; %d actions, to be served at %s\n", c.Config, len(config.Actions), config.Door())
	if control.Switched(config.State) {
		fmt.Fprintln(s.out, "the kill switch is on: everything is refused until drawbridge-relay start")
	}
	ability := sandbox.Probe(ctx, nil)
	fmt.Fprintf(s.out, "sandbox here: %s\n", ability)
	if pool, err := keeper.NewPool(true); err == nil {
		fmt.Fprintf(s.out, "process trees are ended by: %s\n", pool)
		pool.Close()
	}
	for _, id := range slices.Sorted(maps.Keys(config.Actions)) {
		fmt.Fprintf(s.out, "  %-20s %s\n", id, describe(config.Actions[id], ability))
	}
	return nil
}

// describe is an action in one line.
func describe(a settings.Action, ability sandbox.Ability) string {
	parts := []string{"approval " + a.Approval.String()}
	if a.Approval.Needed() {
		parts[0] += " at the " + strings.Replace(a.Approval.By, settings.AtEither, "machine or bridge", 1)
	}
	if a.Sandbox != nil {
		plan := ability.Plan(sandbox.Wish{Read: a.Sandbox.Read, Write: a.Sandbox.Write, Network: a.Sandbox.Network})
		parts = append(parts, "sandbox "+plan.String())
		if missing := plan.Missing(); missing != "" {
			parts = append(parts, "NOT HERE: "+missing)
		}
	}
	if a.SHA256 != "" {
		parts = append(parts, "pinned")
	}
	return strings.Join(parts, "; ")
}

type auditCmd struct {
	Verify auditVerifyCmd `cmd:"" help:"Check that no line of the audit log was changed, taken out, moved or cut off."`
}

type auditVerifyCmd struct {
	Config   string `default:"relay.yaml" placeholder:"FILE" help:"Path of relay.yaml."`
	Log      string `placeholder:"FILE" help:"Path of the log, instead of the one that relay.yaml leads to."`
	Contains string `placeholder:"HASH" help:"A hash of an earlier line that you kept elsewhere; the log must contain it."`
}

// Help is what audit verify --help says beside the flags.
func (auditVerifyCmd) Help() string {
	return `Each line holds the hash of the one before it, and a file beside the log holds the last. Whoever can write both can write
both anew; to notice that, keep the hash that this command prints somewhere else and give it next time with --contains.

Example:
  drawbridge-relay audit verify --config relay.yaml`
}

// Run prints where a log is broken, or its head.
func (c auditVerifyCmd) Run(s streams) error {
	path := c.Log
	if path == "" {
		config, err := settings.Load(c.Config, os.LookupEnv)
		if err != nil {
			return err
		}
		path = filepath.Join(config.State, runner.AuditName)
	}
	report, err := audit.Verify(path, c.Contains)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	fmt.Fprintf(s.out, "%s: %d lines, whole; the last hash is %s\n", path, report.Head.Seq, report.Head.Hash)
	if report.Torn > 0 {
		fmt.Fprintf(s.out, "%d bytes follow that are no whole line, as a kill leaves them; the next start takes them out\n", report.Torn)
	}
	if report.NoHead && report.Head.Seq > 0 {
		return fmt.Errorf("%s%s is missing or empty, so that lines cut off the end would not show", path, audit.HeadSuffix)
	}
	return nil
}

type installCmd struct {
	Config string `default:"relay.yaml" placeholder:"FILE" help:"Path of relay.yaml."`
	Print  bool   `help:"Print the file instead of writing it."`
	Kind   string `default:"auto" enum:"auto,systemd,launchd" help:"The service manager: ${enum}."`
}

// Help is what install --help says beside the flags.
func (installCmd) Help() string {
	return `It writes a systemd user unit or a launchd agent for this binary and this relay.yaml and says what to type next. It starts
nothing, and replaces no file that is there already.

Example:
  drawbridge-relay install --config ~/bridge/relay.yaml`
}

// Run writes or prints the file.
func (c installCmd) Run(s streams) error {
	if _, err := settings.Load(c.Config, os.LookupEnv); err != nil {
		return err
	}
	kind := map[string]string{"auto/linux": service.Systemd, "auto/darwin": service.Launchd}[c.Kind+"/"+runtime.GOOS]
	if c.Kind != "auto" {
		kind = c.Kind
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	config, err := filepath.Abs(c.Config)
	if err != nil {
		return err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return err
	}
	file, err := service.For(service.Options{Kind: kind, Program: program, Config: config, Home: home})
	if err != nil {
		return err
	}
	if c.Print {
		_, err := fmt.Fprint(s.out, file.Text)
		return err
	}
	if err := file.Write(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "wrote %s; next:\n  %s\n", file.Path, file.Next)
	return err
}
