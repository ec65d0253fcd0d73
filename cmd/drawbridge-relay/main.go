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
	"runtime/debug"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/sys/unix"

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

Examples:
  drawbridge-relay check --config relay.yaml    say everything that is wrong with the file
  drawbridge-relay run --config relay.yaml      serve the actions of the file
  drawbridge-relay stop                         refuse everything and end what runs, until drawbridge-relay start

A relay.yaml to start from:
  listen: 127.0.0.1:7420
  token: ${file:relay.token}
  journal: relay.journal
  actions:
    backup_script:
      argv: [/usr/local/bin/backup, --quick]

Make a token:
  (umask 077; openssl rand -hex 32 > relay.token)

Exit codes: 0 all is well, 1 something is wrong and is said on stderr, 2 the command line is wrong.`

type cli struct {
	Run       runCmd       `cmd:"" help:"Serve the actions of relay.yaml until interrupted; a JSON line with the message 'ready' on stderr carries the address."`
	Check     checkCmd     `cmd:"" help:"Check relay.yaml and print every problem with its line and remedy."`
	Approvals approvalsCmd `cmd:"" help:"List what waits for your word."`
	Approve   approveCmd   `cmd:"" help:"Let one pending action run."`
	Deny      denyCmd      `cmd:"" help:"Refuse one pending action."`
	Stop      stopCmd      `cmd:"" help:"Turn the kill switch on: refuse everything and end what runs. It stays on over restarts."`
	Start     startCmd     `cmd:"" help:"Turn the kill switch off."`
	Audit     auditCmd     `cmd:"" help:"The audit log."`
	Install   installCmd   `cmd:"" help:"Write a service file, so that the relay runs whenever you are logged in."`
	Join      joinCmd      `cmd:"" help:"Enrol this machine at a bridge with an invitation."`
	Keys      keysCmd      `cmd:"" help:"Show the keys of this relay and its bridge, or rotate the relay's."`
	Version   versionCmd   `cmd:"" help:"Print the version."`
}

const runDescription = `Every request id runs at most once. The journal (journal: in relay.yaml, relay.journal beside it unless
set) keeps what each came to for 24 hours, also over a restart. An id that was running when the relay was killed is answered
with "interrupted" and never run again. One journal serves one relay. If the relay says that its journal is damaged, restore
it, or move it away and know that what was asked for in the last 24 hours may run once more.

Example:
  drawbridge-relay run --config relay.yaml`

type runCmd struct {
	home
	Bridge string        `placeholder:"URL" help:"Dial this address instead of the one that this relay joined at."`
	Grace  time.Duration `default:"10s" help:"How long running actions may take to finish after an interrupt."`
}

type versionCmd struct{}

// Help is what run --help says beside the flags.
func (runCmd) Help() string { return runDescription }

// streams are where a command writes.
type streams struct {
	out, err io.Writer
}

func main() {
	keeper.Main()
	os.Exit(run(os.Args[1:], streams{out: os.Stdout, err: os.Stderr}))
}

func run(args []string, s streams) int {
	var flags cli
	// kong goes on parsing after --help when its exit does not end the process, so what it found then does not count.
	ended, endedWith := false, exitOK
	parser, err := kong.New(&flags,
		kong.Name("drawbridge-relay"), kong.Description(description), kong.Writers(s.out, s.err),
		kong.Exit(func(code int) { ended, endedWith = true, code }),
		kong.BindTo(context.Background(), (*context.Context)(nil)), kong.Bind(s),
	)
	if err != nil {
		complain(s.err, err)
		return exitUsage
	}
	command, err := parser.Parse(args)
	if ended {
		return endedWith
	}
	if err != nil {
		complain(s.err, err)
		fmt.Fprintln(s.err, "See: drawbridge-relay --help")
		return exitUsage
	}
	if err := command.Run(); err != nil {
		complain(s.err, err)
		return exitProblem
	}
	return exitOK
}

func complain(w io.Writer, err error) {
	var config *settings.Error
	if errors.As(err, &config) {
		fmt.Fprintln(w, config)
		return
	}
	fmt.Fprintln(w, "drawbridge-relay:", err)
}

// Run serves until SIGINT or SIGTERM.
func (c runCmd) Run(ctx context.Context, s streams) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// From the first signal on, a second one ends the process the hard way.
	defer context.AfterFunc(ctx, stop)()
	beside, err := link.Beside(c.identity(), c.Bridge)
	if err != nil {
		return err
	}
	if beside == nil && c.Identity != "" {
		_, err := loadIdentity(c.Identity)
		return err
	}
	return runner.Main(ctx, runner.MainOptions{ConfigPath: c.Config, Env: os.LookupEnv, Log: s.err, Grace: c.Grace, Terminal: terminal(), Beside: beside})
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

// Run prints the module version that the binary was built from.
func (versionCmd) Run(s streams) error {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	_, err := fmt.Fprintln(s.out, "drawbridge-relay", version)
	return err
}
