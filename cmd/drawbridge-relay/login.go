package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"drawbridge/internal/buildinfo"
	"drawbridge/relay/agents/host"
	"drawbridge/relay/runner/settings"
)

const loginDescription = `Run an agent's own login in the HOME that the relay keeps for the agent's entry in relay.yaml. All agents of the entry share this login.

The relay knows the login commands of OpenCode, Claude Code, Codex, Gemini, Qwen, Cursor and Goose. For another agent, give the
arguments of its login after --. Such arguments also replace a login command that the relay knows. If the arguments begin with an
absolute path, that program runs instead of the agent's.

The login runs on this terminal without a sandbox, so that it can open a browser and the browser can call it back. The login gets
the agent's environment. From your environment it gets only the variables that terminals, browsers and proxies need. Gemini and
Qwen ask for the login when they start, so end them after the login.`

func newLogin(s streams) *cobra.Command {
	var config string
	cmd := command(help{"login <agent> [-- argument...]", "Run an agent's own login in the home of its entry", loginDescription,
		"  drawbridge-relay login opencode\n  drawbridge-relay login claude -- /usr/local/bin/claude setup-token"}, nil)
	cmd.Args = usage(func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return errors.New("name an agent of relay.yaml")
		}
		return nil
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if before := cmd.ArgsLenAtDash(); before > 1 || before < 0 && len(args) > 1 {
			return &usageError{cmd.CommandPath(), fmt.Errorf("%q is one argument too many; write -- before the arguments of the agent's login", args[1])}
		}
		return login(s, config, args)
	}
	configFlag(cmd.Flags(), &config)
	return cmd
}

// login becomes the agent's own login; it returns only with an error.
func login(s streams, path string, args []string) error {
	config, err := settings.Load(path, os.LookupEnv)
	if err != nil {
		return err
	}
	// The login may write keys.
	syscall.Umask(0o077)
	h := host.Host{Config: config, Version: buildinfo.Version()}
	l, err := h.Login(args[0], args[1:], os.LookupEnv)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.err, "drawbridge-relay: running %s in %s, without a sandbox; the login counts for every agent of the entry %s\n", strings.Join(l.Argv, " "), l.Dir, args[0])
	if err := os.Chdir(l.Dir); err != nil {
		return err
	}
	if err := syscall.Exec(l.Argv[0], l.Argv, l.Env); err != nil {
		return fmt.Errorf("start %s: %w", l.Argv[0], err)
	}
	return nil
}
