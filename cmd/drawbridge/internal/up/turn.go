package up

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/cmd/drawbridge/internal/local"
	"drawbridge/cmd/drawbridge/internal/watch"
	"drawbridge/internal/logs"
	"drawbridge/relay/hosted"
	"drawbridge/relay/runner/control"
)

// beside gives a turn to a bridge and a relay that another process runs.
func (u *upping) beside(ctx context.Context) error {
	if missing := u.Missing(); len(missing) > 0 {
		return fmt.Errorf("another drawbridge up is starting in %s and has not written %s yet; wait a moment and try again", u.Dir, strings.Join(missing, ", "))
	}
	if err := u.load(); err != nil {
		return err
	}
	defer u.client.Close()
	if err := u.enlist(ctx); err != nil {
		return err
	}
	if err := u.awaitRelay(ctx); err != nil {
		return err
	}
	if err := u.look(ctx, u.agentName()); err != nil {
		return err
	}
	looking, stop := context.WithCancel(ctx)
	var lookers sync.WaitGroup
	for _, run := range []func(context.Context) error{u.watcher.Run, u.console.run} {
		lookers.Go(func() { _ = run(looking) })
	}
	defer lookers.Wait()
	defer stop()
	return u.turn(ctx)
}

// awaitRelay waits until the relay is connected and follows relay.yaml as it is now. A change that needs a new start of the relay waits until no agent
// has a turn.
func (u *upping) awaitRelay(ctx context.Context) error {
	waiting, late := context.WithCancelCause(ctx)
	defer late(nil)
	idle := time.AfterFunc(time.Minute, func() {
		late(errors.New("the relay of the running `drawbridge up` did not connect with the current relay.yaml within a minute; see the terminal of that `drawbridge up`"))
	})
	defer idle.Stop()
	told := ""
	return every(waiting, func() bool {
		if u.relayFollows(waiting) {
			return true
		}
		busy, err := u.client.Agents(waiting, api.ListOptions{State: string(bridge.AgentBusy), Limit: 1})
		if err == nil && len(busy.Agents) > 0 {
			idle.Reset(time.Minute)
			if name := busy.Agents[0].Name; name != told {
				told = name
				u.say("waiting for the turn of agent %s to end; then the relay starts again with the new relay.yaml", name)
			}
		}
		if !local.Runs(u.Dir) {
			late(errGone)
		}
		return false
	})
}

// errGone means that the up which runs bridge and relay has ended.
var errGone = errors.New("the `drawbridge up` that ran the bridge has ended; start it again, and its turns go on")

// relayFollows reports whether the relay is connected and follows relay.yaml as it is now.
func (u *upping) relayFollows(ctx context.Context) bool {
	s, err := control.NewClient(u.relay.State).Status(ctx)
	if err != nil {
		return false
	}
	r, err := u.client.Relay(ctx, u.relayID)
	return err == nil && r.Connected != nil && !s.Outdated
}

// every asks until the answer is yes, or returns the cause of ctx.
func every(ctx context.Context, yes func() bool) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !yes() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}

// turn gives the agent its turn, and says what came of it.
func (u *upping) turn(ctx context.Context) error {
	if err := u.inForce(ctx); err != nil {
		return err
	}
	name := u.agentName()
	before, err := u.repo.Branches(ctx)
	if err != nil {
		return err
	}
	if n, err := u.repo.Uncommitted(ctx); err == nil && n > 0 && !u.WithChanges {
		u.say("%s in %s: the agent works without them; commit them first if it needs them, or give them to a new agent with --with-changes", local.Changed(n), u.repo.Clone)
	}
	var t api.Turn
	err = u.watcher.Own(func() (string, error) {
		t, err = u.begin(ctx, name)
		return t.ID, err
	})
	if err != nil {
		return err
	}
	t, err = u.await(ctx, t)
	if err == nil && missesLogin(t) && u.screen.types() && u.logIn(ctx, t.ID) {
		t, err = u.again(ctx, t)
	}
	if err != nil {
		return err
	}
	return u.report(ctx, t, name, before)
}

// agentName is what the bridge calls the agent that gets the turn.
func (u *upping) agentName() string { return cmp.Or(u.Name, defaultName(u.repo.Name, u.Agent)) }

// defaultName is what the bridge calls an agent of a clone unless a person named it.
func defaultName(repo, agent string) string {
	_, clone, _ := strings.Cut(repo, "/")
	name := strings.ReplaceAll(clone, "/", "-")
	if most := 63 - len(agent); len(name) > most {
		name = strings.TrimRight(name[:most], "-._")
	}
	return name + "-" + agent
}

// begin launches the agent, or talks to the one that is there.
func (u *upping) begin(ctx context.Context, name string) (api.Turn, error) {
	there, err := u.client.Agent(ctx, name)
	switch {
	case bridge.KindOf(err) == bridge.NotFound, err == nil && there.External == "" && there.State == string(bridge.AgentFailed): // or it was never launched
		ref, err := u.takeChanges(ctx, name)
		if err != nil {
			return api.Turn{}, err
		}
		l, err := u.client.Launch(ctx, api.LaunchRequest{Name: name, Repo: u.repo.Name, Ref: ref, Prompt: u.Prompt, Runtime: runtimeOf(u.bridge, u.relayID, u.Agent)})
		if err != nil {
			return api.Turn{}, err
		}
		u.say("agent %s works on %s (turn %s)", name, u.repo.Name, l.Turn.ID)
		return l.Turn, nil
	case err != nil:
		return api.Turn{}, err
	case there.Repo != u.repo.Name || there.Runtime != runtimeOf(u.bridge, u.relayID, u.Agent):
		return api.Turn{}, fmt.Errorf("agent %s already works on %s in %s; choose another name with --name, or throw that agent away: drawbridge discard %s%s", name, there.Repo, there.Runtime, name, u.where())
	}
	if u.WithChanges {
		return api.Turn{}, u.Usage(fmt.Errorf("--with-changes is for a new agent, and agent %s already has a workspace; choose a new name with --name, or commit your changes and tell the agent to merge them", name))
	}
	t, err := u.client.Say(ctx, name, u.Prompt)
	if err == nil {
		u.say("agent %s goes on with %s (turn %s)", name, u.repo.Name, t.ID)
	}
	return t, err
}

// takeChanges makes a branch of the uncommitted changes of the clone where a person wants that, and returns its name; else "".
func (u *upping) takeChanges(ctx context.Context, agent string) (branch string, err error) {
	if !u.WithChanges {
		return "", nil
	}
	n, err := u.repo.Uncommitted(ctx)
	if err != nil {
		return "", err
	}
	if n == 0 {
		u.say("%s has no uncommitted changes to take along", u.repo.Clone)
		return "", nil
	}
	if branch, err = u.repo.Changes(ctx, agent); err != nil {
		return "", fmt.Errorf("take the uncommitted changes of %s along: %w", u.repo.Clone, err)
	}
	u.say("%s in %s: the agent gets them as a commit on branch %s; your working tree stays as it is", local.Changed(n), u.repo.Clone, branch)
	return branch, nil
}

// await waits for the end of a turn. A bridge that is away for a time is asked again.
func (u *upping) await(ctx context.Context, t api.Turn) (api.Turn, error) {
	return watch.Await(ctx, u.client, t, func() error {
		if !local.Runs(u.Dir) {
			return errGone
		}
		return nil
	})
}

// tellLeft says what the agent left in its workspace, as far as the relay can tell in a moment.
func (u *upping) tellLeft(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list, err := u.client.Workspaces(ctx)
	if err != nil {
		return
	}
	for _, w := range list.Workspaces {
		if w.Agent == name && w.Dirty > 0 {
			u.say("%s in the agent's workspace: %s", local.Changed(w.Dirty), w.Path)
		}
	}
}

// newCommits lists what the turn of an agent brought into the clone.
func (u *upping) newCommits(ctx context.Context, name string, before local.Branches) ([]string, error) {
	agent, err := u.client.Agent(ctx, name)
	if err != nil {
		return nil, err
	}
	after, err := u.repo.Branches(ctx)
	if err != nil {
		return nil, err
	}
	return u.repo.Commits(ctx, before, after.Of(hosted.HomeName(agent.Name, agent.External)))
}

// report prints the agent's text and its new commits.
func (u *upping) report(ctx context.Context, t api.Turn, name string, before local.Branches) error {
	commits, err := u.newCommits(ctx, name, before)
	if err != nil {
		return err
	}
	lines := commits
	told := u.watcher.Told(ctx, name, t) && logs.IsTerminal(u.Stdout) && logs.IsTerminal(u.Stderr)
	if t.Reply != "" && !told {
		lines = append([]string{strings.TrimRight(t.Reply, "\n")}, commits...)
	}
	for _, line := range lines {
		line = u.Shown(line)
		if u.screen.types() && logs.IsTerminal(u.Stdout) {
			line = "| " + strings.ReplaceAll(line, "\n", "\n| ") // an agent's words must not look like a question of the console's
		}
		if err := u.screen.to(u.Stdout, line+"\n"); err != nil {
			return err
		}
	}
	u.tellLeft(ctx, name)
	defer u.screen.ring()
	if spent := t.Spent.String(); spent != "" {
		u.say("the turn took %s", spent)
	}
	if t.State == string(bridge.TurnReplied) {
		if t.Reply == "" {
			u.say("the agent said nothing")
		}
		if t.Trouble != "" {
			u.say("note: %s", t.Trouble)
		}
		if len(commits) == 0 {
			u.say("the turn has ended; it brought no commits")
			return nil
		}
		u.say("the turn has ended; its commits are in %s", u.repo.Clone)
		u.say("next: drawbridge diff %[1]s, drawbridge merge %[1]s, or drawbridge discard %[1]s", name+u.where())
		return nil
	}
	if t.Stopped {
		u.say("%s", t.Trouble)
		return ErrTurn
	}
	u.say("the turn is %s: %s", t.State, cmp.Or(t.Trouble, t.Status))
	if missesLogin(t) {
		u.say("log the agent in with: %s", u.loginCommand())
	}
	return ErrTurn
}
