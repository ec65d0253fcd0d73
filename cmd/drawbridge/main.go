// Command drawbridge is the bridge: it takes what AI agents write through a
// gate, carries out what was allowed and brings the results back. This package
// holds flags, signals, exit codes and the one list that wires the parts; it
// decides nothing itself. Rule of thumb: a command is a struct with a Run.
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

	"github.com/alecthomas/kong"

	"drawbridge/bridge"
	"drawbridge/internal/lifecycle"
	"drawbridge/relay/runner/keeper"
)

// version is set by the linker; "dev" otherwise.
var version = "dev"

// The exit codes. A command that answers "no" (not allowed, problems found) exits with exitNo.
const (
	exitOK    = 0
	exitNo    = 1
	exitUsage = 2
)

// errNo makes the process exit with exitNo without another word: the answer was printed already.
var errNo = errors.New("no")

// usageError is a mistake in the words of the call.
type usageError struct{ error }

// app is what every command gets: the world outside of it.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) (string, bool)
	newKey         bool // serve --new-key
}

type cli struct {
	Demo     demoCmd     `cmd:"" help:"Show the whole story on this machine: simulated cloud, real bridge, real relay, real commands."`
	Up       upCmd       `cmd:"" help:"Run the bridge and the relay of this machine, and give its agents work, with one command."`
	Init     initCmd     `cmd:"" help:"Write bridge.yaml, allowlist.yaml, keys and the protocol page into a folder."`
	Check    checkCmd    `cmd:"" help:"Check the configuration, the API key, the webhook URL and the relays; tell all problems at once."`
	Serve    serveCmd    `cmd:"" help:"Run the bridge."`
	Migrate  migrateCmd  `cmd:"" help:"Bring the database's schema up to date."`
	Cloudsim cloudsimCmd `cmd:"" help:"Run a local stand-in for the Cloud Agents API."`

	Parse    parseCmd    `cmd:"" help:"Tell what a text would do, and why not."`
	Allowed  allowedCmd  `cmd:"" help:"Tell whether repositories or actions are allowed."`
	Protocol protocolCmd `cmd:"" help:"Write the page that tells an agent what it may write, made from the allowlist."`

	Launch    launchCmd    `cmd:"" help:"Launch an agent on a repository." group:"Talking to a running bridge"`
	Say       sayCmd       `cmd:"" help:"Give an agent a turn." group:"Talking to a running bridge"`
	Agents    agentsCmd    `cmd:"" help:"List agents." group:"Talking to a running bridge"`
	Turns     turnsCmd     `cmd:"" help:"List an agent's turns." group:"Talking to a running bridge"`
	Commands  commandsCmd  `cmd:"" help:"List what agents asked for, and what came of it." group:"Talking to a running bridge"`
	Approve   approveCmd   `cmd:"" help:"Let a held command pass." group:"Talking to a running bridge"`
	Deny      denyCmd      `cmd:"" help:"Refuse a held command." group:"Talking to a running bridge"`
	Resolve   resolveCmd   `cmd:"" help:"Settle an uncertain command or turn: say what really happened." group:"Talking to a running bridge"`
	Replay    replayCmd    `cmd:"" help:"Give a failed or uncertain turn another try." group:"Talking to a running bridge"`
	Tree      treeCmd      `cmd:"" help:"Show what a tree of agents has used of its budget." group:"Talking to a running bridge"`
	Stop      stopCmd      `cmd:"" help:"Stop an agent and everything under it." group:"Talking to a running bridge"`
	Resume    resumeCmd    `cmd:"" help:"Let a stopped tree go on." group:"Talking to a running bridge"`
	Forget    forgetCmd    `cmd:"" help:"Forget a dead agent: its name is free again." group:"Talking to a running bridge"`
	Move      moveCmd      `cmd:"" help:"Let an agent go on in another runtime." group:"Talking to a running bridge"`
	Join      joinCmd      `cmd:"" help:"Say how the results of several subagents come back." group:"Talking to a running bridge"`
	Channels  channelsCmd  `cmd:"" help:"Channels in which agents and you write: make, list, show, members." group:"Talking to a running bridge"`
	Post      postCmd      `cmd:"" help:"Write into a channel, and wake its members." group:"Talking to a running bridge"`
	Message   messageCmd   `cmd:"" help:"Change or withdraw a message, put an emoji on it." group:"Talking to a running bridge"`
	Mail      mailCmd      `cmd:"" help:"Show what was written to an agent or to you, and how far it came." group:"Talking to a running bridge"`
	Reminders remindersCmd `cmd:"" help:"List and cancel reminders." group:"Talking to a running bridge"`
	Memory    memoryCmd    `cmd:"" help:"Show an agent's memory, and search it." group:"Talking to a running bridge"`
	Tools     toolsCmd     `cmd:"" help:"Show the tool calls of a turn." group:"Talking to a running bridge"`

	Token     tokenCmd     `cmd:"" help:"Make, list and revoke the tokens with which an agent opens the MCP door." group:"Agents that call tools"`
	McpConfig mcpConfigCmd `cmd:"" name:"mcp-config" help:"Print what an agent's .cursor/mcp.json needs." group:"Agents that call tools"`
	Mcp       mcpCmd       `cmd:"" name:"mcp" help:"Speak MCP on standard input and output for one agent of a running bridge." group:"Agents that call tools"`
	Relay     relayCmd     `cmd:"" help:"Enrol, list and revoke the relays that dial in." group:"Talking to a running bridge"`

	Workspaces workspacesCmd `cmd:"" help:"List the workspaces of agents on people's machines: branch, dirty files, commits, size." group:"Talking to a running bridge"`

	Version versionCmd `cmd:"" help:"Print the version."`
	// The demo starts the same relay as drawbridge-relay does, as a process of its own.
	RelayRun  relayRunCmd  `cmd:"" hidden:""`
	RelayMCP  relayMCPCmd  `cmd:"" hidden:"" name:"relay-mcp"`
	RelayJoin relayJoinCmd `cmd:"" hidden:""`
}

func main() {
	keeper.Main()
	harden()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// From the first signal on, a second one ends the process the hard way.
	defer context.AfterFunc(ctx, stop)()
	// A reader that goes away (… | head) is an error of the write, after which we clean up.
	// So is a limit on the size of files, which would otherwise end the process in mid-write.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGXFSZ)
	a := app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.LookupEnv}
	ctx, release := lifecycle.UntilParentEnds(ctx, a.getenv)
	defer release()
	code := run(ctx, a, os.Args[1:])
	stop()
	os.Exit(code)
}

// run parses the call, runs its command and returns the exit code.
func run(ctx context.Context, a app, args []string) int {
	var c cli
	exit := -1
	k, err := kong.New(&c, kong.Name("drawbridge"), kong.Description(description), kong.Writers(a.stdout, a.stderr),
		kong.Exit(func(code int) { exit = code }), kong.UsageOnError(), kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(a))
	if err != nil {
		fmt.Fprintf(a.stderr, "drawbridge: %v\n", err)
		return exitUsage
	}
	call, err := k.Parse(args)
	if exit >= 0 { // --help was asked for and given
		return exit
	}
	switch {
	case errors.Is(err, syscall.EPIPE): // the reader of --help has what it wanted
		return exitOK
	case err != nil:
		fmt.Fprintf(a.stderr, "drawbridge: %v%s%s\nSee drawbridge --help.\n", err, quoteHint(err, args), dashHint(err, args))
		return exitUsage
	}
	return a.code(call.Run())
}

// quoteHint helps with a text of several words that was typed without quotes.
func quoteHint(err error, args []string) string {
	_, word, unexpected := strings.Cut(err.Error(), "unexpected argument ")
	at := slices.Index(args, word)
	if !unexpected || at < 2 {
		return ""
	}
	return fmt.Sprintf("; put a text of several words in quotes: drawbridge %s %q", strings.Join(args[:at-1], " "), strings.Join(args[at-1:], " "))
}

// dashHint helps with a text that begins with a dash.
func dashHint(err error, args []string) string {
	at := slices.IndexFunc(args, func(word string) bool {
		name, _, _ := strings.Cut(word, "=") // --dir=/my work is a flag
		return strings.HasPrefix(word, "-") && strings.ContainsAny(name, " \t\n")
	})
	if at < 0 || !strings.HasPrefix(err.Error(), "unknown flag") {
		return ""
	}
	return fmt.Sprintf("; put -- before a text that begins with a dash: … -- %q", args[at])
}

// maxText bounds a text from standard input, in bytes.
const maxText = 1 << 20

// textArg is a text on the command line; - stands for the one on standard input.
type textArg string

// AfterApply reads standard input.
func (t *textArg) AfterApply(a app) error {
	if *t != "-" {
		return nil
	}
	raw, err := io.ReadAll(io.LimitReader(a.stdin, maxText+1))
	text := strings.TrimRight(string(raw), "\r\n")
	switch {
	case err != nil:
		return fmt.Errorf("read the text from standard input: %w", err)
	case len(raw) > maxText:
		return fmt.Errorf("the text on standard input has more than %d bytes", maxText)
	case strings.TrimSpace(text) == "":
		return errors.New("standard input is empty; pipe a text in, or write the text in place of -")
	}
	*t = textArg(text)
	return nil
}

// code prints an error with what to do next and returns its exit code.
func (a app) code(err error) int {
	var usage usageError
	var known *bridge.Error
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errNo), errors.Is(err, syscall.EPIPE): // the reader (… | head) knows that it left
		return exitNo
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(a.stderr, "drawbridge: interrupted")
		return exitNo
	case errors.As(err, &usage):
		fmt.Fprintf(a.stderr, "drawbridge: %v\n", err)
		return exitUsage
	case errors.As(err, &known):
		fmt.Fprintf(a.stderr, "drawbridge: %s\n", shown(known.Message))
	default:
		fmt.Fprintf(a.stderr, "drawbridge: %s\n", shown(err.Error()))
	}
	return exitNo
}

const description = `The bridge between what AI agents write and what may really happen.

Start with:
  drawbridge demo                    see it work, nothing configured, nothing left behind
  drawbridge up FOLDER "TASK"        give an agent of this machine its first turn in a clone, without a key
  drawbridge init                    write a configuration into this folder
  drawbridge parse < reply.txt       what would this text do, and why not

Every command has --help with an example. Exit codes: 0 done, 1 no (refused, failed, problems found), 2 wrong usage.`

type versionCmd struct{}

// Help shows an example.
func (versionCmd) Help() string { return "Example:\n  drawbridge version" }

// Run prints the version.
func (versionCmd) Run(a app) error {
	_, err := fmt.Fprintln(a.stdout, "drawbridge", version)
	return err
}
