package up

import (
	"context"
	"strings"

	"drawbridge/api"
	"drawbridge/cmd/drawbridge/internal/local"
)

// missesLogin reports whether a turn failed because its agent is not logged in.
func missesLogin(t api.Turn) bool {
	return strings.Contains(t.Trouble, "login is missing")
}

// logIn offers the agent's own login to the person at the terminal, and runs it there. It reports whether the login ended well.
func (u *upping) logIn(ctx context.Context, keys *keyboard) bool {
	u.say("agent %s is not logged in; its login runs on this terminal and counts for all agents of this entry", u.Agent)
	lines := keys.line(func() { u.screen.ask("Log in now? [y/N] ") })
	select {
	case <-ctx.Done():
		return false
	case text := <-lines:
		u.screen.answered(true)
		answer, _ := keys.took(text)
		if yes, _, err := readAnswer(answer); !yes || err != nil {
			return false
		}
	}
	var err error
	if u.screen.lend(func() { err = u.runLogin(ctx) }); err != nil {
		u.say("the login of agent %s did not end well: %v", u.Agent, err)
		return false
	}
	return true
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
