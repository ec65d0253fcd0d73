package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/cmd/drawbridge/internal/land"
	"drawbridge/cmd/drawbridge/internal/local"
	"drawbridge/internal/logs"
	"drawbridge/internal/pause"
	"drawbridge/relay/agents/hosting"
	"drawbridge/relay/agents/workspace"
	"drawbridge/relay/hosted"
	"drawbridge/relay/runner/settings"
)

// landing is a command about the work of an agent of this machine.
type landing struct {
	Agent string `arg:"" help:"The agent's name, or the name of its workspace."`
	connection
}

// desk is where such a command works. call is the line of another command about an agent, for the same bridge.
type desk struct {
	call   func(verb, agent string) string
	app    app
	client *api.Client
	relay  settings.Config
}

// open finds the bridge and the relay of this machine.
func (c landing) open(a app) (*desk, error) {
	at, err := c.resolve(a)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(filepath.Dir(at.file), "relay.yaml")
	if at.file == "" || !isFile(file) {
		return nil, usageError{errors.New("no relay.yaml was found beside the bridge.yaml; on the machine of the agent, name the bridge.yaml of `drawbridge up` with --config")}
	}
	relay, err := settings.Load(file, a.getenv)
	if err != nil {
		return nil, err
	}
	client, err := at.client()
	call := func(verb, agent string) string {
		line := "drawbridge " + verb + " " + local.Quoted(agent)
		if c.Config != "" {
			line += " --config " + local.Quoted(c.Config)
		}
		return line
	}
	return &desk{call, a, client, relay}, err
}

// spaces opens the workspaces of this machine until do returns.
func (d *desk) spaces(ctx context.Context, do func(*workspace.Store) error) error {
	return hosting.Spaces(ctx, d.relay.State, do)
}

// say writes a sentence beside the answer.
func (d *desk) say(format string, args ...any) {
	fmt.Fprintf(d.app.stderr, "drawbridge: %s\n", shown(fmt.Sprintf(format, args...)))
}

// look finds out what an agent did. The bridge says which workspace is the agent's. Where no bridge answers, or it does not know the agent, the name
// itself must do; then the result has no ID.
func (d *desk) look(ctx context.Context, name string) (w land.Work, agent api.Agent, err error) {
	agent, err = d.client.Agent(ctx, name)
	switch {
	case err == nil && agent.External == "":
		return w, agent, fmt.Errorf("agent %s has not begun, and has no workspace; see its turns: %s, or free its name: %s", agent.Name, d.call("turns", agent.Name), d.call("forget", agent.Name))
	case err != nil && bridge.KindOf(err) != bridge.NotFound && bridge.KindOf(err) != bridge.Unavailable:
		return w, agent, err
	}
	unknown := err
	err = d.spaces(ctx, func(store *workspace.Store) error {
		home := hosted.HomeName(agent.Name, agent.External)
		if unknown != nil {
			if home, err = only(ctx, store, name); err != nil {
				return fmt.Errorf("%s; %w", bridge.SafeMessage(unknown), err)
			}
			if bridge.KindOf(unknown) == bridge.NotFound {
				if agent, err = d.owner(ctx, home); err != nil {
					return err
				}
			}
		}
		w, err = land.Look(ctx, store, cmp.Or(agent.Name, name), home)
		return err
	})
	var missing *workspace.NotFound
	if unknown == nil && errors.As(err, &missing) {
		w, err = d.branchOf(ctx, agent)
	}
	for _, note := range w.Notes {
		d.say("note: %s", note)
	}
	return w, agent, err
}

// owner is the agent of a workspace; its ID is "" where the bridge knows none.
func (d *desk) owner(ctx context.Context, home string) (api.Agent, error) {
	all, err := d.agents(ctx)
	for _, g := range all {
		if hosted.HomeName(g.Name, g.External) == home && g.External != "" {
			return g, err
		}
	}
	return api.Agent{}, err
}

// only is the one workspace of this name, or of an agent of this name. Its error lists what is there.
func only(ctx context.Context, store *workspace.Store, name string) (string, error) {
	all, err := store.List(ctx)
	if err != nil || slices.Contains(all, name) {
		return name, err
	}
	own := slices.DeleteFunc(slices.Clone(all), func(home string) bool {
		return len(home) < 7 || hosted.HomeName(name, home[len(home)-6:]) != home
	})
	switch {
	case len(own) == 1:
		return own[0], nil
	case len(own) > 1:
		return "", fmt.Errorf("several workspaces here may be the agent's; name one: %s", strings.Join(own, ", "))
	case len(all) == 0:
		return "", errors.New("no agent has a workspace on this machine")
	}
	return "", fmt.Errorf("workspaces on this machine: %s", strings.Join(all[:min(len(all), 20)], ", "))
}

// branchOf is the work of an agent without a workspace: what the clone has of it.
func (d *desk) branchOf(ctx context.Context, agent api.Agent) (land.Work, error) {
	nothing := fmt.Errorf("agent %s has no workspace on this machine; drawbridge workspaces lists those of all machines. If the agent never began, free its name: %s", agent.Name, d.call("forget", agent.Name))
	if agent.State == string(bridge.AgentBusy) {
		nothing = fmt.Errorf("agent %s begins its first turn, and has no workspace yet; try again later", agent.Name)
	}
	clone, err := filepath.EvalSymlinks(d.relay.Repos[agent.Repo].Clone)
	if err != nil || clone == "" {
		return land.Work{}, nothing
	}
	w, err := land.Work{Agent: agent.Name, Home: hosted.HomeName(agent.Name, agent.External), Clone: clone}.Refs(ctx)
	if err == nil && w.At == "" && len(w.Kept) == 0 {
		err = nothing
	}
	return w, err
}

// begin is look for a command that needs commits and a branch to compare them with. It says what is in no commit, and that there are no commits.
func (d *desk) begin(ctx context.Context, name string) (w land.Work, into string, commits []string, err error) {
	if w, _, err = d.look(ctx, name); err != nil {
		return w, "", nil, err
	}
	if w.Dirty > 0 {
		d.say("note: %s, which are not in these commits: %s", local.Changed(w.Dirty), w.Workspace)
	}
	if into, err = w.Into(ctx); err != nil {
		into = "HEAD"
	}
	if w.Ref != "" {
		commits, err = w.Commits(ctx)
	}
	if err == nil && len(commits) == 0 {
		d.say("agent %s has no commits that %s lacks", name, into)
	}
	return w, into, commits, err
}

// list says which commits an agent has.
func (d *desk) list(w land.Work, into string, commits []string) {
	const most = 20
	what := fmt.Sprintf("%d commits", len(commits))
	if len(commits) == 1 {
		what = "1 commit"
	}
	d.say("agent %s has %s on %s that %s lacks:", w.Agent, what, w.Ref, into)
	for _, line := range commits[:min(len(commits), most)] {
		fmt.Fprintf(d.app.stderr, "  %s\n", shown(line))
	}
	if more := len(commits) - most; more > 0 {
		fmt.Fprintf(d.app.stderr, "  and %d more\n", more)
	}
}

type diffCmd struct {
	landing
	Stat bool `help:"Print a line for each file instead of the changes."`
}

// Help shows an example.
func (diffCmd) Help() string {
	return "The command first brings the agent's newest commits into your clone. Then it shows what the agent changed since its branch split from your current branch. Standard output gets the changes alone. The command also says how to merge the commits, and how to open a pull request.\n\nThe clone is the one that you gave to drawbridge up, in whichever folder you are. The agent may work at the same time. The bridge need not run.\n\nExamples:\n  drawbridge diff my-app-opencode\n  drawbridge diff my-app-opencode >changes.patch"
}

// Run prints the changes.
func (c diffCmd) Run(ctx context.Context, a app) error {
	d, err := c.open(a)
	if err != nil {
		return err
	}
	defer d.client.Close()
	w, into, commits, err := d.begin(ctx, c.Agent)
	if err != nil || len(commits) == 0 {
		return err
	}
	d.list(w, into, commits)
	out := a.stdout
	if logs.IsTerminal(a.stdout) {
		_, plain := a.getenv("NO_COLOR")
		paint := &painter{to: a.stdout, plain: plain || c.Stat}
		defer paint.end()
		out = paint
	}
	if err := w.Diff(ctx, c.Stat, out); err != nil {
		return err
	}
	if p, is := out.(*painter); is {
		p.end()
	}
	d.say("take the commits into %s with: %s", into, d.call("merge", c.Agent))
	if push, page := w.PullRequest(ctx); push != "" {
		d.say("or push the branch: %s", push)
		if page != "" {
			d.say("and open a pull request at: %s", page)
		}
	}
	return nil
}

// painter makes a patch harmless to a terminal and colors its lines.
type painter struct {
	to    io.Writer
	plain bool
	rest  []byte
}

// Write implements io.Writer.
func (p *painter) Write(b []byte) (int, error) {
	p.rest = append(p.rest, b...)
	for {
		line, rest, whole := bytes.Cut(p.rest, []byte("\n"))
		if !whole {
			p.rest = slices.Clone(p.rest) // the lines before it can go
			return len(b), nil
		}
		p.rest = rest
		if err := p.line(string(line)); err != nil {
			return len(b), err
		}
	}
}

// line writes one line.
func (p *painter) line(line string) error {
	begin, end := "", ""
	for _, c := range []struct{ prefix, color string }{
		{"diff ", "1"}, {"index ", "1"}, {"--- ", "1"}, {"+++ ", "1"}, {"@@", "36"}, {"+", "32"}, {"-", "31"},
	} {
		if !p.plain && strings.HasPrefix(line, c.prefix) {
			begin, end = "\x1b["+c.color+"m", "\x1b[m"
			break
		}
	}
	_, err := fmt.Fprintf(p.to, "%s%s%s\n", begin, shown(line), end)
	return err
}

// end writes what came without the end of its line.
func (p *painter) end() {
	if len(p.rest) > 0 {
		_ = p.line(string(p.rest)) // as every write to a terminal that is gone
		p.rest = nil
	}
}

type mergeCmd struct{ landing }

// Help shows an example.
func (mergeCmd) Help() string {
	return "The command first brings the agent's newest commits into your clone. Then it merges them into the branch that your clone has checked out. If your clone has uncommitted changes, or if your changes and those of the agent conflict, the command refuses and changes nothing.\n\nThe clone is the one that you gave to drawbridge up, in whichever folder you are. The agent may work at the same time. The bridge need not run.\n\nExample:\n  drawbridge merge my-app-opencode"
}

// Run merges.
func (c mergeCmd) Run(ctx context.Context, a app) error {
	d, err := c.open(a)
	if err != nil {
		return err
	}
	defer d.client.Close()
	w, _, commits, err := d.begin(ctx, c.Agent)
	if err != nil || len(commits) == 0 {
		return err
	}
	into, err := w.Into(ctx)
	if err != nil {
		return err
	}
	d.list(w, into, commits)
	if err := w.Merge(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "merged agent %s into %s of %s\n", c.Agent, into, shown(w.Clone))
	return err
}

type discardCmd struct {
	landing
	Yes  bool   `help:"Leave out the first question. Work that is nowhere else still needs your second yes, or --lose."`
	Lose string `help:"Ask nothing, and lose the work that is nowhere else. Without a terminal, the command prints the code when it refuses." placeholder:"CODE"`
}

// Help shows an example.
func (discardCmd) Help() string {
	return "The command ends the agent and all agents under it, and frees their names. Then it removes their workspaces, and their branches in your clone. Before that it asks you. If work is nowhere else, it lists this work and asks a second time. If an agent works on a turn, the command refuses.\n\nWithout a terminal, give --yes. If work would be lost, the command refuses, and prints a code for --lose. A code is for exactly the listed work. The bridge must run.\n\nExamples:\n  drawbridge discard my-app-opencode\n  drawbridge discard my-app-opencode --yes"
}

// Run throws the work away.
func (c discardCmd) Run(ctx context.Context, a app) error {
	d, err := c.open(a)
	if err != nil {
		return err
	}
	defer d.client.Close()
	w, agent, err := d.look(ctx, c.Agent)
	if err != nil {
		return err
	}
	all := []land.Work{w}
	if agent.ID == "" {
		if _, err := d.client.Status(ctx); err != nil { // an agent must not go on without its workspace
			return err
		}
	} else if all, err = d.below(ctx, agent, all); err != nil {
		return err
	}
	own := slices.DeleteFunc(slices.Clone(all), func(w land.Work) bool { return w.Home == "" })
	lost, err := land.NowhereElse(ctx, own)
	if err != nil {
		return err
	}
	d.show(all, lost)
	if err := c.sure(ctx, d, lost); err != nil {
		return err
	}
	if agent.ID != "" {
		if agent.Parent == "" {
			if _, err := d.client.Stop(ctx, agent.ID, "discarded"); err != nil {
				return err
			}
		}
		if _, err := d.client.ForgetAgent(ctx, agent.ID); err != nil {
			return err
		}
	}
	return d.remove(ctx, own)
}

// below adds the work of all agents under one; that of an agent without a workspace here has no Home. An agent with a turn is an error.
func (d *desk) below(ctx context.Context, top api.Agent, all []land.Work) ([]land.Work, error) {
	tree, err := d.tree(ctx, top)
	if err != nil {
		return nil, err
	}
	names := map[string]string{top.ID: top.Name}
	for _, g := range append(tree, top) {
		if g.State == string(bridge.AgentBusy) {
			return nil, fmt.Errorf("agent %s works on a turn; wait until the turn ends, or stop the agent: %s", g.Name, d.call("stop", cmp.Or(names[g.Root], g.Name)))
		}
	}
	for _, g := range tree {
		var missing *workspace.NotFound
		err := d.spaces(ctx, func(store *workspace.Store) error {
			w, err := land.Look(ctx, store, g.Name, hosted.HomeName(g.Name, g.External))
			if err == nil {
				all = append(all, w)
			}
			return err
		})
		switch {
		case errors.As(err, &missing): // it works elsewhere, or in its parent's workspace
			all = append(all, land.Work{Agent: g.Name})
		case err != nil:
			return nil, err
		}
	}
	return all, nil
}

// tree lists the agents under one.
func (d *desk) tree(ctx context.Context, top api.Agent) (below []api.Agent, err error) {
	all, err := d.agents(ctx)
	for in, grew := map[string]bool{top.ID: true}, true; grew; {
		grew = false
		for _, g := range all {
			if in[g.Parent] && !in[g.ID] {
				in[g.ID], grew = true, true
				below = append(below, g)
			}
		}
	}
	return below, err
}

// agents lists all agents of the bridge.
func (d *desk) agents(ctx context.Context) (all []api.Agent, err error) {
	for page := (api.ListOptions{Limit: 1000}); ; {
		list, err := d.client.Agents(ctx, page)
		if err != nil {
			return nil, err
		}
		all = append(all, list.Agents...)
		if page.Before = list.Next; page.Before == "" {
			return all, nil
		}
	}
}

// show lists what is thrown away, and what is lost with it.
func (d *desk) show(all []land.Work, lost land.Loss) {
	var text strings.Builder
	for _, w := range all {
		if w.Home == "" {
			fmt.Fprintf(&text, "agent %s ends, too; it has no workspace of its own on this machine\n", w.Agent)
			continue
		}
		fmt.Fprintf(&text, "agent %s: workspace %s, branch %s in %s\n", w.Agent, cmp.Or(w.Workspace, "none"), w.Branch(), w.Clone)
	}
	for _, line := range lost.Lines {
		fmt.Fprintf(&text, "agent %s\n", line)
	}
	for _, w := range all {
		for _, name := range w.Names {
			fmt.Fprintf(&text, "    %s\n", name)
		}
	}
	fmt.Fprint(d.app.stdout, shown(text.String()))
}

// sure returns nil when a person, or the flags, agree to what is lost and to the rest.
func (c discardCmd) sure(ctx context.Context, d *desk, lost land.Loss) error {
	screen, person := d.app.terminal(true)
	defer screen.Close()
	asks := asker{screen, bufio.NewReader(d.app.stdin)}
	losing := d.call("discard", c.Agent) + " --lose " + lost.Code
	switch {
	case c.Lose != "" && c.Lose == lost.Code:
		return nil
	case c.Lose != "" && lost.Code != "":
		return fmt.Errorf("the code %.20q is wrong, or the work that would be lost has changed; to lose the work that is there now, run: %s", c.Lose, losing)
	case !c.Yes && !person:
		return usageError{fmt.Errorf("nothing was thrown away; without a terminal add --yes: %s --yes", d.call("discard", c.Agent))}
	case !c.Yes && !asks.yes(ctx, "Throw this away? [y/N] "):
		return errNo
	case lost.Code == "":
		return nil
	case !person:
		return fmt.Errorf("nothing was thrown away; to lose the work that is nowhere else: %s", losing)
	case !asks.yes(ctx, "Lose the work that is nowhere else? [y/N] "):
		return errNo
	}
	return nil
}

// removeSpace removes a workspace with what was shown of it. It waits for the end of the agent's process.
func removeSpace(ctx context.Context, store *workspace.Store, w land.Work) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		var missing *workspace.NotFound
		var held *workspace.Held
		err := store.Remove(ctx, w.Home, w.Code)
		switch {
		case errors.As(err, &missing):
			return nil
		case !errors.As(err, &held) || pause.For(ctx, 100*time.Millisecond) != nil:
			return err
		}
	}
}

// remove removes workspaces and branches. It goes on after one that cannot be removed.
func (d *desk) remove(ctx context.Context, all []land.Work) error {
	var failed []error
	for _, w := range all {
		err := d.spaces(ctx, func(store *workspace.Store) error { return removeSpace(ctx, store, w) })
		var held *workspace.Held
		var loss *workspace.Loss
		switch {
		case errors.As(err, &loss):
			err = fmt.Errorf("the work of agent %s has changed since you looked, and its workspace stays; look again: %s", w.Agent, d.call("discard", w.Home))
		case errors.As(err, &held):
			err = fmt.Errorf("the workspace of agent %s is still in use; when its process has ended, type: %s", w.Agent, d.call("discard", w.Home))
		case err == nil:
			err = w.Drop(ctx)
		}
		if err == nil {
			_, err = fmt.Fprintf(d.app.stdout, "agent %s, its workspace and its branch are gone\n", shown(w.Agent))
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}
