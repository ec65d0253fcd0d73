package control_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"drawbridge/relay/runner/approval"
	"drawbridge/relay/runner/control"
	"drawbridge/relay/wire"
)

func TestMain(m *testing.M) {
	playPart()
	syscall.Umask(0o077)
	goleak.VerifyTestMain(m)
}

var now = time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC)

// relay remembers what it was told.
type relay struct{ said []string }

func (r *relay) Pending() []approval.Pending {
	return []approval.Pending{{ID: "apr_a", Question: approval.Question{Action: "a"}}}
}

func (*relay) Status() control.Status {
	return control.Status{Started: now, Connection: &wire.Connection{Relay: "laptop", Since: now}, Actions: map[string]int{"a": 2}, Waiting: 1}
}

func (r *relay) Decide(id string, approve bool, by string) error {
	if id != "apr_a" {
		return approval.ErrUnknown
	}
	r.said = append(r.said, map[bool]string{true: "yes by ", false: "no by "}[approve]+by)
	return nil
}

func (r *relay) SwitchOff() error { r.said = append(r.said, "off"); return nil }
func (r *relay) SwitchOn() error  { return errors.New("broken") }

func TestDoor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	client := control.NewClient(dir)
	if _, err := client.Pending(t.Context()); !errors.Is(err, control.ErrNoRelay) {
		t.Errorf("without a relay: %v", err)
	}
	var r relay
	// What a relay that was killed leaves is replaced.
	for range 2 {
		server, err := control.Listen(t.Context(), dir, &r)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- server.Serve() }()
		open, err := client.Pending(t.Context())
		if err != nil || len(open) != 1 || open[0].Action != "a" {
			t.Errorf("%+v, %v", open, err)
		}
		if got, err := client.Status(t.Context()); err != nil || !cmp.Equal(got, r.Status()) {
			t.Errorf("%+v, %v", got, err)
		}
		if err := client.Decide(t.Context(), "apr_a", false); err != nil {
			t.Error(err)
		}
		if err := client.Decide(t.Context(), "../stop", true); err == nil {
			t.Error("an id was taken for a path")
		}
		if err := client.SwitchOn(t.Context()); err == nil || !strings.Contains(err.Error(), "broken") {
			t.Errorf("%v", err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
	if got := strings.Join(r.said, ", "); got != "no by command line, no by command line" {
		t.Errorf("the relay was told %s", got)
	}
}

func TestSocketIsTheOwnersOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server, err := control.Listen(t.Context(), dir, &relay{})
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.Stat(filepath.Join(dir, control.SocketName))
	if err != nil || stat.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", stat.Mode(), err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	lax := t.TempDir()
	if err := os.Chmod(lax, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Listen(t.Context(), lax, &relay{}); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
		t.Errorf("a folder that others write: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, control.SocketName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Listen(t.Context(), dir, &relay{}); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("a file in its place: %v", err)
	}
}

func TestSwitch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, on := range []bool{false, true, true, false, false} {
		if err := control.Switch(dir, on); err != nil {
			t.Fatal(err)
		}
		if control.Switched(dir) != on {
			t.Errorf("it is not %t", on)
		}
	}
	if !control.Switched(filepath.Join(dir, strings.Repeat("x", 5000))) {
		t.Error("a state that cannot be told is not taken for stopped")
	}
}
