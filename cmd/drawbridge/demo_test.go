package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
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
	for _, want := range []string{"✗ refused", "✓ approved", "? near miss", "▲ launched", "● executed", "■ completed FINISHED", "Each expected step happened exactly once"} {
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
