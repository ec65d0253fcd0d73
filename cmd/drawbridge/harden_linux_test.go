package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drawbridge/internal/freeport"
)

// TestTheKeyCannotBeReadFromTheProcess guards against a program of the same user that reads the API key from
// /proc/PID/environ or /proc/PID/mem. Root can read both of any process, so as root the bridge runs as another user here, and
// its environment is also looked at with root's eyes.
func TestTheKeyCannotBeReadFromTheProcess(t *testing.T) {
	t.Parallel()
	const key = "key-of-the-environment-0123456789"
	dir, user := ordinaryFolder(t)
	port, release, err := freeport.Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = release() })
	for name, text := range map[string]string{"bridge.yaml": fmt.Sprintf(`listen: 127.0.0.1:%s
token: ${OPERATOR}
key: ${file:bridge.key}
cursor: { key: "${CURSOR_API_KEY}", url: "http://127.0.0.1:1" }
`, port), "allowlist.yaml": worldAllowlist, "bridge.key": bridgeKey} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "backup_script: {}", "backup_script: { relay: laptop }")), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, int(user.Uid), int(user.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	ready := serveAs(t, user, dir, "CURSOR_API_KEY="+key, "OPERATOR="+operatorToken, "HOME="+dir)
	proc := fmt.Sprintf("/proc/%d/", ready)
	text, err := os.ReadFile(proc + "environ")
	switch {
	case os.Geteuid() != 0 && err == nil:
		t.Errorf("a program of the same user reads the environment: %q", bytes.Trim(text, "\x00"))
	case bytes.Contains(text, []byte(key)), bytes.Contains(text, []byte(operatorToken)):
		t.Error("the key stands in the environment")
	}
	// The files below belong to root when the process is undumpable, and to its user otherwise (proc(5)).
	info, err := os.Stat(proc + "mem")
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 0 {
		t.Errorf("the memory belongs to user %d, who can read it", owner)
	}
}

// ordinaryFolder returns a folder of a user who is not root.
func ordinaryFolder(t *testing.T) (string, *syscall.Credential) {
	t.Helper()
	user := &syscall.Credential{Uid: uint32(os.Geteuid()), Gid: uint32(os.Getegid()), NoSetGroups: true}
	if user.Uid == 0 {
		user = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	dir, err := os.MkdirTemp("", "ordinary")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chown(dir, int(user.Uid), int(user.Gid)); err != nil {
		t.Fatal(err)
	}
	return dir, user
}

// serveAs runs a bridge as a user until the test ends, waits until it is ready and returns its process id.
func serveAs(t *testing.T, user *syscall.Credential, dir string, env ...string) int {
	t.Helper()
	program := filepath.Join(dir, "drawbridge") // the test binary may lie where the user cannot look
	// Another program copies it: a child that this process starts meanwhile would hold the copy open for writing ("text file busy").
	if out, err := exec.CommandContext(t.Context(), "cp", fmt.Sprintf("/proc/%d/exe", os.Getpid()), program).CombinedOutput(); err != nil {
		t.Fatalf("copy the program: %v\n%s", err, out)
	}
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "serve", "--config", filepath.Join(dir, "bridge.yaml")) //nolint:noctx // killed below
	cmd.Dir, cmd.Env = dir, append(env, "GORACE="+os.Getenv("GORACE"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	go func() {
		said <- untilReady(log)
		_, _ = io.Copy(io.Discard, log)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if text := <-said; !strings.Contains(text, `"ready"`) {
		t.Fatalf("the bridge did not start: %s", text)
	}
	return cmd.Process.Pid
}

// untilReady reads a log until the bridge is ready or ends.
func untilReady(log io.Reader) string {
	var text strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(text.String(), `"ready"`) {
		n, err := log.Read(buf)
		text.Write(buf[:n])
		if err != nil {
			break
		}
	}
	return text.String()
}
