package keeper_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/sandbox"
)

// lines calls each with every line that is written to it.
type lines struct {
	rest string
	each func(line string)
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest += string(p)
	for {
		line, rest, found := strings.Cut(l.rest, "\n")
		if !found {
			return len(p), nil
		}
		l.rest = rest
		l.each(line)
	}
}

// A program that lives long is spoken to over its standard input: by path, by descriptor, and behind a stage, also when it is a script.
// The end of the input reaches it, which shows that neither the relay nor its keeper holds the pipe open.
func TestInput(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "script")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\nexec cat\n"), 0o700))
	for name, change := range map[string]func(*keeper.Command){
		"by path":       func(*keeper.Command) {},
		"by descriptor": func(c *keeper.Command) { c.Program = open(t, "/bin/cat") },
		"behind a stage": func(c *keeper.Command) {
			c.Sandbox = &sandbox.Plan{}
			c.Bounds = sandbox.Bounds{OpenFiles: 64}
		},
		"script by descriptor behind a stage": func(c *keeper.Command) {
			c.Path, c.Argv, c.Program, c.Sandbox = script, []string{script}, open(t, script), &sandbox.Plan{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pools(t, func(t *testing.T, pool *keeper.Pool) {
				theirs, ours, err := keeper.Input()
				must(t, err)
				rounds := 0
				say := func() { _, err := io.WriteString(ours, "round\n"); must(t, err) }
				c := keeper.Command{Path: "/bin/cat", Argv: []string{"cat"}, Dir: "/", Stdin: theirs, Stderr: &safe{}, Env: []string{"PATH=/usr/bin:/bin"}}
				c.Stdout = &lines{each: func(string) {
					if rounds++; rounds == 3 {
						must(t, ours.Close())
						return
					}
					say()
				}}
				change(&c)
				say()
				end, err := pool.Run(t.Context(), c)
				if err != nil || end.Code != 0 || end.Cut || rounds != 3 {
					t.Errorf("%d rounds, %+v, %v", rounds, end, err)
				}
				if theirs.Close() == nil {
					t.Error("Run left the program's end open")
				}
			})
		})
	}
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	file, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { _ = file.Close() })
	return file
}

// A program that could not be started leaves no end of its input open.
func TestInputOfNothing(t *testing.T) {
	t.Parallel()
	pools(t, func(t *testing.T, pool *keeper.Pool) {
		theirs, ours, err := keeper.Input()
		must(t, err)
		defer ours.Close()
		if _, err := pool.Run(t.Context(), keeper.Command{Path: "/no/such", Argv: []string{"such"}, Dir: "/", Stdin: theirs, Stdout: &safe{}, Stderr: &safe{}}); err == nil {
			t.Error("it ran")
		}
		if _, err := ours.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write: %v", err)
		}
	})
}
