// Command drawbridge-relay runs on the user's machine and executes the actions of its own list when the bridge asks.
//
// It is flags, signals and exit codes around package runner, and decides nothing. Rule of thumb: what is worth a test of
// its own belongs into runner.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"drawbridge/internal/buildinfo"
	"drawbridge/internal/lifecycle"
	"drawbridge/internal/logs"
	"drawbridge/relay/agents/hosting"
	"drawbridge/relay/link"
	"drawbridge/relay/runner"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/settings"
)

// Exit codes.
const (
	exitOK      = 0
	exitProblem = 1
	exitUsage   = 2
)

const description = `Run listed actions on this machine when the bridge asks for them, and refuse everything else.

A relay.yaml to start from:
  listen: none
  actions:
    backup_script:
      argv: [/usr/local/bin/backup, --quick]

Exit codes: 0 all is well, 1 something is wrong and is said on stderr, 2 the command line is wrong.`

const examples = `  drawbridge-relay check --config relay.yaml    # say everything that is wrong with the file
  drawbridge-relay join drawbridge://…          # once: what drawbridge relay token laptop printed at the bridge
  drawbridge-relay run --config relay.yaml      # dial the bridge and run the actions of the file
  drawbridge-relay stop                         # refuse everything and end what runs, until drawbridge-relay start`

const runDescription = `Serve the actions of relay.yaml until interrupted. When the relay is ready, it writes a line "ready" with its address to stderr.

The relay runs every request id at most once. The journal keeps the outcome of each request for 24 hours, even over a restart.
The journal is relay.journal beside relay.yaml, or the file that journal: in relay.yaml names. If the relay is killed while a
request runs, the relay answers that id with "interrupted" and never runs it again. One journal serves one relay. If the relay
says that its journal is damaged, restore the journal, or move it away. Even then the relay does not rerun requests that the
audit log shows as started within 24 hours.`

type runCmd struct {
	home
	Bridge string
	Log    string
	Grace  time.Duration
}

func newRun(s streams) *cobra.Command {
	var c runCmd
	cmd := command(help{"run", "Serve the actions of relay.yaml until interrupted", runDescription, "  drawbridge-relay run --config relay.yaml"},
		func(ctx context.Context) error { return c.run(ctx, s) })
	c.flags(cmd.Flags())
	cmd.Flags().StringVar(&c.Bridge, "bridge", "", "dial this `URL` instead of the one that this relay joined at")
	cmd.Flags().StringVar(&c.Log, "log", logs.Auto, "write the log in this `FORMAT`: json, console, or auto (console at a terminal, json elsewhere)")
	cmd.Flags().DurationVar(&c.Grace, "grace", 10*time.Second, "let running actions finish within this `TIME` after an interrupt, such as 10s")
	return cmd
}

// streams are where a command writes.
type streams struct {
	out, err io.Writer
}

func main() {
	keeper.Main()
	os.Exit(run(os.Args[1:], streams{out: os.Stdout, err: os.Stderr}))
}

func run(args []string, s streams) int {
	root := newRoot(s)
	root.SetArgs(args)
	err := root.ExecuteContext(context.Background())
	var wrong *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &wrong):
		complain(s.err, err)
		fmt.Fprintln(s.err, "See: "+wrong.path+" --help")
		return exitUsage
	}
	complain(s.err, err)
	return exitProblem
}

func newRoot(s streams) *cobra.Command {
	root := group(help{"drawbridge-relay", "Run listed actions on this machine when the bridge asks for them", description, examples})
	root.SilenceErrors, root.SilenceUsage = true, true
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	root.Version = buildinfo.Version()
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return &usageError{cmd.CommandPath(), err} })
	root.AddCommand(newRun(s), newCheck(s), newApprovals(s), newDecision(s, true), newDecision(s, false), newStop(s), newStart(s),
		newStatus(s), newWorkspaces(s), newLogin(s), newAudit(s), newInstall(s), newInit(s), newJoin(s), newBridge(s), newKeys(s), newVersion(s), newMCP(s))
	return root
}

// usageError is a command line that cannot be understood.
type usageError struct {
	path string
	err  error
}

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

// help is what is said about a command: its use line, a line in the list of commands, and what --help says beside the flags.
type help struct {
	use, short, long, example string
}

func (h help) command() *cobra.Command {
	return &cobra.Command{Use: h.use, Short: h.short, Long: h.long, Example: h.example, DisableFlagsInUseLine: true, SuggestionsMinimumDistance: 2}
}

// command is a leaf that takes no arguments.
func command(h help, run func(context.Context) error) *cobra.Command {
	cmd := h.command()
	cmd.Args = usage(cobra.NoArgs)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return run(cmd.Context()) }
	return cmd
}

// group is a command that only has others under it.
func group(h help) *cobra.Command {
	cmd := h.command()
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		message := fmt.Sprintf("unknown command %q", args[0])
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			message += "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return &usageError{cmd.CommandPath(), errors.New(message)}
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var names []string
		for _, c := range cmd.Commands() {
			names = append(names, c.Name())
		}
		return &usageError{cmd.CommandPath(), errors.New("give one of " + strings.Join(names, ", "))}
	}
	return cmd
}

// usage makes a rule's complaint one about the command line.
func usage(rule cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := rule(cmd, args); err != nil {
			return &usageError{cmd.CommandPath(), err}
		}
		return nil
	}
}

// configFlag is --config of every command.
func configFlag(f *pflag.FlagSet, path *string) {
	f.StringVar(path, "config", "relay.yaml", "read this `FILE`")
}

func complain(w io.Writer, err error) {
	var config *settings.Error
	if errors.As(err, &config) {
		fmt.Fprintln(w, err)
		return
	}
	fmt.Fprintln(w, "drawbridge-relay:", err)
}

// Run serves until SIGINT or SIGTERM.
func (c runCmd) run(ctx context.Context, s streams) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// From the first signal on, a second one ends the process the hard way.
	defer context.AfterFunc(ctx, stop)()
	ctx, release := lifecycle.UntilParentEnds(ctx, os.LookupEnv)
	defer release()
	if !slices.Contains([]string{logs.Auto, logs.JSON, logs.Console}, c.Log) {
		return &usageError{"drawbridge-relay run", fmt.Errorf("--log %q must be one of auto, json, console", c.Log)}
	}
	beside, err := link.Beside(c.identity(), c.Bridge)
	if err != nil {
		return err
	}
	if beside == nil && c.Identity != "" {
		_, err := loadIdentity(c.Identity)
		return err
	}
	return runner.Main(ctx, runner.MainOptions{ConfigPath: c.Config, Env: os.LookupEnv, Log: logs.Writer(s.err, c.Log), Grace: c.Grace, Terminal: terminal(), Beside: beside, Agents: hosting.Agents(buildinfo.Version(), "mcp")})
}

// terminal is where a person sits who started the relay in the foreground, or nil.
func terminal() io.ReadWriteCloser {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	foreground, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	if err != nil || foreground != unix.Getpgrp() {
		_ = tty.Close()
		return nil
	}
	return tty
}

func newVersion(s streams) *cobra.Command {
	return command(help{"version", "Print the version", "Print the version that this program was built from.", "  drawbridge-relay version"}, func(context.Context) error {
		_, err := fmt.Fprintln(s.out, "drawbridge-relay", buildinfo.Version())
		return err
	})
}
