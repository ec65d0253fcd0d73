// Package hosting puts together what a relay needs to host agents: drivers, workspaces and the record of turns.
//
// It decides nothing, and is there so that each program with a relay in it hosts the same way. Rule of thumb: a part of a hosted agent's
// turn is made in its own package, and connected here.
package hosting

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/rs/zerolog"

	"drawbridge/relay/agents/cli"
	"drawbridge/relay/agents/door"
	"drawbridge/relay/agents/host"
	"drawbridge/relay/agents/permits"
	"drawbridge/relay/agents/turns"
	"drawbridge/relay/agents/workspace"
	"drawbridge/relay/runner"
	"drawbridge/relay/runner/approval"
	"drawbridge/relay/runner/settings"
	"drawbridge/relay/wire"
)

// Agents returns what a relay of this version takes as runner.MainOptions.Agents. pipe are the words after which this program is the stdio
// server of an agent, see door.Pipe.
func Agents(version string, pipe ...string) func(context.Context, runner.Parts) (runner.Agents, error) {
	return func(ctx context.Context, p runner.Parts) (runner.Agents, error) {
		spaces, err := workspace.Open(workspace.Options{State: p.Config.State, Run: p.Pool, Ability: p.Ability})
		if err != nil {
			return nil, err
		}
		program, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program's own path: %w", err)
		}
		ways, err := door.New(door.Options{State: p.Config.State, Program: program, Args: pipe, Tunnel: p.Tunnel, Log: p.Log})
		if err != nil {
			return nil, err
		}
		book, err := permits.OpenBook(permits.Options{Config: p.Config, Live: p.Live, Prompters: p.Prompters, Note: p.Note, Log: p.Log})
		if err != nil {
			return nil, err
		}
		starter := &host.Host{Config: p.Config, Executor: p.Pool, Ability: p.Ability, Version: version}
		h, err := turns.Open(ctx, turns.Options{
			Config: p.Config, Live: p.Live, Spaces: spaces, Asker: book, Door: ways, SetUp: starter, Log: p.Log,
			Drivers: map[string]turns.Driver{settings.AgentACP: turns.ACP{Host: starter}, settings.AgentCLI: &cli.Driver{Host: starter}},
		})
		if err != nil {
			return nil, errors.Join(err, book.Close())
		}
		return &agents{h, book, p.Log}, nil
	}
}

// agents are the turns of a relay's agents, and their questions.
type agents struct {
	*turns.Host
	book *permits.Book
	log  zerolog.Logger
}

var (
	_ runner.Agents    = (*agents)(nil)
	_ runner.Questions = (*agents)(nil)

	_ wire.PermissionAsker = (*agents)(nil)
)

// Pending implements runner.Questions.
func (a *agents) Pending() []approval.Pending { return a.book.Pending() }

// DecideHere implements runner.Questions.
func (a *agents) DecideHere(id string, allow bool, by string) error {
	err := a.book.Decide(permits.Answer{ID: id, Allow: allow, By: by})
	if errors.Is(err, permits.ErrUnknown) {
		return approval.ErrUnknown
	}
	return err
}

// DenyAll implements runner.Questions.
func (a *agents) DenyAll(by string) error { return a.book.DenyAll(by) }

// Permissions implements wire.PermissionAsker.
func (a *agents) Permissions() ([]wire.Permission, <-chan struct{}) { return a.book.Permissions() }

// PermissionHeard implements wire.PermissionAsker.
func (a *agents) PermissionHeard(id string, state wire.PermissionState) {
	a.book.PermissionHeard(id, state)
}

// Permit implements wire.PermissionAsker.
func (a *agents) Permit(p wire.Permit) error { return a.book.Permit(p) }

// Close implements runner.Agents.
func (a *agents) Close() {
	a.Host.Close()
	if err := a.book.Close(); err != nil {
		a.log.Error().Err(err).Msg("close the record of questions")
	}
}
