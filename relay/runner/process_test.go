package runner_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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
			"slow", shell("slow", "echo begun; exec sleep 300", "timeout: 3s"),
			wire.Answer{Status: "timed_out", ExitCode: -1, Stdout: "begun\n", Error: "ended after its timeout of 3s"},
		},
		{
			"polite", shell("polite", "exec 2>/dev/null; trap 'echo bye; exit 0' TERM; while :; do sleep 0.1; done", "timeout: 3s"),
			wire.Answer{Status: "timed_out", ExitCode: -1, Stdout: "bye\n", Error: "ended after its timeout of 3s"},
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

// A nil environment would hand down the relay's own, and the bridge's token with it.
func TestChildSeesNothingOfTheRelay(t *testing.T) {
	t.Setenv("RELAY_TEST_SECRET", "do-not-leak")
	got := serveActions(t, "  env: { argv: [/usr/bin/env] }\n").run("env", "")
	if strings.Contains(got.body, "do-not-leak") || strings.Contains(got.body, "RELAY_TEST_SECRET") {
		t.Errorf("the child saw the relay's environment: %s", got.body)
	}
}

// A background process that keeps stdout open used to hold os/exec for as long as it lived.
func TestGrandchildIsEnded(t *testing.T) {
	t.Parallel()
	for _, script := range []string{
		"exec 3>$PIPE; echo begun >&3; sleep 300 & echo begun",
		"exec 3>$PIPE; echo begun >&3; (trap '' TERM HUP; sleep 300) & echo begun; sleep 300",
	} {
		pipe := watch(t)
		relay := serveActions(t, shell("spawn", script, "timeout: 3s", "env: { PIPE: "+pipe.path+" }"))
		got := relay.run("spawn", "")
		if got.answer.Stdout != "begun\n" {
			t.Errorf("answer %s", got.body)
		}
		select {
		case <-pipe.gone:
		case <-time.After(10 * time.Second):
			t.Errorf("%s: a grandchild is still there", script)
		}
	}
}

func TestIgnoredTermIsKilled(t *testing.T) {
	t.Parallel()
	relay := serveActions(t, shell("stubborn", "trap '' TERM; echo begun; while :; do sleep 0.1; done", "timeout: 2s"))
	began := time.Now()
	got := relay.run("stubborn", "")
	if got.answer.Status != wire.StatusTimedOut || got.answer.Stdout != "begun\n" {
		t.Errorf("answer %s", got.body)
	}
	if took := time.Since(began); took < 3500*time.Millisecond {
		t.Errorf("killed after %s, want a little less than 2 s for SIGTERM after the limit of 2 s", took)
	}
}

// Not parallel, so that the memory is this test's own.
func TestOutputIsBounded(t *testing.T) {
	const written = 200_000_000
	relay := serveActions(t, "  flood: { argv: [/usr/bin/head, -c, '200000000', /dev/zero] }\n")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := relay.run("flood", "")
	runtime.ReadMemStats(&after)
	if got.answer.Status != wire.StatusExecuted || got.answer.StdoutOmitted != written-wire.MaxOutput {
		t.Errorf("status %s, omitted %d, stderr %q", got.answer.Status, got.answer.StdoutOmitted, got.answer.Stderr)
	}
	if want := strings.Repeat(`\x00`, wire.MaxOutput); got.answer.Stdout != want {
		t.Errorf("kept %d characters, want %d", len(got.answer.Stdout), len(want))
	}
	if len(got.body) > wire.MaxAnswer {
		t.Errorf("the answer has %d bytes", len(got.body))
	}
	allocated := after.TotalAlloc - before.TotalAlloc
	t.Logf("200 MB of output: %d KiB allocated in all, client included, in %d ms", allocated>>10, got.answer.DurationMS)
	if allocated > 32<<20 {
		t.Errorf("%d bytes were allocated", allocated)
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
