package runner_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// startRelay runs a relay as a process of its own and waits until it is ready.
func startRelay(t *testing.T, actions string) (testRelay, *exec.Cmd) {
	t.Helper()
	return startAgain(t, relayFile(t, t.TempDir(), actions))
}

func relayFile(t *testing.T, dir, actions string) string {
	t.Helper()
	text := "listen: 127.0.0.1:0\ntoken: ${RELAY_TOKEN}\nactions:\n" + actions
	return write(t, filepath.Join(dir, "relay.yaml"), text, 0o600)
}

// startAgain is startRelay for a file that exists. The environment is added to the process's own.
func startAgain(t *testing.T, config string, env ...string) (testRelay, *exec.Cmd) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(append(os.Environ(), "RELAY_MAIN="+config, "RELAY_TOKEN="+token), env...)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The context of the test has ended the process, unless the test did, and waited.
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(log).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var ready struct{ Message, Addr string }
	if err := json.Unmarshal(line, &ready); err != nil || ready.Message != "ready" {
		t.Fatalf("first log line %q, %v", line, err)
	}
	return testRelay{t: t, addr: ready.Addr}, cmd
}

func TestMainSetsUmaskAndStops(t *testing.T) {
	t.Parallel()
	relay, cmd := startRelay(t, shell("mask", "umask; cat /proc/self/environ 2>/dev/null | tr '\\0' '\\n' | grep RELAY; ls /proc/self/fd 2>/dev/null | wc -l"))
	got := relay.run("mask", "")
	// ls has its three streams and the folder that it lists.
	if got.answer.Stdout != "0077\n4\n" {
		t.Errorf("the action saw %q", got.answer.Stdout)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

func TestTwoRelaysDoNotShareAJournal(t *testing.T) {
	t.Parallel()
	config := relayFile(t, t.TempDir(), hello)
	startAgain(t, config)
	self, err := os.Executable()
	must(t, err)
	second := exec.CommandContext(t.Context(), self)
	second.Env = append(os.Environ(), "RELAY_MAIN="+config, "RELAY_TOKEN="+token)
	said, err := second.CombinedOutput()
	if err == nil || !strings.Contains(string(said), "relay.journal: is in use by another relay; stop that one, or") {
		t.Errorf("the second relay: %v, %s", err, said)
	}
}
