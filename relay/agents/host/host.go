// Package host starts the agents that relay.yaml lists, with the means that the relay has for actions: the keeper ends whole process trees,
// and the sandbox limits what they touch.
//
// It speaks no protocol (package acp does) and keeps no record of turns. Rule of thumb: an agent gets an environment made from nothing, a home
// of its own, and nothing else that relay.yaml does not name.
package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"drawbridge/internal/clip"
	"drawbridge/internal/trust"
	"drawbridge/relay/agents"
	"drawbridge/relay/agents/acp"
	"drawbridge/relay/runner/control"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/output"
	"drawbridge/relay/runner/sandbox"
	"drawbridge/relay/runner/settings"
)

const (
	// graceFor is how long an agent has to end by itself after the end of its input. The keeper's own grace follows.
	graceFor = time.Second
	// maxProcesses bounds the tree of an agent, which is looked at lookEvery: an agent may live for days, and there may be many.
	maxProcesses = 2048
	lookEvery    = 250 * time.Millisecond
	// keepStderr is how much of what an agent complains about is kept, in bytes.
	keepStderr = 8 << 10
)

// Executor runs programs; *keeper.Pool is one.
type Executor interface {
	// Run is described at keeper.Pool.
	Run(ctx context.Context, c keeper.Command) (keeper.End, error)
}

// Host starts the agents of one relay.yaml. It is safe for concurrent use.
type Host struct {
	Config   settings.Config
	Executor Executor
	Ability  sandbox.Ability
	// Version is the relay's own, which agents are told.
	Version string
	// paces are how the entries wait for limits that state no time, by name. The agents of one entry share an account.
	paces sync.Map
	// SettleFor is described at acp.Options.
	SettleFor time.Duration
}

// Process is one living process of an agent, with all that it started.
type Process struct {
	*acp.Conn
	stderr *output.Tail
	kill   context.CancelFunc
	ended  chan struct{}
}

// At is where a process of an agent works.
type At struct {
	// Dir is the folder in which it works, and which it may write unless ReadOnly is true. Only a sandbox can keep it from that: without one it does not start.
	Dir      string
	ReadOnly bool
	// MCP are the servers that the agent starts. Its sandbox lets them through to what they need.
	MCP []acp.MCPServer
}

// Start starts an entry of kind acp. ask answers its questions, see acp.Options. The process lives
// until Close, or until ctx is done.
func (h *Host) Start(ctx context.Context, name string, at At, ask func(context.Context, acp.Question) acp.Reply) (*Process, error) {
	command, err := h.command(name, at)
	if err != nil {
		return nil, err
	}
	theirs, ours, err := keeper.Input()
	if err != nil {
		return nil, err
	}
	secret := h.Config.Redactor()
	known, _ := h.Config.Agents[name].Forced()
	ctx, kill := context.WithCancel(ctx)
	p := &Process{
		Conn: acp.New(ctx, acp.Options{
			Input: ours, Unread: func() (int, error) { return keeper.Unread(ours) }, Name: "drawbridge-relay", Version: h.Version, Ask: ask, Mode: known.Mode, ModeIfAny: known.Partly, Meta: known.Meta, Hide: secret.Hide, Pace: h.Pace(name), SettleFor: h.SettleFor,
		}),
		stderr: output.NewTail(keepStderr, secret), kill: kill, ended: make(chan struct{}),
	}
	command.Stdin, command.Stdout, command.Stderr = theirs, p.Conn, p.stderr
	go func() {
		defer close(p.ended)
		end, err := h.Executor.Run(ctx, command)
		p.Over(p.why(end, err))
	}()
	go func() {
		// An agent that broke its protocol, or stopped reading, is ended.
		<-p.Done()
		kill()
	}()
	return p, nil
}

// Close ends the agent and everything that it started, and returns when nothing of it is left. The agent has a moment to end by itself.
func (p *Process) Close() {
	_ = p.Hangup()
	grace := time.NewTimer(graceFor)
	defer grace.Stop()
	select {
	case <-p.ended:
	case <-p.Done():
	case <-grace.C:
	}
	p.kill()
	<-p.ended
	_ = p.Conn.Close()
}

// why says how the process ended.
func (p *Process) why(end keeper.End, err error) *agents.Error {
	reason, itself := fmt.Sprintf("the agent ended with exit code %d", end.Code), true
	switch {
	case errors.Is(err, keeper.ErrLost):
		reason = "something outside of the relay ended the agent's processes"
	case err != nil:
		return &agents.Error{Cause: agents.Crashed, Reason: "the agent could not be started: " + output.Line(err.Error())}
	case end.Overgrown:
		reason, itself = fmt.Sprintf("the relay ended the agent, because it had more than %d processes", maxProcesses), false
	case end.Cut:
		return &agents.Error{Cause: agents.Stopped, Reason: "the relay ended the agent"}
	case end.Signal != 0:
		reason = fmt.Sprintf("the agent was ended by a signal: %s", end.Signal)
	}
	if last := lastLine(p.stderr); last != "" {
		reason += fmt.Sprintf("; it wrote %q", last)
	}
	return &agents.Error{Cause: agents.Crashed, Reason: reason, Ended: itself}
}

// lastLine is the last line with something on it.
func lastLine(t *output.Tail) string {
	text, _ := t.Text()
	return lastOf(text)
}

func lastOf(text string) string { return lastLines(text, 1, 300) }

// lastLines are the last n lines with something on them, each of at most most bytes.
func lastLines(text string, n, most int) string {
	var last []string
	for _, line := range slices.Backward(strings.Split(text, "\n")) {
		if line = strings.TrimSpace(line); line != "" && len(last) < n {
			last = append([]string{output.Line(clip.Text(line, most))}, last...)
		}
	}
	return strings.Join(last, " | ")
}

// command is how an entry is started in a folder.
func (h *Host) command(name string, at At) (keeper.Command, error) {
	a, listed := h.Config.Agents[name]
	if !listed {
		return keeper.Command{}, fmt.Errorf("agent %q is not listed in %s", name, h.Config.File)
	}
	// What was judged when relay.yaml was read may have changed hands since.
	if err := trust.Executable(a.Argv[0]); err != nil {
		return keeper.Command{}, &agents.Error{Cause: agents.Crashed, Reason: fmt.Sprintf("the program %s %v", a.Argv[0], err)}
	}
	home, err := h.home(name)
	if err != nil {
		return keeper.Command{}, err
	}
	dir, err := filepath.EvalSymlinks(at.Dir)
	if err != nil {
		return keeper.Command{}, err
	}
	command := keeper.Command{Path: a.Argv[0], Argv: a.Argv, Dir: dir, Env: environment(a, home), Processes: maxProcesses, Look: lookEvery}
	if at.ReadOnly {
		if missing := h.unkept(settings.Agent{Sandbox: a.Sandbox}); missing != "" {
			return keeper.Command{}, &agents.Error{Cause: agents.Crashed, Reason: fmt.Sprintf("the agent is a reviewer, and its sandbox cannot keep the workspace read-only here: %s; launch a worker instead, or add a sandbox to its entry", missing)}
		}
		plan := h.plan(a, home)
		plan.Read = append(plan.Read, dir)
		return h.within(command, plan, a, at)
	}
	if a.Sandbox == nil {
		return command, nil
	}
	return h.within(command, h.plan(a, home, dir), a, at)
}

// within puts a command into the sandbox of a plan.
func (h *Host) within(command keeper.Command, plan sandbox.Plan, a settings.Agent, at At) (keeper.Command, error) {
	for _, server := range at.MCP {
		plan.Read, plan.Connect = append(plan.Read, server.Reads...), append(plan.Connect, server.Sockets...)
	}
	if missing := plan.Missing(); missing != "" {
		if _, forced := a.Forced(); !forced && !a.IKnow {
			return keeper.Command{}, &agents.Error{Cause: agents.Crashed, Reason: fmt.Sprintf("this machine cannot keep the agent in its sandbox: %s; add i_know: true to the agent's entry to start it without these limits", missing)}
		}
	}
	command.Sandbox = &plan
	return command, nil
}

// procFolder is what agents in a sandbox read beside what the entry lists: those made with Bun abort without it, OpenCode and Claude Code among them. What
// processes outside of the sandbox hold (their memory, variables and open files) stays out of reach; their command lines do not.
const procFolder = "/proc"

// plan is how the sandbox of an entry is made here. Its home and the folder in which it works are added to what may be written.
func (h *Host) plan(a settings.Agent, home string, dirs ...string) sandbox.Plan {
	state := h.Config.State
	if resolved, err := filepath.EvalSymlinks(state); err == nil {
		state = resolved
	}
	return h.Ability.Plan(sandbox.Wish{
		Read: slices.Concat(a.Sandbox.Read, []string{procFolder}), Write: slices.Concat(a.Sandbox.Write, []string{home}, dirs), Network: a.Sandbox.Network,
		Hide: []string{filepath.Join(state, control.SocketName)}, Blind: true,
	})
}

// home makes the HOME of an entry and returns it. Only the user of the relay may use it.
func (h *Host) home(name string) (string, error) {
	home := h.Config.AgentHome(name)
	if err := ownFolder(filepath.Dir(home)); err != nil {
		return "", err
	}
	if err := ownFolder(home); err != nil {
		return "", err
	}
	// The agent may have put something else there; then its temporary files are its own problem.
	_ = os.Mkdir(filepath.Join(home, tempName), 0o700)
	return home, nil
}

// tempName is the folder for temporary files in a HOME.
const tempName = ".tmp"

// ownFolder makes a folder, or refuses one that is a link or that others may use.
func ownFolder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	stat, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case !stat.IsDir():
		return trust.Because(path+" is not a folder", "move it away")
	case stat.Mode().Perm()&0o077 != 0:
		return trust.Because(fmt.Sprintf("other users can use %s (mode %04o)", path, stat.Mode().Perm()), "run: chmod go-rwx "+path)
	}
	return trust.Folder(path, "state")
}

// environment is made from nothing: what the relay chooses, what the entry lists, and what makes the agent ask.
func environment(a settings.Agent, home string) []string {
	forced, _ := a.Forced()
	pairs := []settings.EnvVar{{Name: "PATH", Value: settings.DefaultPath}, {Name: "TERM", Value: "dumb"}}
	pairs = append(append(pairs, a.Env...), forced.Env...)
	pairs = append(pairs, settings.EnvVar{Name: "HOME", Value: home}, settings.EnvVar{Name: "TMPDIR", Value: filepath.Join(home, tempName)})
	last := map[string]string{}
	for _, v := range pairs {
		last[v.Name] = v.Value
	}
	env := []string{}
	for _, v := range pairs {
		if value, fresh := last[v.Name]; fresh {
			env = append(env, v.Name+"="+value)
			delete(last, v.Name)
		}
	}
	return env
}
