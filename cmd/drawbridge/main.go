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
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"github.com/alecthomas/kong"

	"drawbridge/bridge"
	"drawbridge/cmd/drawbridge/internal/local"
	"drawbridge/internal/buildinfo"
	"drawbridge/internal/lifecycle"
	"drawbridge/relay/runner/keeper"
)

var version = buildinfo.Version()

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
	interrupts     *interrupts
}

type cli struct {
	Demo     demoCmd     `cmd:"" help:"Run a demonstration on this machine with a simulated cloud, a real bridge, a real relay and real commands." group:"Try"`
	Parse    parseCmd    `cmd:"" help:"Show which commands of a text would run, and why the others would not run." group:"Try"`
	Allowed  allowedCmd  `cmd:"" help:"Show whether the allowlist allows repositories or actions." group:"Try"`
	Cloudsim cloudsimCmd `cmd:"" help:"Run a local stand-in for the Cloud Agents API." group:"Try"`
	Agentsim agentsimCmd `cmd:"" help:"Run a local stand-in for the agent service behind upstreams of the kind cursor." group:"Try"`

	Up        upCmd        `cmd:"" help:"Run the bridge and the relay of this machine, and give its agents work, with one command." group:"Set up and run"`
	Init      initCmd      `cmd:"" help:"Write bridge.yaml, allowlist.yaml, keys and the protocol page into a folder." group:"Set up and run"`
	Check     checkCmd     `cmd:"" help:"Check the configuration, the API key, the webhook URL and the relays; list all problems at once." group:"Set up and run"`
	Serve     serveCmd     `cmd:"" help:"Run the bridge." group:"Set up and run"`
	Policy    policyCmd    `cmd:"" help:"Test the allowlist, and compare an edited one with what agents asked for." group:"Set up and run"`
	Migrate   migrateCmd   `cmd:"" help:"Bring the database's schema up to date." group:"Set up and run"`
	Relay     relayCmd     `cmd:"" help:"Enroll, list and revoke the relays that connect to the bridge." group:"Set up and run"`
	Protocol  protocolCmd  `cmd:"" help:"Print a page, made from the allowlist, that tells an agent which commands it may write." group:"Set up and run"`
	Token     tokenCmd     `cmd:"" help:"Make, list and revoke the tokens with which an agent connects to the bridge's MCP endpoint." group:"Set up and run"`
	McpConfig mcpConfigCmd `cmd:"" name:"mcp-config" help:"Print the configuration entry that connects an MCP client to the bridge." group:"Set up and run"`
	Mcp       mcpCmd       `cmd:"" name:"mcp" help:"Connect an MCP client on standard input and output to a running bridge, as one agent." group:"Set up and run"`
	Acp       acpCmd       `cmd:"" name:"acp" help:"Let Cursor's service work on this machine, as an agent of the relay." group:"Set up and run"`

	Status     statusCmd     `cmd:"" help:"Show on one screen what waits for you, and how agents, relays and bridge are." group:"Watch"`
	Open       openCmd       `cmd:"" help:"Open the page in your browser: what waits for you, and what agents do." group:"Watch"`
	Alerts     alertsCmd     `cmd:"" help:"List the alerts to a program of yours about what waits, or send a test." group:"Watch"`
	Watch      watchCmd      `cmd:"" help:"Tell in lines what agents do, until Ctrl-C." group:"Watch"`
	Agents     agentsCmd     `cmd:"" help:"List agents." group:"Watch"`
	Turns      turnsCmd      `cmd:"" help:"List an agent's turns." group:"Watch"`
	Commands   commandsCmd   `cmd:"" help:"List the commands of agents, with the outcome of each." group:"Watch"`
	Turn       turnCmd       `cmd:"" help:"Show one turn whole: what the agent heard and answered, and what came of each command." group:"Watch"`
	Tools      toolsCmd      `cmd:"" help:"Show the tool calls of a turn." group:"Watch"`
	Tree       treeCmd       `cmd:"" help:"Draw a tree of agents, and show what it has used of its budget." group:"Watch"`
	Mail       mailCmd       `cmd:"" help:"Show the messages to an agent or to you, with the delivery state of each." group:"Watch"`
	Memory     memoryCmd     `cmd:"" help:"Show an agent's memory, search it, and write a block." group:"Watch"`
	Workspaces workspacesCmd `cmd:"" help:"List the workspaces of agents on people's machines: branch, dirty files, commits, size." group:"Watch"`

	Approve approveCmd `cmd:"" help:"Approve held commands." group:"Decide"`
	Deny    denyCmd    `cmd:"" help:"Refuse a held command." group:"Decide"`
	Stop    stopCmd    `cmd:"" help:"Stop an agent and everything under it, or one turn." group:"Decide"`
	Resume  resumeCmd  `cmd:"" help:"Let a stopped tree of agents continue." group:"Decide"`

	Launch    launchCmd    `cmd:"" help:"Launch an agent on a repository." group:"Talk"`
	Say       sayCmd       `cmd:"" help:"Give an agent a turn." group:"Talk"`
	Join      joinCmd      `cmd:"" help:"Set how an agent receives the results of several subagents." group:"Talk"`
	Channels  channelsCmd  `cmd:"" help:"Make, list and show the channels in which agents and you write, and change their members." group:"Talk"`
	Post      postCmd      `cmd:"" help:"Write into a channel, and wake its members." group:"Talk"`
	Message   messageCmd   `cmd:"" help:"Change or withdraw a message, put an emoji on it." group:"Talk"`
	Reminders remindersCmd `cmd:"" help:"List and cancel reminders." group:"Talk"`

	Diff    diffCmd    `cmd:"" help:"Show what an agent of this machine changed for your clone." group:"Review"`
	Merge   mergeCmd   `cmd:"" help:"Merge the commits of an agent of this machine into your clone's current branch." group:"Review"`
	Discard discardCmd `cmd:"" help:"Throw away an agent of this machine, with its workspace and its branch." group:"Review"`

	Resolve  resolveCmd  `cmd:"" help:"Tell the bridge what really happened to an uncertain command or turn." group:"Repair"`
	Continue continueCmd `cmd:"" aliases:"replay" help:"Let an agent go on with a failed turn, without saying the turn twice." group:"Repair"`
	SayAgain sayAgainCmd `cmd:"" help:"Say the words of a failed or uncertain turn again, in a new turn." group:"Repair"`
	GiveUp   giveUpCmd   `cmd:"" help:"Leave a failed or uncertain turn as it is, and let its agent take other turns." group:"Repair"`
	Move     moveCmd     `cmd:"" help:"Move an agent to another runtime." group:"Repair"`
	Forget   forgetCmd   `cmd:"" help:"Forget a dead agent, so that its name can be used again." group:"Repair"`

	HelpOf     helpCmd       `cmd:"" name:"help" help:"Show the help of a command." group:"About"`
	Completion completionCmd `cmd:"" help:"Print a script that completes commands and flags in your shell." group:"About"`
	Version    versionCmd    `cmd:"" help:"Print the version." group:"About"`

	ShowVersion kong.VersionFlag `name:"version" help:"Print the version."`

	// The demo starts the same relay as drawbridge-relay does, as a process of its own.
	RelayRun  relayRunCmd  `cmd:"" hidden:""`
	RelayMCP  relayMCPCmd  `cmd:"" hidden:"" name:"relay-mcp"`
	RelayJoin relayJoinCmd `cmd:"" hidden:""`
}

func main() {
	keeper.Main()
	harden()
	ctx, taken := untilInterrupt(context.Background())
	// A reader that goes away (… | head) is an error of the write, after which we clean up.
	// So is a limit on the size of files, which would otherwise end the process in mid-write.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGXFSZ)
	a := app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.LookupEnv, interrupts: taken}
	ctx, release := lifecycle.UntilParentEnds(ctx, a.getenv)
	defer release()
	os.Exit(run(ctx, a, os.Args[1:]))
}

// run parses the call, runs its command and returns the exit code.
func run(ctx context.Context, a app, args []string) int {
	exit := -1
	k, err := newParser(a, func(code int) { exit = code }, kong.BindTo(ctx, (*context.Context)(nil)))
	if err != nil {
		fmt.Fprintf(a.stderr, "drawbridge: %v\n", err)
		return exitUsage
	}
	if line, completes := a.getenv("COMP_LINE"); completes {
		cursor, _ := a.getenv("COMP_POINT")
		if n, err := strconv.Atoi(cursor); err == nil && n >= 0 && n < len(line) {
			line = line[:n]
		}
		for _, word := range completions(k.Model.Node, line) {
			fmt.Fprintln(a.stdout, word)
		}
		return exitOK
	}
	if len(args) == 0 {
		fmt.Fprint(a.stdout, overview, "\nEvery command: drawbridge --help. One command: drawbridge help COMMAND.\n")
		return exitOK
	}
	call, err := k.Parse(args)
	if exit >= 0 { // --help was asked for and given
		return exit
	}
	switch {
	case readerLeft(err):
		return exitOK
	case err != nil:
		said := strings.Replace(err.Error(), `one of "",`, "one of ", 1) // an empty text is the default, and nothing to write
		said = strings.TrimSuffix(said, `, did you mean "-h"?`)          // kong's guess for every unknown letter
		fmt.Fprintf(a.stderr, "drawbridge: %s%s%s\nSee %s --help.\n", said, quoteHint(err, args), dashHint(err, args), walk(k.Model.Node, args).node.FullPath())
		return exitUsage
	}
	return a.code(call.Run())
}

// newParser returns the parser of the command line. exit hears the exit code of --help and --version.
func newParser(a app, exit func(code int), more ...kong.Option) (*kong.Kong, error) {
	return kong.New(&cli{}, append(more, kong.Name("drawbridge"), kong.Description(description), kong.Writers(a.stdout, a.stderr), kong.Bind(a),
		kong.Exit(exit), kong.UsageOnError(), kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Vars{"version": "drawbridge " + version})...)
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
		rest := strings.TrimLeft(word, "-")
		return rest != word && (strings.ContainsAny(name, " \t\n") || rest != "" && !unicode.IsLetter([]rune(rest)[0]))
	})
	if at < 0 || !strings.HasPrefix(err.Error(), "unknown flag") {
		return ""
	}
	line := []string{"drawbridge"}
	for n, word := range args {
		if n != at {
			line = append(line, local.Quoted(word))
		}
	}
	return "; put -- before a text that begins with a dash: " + strings.Join(append(line, "--", local.Quoted(args[at])), " ")
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

// readerLeft reports whether the reader of our output (… | head) left, because it had what it wanted. A connection that breaks is another
// error, though its cause has the same name.
func readerLeft(err error) bool {
	var output *fs.PathError
	return errors.As(err, &output) && errors.Is(output.Err, syscall.EPIPE)
}

// code prints an error with what to do next and returns its exit code.
func (a app) code(err error) int {
	var usage usageError
	var known *bridge.Error
	switch {
	case err == nil, readerLeft(err):
		return exitOK
	case errors.Is(err, errNo):
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

const overview = `Check each command of an AI agent against an allowlist before anything runs.

Start with:
  drawbridge demo                    # try the bridge without a configuration, and leave no files behind
  drawbridge up FOLDER "TASK"        # give an agent of this machine its first turn in a clone, without an API key
  drawbridge init                    # write a configuration into this folder
  drawbridge serve                   # run the bridge
  drawbridge status                  # show what waits for you
  drawbridge open                    # open the page, to see and decide in your browser
`

const description = overview + `
Every command has --help with an example. Exit codes: 0 done, 1 no (refused, failed, problems found), 2 wrong usage.`

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command."`
}

// Help shows an example.
func (helpCmd) Help() string { return "Example:\n  drawbridge help relay token" }

// Run prints what --help behind the command does.
func (c helpCmd) Run(k *kong.Kong) error {
	call, err := kong.Trace(k, c.Command)
	if err == nil {
		err = call.Error
	}
	if err != nil {
		return usageError{err}
	}
	return call.PrintUsage(false)
}

type versionCmd struct{}

// Help shows an example.
func (versionCmd) Help() string { return "Example:\n  drawbridge version" }

// Run prints the version.
func (versionCmd) Run(a app) error {
	_, err := fmt.Fprintln(a.stdout, "drawbridge", version)
	return err
}
