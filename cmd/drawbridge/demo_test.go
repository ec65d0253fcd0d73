package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// leftBehind lists what a demo that used dir as its TMPDIR has left: files, and processes that name them.
func leftBehind(t *testing.T, dir string) (left []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		left = append(left, f.Name())
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		text, err := os.ReadFile(line)
		if err == nil && bytes.Contains(text, []byte(dir)) {
			left = append(left, string(bytes.ReplaceAll(text, []byte{0}, []byte(" "))))
		}
	}
	return left
}

func TestDemo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	got := call(t, dir, "", "demo")
	if got.code != exitOK || got.stderr != "" {
		t.Errorf("exit code %d, stderr %q\n%s", got.code, got.stderr, got.stdout)
	}
	for _, want := range []string{"✗ refused", "✓ approved", "? near miss", "▲ launched", "● executed", "■ completed FINISHED", "Everything that was expected happened"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("the demo does not show %q:\n%s", want, got.stdout)
		}
	}
	if strings.Contains(got.stdout, "\x1b") {
		t.Error("the demo colors a pipe")
	}
	if left := leftBehind(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// The story ends the same when the bridge is killed in its middle, and when no webhook ever arrives.
func TestDemoFaults(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"kill", "no-webhooks"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			got := call(t, dir, "", "demo", "--fault", fault)
			if got.code != exitOK || got.stderr != "" {
				t.Errorf("exit code %d, stderr %q\n%s", got.code, got.stderr, got.stdout)
			}
			if left := leftBehind(t, dir); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// A team of scripted agents comes to the right result, also when the bridge is killed with all of them at work.
func TestDemoTeam(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"", "kill"} {
		t.Run("fault "+fault, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			got := call(t, dir, "", "demo", "--team", "--fault="+fault)
			if got.code != exitOK || got.stderr != "" || !strings.Contains(got.stdout, "The lead told you: The text has 19 words") || strings.Contains(got.stdout, "  ! ") {
				t.Errorf("exit code %d, stderr %q\n%s", got.code, got.stderr, got.stdout)
			}
			if left := leftBehind(t, dir); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
	if got := call(t, t.TempDir(), "", "demo", "--team", "--keep"); got.code != exitUsage || !strings.Contains(got.stderr, "leave --keep") {
		t.Errorf("exit code %d, stderr %q", got.code, got.stderr)
	}
}

func TestDemoJSON(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	got := call(t, dir, "", "demo", "--json")
	if got.code != exitOK || got.stderr != "" {
		t.Errorf("exit code %d, stderr %q", got.code, got.stderr)
	}
	count := map[string]int{}
	last := time.Time{}
	for line := range strings.Lines(got.stdout) {
		var e struct {
			Time  time.Time
			Event string
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Event == "" || e.Time.Before(last) {
			t.Fatalf("%v: %s", err, line)
		}
		last = e.Time
		count[e.Event]++
	}
	for event, n := range map[string]int{"launched": 3, "executed": 3, "refused": 2, "held": 1, "approved": 1, "near_miss": 1} {
		if count[event] != n {
			t.Errorf("%s happened %d times, not %d: %v", event, count[event], n, count)
		}
	}
	if left := leftBehind(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// keptDemo is a demo that stays up until it is told to end.
type keptDemo struct {
	cmd  *exec.Cmd
	out  *bufio.Reader
	errs bytes.Buffer
}

func keepDemo(t *testing.T, dir string) *keptDemo {
	t.Helper()
	path, err := exec.LookPath("drawbridge")
	if err != nil {
		t.Fatal(err)
	}
	d := &keptDemo{cmd: exec.Command(path, "demo", "--keep", "--json")}
	d.cmd.Env, d.cmd.Stderr = []string{"PATH=/usr/bin:/bin", "TMPDIR=" + dir}, &d.errs
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.out = bufio.NewReader(out)
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.cmd.Process.Kill() }) // it has ended already unless the test failed
	return d
}

// line reads lines until one holds text.
func (d *keptDemo) line(t *testing.T, text string) []byte {
	t.Helper()
	for {
		line, err := d.out.ReadBytes('\n')
		if bytes.Contains(line, []byte(text)) {
			return line
		}
		if err != nil {
			t.Fatalf("the demo ended before %s: %v\n%s", text, err, &d.errs)
		}
	}
}

// interrupt sends SIGINT to the demo alone, as a terminal does whose children have groups of their own.
func (d *keptDemo) interrupt(t *testing.T) error {
	t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, d.out); err != nil {
		t.Fatal(err)
	}
	return d.cmd.Wait()
}

func TestDemoKeep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := keepDemo(t, dir)
	var kept struct{ Bridge, Token, Cloud, Folder string }
	if err := json.Unmarshal(d.line(t, `"event":"kept"`), &kept); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodGet, kept.Bridge+"/v1/agents", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+kept.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the kept bridge answers %s", resp.Status)
	}
	if err := d.interrupt(t); err != nil {
		t.Errorf("%v\n%s", err, &d.errs)
	}
	if left := leftBehind(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// Somebody who has seen enough leaves nothing behind either.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := keepDemo(t, dir)
	d.line(t, `"event":"reply"`)
	if err := d.interrupt(t); err == nil {
		t.Error("an interrupted story counts as told")
	}
	if strings.Contains(d.errs.String(), "did not end within") {
		t.Errorf("an interrupted demo says %q", &d.errs)
	}
	if left := leftBehind(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
