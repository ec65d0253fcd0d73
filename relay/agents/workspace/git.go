package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"drawbridge/internal/trust"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/output"
	"drawbridge/relay/runner/sandbox"
)

const (
	// maxGitOutput bounds what is kept of git's standard output where the caller wants all of it, in bytes.
	maxGitOutput = 256 << 20
	maxGitError  = 4 << 10
)

// git runs git in repositories of the relay and in listed clones, never in an agent's.
type git struct {
	run     Executor
	path    string
	ability sandbox.Ability
}

// settled are settings that hold against any file. A listed clone has a configuration of its own, which its owner wrote; it may
// start nothing here.
var settled = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=false", "core.attributesFile=/dev/null", "core.excludesFile=/dev/null",
	"core.pager=cat", "core.askPass=", "core.sshCommand=false", "core.gitProxy=", "core.alternateRefsCommand=:", "core.protectHFS=true", "core.protectNTFS=true",
	"credential.helper=", "gc.auto=0", "maintenance.auto=false", "submodule.recurse=false", "fetch.recurseSubmodules=no", "fetch.writeCommitGraph=false",
	"fetch.prune=false", "fetch.unpackLimit=1", "transfer.unpackLimit=1", "gpg.program=false", "log.showSignature=false", "diff.external=", "core.autocrlf=false", "core.eol=lf", "core.fsync=all",
	"advice.graftFileDeprecated=false", "advice.detachedHead=false",
}

// environment starts from nothing: no variable, no home and no system file changes what git does.
func (g git) environment(more []string) []string {
	return append([]string{
		"PATH=" + filepath.Dir(g.path) + ":/usr/local/bin:/usr/bin:/bin", "HOME=/nonexistent", "LC_ALL=C", "GIT_COMMITTER_NAME=drawbridge-relay", "GIT_COMMITTER_EMAIL=relay@drawbridge.invalid",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false", "GIT_EDITOR=false", "GIT_PAGER=cat", "GIT_OPTIONAL_LOCKS=0",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_GRAFT_FILE=/dev/null", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=file",
	}, more...)
}

// call is one run of git.
type call struct {
	// repo is a git folder, or a listed clone when within is true.
	repo   string
	within bool
	args   []string
	env    []string
	// out gets the standard output; without one, do returns it.
	out io.Writer
	// plan is the sandbox, or nil.
	plan *sandbox.Plan
}

// name is the command of git, without the settings before it.
func (c call) name() string {
	for i := 0; i < len(c.args); i += 2 {
		if c.args[i] != "-c" {
			return c.args[i]
		}
	}
	return ""
}

// gitError is a git that ended with another code than 0.
type gitError struct {
	command string
	code    int
	said    string
}

func (e *gitError) Error() string {
	said := strings.TrimSpace(e.said)
	if said == "" {
		said = fmt.Sprintf("exit code %d", e.code)
	}
	return fmt.Sprintf("git %s: %s", e.command, output.Line(said))
}

// do runs git and returns what it wrote, at most maxGitOutput bytes.
func (g git) do(ctx context.Context, c call) (string, error) {
	argv := []string{"git"}
	for _, setting := range settled {
		argv = append(argv, "-c", setting)
	}
	env := c.env
	if c.within {
		argv = append(argv, "-C", c.repo)
		// A folder that is not a repository must not stand for the repository around it.
		env = append([]string{"GIT_CEILING_DIRECTORIES=" + filepath.Dir(c.repo)}, env...)
	} else if c.repo != "" {
		argv = append(argv, "--git-dir="+c.repo)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	out := bounded{full: stop}
	errs := output.NewTail(maxGitError, nil)
	command := keeper.Command{Path: g.path, Argv: append(argv, c.args...), Dir: "/", Env: g.environment(env), Stdout: &out, Stderr: errs, Sandbox: c.plan}
	if c.out != nil {
		command.Stdout = c.out
	}
	end, err := g.run.Run(ctx, command)
	switch {
	case out.over:
		return "", problemf("git %s wrote more than %d bytes", c.name(), maxGitOutput)
	case err != nil:
		return "", fmt.Errorf("git %s: %w", c.name(), err)
	case ctx.Err() != nil:
		return "", fmt.Errorf("git %s: %w", c.name(), context.Cause(ctx))
	case end.Code != 0:
		said, _ := errs.Text()
		if end.Signal != 0 {
			said += fmt.Sprintf("\nended by a signal: %s", end.Signal)
		}
		return out.String(), &gitError{command: c.name(), code: end.Code, said: said}
	}
	return out.String(), nil
}

// bounded keeps an output, and ends a git that writes too much.
type bounded struct {
	bytes.Buffer
	over bool
	full func()
}

// Write never fails: git is ended by its context.
func (b *bounded) Write(p []byte) (int, error) {
	if b.over = b.over || b.Len()+len(p) > maxGitOutput; b.over {
		b.full()
	} else {
		b.Buffer.Write(p)
	}
	return len(p), nil
}

// records calls each for every part of an output that ends with a separator, such as a line.
type records struct {
	separator byte
	rest      []byte
	each      func(part string)
}

// Write splits what it gets; a part may arrive in pieces.
func (r *records) Write(p []byte) (int, error) {
	n := len(p)
	for {
		at := bytes.IndexByte(p, r.separator)
		if at < 0 {
			r.rest = append(r.rest, p...)
			return n, nil
		}
		r.each(string(r.rest) + string(p[:at]))
		r.rest, p = r.rest[:0], p[at+1:]
	}
}

// errTooMany ends a git that lists more than the relay looks at.
var errTooMany = problem("git lists more files than the relay looks at")

// stream runs git and calls each for every part of what it writes that ends with a NUL byte, most times at most.
func (g git) stream(ctx context.Context, c call, most int, each func(part string)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	n := 0
	c.out = &records{separator: 0, each: func(part string) {
		if n++; n <= most {
			each(part)
		} else {
			stop()
		}
	}}
	_, err := g.do(ctx, c)
	if n > most {
		return errTooMany
	}
	return err
}

// exit returns the exit code of an error, or -1 when git did not end by itself.
func exit(err error) int {
	var failed *gitError
	if errors.As(err, &failed) {
		return failed.code
	}
	return -1
}

// confined is the sandbox of a git that reads bytes which an agent wrote. It has no network, and writes to its folders alone.
func (g git) confined(write []string, read ...string) *sandbox.Plan {
	if g.ability == (sandbox.Ability{}) {
		return nil
	}
	plan := g.ability.Plan(sandbox.Wish{Read: append(read, filepath.Dir(g.path)), Write: write})
	return &plan
}

// stores lists a folder of objects of the clone and those from which it borrows, as far as they exist.
func stores(objects string) (dirs []string) {
	for next := []string{objects}; len(next) > 0 && len(dirs) < 16; next = next[1:] {
		real, err := filepath.EvalSymlinks(next[0])
		if err != nil || slices.Contains(dirs, real) {
			continue
		}
		dirs = append(dirs, real)
		text, err := os.ReadFile(filepath.Join(real, "info", "alternates"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			if !filepath.IsAbs(line) {
				line = filepath.Join(real, line)
			}
			next = append(next, line)
		}
	}
	return dirs
}

// explain adds what to do to errors of git that have a usual cause.
func explain(clone string, err error) error {
	var failed *gitError
	if !errors.As(err, &failed) {
		return err
	}
	for _, known := range []struct{ said, reason, remedy string }{
		{"dubious ownership", "belongs to another user", "run the relay as the owner of the clone, or change the owner of its files"},
		{"not a git repository", "is not a git repository", "correct the path of the clone in relay.yaml"},
		{"promisor", "is a partial clone and lacks objects", "complete it: git fetch --refetch --no-filter"},
		{"transport 'https' not allowed", "is a partial clone and lacks objects", "complete it: git fetch --refetch --no-filter"},
		{"No space left", "could not be read or written, because the disk is full", "free some space and try again; nothing is lost"},
		{"file size limit exceeded", "could not be read or written, because a file was larger than allowed", "raise the limit and try again; nothing is lost"},
		{"File too large", "could not be read or written, because a file was larger than allowed", "raise the limit and try again; nothing is lost"},
	} {
		if strings.Contains(failed.said, known.said) {
			return fmt.Errorf("clone %s: %w", clone, &because{trust.Because(known.reason, known.remedy), err})
		}
	}
	return fmt.Errorf("clone %s: %w", clone, err)
}

// because is a problem with what git said.
type because struct {
	problem *trust.Problem
	cause   error
}

func (e *because) Error() string { return fmt.Sprintf("%v (%v)", e.problem, e.cause) }

func (e *because) Unwrap() error { return e.cause }
