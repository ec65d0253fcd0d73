package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"drawbridge/internal/buildinfo"
	"drawbridge/relay/agents/host"
	"drawbridge/relay/agents/toolchain"
	"drawbridge/relay/link"
	"drawbridge/relay/runner"
	"drawbridge/relay/runner/audit"
	"drawbridge/relay/runner/control"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/sandbox"
	"drawbridge/relay/runner/service"
	"drawbridge/relay/runner/settings"
)

const checkDescription = `Check relay.yaml and print every problem with its line and remedy. Then print what this machine can enforce, and which settings of
each action it cannot enforce. Without --agents, the command starts nothing and changes nothing.

With --agents, the command also starts each agent of the file once, in its sandbox and in a home of its own, and ends it again.
The command prints the agent's version and protocol, how the agent continues sessions, and whether it is logged in. It also
prints the settings that the relay forces, and what will not work. It runs the compilers and package managers that the clones of
the agent ask for. The command sends no prompt, so it costs nothing. The exit code is 1 if an agent will not work.`

// checkCmd are the flags of check.
type checkCmd struct {
	home
	Agents bool
}

func newCheck(s streams) *cobra.Command {
	var c checkCmd
	cmd := command(help{"check", "Check relay.yaml and print every problem with its line and remedy", checkDescription,
		"  drawbridge-relay check --config relay.yaml\n  drawbridge-relay check --agents"},
		func(ctx context.Context) error { return c.run(ctx, s) })
	c.flags(cmd.Flags())
	cmd.Flags().BoolVar(&c.Agents, "agents", false, "start each agent of the file once and say what will not work")
	return cmd
}

// run checks the file, and the agents when asked to.
func (c checkCmd) run(ctx context.Context, s streams) error {
	if !c.Agents {
		return check(ctx, s, c.home)
	}
	// The umask is one per process, and agents inherit it.
	syscall.Umask(0o077)
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := check(ctx, s, c.home); err != nil {
		return err
	}
	return checkAgents(ctx, s, c.Config)
}

// checkAgents starts each agent once. Its error counts those that will not work.
func checkAgents(ctx context.Context, s streams, path string) error {
	config, err := settings.Load(path, os.LookupEnv)
	if err != nil {
		return err
	}
	if len(config.Agents) == 0 {
		return errors.New(path + " lists no agents; add an entry below agents:")
	}
	pool, err := keeper.NewPool(true)
	if err != nil {
		return err
	}
	defer pool.Close()
	h := host.Host{Config: config, Executor: pool, Ability: sandbox.Probe(ctx, nil), Version: buildinfo.Version()}
	failed := 0
	for _, name := range slices.Sorted(maps.Keys(config.Agents)) {
		r := h.Check(ctx, name)
		if len(r.Problems) > 0 {
			failed++
		}
		printReport(s.out, r)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %s will not work", failed, counted(len(config.Agents), "agent", "agents"))
	}
	return nil
}

func printReport(w io.Writer, r host.Report) {
	fmt.Fprintf(w, "agent %s\n", r.Name)
	for _, line := range r.Lines {
		fmt.Fprintf(w, "  %-9s %s\n", line[0], line[1])
	}
	for _, problem := range r.Problems {
		fmt.Fprintf(w, "  WILL NOT WORK: %s\n", problem)
	}
}

// check prints what a good file allows, and what the machine makes of it.
func check(ctx context.Context, s streams, h home) error {
	config, err := settings.Load(h.Config, os.LookupEnv)
	if err != nil {
		return err
	}
	doors, err := h.doors(config)
	if err != nil {
		return err
	}
	lacks := toolchain.Lacks(config)
	well := "all is well"
	if n := len(config.Warnings) + len(lacks); n > 0 {
		well = "the relay starts, with " + counted(n, "warning", "warnings")
	}
	fmt.Fprintf(s.out, "%s: %s; %s, to be served %s\n", h.Config, well, counted(len(config.Actions), "action", "actions"), doors)
	for _, w := range config.Warnings {
		fmt.Fprintf(s.out, "WARNING %s\n", w)
	}
	for _, l := range lacks {
		fmt.Fprintf(s.out, "WARNING %s; install what is missing, and list its folder in tools: path: of %s\n", l, h.Config)
	}
	if len(config.Agents) > 0 {
		fmt.Fprintf(s.out, "%s for %s\n", counted(len(config.Agents), "agent", "agents"), counted(len(config.Repos), "repository", "repositories"))
	}
	if report, err := audit.Verify(filepath.Join(config.State, runner.AuditName), ""); err == nil && report.File != "" && report.File != config.SHA256 {
		fmt.Fprintf(s.out, "changed since the last start: its sha256 is %s and was %s\n", config.SHA256, report.File)
	}
	if control.Switched(config.State) {
		fmt.Fprintln(s.out, "the kill switch is on: the relay refuses everything until you run drawbridge-relay start")
	}
	ability := sandbox.Probe(ctx, nil)
	fmt.Fprintf(s.out, "sandbox here: %s\n", ability)
	if pool, err := keeper.NewPool(true); err == nil {
		fmt.Fprintf(s.out, "process trees are ended by: %s\n", pool)
		pool.Close()
	}
	for _, id := range slices.Sorted(maps.Keys(config.Actions)) {
		fmt.Fprintf(s.out, "  %-20s %s\n", id, describe(config, id, ability))
	}
	return nil
}

// doors is where the actions can be asked for, and by whom.
func (h home) doors(config settings.Config) (string, error) {
	i, err := link.Load(h.identity())
	joined := fmt.Sprintf("%s, which knows this machine as %s", i.Bridge, i.Relay)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	case err != nil && config.Listens():
		return "at " + config.Door(), nil
	case err != nil:
		return "after this relay has joined a bridge: " + runner.NotJoined, nil
	case config.Listens():
		return "at " + config.Door() + " and to " + joined, nil
	default:
		return "to " + joined, nil
	}
}

// describe is an action in one line.
func describe(config settings.Config, id string, ability sandbox.Ability) string {
	a := config.Actions[id]
	parts := []string{"approval " + a.Approval.String()}
	if a.Approval.Needed() {
		parts[0] += " at the " + strings.Replace(a.Approval.By, settings.AtEither, "machine or bridge", 1)
	}
	if a.Sandbox != nil {
		plan := runner.Plan(config, a, ability)
		parts = append(parts, "sandbox "+plan.String())
		if missing := plan.Missing(); missing != "" {
			parts = append(parts, "NOT HERE: "+missing)
		}
	}
	if bounds := a.Bounds.String(); bounds != "" {
		parts = append(parts, bounds)
		if !keeper.Bounds {
			parts = append(parts, "NOT HERE: memory, open files, file size and processor time are not limited")
		}
	}
	if a.SHA256 != "" {
		parts = append(parts, "pinned")
	}
	if len(a.Files) > 0 {
		parts = append(parts, counted(len(a.Files), "file", "files")+" pinned")
	}
	return strings.Join(parts, "; ")
}

const auditDescription = `Check that no line of the audit log was changed, taken out, moved or cut off.

Each line holds the hash of the line before it. A file beside the log holds the last hash. A person who can write both files
can forge both. To detect this, keep the hash that this command prints in another place. Give that hash with --contains
the next time.`

type auditVerify struct {
	Config, Log, Contains string
}

func newAudit(s streams) *cobra.Command {
	const example = "  drawbridge-relay audit verify --config relay.yaml"
	var c auditVerify
	verify := command(help{"verify", "Check that no line of the audit log was changed, taken out, moved or cut off", auditDescription, example},
		func(context.Context) error { return c.run(s) })
	configFlag(verify.Flags(), &c.Config)
	verify.Flags().StringVar(&c.Log, "log", "", "verify this `FILE` instead of the log in the state folder of this relay")
	verify.Flags().StringVar(&c.Contains, "contains", "", "require that the log contains this `HASH` of an earlier line, which you kept elsewhere")
	audit := group(help{"audit", "The audit log", "Verify the audit log. The log has one line for each request, with the outcome of the request.", example})
	audit.AddCommand(verify)
	return audit
}

// run prints where a log is broken, or its head.
func (c auditVerify) run(s streams) error {
	path := c.Log
	if path == "" {
		state, err := settings.StateOf(c.Config, os.LookupEnv)
		if err != nil {
			return err
		}
		path = filepath.Join(state, runner.AuditName)
	}
	report, err := audit.Verify(path, c.Contains)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	fmt.Fprintf(s.out, "%s: %s, whole; the last hash is %s\n", path, counted(int(report.Head.Seq), "line", "lines"), report.Head.Hash)
	if report.Torn > 0 {
		fmt.Fprintf(s.out, "an unfinished line follows, as after a kill (size %d); the relay removes it at its next start\n", report.Torn)
	}
	if report.NoHead && report.Head.Seq > 0 {
		return fmt.Errorf("%s%s is missing or empty, so this check cannot detect lines that were removed at the end", path, audit.HeadSuffix)
	}
	return nil
}

const installDescription = `Write a service file, so that the relay runs whenever you are logged in. The file is a systemd user unit or a launchd agent for
this program and this relay.yaml. The command prints what to type next. It starts nothing, and it does not replace an existing file.`

type install struct {
	Config, Kind string
	Print        bool
}

func newInstall(s streams) *cobra.Command {
	var c install
	cmd := command(help{"install", "Write a service file, so that the relay runs whenever you are logged in", installDescription, "  drawbridge-relay install --config ~/bridge/relay.yaml"},
		func(context.Context) error { return c.run(s) })
	configFlag(cmd.Flags(), &c.Config)
	cmd.Flags().BoolVar(&c.Print, "print", false, "print the file instead of writing it")
	cmd.Flags().StringVar(&c.Kind, "kind", "auto", "the service `MANAGER`: auto, systemd or launchd")
	return cmd
}

// run writes or prints the file.
func (c install) run(s streams) error {
	kind := c.Kind
	switch c.Kind {
	case service.Systemd, service.Launchd:
	case "auto":
		kind = map[string]string{"linux": service.Systemd, "darwin": service.Launchd}[runtime.GOOS]
	default:
		return &usageError{"drawbridge-relay install", fmt.Errorf("--kind %q must be one of auto, systemd, launchd", c.Kind)}
	}
	if _, err := settings.Load(c.Config, os.LookupEnv); err != nil {
		return err
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
	if _, err := settings.Load(c.Config, serviceEnv); err != nil {
		fmt.Fprintf(s.err, "a service does not get the variables of this shell: put their values into files and write ${file:path}, or set them in %s\n%v\n", file.Path, err)
	}
	_, err = fmt.Fprintf(s.out, "wrote %s; next:\n  %s\n", file.Path, file.Next)
	return err
}

// serviceEnv finds what every service manager sets for its services.
func serviceEnv(name string) (string, bool) {
	if !slices.Contains([]string{"HOME", "USER", "LOGNAME", "SHELL", "PATH"}, name) {
		return "", false
	}
	return os.LookupEnv(name)
}

// counted writes a number with its noun.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
