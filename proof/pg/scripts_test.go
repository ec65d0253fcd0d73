package pg_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// script runs a script of the repository and returns what it prints for the shell and for the person.
func script(t *testing.T, path string, env ...string) (shell, said string) {
	t.Helper()
	if _, err := os.Stat("../../" + path); err != nil { // Go's test cache does not see what bash reads
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", path)
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", path, err, stderr.String())
	}
	return string(out), stderr.String()
}

// TestSetUpSaysWhatItUses: before the first test a person reads which PostgreSQL the tests use, and what is left out. An
// ordinary user without PostgreSQL once got exit code 2 before the first test.
func TestSetUpSaysWhatItUses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ script, env, shell, said string }{
		{"scripts/postgres.sh", "DRAWBRIDGE_TEST_POSTGRES=none", "", "every test on PostgreSQL is SKIPPED"},
		{"scripts/postgres.sh", "DRAWBRIDGE_TEST_POSTGRES=postgres://127.0.0.1:1/x", "", "the server in DRAWBRIDGE_TEST_POSTGRES"},
		{"scripts/race.sh", "CC=a-compiler-that-nobody-has", "", "WITHOUT the race detector"},
		{"scripts/race.sh", "CC=bash", "-race", ""},
	} {
		shell, said := script(t, c.script, c.env)
		if (c.shell == "") != (shell == "") || !strings.Contains(shell, c.shell) || !strings.Contains(said, c.said) {
			t.Errorf("%s with %s prints %q for the shell and says %q", c.script, c.env, shell, said)
		}
	}
}
