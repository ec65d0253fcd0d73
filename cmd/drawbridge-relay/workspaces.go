package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"drawbridge/internal/trust"
	"drawbridge/relay/agents/hosting"
	"drawbridge/relay/agents/workspace"
)

const workspacesDescription = `List the workspaces of the agents on this machine, with agent, branch, changed files, unfetched commits, size and path.

Each agent works in a clone of its own, on the branch drawbridge/<agent>. That clone is below workspaces in the relay's state
folder. The agent's commits come back into the listed clone, on a branch of the same name. The relay removes a workspace with
unsaved work only if you ask for it twice. The relay never runs Git in an agent's clone; it reads the clone as data.`

const addDescription = `Make the workspace of an agent, as the relay does when the agent starts for the first time. The workspace gets the
branches that --branch names, and begins at the first of them. Without --branch it gets the branch that the clone is on. The
command does not change the clone.`

const showDescription = `Show what the relay reads from git in a workspace: commits and differences since a commit, and whether the tree is clean. The
relay sends the same evidence at the end of a turn. To begin at a commit, give its full id with --since.`

const fetchDescription = `Fetch the commits of agents into the listed clone, on the branch drawbridge/<agent>. The branch only moves forward. Without an
AGENT, fetch the commits of all agents.

The command does not change a branch that you have checked out or moved. In that case it puts the commits under a ref of their
own, refs/drawbridge/<agent>/<commit>, and says so. With --all, it also makes such refs for commits on other branches, stashes
and detached commits.`

const removeDescription = `Remove the workspace of an agent, unless the workspace has unsaved work.

Unsaved work is any of these:
  - files that are changed, staged, untracked or ignored
  - commits (on branches, stashed or detached) that no ref of the listed clone reaches
  - tags
  - files of Git LFS
  - repositories within the tree
  - a rebase or merge in progress
  - anything that the command cannot read

If there is unsaved work, the command refuses, lists the work and prints a code. To remove the workspace all the same, give that
code with --lose. A code is for one state of the work: if the work changes, ask for a new code. The command removes nothing while the agent runs.`

type workspaces struct {
	place
	JSON bool
}

func newWorkspaces(s streams) *cobra.Command {
	var c workspaces
	cmd := group(help{"workspaces", "List the workspaces of the agents on this machine", workspacesDescription,
		"  drawbridge-relay workspaces\n  drawbridge-relay workspaces fetch\n  drawbridge-relay workspaces remove ada"})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return c.with(cmd.Context(), func(ctx context.Context, store *workspace.Store) error { return c.list(ctx, s, store) })
	}
	c.flags(cmd.Flags())
	cmd.Flags().BoolVar(&c.JSON, "json", false, "print JSON")
	cmd.AddCommand(newWorkspacesAdd(s), newWorkspacesShow(s), newWorkspacesFetch(s), newWorkspacesRemove(s))
	return cmd
}

// with opens the workspaces for one command, which SIGINT and SIGTERM end.
func (c workspaces) with(ctx context.Context, do func(context.Context, *workspace.Store) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	state, err := c.state()
	if err != nil {
		return err
	}
	return hosting.Spaces(ctx, state, func(store *workspace.Store) error { return do(ctx, store) })
}

// list prints a line for each workspace. One that cannot be read is an error after all others.
func (c workspaces) list(ctx context.Context, s streams, store *workspace.Store) error {
	agents, err := store.List(ctx)
	if err != nil {
		return err
	}
	states, errs := []workspace.State{}, []error{}
	for _, agent := range agents {
		space, err := store.Get(ctx, agent)
		if err == nil {
			var state workspace.State
			if state, err = space.State(ctx); err == nil {
				states = append(states, state)
			}
		}
		errs = append(errs, err)
	}
	if c.JSON {
		return errors.Join(append(errs, json.NewEncoder(s.out).Encode(states))...)
	}
	if len(agents) == 0 {
		_, err := fmt.Fprintln(s.out, "no workspaces")
		return err
	}
	for _, state := range states {
		printState(s.out, state)
	}
	return errors.Join(errs...)
}

func printState(w io.Writer, s workspace.State) {
	on := s.On
	if on == "" {
		on = "no branch"
	}
	fmt.Fprintf(w, "%s  %s  %s  %s not fetched  %s  %s\n", s.Agent, on, counted(s.Dirty(), "dirty file", "dirty files"), counted(s.Unfetched+s.Elsewhere, "commit", "commits"), size(s.Bytes), s.Path)
	if unsaved := s.Unsaved(); len(unsaved) > 0 {
		fmt.Fprintf(w, "    unsaved: %s\n", strings.Join(unsaved, ", "))
	}
	for _, name := range s.Names {
		fmt.Fprintf(w, "    %s\n", name)
	}
	for _, folder := range s.Nested {
		fmt.Fprintf(w, "    repository in %s\n", folder)
	}
}

// size is a number of bytes for people.
func size(bytes int64) string {
	for _, unit := range []struct {
		name  string
		bytes int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if bytes >= unit.bytes {
			return fmt.Sprintf("%.1f %s", float64(bytes)/float64(unit.bytes), unit.name)
		}
	}
	return counted(int(bytes), "byte", "bytes")
}

// leaf is a command below workspaces that names agents: from least to most of them.
func (c *workspaces) leaf(h help, least, most int) *cobra.Command {
	cmd := h.command()
	cmd.Args = usage(func(_ *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return errors.New("give one agent that drawbridge-relay workspaces shows")
		}
		return nil
	})
	c.flags(cmd.Flags())
	cmd.Flags().BoolVar(&c.JSON, "json", false, "print JSON")
	return cmd
}

func newWorkspacesAdd(s streams) *cobra.Command {
	var c workspaces
	var spec workspace.Spec
	cmd := c.leaf(help{"add AGENT --clone DIR", "Make the workspace of an agent", addDescription, "  drawbridge-relay workspaces add ada --clone ~/src/my-app --branch main"}, 1, 1)
	cmd.Flags().StringVar(&spec.Clone, "clone", "", "the clone, a `DIR` of this machine")
	cmd.Flags().StringArrayVar(&spec.Branches, "branch", nil, "give the agent this branch, a `NAME`; may be repeated")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		spec.Agent = args[0]
		if spec.Clone == "" {
			return &usageError{cmd.CommandPath(), errors.New("name the clone with --clone DIR")}
		}
		return c.with(cmd.Context(), func(ctx context.Context, store *workspace.Store) error { return c.add(ctx, s, addition{store, spec}) })
	}
	return cmd
}

// addition is a workspace to make, and where.
type addition struct {
	store *workspace.Store
	spec  workspace.Spec
}

func (c workspaces) add(ctx context.Context, s streams, a addition) error {
	var err error
	if a.spec.Clone, err = filepath.Abs(a.spec.Clone); err != nil {
		return err
	}
	space, err := a.store.Make(ctx, a.spec)
	if err != nil {
		return err
	}
	if c.JSON {
		state, err := space.State(ctx)
		return errors.Join(err, json.NewEncoder(s.out).Encode(state))
	}
	_, err = fmt.Fprintf(s.out, "%s works in %s, on %s\n", space.Agent(), space.Dir(), space.Branch())
	return err
}

func newWorkspacesShow(s streams) *cobra.Command {
	var c workspaces
	var since string
	cmd := c.leaf(help{"show AGENT", "Show commits, differences and changes in a workspace", showDescription, "  drawbridge-relay workspaces show ada\n  drawbridge-relay workspaces show ada --json"}, 1, 1)
	cmd.Flags().StringVar(&since, "since", "", "begin at this `COMMIT`; at the begin of the workspace unless given")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.with(cmd.Context(), func(ctx context.Context, store *workspace.Store) error {
			space, err := store.Get(ctx, args[0])
			if err != nil {
				return err
			}
			evidence, err := space.Evidence(ctx, since)
			if err != nil {
				return err
			}
			if c.JSON {
				return json.NewEncoder(s.out).Encode(evidence)
			}
			printEvidence(s.out, evidence)
			return nil
		})
	}
	return cmd
}

func printEvidence(w io.Writer, e workspace.Evidence) {
	fmt.Fprintf(w, "%s on %s: %s, %s changed, %s added, %d removed\n", e.Agent, e.On, counted(e.Total, "commit", "commits"), counted(e.Changed, "file", "files"), counted(e.Additions, "line", "lines"), e.Deletions)
	for _, c := range e.Commits {
		fmt.Fprintf(w, "    %s %s\n", c.ID, c.Subject)
	}
	for _, f := range e.Files {
		fmt.Fprintf(w, "    %s +%d -%d\n", f.Path, f.Additions, f.Deletions)
	}
	if e.Clean {
		fmt.Fprintln(w, "the tree is clean")
		return
	}
	fmt.Fprintf(w, "the tree is dirty: %d staged, %d changed, %d deleted, %d untracked\n", e.Changes.Staged, e.Changes.Modified, e.Changes.Deleted, e.Changes.Untracked)
	for _, line := range append(e.Changes.Names, e.Problems...) {
		fmt.Fprintf(w, "    %s\n", line)
	}
}

func newWorkspacesFetch(s streams) *cobra.Command {
	var c workspaces
	var all bool
	cmd := c.leaf(help{"fetch [AGENT...]", "Bring the commits of agents into the listed clone", fetchDescription, "  drawbridge-relay workspaces fetch\n  drawbridge-relay workspaces fetch ada --all"}, 0, 1<<10)
	cmd.Flags().BoolVar(&all, "all", false, "keep commits outside of the agent's branch, too")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.with(cmd.Context(), func(ctx context.Context, store *workspace.Store) error {
			if len(args) == 0 {
				var err error
				if args, err = store.List(ctx); err != nil {
					return err
				}
			}
			return c.fetch(ctx, s, fetching{store, args, all})
		})
	}
	return cmd
}

// fetching is whose commits to fetch.
type fetching struct {
	store  *workspace.Store
	agents []string
	all    bool
}

// fetch goes on with the next agent after an error.
func (c workspaces) fetch(ctx context.Context, s streams, f fetching) error {
	errs, results := []error{}, []workspace.Fetched{}
	for _, agent := range f.agents {
		space, err := f.store.Get(ctx, agent)
		if err == nil {
			var result workspace.Fetched
			if result, err = space.Fetch(ctx, f.all); err == nil {
				results = append(results, result)
			}
		}
		errs = append(errs, err)
	}
	if c.JSON {
		return errors.Join(append(errs, json.NewEncoder(s.out).Encode(results))...)
	}
	for _, r := range results {
		printFetched(s.out, r)
	}
	return errors.Join(errs...)
}

func printFetched(w io.Writer, f workspace.Fetched) {
	switch {
	case f.After == "":
		fmt.Fprintf(w, "%s: %s has no commits\n", f.Agent, f.Branch)
	case f.Before == f.After:
		fmt.Fprintf(w, "%s: %s stays at %s\n", f.Agent, f.Branch, f.After)
	default:
		fmt.Fprintf(w, "%s: %s is at %s now\n", f.Agent, f.Branch, f.After)
	}
	for _, note := range f.Notes {
		fmt.Fprintf(w, "    %s\n", note)
	}
	for _, ref := range f.Kept {
		fmt.Fprintf(w, "    kept as %s\n", ref)
	}
}

func newWorkspacesRemove(s streams) *cobra.Command {
	var c workspaces
	var lose string
	cmd := c.leaf(help{"remove AGENT", "Remove a workspace that has no unsaved work", removeDescription, "  drawbridge-relay workspaces remove ada\n  drawbridge-relay workspaces remove ada --lose 3f7a5c0b9d21"}, 1, 1)
	cmd.Flags().StringVar(&lose, "lose", "", "remove the workspace with its unsaved work; the refusal printed this `CODE`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.with(cmd.Context(), func(ctx context.Context, store *workspace.Store) error {
			err := store.Remove(ctx, args[0], lose)
			var loss *workspace.Loss
			if errors.As(err, &loss) {
				printState(s.out, loss.State)
				if lose != "" {
					return trust.Because("the code "+fmt.Sprintf("%+.20q", lose)+" is not the code of the present unsaved work", err.Error())
				}
			}
			if err == nil {
				_, err = fmt.Fprintf(s.out, "the workspace of %s is removed\n", args[0])
			}
			return err
		})
	}
	return cmd
}
