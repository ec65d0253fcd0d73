package runner_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// startRelay runs a relay as a process of its own and waits until it is ready.
func startRelay(t *testing.T, actions string) (testRelay, *exec.Cmd) {
	t.Helper()
	text := "listen: 127.0.0.1:0\ntoken: ${RELAY_TOKEN}\nactions:\n" + actions
	config := write(t, filepath.Join(t.TempDir(), "relay.yaml"), text, 0o600)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), "RELAY_MAIN="+config, "RELAY_TOKEN="+token)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
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

// The kernel ends the action when the relay is killed, whichever thread had started it.
func TestActionDiesWithTheRelay(t *testing.T) {
	t.Parallel()
	pipe := watch(t)
	relay, cmd := startRelay(t, shell("wait", "exec 3>$PIPE; echo begun >&3; exec sleep 300", "env: { PIPE: "+pipe.path+" }"))
	answered := make(chan error, 1)
	go func() {
		_, err := relay.do(context.WithoutCancel(t.Context()), runCall("wait", ""))
		answered <- err
	}()
	<-pipe.begun
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-pipe.gone
	if err := <-answered; err == nil {
		t.Error("a killed relay answered")
	}
	_ = cmd.Wait()
}
