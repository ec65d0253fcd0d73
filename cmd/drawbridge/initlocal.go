package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"drawbridge/cmd/drawbridge/internal/local"
	"drawbridge/relay/agents/toolchain"
	"drawbridge/relay/runner/sandbox"
	"drawbridge/relay/runner/settings"
)

// Addresses that a machine's own bridge begins with.
const (
	localDoor     = "127.0.0.1:7410"
	localOperator = "127.0.0.1:7400"
)

// local writes a configuration for agents of this machine.
func (c initCmd) local(ctx context.Context, a app) error {
	for flag, value := range map[string]string{"--repo": c.Repo, "--allow": c.Allow, "--cloud": c.Cloud} {
		if value != "" {
			return usageError{fmt.Errorf("%s is for agents of the cloud; leave it out with --local, and add a clone with: drawbridge up FOLDER", flag)}
		}
	}
	if c.Relay != "" && !relayName.MatchString(c.Relay) {
		return usageError{fmt.Errorf("--relay %+.40q is not a name for a relay; use a to z, 0 to 9, '_', '.' and '-', such as laptop", c.Relay)}
	}
	if err := a.setUp(ctx, c.Dir, c.Relay, c.Tools); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(a.stdout, localNext, c.Dir); err != nil {
		return err
	}
	return c.addOpenAI(a)
}

const localNext = `
Next, in %[1]s:
  1. look through relay.yaml; what is not there is refused
  2. drawbridge-relay check --agents                starts each agent once, and says what will not work
  3. drawbridge-relay login NAME                    for an agent that wants a login
  4. drawbridge up --dir . --agent NAME FOLDER "…"  starts bridge and relay, and gives an agent its first turn in a clone
`

// setUp writes what a folder lacks for agents of this machine, and says what it found and did. A file that is there stays as it is.
func (a app) setUp(ctx context.Context, dir, relay, tools string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := ownFolder(dir); err != nil {
		return err
	}
	found := a.sayAgents(ctx, dir)
	host, _ := os.Hostname()
	path := filepath.Join(dir, "relay.yaml")
	listed, readable := a.listedIn(path)
	_, missing := os.Lstat(path)
	keeps := missing == nil
	chosen := local.Tools{}
	if !keeps || tools != "" {
		var err error
		if chosen, err = a.chooseTools(ctx, dir, tools); err != nil {
			return err
		}
	}
	setup := local.Setup{Relay: cmp.Or(relay, local.RelayName(host)), Listen: freeAddress(localDoor), Operator: freeAddress(localOperator), Agents: found, Tools: chosen}
	texts := setup.Files()
	texts["bridge.key"], texts["bridge.token"] = secret(), secret()
	for _, name := range localFiles {
		if err := a.writeNew(filepath.Join(dir, name), texts[name], 0o600); err != nil {
			return err
		}
	}
	if keeps && tools == "none" {
		fmt.Fprintf(a.stdout, "note    --tools none does not change an existing relay.yaml; to remove tools, edit tools: in %s\n", shown(path))
	}
	if keeps && len(chosen.Found) > 0 {
		if err := local.Edit(path, chosen.AddTo, func(trial string) error { _, err := settings.Load(trial, a.getenv); return err }); err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "tools   %s lists them now\n", shown(path))
	}
	for _, agent := range found {
		if readable && listed[agent.Name].Argv == nil {
			fmt.Fprintf(a.stdout, "note    %s is not in relay.yaml, which was there already; add it with: drawbridge up --dir %s --agent %s\n", agent.Name, shown(dir), agent.Name)
		}
	}
	return nil
}

// chooseTools returns the programs that all agents may use: as --tools says, or as a person at the terminal answers. Without both, those that
// agents could read anyway.
func (a app) chooseTools(ctx context.Context, dir, wish string) (local.Tools, error) {
	m, names := a.machine(ctx, dir), toolchain.Names()
	switch wish {
	case "none":
		return local.Tools{}, nil
	case "", "all":
	default:
		names = strings.Split(wish, ",")
		for i, name := range names {
			name = strings.TrimSpace(name)
			names[i] = name
			if toolchain.Find(m.Path, name) == "" {
				return local.Tools{}, usageError{fmt.Errorf("--tools: %+.40q is not a program on PATH; install it, or correct the name", name)}
			}
		}
	}
	all, notes := m.Tools(names, true)
	for _, note := range notes {
		fmt.Fprintf(a.stdout, "note    %s\n", shown(note))
	}
	switch {
	case wish == "" || len(all.Found)+len(notes) > 0:
	case wish == "all":
		fmt.Fprintln(a.stdout, "note    no compiler or package manager was found outside /usr/local/bin, /usr/bin and /bin")
	default:
		fmt.Fprintf(a.stdout, "note    agents can already use these programs: %s\n", shown(strings.Join(names, ", ")))
	}
	chosen := all
	if wish == "" && len(all.Opens) > 0 {
		ask, yes := a.question(), false
		if ask != nil {
			yes = askTools(ctx, ask, all)
		}
		if ctx.Err() != nil {
			return local.Tools{}, errors.New("interrupted; nothing was written")
		}
		if !yes {
			chosen, _ = m.Tools(names, false)
			fmt.Fprintf(a.stdout, "note    agents cannot use %s; to change that: drawbridge init --local --tools all %s\n", shown(all.Without(chosen).Names()), shown(dir))
		}
	}
	if len(chosen.Found) > 0 {
		fmt.Fprintf(a.stdout, "tools   %s\n", shown(chosen.Names()))
	}
	return chosen, nil
}

// askTools asks a person whether agents may use programs. No answer, and the end of ctx, is a no.
func askTools(ctx context.Context, ask func(string) (string, error), t local.Tools) bool {
	question := fmt.Sprintf("Your compilers and package managers: %s.\nTo use them, all agents must be able to read everything in: %s.\nLet all agents of this machine use them? [y/N] ", t.Names(), strings.Join(t.Opens, ", "))
	answers := make(chan bool, 1)
	go func() {
		for {
			answer, err := ask(shown(question))
			word := strings.ToLower(strings.TrimSpace(answer))
			switch {
			case err != nil || word == "" || word == "n" || word == "no":
				answers <- false
				return
			case word == "y" || word == "yes":
				answers <- true
				return
			}
			question = "Type y or n: "
		}
	}()
	select {
	case yes := <-answers:
		return yes
	case <-ctx.Done():
		return false
	}
}

// listedIn returns the agents of a relay.yaml; there is false for one that is missing or cannot be read.
func (a app) listedIn(path string) (listed map[string]settings.Agent, there bool) {
	config, err := settings.Load(path, a.getenv)
	return config.Agents, err == nil
}

// localFiles are the files of a machine's own bridge and relay, in the order in which they are written.
var localFiles = []string{"bridge.yaml", "allowlist.yaml", "relay.yaml", "bridge.key", "bridge.token"}

// sayAgents looks for agents, says what it found, and returns them.
func (a app) sayAgents(ctx context.Context, dir string) []local.Agent {
	found, notes := a.machine(ctx, dir).Look()
	for _, agent := range found {
		fmt.Fprintf(a.stdout, "found   %-9s %s\n", agent.Name, agent.Program)
	}
	for _, note := range notes {
		fmt.Fprintf(a.stdout, "note    %s\n", shown(note))
	}
	if len(found) == 0 {
		fmt.Fprintf(a.stdout, "none    no agent is installed here; install one, and add it with: drawbridge up --agent NAME\n        %s\n",
			strings.Join(local.Installs(), "\n        "))
	}
	return found
}

// machine is what a look for agents depends on here.
func (a app) machine(ctx context.Context, dir string) local.Machine {
	path, _ := a.getenv("PATH")
	ability := sandbox.Probe(ctx, nil)
	own, err := filepath.EvalSymlinks(dir)
	if err != nil {
		own = dir
	}
	home, _ := a.getenv("HOME")
	if real, err := filepath.EvalSymlinks(home); err == nil && filepath.IsAbs(home) {
		home = real
	}
	return local.Machine{Path: path, Sandbox: ability.Landlock > 0 || ability.Bubblewrap != "", Own: own, Home: home, Getenv: a.getenv}
}

// freeAddress returns the address unless something listens there; then another port of this machine.
func freeAddress(wish string) string {
	for _, addr := range []string{wish, "127.0.0.1:0"} {
		if l, err := net.Listen("tcp", addr); err == nil {
			free := l.Addr().String()
			_ = l.Close() // nothing was written to it
			return free
		}
	}
	return wish
}

// missingFiles lists what a folder lacks.
func missingFiles(dir string) []string {
	return slices.DeleteFunc(slices.Clone(localFiles), func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return !errors.Is(err, fs.ErrNotExist)
	})
}
