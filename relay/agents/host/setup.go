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
)

// SetUp runs a command line once in a workspace, with the environment and in the sandbox of an entry, at most for its turn_timeout. argv[0] is a
// program on the entry's PATH, or a path in the workspace. It returns when nothing of the program is left. An error is an *agents.Error.
func (h *Host) SetUp(ctx context.Context, name, dir string, argv []string) error {
	most := h.Config.Agents[name].TurnTimeout
	bounded, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	wrote, reason, err := h.run(bounded, name, dir, argv)
	if err != nil || reason == "" {
		return err
	}
	if bounded.Err() != nil && ctx.Err() == nil {
		reason = fmt.Sprintf("took longer than turn_timeout (%s)", most)
	}
	line := h.Config.Redactor().Hide(output.Line(strings.Join(argv, " ")))
	return &agents.Error{Cause: agents.Crashed, Reason: fmt.Sprintf("the setup of the workspace (%s) %s, and the agent was told nothing%s", line, reason, lastLines(wrote))}
}

// lastLines returns the last lines with something on them: builders often say at the end what to type, and before it what is wrong.
func lastLines(wrote *output.Tail) string {
	const most, lines = 100, 4
	text, _ := wrote.Text()
	var last []string
	for _, line := range slices.Backward(strings.Split(text, "\n")) {
		if line = strings.TrimSpace(line); line != "" && len(last) < lines {
			last = append([]string{output.Line(clip.Text(line, most))}, last...)
		}
	}
	if last == nil {
		return ""
	}
	return "; it wrote: " + strings.Join(last, " | ")
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
	for _, repo := range slices.Sorted(maps.Keys(h.Config.Repos)) {
		if !slices.Contains(h.Config.Repos[repo].Agents, r.Name) {
			continue
		}
		for _, need := range toolchain.Asks(h.Config.Repos[repo].Clone) {
			bounded, cancel := context.WithTimeout(ctx, toolFor)
			wrote, reason, err := h.run(bounded, r.Name, dir, []string{need.Name, need.Version})
			cancel()
			switch {
			case err != nil:
				return // the agent does not start either, which was said
			case reason != "":
				r.line("builds", "%s asks for %s (%s), which CANNOT RUN: it %s%s", repo, need.Name, need.File, reason, lastLines(wrote))
			default:
				r.line("builds", "%s with %s: %s", repo, need.Name, firstLine(wrote))
			}
		}
	}
}

func firstLine(t *output.Tail) string {
	text, _ := t.Text()
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return output.Line(line)
}
