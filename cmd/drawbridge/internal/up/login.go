package up

import (
	"context"
	"errors"
	"strings"

	"drawbridge/api"
	"drawbridge/cmd/drawbridge/internal/local"
)

// missesLogin reports whether a turn failed because its agent is not logged in.
func missesLogin(t api.Turn) bool {
	return strings.Contains(t.Trouble, "login is missing")
}

// logIn offers the agent's own login to the person at the terminal, and runs it there. It reports whether the login ended well.
func (u *upping) logIn(ctx context.Context, turn string) bool {
	text := "the agent is not logged in; the login runs on this terminal and serves all agents that use " + u.Agent
	answer := make(chan bool, 1)
	q := question{id: "the login of " + u.Agent, key: turn, agent: u.agentName() + " (" + u.Agent + ")", text: text, elsewhere: u.loginCommand()}
	if err := u.own.ask(q, func(yes bool) error { answer <- yes; return nil }); err != nil {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case yes := <-answer:
		if !yes {
			return false
		}
	}
	err := errors.New("the input of this terminal has ended")
	if u.screen.lend(func() { err = u.runLogin(ctx) }); err != nil {
		u.say("the login of agent %s failed: %v", u.Agent, err)
		return false
	}
	return true
}

// loginCommand is what a person types to log the agent in.
func (u *upping) loginCommand() string {
	return "drawbridge-relay login " + u.Agent + " --config " + u.file("relay.yaml")
}

// runLogin lends the terminal to the agent's login. Ctrl-C ends both.
func (u *upping) runLogin(ctx context.Context) error {
	program, err := u.relayProgram()
	if err != nil {
		return err
	}
	return local.Terminal{In: u.Stdin, Out: u.Stdout, Err: u.Stderr}.Lend(ctx, program, "login", u.Agent, "--config", u.file("relay.yaml"))
}

// again says a turn once more that failed for want of a login, and waits for its end.
func (u *upping) again(ctx context.Context, t api.Turn) (api.Turn, error) {
	t, err := u.client.Continue(ctx, t.ID)
	if err != nil {
		return t, err
	}
	u.say("agent %s gets the turn again (turn %s)", u.Agent, t.ID)
	return u.await(ctx, t)
}
