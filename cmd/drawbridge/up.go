package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"drawbridge/cmd/drawbridge/internal/local"
	"drawbridge/cmd/drawbridge/internal/up"
	"drawbridge/internal/logs"
)

type upCmd struct {
	Folder      string  `arg:"" optional:"" help:"Let the agent work on this clone, in a clone of its own." type:"path"`
	Prompt      textArg `arg:"" optional:"" help:"Give the agent this task; write - to read standard input."`
	Name        string  `help:"Give the task to the agent of this name. A new name is a new agent, with its own workspace and branch. The default name is CLONE-AGENT." placeholder:"NAME"`
	Agent       string  `help:"Use this agent of the machine. You may leave this out if there is only one." placeholder:"NAME"`
	Dir         string  `help:"Keep the configuration and all state in this folder. The default is drawbridge below XDG_STATE_HOME or ~/.local/state." placeholder:"DIR" type:"path"`
	Once        bool    `help:"End when the turn has ended. The exit code is 1 if the turn failed."`
	WithChanges bool    `help:"Give a new agent the uncommitted changes of the clone, as a commit of its own. Your working tree stays as it is."`
	Always      bool    `help:"Change the rule in allowlist.yaml: from now on, agents that other agents launch on this clone use --agent, too."`
}

// Help shows examples.
func (upCmd) Help() string {
	return "The command runs the bridge and the relay of this machine as two processes. It restarts a process that crashes. At the first use, it looks for installed agents, writes the configuration into the folder of --dir, and lets the relay join the bridge. On a terminal it asks whether agents may use your compilers and package managers. It also writes bridge.log and relay.log into that folder. A log of 16 MiB becomes NAME.1.\n\n" +
		"With a folder and a prompt, the agent gets a turn. The text and the commits of the turn appear here. The agent works in a clone of its own. Its commits come back into your clone, on a branch. Then drawbridge diff shows them, drawbridge merge merges them, and drawbridge discard throws the agent away. The same name goes on with the same agent. With another --name, another agent works on the clone. If the agent's login is missing, the command asks at a terminal whether to run the login now. After the login the turn continues. While one `up` runs, another `up` gives turns to the same bridge.\n\n" +
		"The terminal shows what all agents say and which tools they use. It shows each question with a number. Type y or n to answer the question in the prompt. Type y 2 or n 2 to answer question 2. Type A or A 2 to always allow the like: the command shows the rule and asks before it writes the rule into relay.yaml. Other text goes to the agent before the > as its next turn. To speak to another agent, begin with @NAME. While a question is open, write at least two words.\n\nOn a terminal, Ctrl-C stops the turn of the agent in the prompt. Without such a turn, or when you press it again, Ctrl-C ends `up`. Turns that then still run continue by themselves when `up` runs again.\n\n" +
		"Examples:\n  drawbridge up\n  drawbridge up --agent opencode ~/src/my-app \"Add a health check\"\n  drawbridge up --name fix-login ~/src/my-app \"Fix the login\""
}

// Run runs both until ctx ends, or gives a turn to those that run.
func (c upCmd) Run(ctx context.Context, a app) error {
	if _, err := os.Stat(c.Folder); c.Folder != "" && c.Prompt == "" && strings.ContainsAny(filepath.Base(c.Folder), " \n") && err != nil {
		return usageError{errors.New("name a folder before the prompt: drawbridge up FOLDER \"PROMPT\"")}
	}
	if c.Always && (c.Agent == "" || c.Folder == "") {
		return usageError{errors.New("--always needs --agent and a folder")}
	}
	if c.Once && c.Prompt == "" {
		return usageError{errors.New("--once needs a folder and a prompt")}
	}
	if c.Name != "" && c.Prompt == "" {
		return usageError{errors.New("--name needs a folder and a prompt")}
	}
	if c.WithChanges && c.Prompt == "" {
		return usageError{errors.New("--with-changes needs a folder and a prompt")}
	}
	dir, err := c.folder(a)
	if err != nil {
		return err
	}
	err = up.Run(ctx, up.Options{
		Folder: c.Folder, Prompt: string(c.Prompt), Agent: c.Agent, Name: c.Name, Dir: dir, Usual: c.Dir == "", Once: c.Once, Always: c.Always, WithChanges: c.WithChanges, Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr, Getenv: a.getenv,
		Person: logs.IsTerminal(a.stdin) && logs.IsTerminal(a.stderr), Shown: shown, Problems: a.problems, TakeInterrupts: a.takeInterrupts, End: func() { a.interrupts.end() }, Usage: func(err error) error { return usageError{err} },
		SetUp:   func(ctx context.Context) error { return a.setUp(ctx, dir, "", "") },
		Missing: func() []string { return missingFiles(dir) }, Machine: func(ctx context.Context) local.Machine { return a.machine(ctx, dir) },
	})
	if errors.Is(err, up.ErrTurn) {
		return errNo
	}
	return err
}

// folder chooses the folder, makes it and refuses one that others can change.
func (c upCmd) folder(a app) (string, error) {
	dir := c.Dir
	if dir == "" {
		var err error
		if dir, err = stateFolder(a); err != nil {
			return "", err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make folder: %w", err)
	}
	return dir, ownFolder(dir)
}

// stateFolder is where drawbridge up keeps its configuration and its state unless --dir says otherwise.
func stateFolder(a app) (string, error) {
	state, _ := a.getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home, _ := a.getenv("HOME")
		if !filepath.IsAbs(home) {
			return "", usageError{errors.New("neither XDG_STATE_HOME nor HOME is set; name a folder with --dir")}
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "drawbridge"), nil
}
