//go:build deep

package runner_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drawbridge/relay/wire"
)

// A relay that was killed in the middle of an action never runs it again, and says so; what it had answered it answers
// again, also when the action has left the list since.
func TestKilledRelayRunsNothingTwice(t *testing.T) {
	t.Parallel()
	pipe, dir := watch(t), t.TempDir()
	trace, journal := filepath.Join(dir, "trace"), filepath.Join(dir, "relay.journal")
	env := "env: { PIPE: " + pipe.path + ", TRACE: " + trace + ", JOURNAL: " + journal + " }"
	config := relayFile(t, dir, hello+
		shell("short", "echo short >>$TRACE; cat $JOURNAL", env)+
		shell("long", "echo long >>$TRACE; exec 3>$PIPE; echo begun >&3; exec sleep 300", env))
	relay, cmd := startAgain(t, config)
	first := relay.run("short", "done")
	if !strings.Contains(first.answer.Stdout, `"state":"claimed","id":"done","action":"short"`) {
		t.Errorf("the claim was not in the journal when the action ran: %s", first.body)
	}
	lost := make(chan error, 1)
	go func() {
		_, err := relay.do(context.WithoutCancel(t.Context()), runCall("long", "cut"))
		lost <- err
	}()
	<-pipe.begun
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	<-pipe.gone
	if err := <-lost; err == nil {
		t.Error("a killed relay answered")
	}

	relay, cmd = startAgain(t, config)
	want := wire.Answer{Action: "long", Status: wire.StatusInterrupted, ExitCode: wire.NoExitCode, Error: lostText}
	for range 2 {
		got := relay.run("long", "cut")
		if diff := cmp.Diff(want, got.answer); diff != "" || got.status != 200 || got.header.Get(wire.ReplayedHeader) != "true" {
			t.Errorf("HTTP %d %v (-want +got):\n%s", got.status, got.header, diff)
		}
	}
	if got := relay.run("short", "done"); got.body != first.body || got.header.Get(wire.ReplayedHeader) != "true" {
		t.Errorf("answered first %s\nand then %s", first.body, got.body)
	}
	if got := relay.run("hello", "cut"); got.status != 409 || got.answer.Status != wire.StatusRefused {
		t.Errorf("another action under the id: HTTP %d %s", got.status, got.body)
	}
	if got := relay.run("hello", "new"); got.answer.Status != wire.StatusExecuted {
		t.Errorf("a new id: HTTP %d %s", got.status, got.body)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()

	relay, cmd = startAgain(t, relayFile(t, dir, hello))
	if got := relay.run("short", "done"); got.status != 200 || got.body != first.body {
		t.Errorf("after the action left the list: HTTP %d %s", got.status, got.body)
	}
	if got := relay.run("short", "other"); got.status != 403 {
		t.Errorf("an action that left the list: HTTP %d %s", got.status, got.body)
	}
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	must(t, cmd.Wait())
	if data, err := os.ReadFile(trace); err != nil || string(data) != "short\nlong\n" {
		t.Errorf("ran %q, %v", data, err)
	}
}

// With a full disk nothing runs that cannot be claimed, and nothing is answered that cannot be recorded.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace")
	env := "env: { TRACE: " + trace + " }"
	config := relayFile(t, dir, shell("much", "echo much >>$TRACE; head -c 8000 /dev/zero | tr '\\0' x", env)+shell("little", "echo little >>$TRACE", env))
	relay, cmd := startAgain(t, config, "RELAY_FILE_SIZE=4096")
	if got := relay.run("much", "1"); got.status != 500 || got.answer.Status != wire.StatusFailed || got.answer.Stdout != "" {
		t.Errorf("a result that could not be recorded: HTTP %d %s", got.status, got.body)
	}
	if got := relay.run("much", "1"); got.status != 200 || got.answer.Status != wire.StatusInterrupted {
		t.Errorf("asked again: HTTP %d %s", got.status, got.body)
	}
	ran, refused := 0, result{}
	for i := 2; i < 20 && refused.status == 0; i++ {
		switch got := relay.run("little", fmt.Sprint(i)); got.status {
		case 200:
			ran++
		case 500:
			// The claim was the last that fitted.
			ran++
		default:
			refused = got
		}
	}
	if refused.status != 503 || refused.answer.Status != wire.StatusRefused || refused.header.Get("Retry-After") != "60" ||
		!strings.HasSuffix(refused.answer.Error, " now, so nothing runs") {
		t.Errorf("a claim on a full disk: HTTP %d %s", refused.status, refused.body)
	}
	if data, err := os.ReadFile(trace); err != nil || ran == 0 || string(data) != "much\n"+strings.Repeat("little\n", ran) {
		t.Errorf("answered %d, ran %q, %v", ran, data, err)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	relay, _ = startAgain(t, config)
	if got := relay.run("much", "1"); got.answer.Status != wire.StatusInterrupted {
		t.Errorf("after a restart: HTTP %d %s", got.status, got.body)
	}
}
