package host

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"drawbridge/relay/agents"
	"drawbridge/relay/agents/acp"
	"drawbridge/relay/agents/limits"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/output"
	"drawbridge/relay/runner/settings"
)

// Once is one run of a program of kind cli.
type Once struct {
	// Args follow the argv of the entry.
	Args []string
	// Input is the whole standard input, nil for an empty one.
	Input []byte
	// Output gets what the program prints. It is not written to after RunOnce returned.
	Output io.Writer
	// MCP are the servers that the program starts, see [At].
	MCP []acp.MCPServer
	// ReadOnly is described at [At].
	ReadOnly bool
}

// OnceEnd is how a program of kind cli came to its end.
type OnceEnd struct {
	// Ran is true when the program was started.
	Ran bool
	// Cut is true when it was ended from outside: by the relay, or by a signal.
	Cut bool
	// Lost says why the program did not end well, nil for exit code 0.
	Lost *agents.Error
	// Stderr is the end of what it wrote to its standard error, without secrets.
	Stderr string
}

// Tail quotes the last line of the standard error, or is empty.
func (e OnceEnd) Tail(clean func(string) string) string {
	if line := lastOf(e.Stderr); line != "" {
		return "; it wrote \"" + clean(line) + "\""
	}
	return ""
}

// RunOnce runs an entry of kind cli once in a folder, which it may write. It returns when nothing of the program and of what it started is
// left. When ctx is done the program is ended.
func (h *Host) RunOnce(ctx context.Context, name, dir string, o Once) OnceEnd {
	if a := h.Config.Agents[name]; a.Kind != settings.AgentCLI {
		return OnceEnd{Lost: &agents.Error{Cause: agents.Crashed, Reason: "the entry is not of kind cli"}}
	}
	command, err := h.command(name, At{Dir: dir, MCP: o.MCP, ReadOnly: o.ReadOnly})
	if err != nil {
		return notRun(err)
	}
	p := &Process{stderr: output.NewTail(keepStderr, h.Config.Redactor())}
	command.Argv = slices.Concat(command.Argv, o.Args)
	command.Stdout, command.Stderr = o.Output, p.stderr
	feed, err := input(&command, o.Input)
	if err != nil {
		return notRun(err)
	}
	end, err := h.Executor.Run(ctx, command)
	feed()
	text, _ := p.stderr.Text()
	out := OnceEnd{Ran: err == nil || errors.Is(err, keeper.ErrLost), Stderr: text, Cut: err != nil || end.Cut || end.Signal != 0}
	if err != nil || end.Code != 0 || end.Signal != 0 || end.Cut || end.Overgrown {
		out.Lost = p.why(end, err)
	}
	return out
}

func notRun(err error) OnceEnd {
	var why *agents.Error
	if !errors.As(err, &why) {
		why = &agents.Error{Cause: agents.Crashed, Reason: output.Line(err.Error())}
	}
	return OnceEnd{Lost: why}
}

// input makes the standard input of a program and writes to it, whether the program reads or not. The function that it returns ends the
// writing, after the program has ended.
func input(c *keeper.Command, text []byte) (func(), error) {
	if len(text) == 0 {
		return func() {}, nil
	}
	theirs, ours, err := keeper.Input()
	if err != nil {
		return nil, err
	}
	c.Stdin = theirs
	var writing sync.WaitGroup
	writing.Go(func() {
		// A program that ends before it read everything says so by its end.
		_, _ = ours.Write(text)
		_ = ours.Close()
	})
	return func() {
		_ = ours.SetWriteDeadline(time.Now())
		writing.Wait()
	}, nil
}

// Pace returns how an entry waits for limits that state no time. The agents of one entry share an account.
func (h *Host) Pace(name string) *limits.Pace {
	pace, _ := h.paces.LoadOrStore(name, new(limits.Pace))
	return pace.(*limits.Pace)
}
