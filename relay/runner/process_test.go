package runner_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"drawbridge/relay/runner"
	"drawbridge/relay/wire"
)

var ignoreDuration = cmpopts.IgnoreFields(wire.Answer{}, "DurationMS")

func TestProcessEnds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		id, action string
		want       wire.Answer
	}{
		{"ok", "  ok: { argv: [/bin/echo, 'a b', '$HOME', '*'] }\n", wire.Answer{Status: "executed", Stdout: "a b $HOME *\n"}},
		{"code", shell("code", "echo no >&2; exit 37"), wire.Answer{Status: "executed", ExitCode: 37, Stderr: "no\n"}},
		{"killed", shell("killed", "kill -9 $$"), wire.Answer{Status: "failed", ExitCode: -1, Error: "ended by a signal: killed"}},
		{"stdin", "  stdin: { argv: [/bin/cat] }\n", wire.Answer{Status: "executed"}},
		{"folder", "  folder: { argv: [/bin/pwd] }\n", wire.Answer{Status: "executed", Stdout: "/\n"}},
		{"dir", "  dir: { argv: [/bin/pwd], dir: /usr }\n", wire.Answer{Status: "executed", Stdout: "/usr\n"}},
		{
			"env", "  env: { argv: [/usr/bin/env] }\n",
			wire.Answer{Status: "executed", Stdout: "PATH=/usr/local/bin:/usr/bin:/bin\n"},
		},
		{
			"ownenv", "  ownenv: { argv: [/usr/bin/env], env: { PATH: /opt, B: 'x y' } }\n",
			wire.Answer{Status: "executed", Stdout: "PATH=/opt\nB=x y\n"},
		},
		{
			"tail", shell("tail", "printf 0123456789; printf abcdef >&2", "output: 4"),
			wire.Answer{Status: "executed", Stdout: "6789", StdoutOmitted: 6, Stderr: "cdef", StderrOmitted: 2},
		},
		{
			"bounded", shell("bounded", "ulimit -v; ulimit -n; ulimit -t", "memory: 64MiB", "open_files: 32", "cpu: 5s"),
			wire.Answer{Status: "executed", Stdout: "65536\n32\n5\n"},
		},
		{
			"large", "  large: { argv: [/bin/cp, /bin/sh, " + filepath.Join(t.TempDir(), "copy") + "], file_size: 1KiB }\n",
			wire.Answer{Status: "failed", ExitCode: -1, Error: "ended because it wrote a file of more than 1024 bytes"},
		},
		{
			// It says nothing, because how far it gets within its time is the machine's affair.
			"slow", "  slow: { argv: [/bin/sleep, '300'], timeout: 500ms }\n",
			wire.Answer{Status: "timed_out", ExitCode: -1, Error: "ended after its timeout of 500ms"},
		},
		{
			"secret", shell("secret", "echo it is "+token+" there"),
			wire.Answer{Status: "executed", Stdout: "it is [redacted] there\n"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.id, func(t *testing.T) {
			t.Parallel()
			got := serveActions(t, tt.action).run(tt.id, "")
			if got.status != 200 {
				t.Errorf("HTTP status %d: %s", got.status, got.body)
			}
			tt.want.Action = tt.id
			if diff := cmp.Diff(tt.want, got.answer, ignoreDuration); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// endWhenBegun runs a script until it has written a line into $PIPE, and then stops the relay, which ends it. How fast the machine is
// makes no difference. It returns the answer and how long the end took, when nothing is left that holds the pipe.
func endWhenBegun(t *testing.T, script string) (wire.Answer, time.Duration) {
	t.Helper()
	pipe := watch(t)
	relay := serve(t, runner.Options{Config: load(t, "actions:\n"+shell("a", script, "env: { PIPE: "+pipe.path+" }")), Grace: time.Millisecond})
	answers := make(chan result, 1)
	go func() {
		got, err := relay.do(context.WithoutCancel(t.Context()), runCall("a", ""))
		if err != nil {
			t.Error(err)
		}
		answers <- got
	}()
	<-pipe.begun
	began := time.Now()
	relay.stop()
	took := time.Since(began)
	<-pipe.gone
	return (<-answers).answer, took
}

// A background process that keeps stdout open used to hold os/exec for as long as it lived.
func TestGrandchildIsEnded(t *testing.T) {
	t.Parallel()
	pipe := watch(t)
	got := serveActions(t, shell("spawn", "exec 3>$PIPE; echo begun >&3; sleep 300 & echo begun", "env: { PIPE: "+pipe.path+" }")).run("spawn", "")
	if got.answer.Status != wire.StatusExecuted || got.answer.Stdout != "begun\n" {
		t.Errorf("answer %s", got.body)
	}
	<-pipe.gone
	// The grandchild is deaf from its first moment, its parent is not.
	answer, _ := endWhenBegun(t, "exec 3>$PIPE; trap '' TERM HUP; sleep 300 & trap - TERM HUP; echo begun; echo begun >&3; sleep 300")
	if answer.Status != wire.StatusFailed || answer.Stdout != "begun\n" {
		t.Errorf("answer %+v", answer)
	}
}

func TestTermThenKill(t *testing.T) {
	t.Parallel()
	const stopping = "ended because the relay is stopping"
	answer, _ := endWhenBegun(t, "exec 2>/dev/null 3>$PIPE; trap 'echo bye; exit 0' TERM; echo begun >&3; while :; do sleep 0.1; done")
	if answer.Status != wire.StatusFailed || answer.Stdout != "bye\n" || answer.Error != stopping {
		t.Errorf("a program that listens: %+v", answer)
	}
	answer, took := endWhenBegun(t, "exec 3>$PIPE; trap '' TERM; echo deaf; echo begun >&3; while :; do sleep 0.1; done")
	if answer.Status != wire.StatusFailed || answer.Stdout != "deaf\n" || answer.Error != stopping {
		t.Errorf("a program that does not: %+v", answer)
	}
	if took < 1500*time.Millisecond {
		t.Errorf("killed %s after SIGTERM, want a little less than 2 s", took)
	}
}

func TestProgramGoneAtRunTime(t *testing.T) {
	t.Parallel()
	program := write(t, filepath.Join(t.TempDir(), "gone"), "#!/bin/sh\n", 0o700)
	relay := serveActions(t, "  gone: { argv: ["+program+"] }\n")
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	got := relay.run("gone", "")
	want := wire.Answer{
		Action: "gone", Status: wire.StatusRefused, ExitCode: wire.NoExitCode,
		Error: "the program does not exist; create it or correct the path",
	}
	if diff := cmp.Diff(want, got.answer, ignoreDuration); diff != "" || got.status != 403 {
		t.Errorf("HTTP %d (-want +got):\n%s", got.status, diff)
	}
}

// An action that keeps more output than an answer over HTTP holds answers with the end of it.
func TestLargeOutputOverHTTP(t *testing.T) {
	t.Parallel()
	relay := serveActions(t, "  flood: { argv: [/usr/bin/head, -c, '1000000', /dev/zero], output: 524288 }\n")
	got := relay.run("flood", "")
	if got.answer.Status != wire.StatusExecuted || len(got.body) > wire.MaxAnswer+1 || len(got.answer.Stdout) < wire.MaxAnswer/4 {
		t.Errorf("status %s, %d bytes, %d of output", got.answer.Status, len(got.body), len(got.answer.Stdout))
	}
	if want := strings.Repeat(`\x00`, wire.MaxOutput); int64(len(got.answer.Stdout))+got.answer.StdoutOmitted != int64(len(want)+1_000_000-wire.MaxOutput) {
		t.Errorf("%d bytes of output, %d omitted", len(got.answer.Stdout), got.answer.StdoutOmitted)
	}
}
