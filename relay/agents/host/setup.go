package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"drawbridge/internal/clip"
	"drawbridge/relay/agents"
	"drawbridge/relay/agents/toolchain"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/output"
	"drawbridge/relay/runner/settings"
)

// SetUp runs a command line once in a workspace, with the environment and in the sandbox of an entry, at most for its turn_timeout. argv[0] is a
// program on the entry's PATH, or a path in the workspace. It returns when nothing of the program is left. An error is an *agents.Error.
func (h *Host) SetUp(ctx context.Context, name, dir string, argv []string) error {
	a := h.Config.Agents[name]
	if missing := h.unkept(a); missing != "" {
		return &agents.Error{Cause: agents.Crashed, Reason: fmt.Sprintf("this machine cannot keep the setup of the workspace in the agent's sandbox: %s; remove setup, or add i_know: true to the agent's entry", missing)}
	}
	most := a.TurnTimeout
	bounded, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	wrote, reason, err := h.run(bounded, name, dir, argv)
	if err != nil || reason == "" {
		return err
	}
	if bounded.Err() != nil && ctx.Err() == nil {
		reason = fmt.Sprintf("took longer than turn_timeout (%s)", most)
	}
	return &agents.Error{Cause: agents.Crashed, Reason: fmt.Sprintf("the setup of the workspace (%s) %s%s", h.Named(argv), reason, itWrote(wrote))}
}

// Named is a command line for people, without secrets and shortened.
func (h *Host) Named(argv []string) string {
	const most = 200
	return output.Line(clip.Text(h.Config.Redactor().Hide(strings.Join(argv, " ")), most))
}

// unkept says what of an entry's sandbox this machine cannot enforce, "" for nothing or where the user knows. The setup asks nobody, so that the sandbox
// alone keeps it in bounds.
func (h *Host) unkept(a settings.Agent) string {
	switch {
	case a.IKnow:
		return ""
	case a.Sandbox == nil:
		return "the entry has no sandbox"
	}
	return h.plan(a, "").Missing()
}

// itWrote quotes the last lines of an output: builders often say at the end what to type, and before it what is wrong.
func itWrote(wrote *output.Tail) string {
	text, _ := wrote.Text()
	if last := lastLines(text, 4, 100); last != "" {
		return "; it wrote: " + last
	}
	return ""
}

// run runs a command line with the means of an entry, and returns the end of what it wrote. reason says how it did not end well, and is empty for exit
// code 0. An error is one for which the agent itself would not start.
func (h *Host) run(ctx context.Context, name, dir string, argv []string) (wrote *output.Tail, reason string, err error) {
	command, err := h.command(name, At{Dir: dir})
	if err != nil {
		return nil, "", notRun(err).Lost
	}
	// The search is env's, so that it sees what the sandbox lets it see.
	const env = "/usr/bin/env"
	wrote = output.NewTail(keepStderr, h.Config.Redactor())
	command.Path, command.Argv = env, append([]string{env}, argv...)
	command.Stdout, command.Stderr = wrote, wrote
	end, err := h.Executor.Run(ctx, command)
	switch {
	case err != nil && !errors.Is(err, keeper.ErrLost):
		reason = "could not be started: " + output.Line(err.Error())
	case end.Overgrown:
		reason = fmt.Sprintf("was ended because it had more than %d processes", maxProcesses)
	case err != nil || end.Signal != 0 || end.Cut:
		reason = "was ended from outside"
	case end.Code != 0:
		reason = fmt.Sprintf("ended with exit code %d", end.Code)
	}
	return wrote, reason, nil
}

// toolFor bounds the run of a program that says its version. A shim may look through many folders first.
const toolFor = time.Minute

// checkTools runs each program that a clone of the entry asks for, in the sandbox of the entry.
func (h *Host) checkTools(ctx context.Context, r *Report, dir string) {
	results := map[string]string{}
	for _, repo := range slices.Sorted(maps.Keys(h.Config.Repos)) {
		if !slices.Contains(h.Config.Repos[repo].Agents, r.Name) {
			continue
		}
		for _, need := range toolchain.Asks(h.Config.Repos[repo].Clone) {
			if _, ran := results[need.Name]; !ran {
				result, err := h.runTool(ctx, r.Name, dir, need.Tool)
				if err != nil {
					return // the agent does not start either, which was said
				}
				results[need.Name] = result
			}
			r.line("builds", "%s asks for %s (%s): %s", repo, need.Name, need.File, results[need.Name])
		}
	}
}

// runTool runs a program that says its version, and returns what it says, or why it cannot run.
func (h *Host) runTool(ctx context.Context, name, dir string, t toolchain.Tool) (string, error) {
	bounded, cancel := context.WithTimeout(ctx, toolFor)
	defer cancel()
	wrote, reason, err := h.run(bounded, name, dir, []string{t.Name, t.Version})
	switch {
	case err != nil:
		return "", err
	case bounded.Err() != nil && reason != "":
		return fmt.Sprintf("CANNOT RUN: it took longer than %s%s", toolFor, itWrote(wrote)), nil
	case reason != "":
		return fmt.Sprintf("CANNOT RUN: it %s%s", reason, itWrote(wrote)), nil
	}
	return firstLine(wrote), nil
}

func firstLine(t *output.Tail) string {
	text, _ := t.Text()
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return output.Line(line)
}
