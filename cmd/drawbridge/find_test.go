package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drawbridge/cmd/drawbridge/internal/local"
)

// TestFind: a command takes the bridge.yaml of its folder, else that of a drawbridge up that runs, else one above, else what up left, and says which.
func TestFind(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write := func(path, operator string) string {
		t.Helper()
		text := "listen: 127.0.0.1:1\noperator: { listen: \"" + operator + "\" }\ntoken: ${file:token}\n"
		for name, text := range map[string]string{filepath.Base(path): text, "token": strings.Repeat("x", 40)} {
			name = filepath.Join(root, filepath.Dir(path), name)
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return filepath.Join(root, path)
	}
	if err := os.MkdirAll(filepath.Join(root, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(root, "a", "b"))
	var said bytes.Buffer
	a := app{stderr: &said, getenv: func(name string) (string, bool) { return filepath.Join(root, "state"), name == "XDG_STATE_HOME" }}
	check := func(want, start string, silent bool) {
		t.Helper()
		said.Reset()
		if path, how := (connection{}).find(a); path != want || how != start || silent != (said.Len() == 0) || !silent && !strings.Contains(said.String(), want) {
			t.Errorf("%s, started by %s, said %q; want %s, started by %s", path, how, &said, want, start)
		}
	}
	here := filepath.Join(root, "a", "b", "bridge.yaml")
	check(here, "drawbridge serve", true)
	up := write("state/drawbridge/bridge.yaml", "127.0.0.1:3")
	lock, err := local.Hold(filepath.Dir(up))
	if err != nil {
		t.Fatal(err)
	}
	check(up, "drawbridge up", false)
	above := write("a/bridge.yaml", "127.0.0.1:2")
	check(up, "drawbridge up", false) // it runs
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	check(above, "drawbridge serve --config "+above, false)
	if err := os.Remove(above); err != nil {
		t.Fatal(err)
	}
	check(up, "drawbridge up", false) // it does not run, and is all there is
	if at, err := (connection{}).resolve(a); err != nil || at.start != "drawbridge up" || at.url != "http://127.0.0.1:3" {
		t.Errorf("%+v, %v", at, err)
	}
	for _, given := range []connection{{URL: "http://bridge.example.com"}, {URL: "http://bridge.example.com", Config: "none.yaml"}} {
		if at, err := given.resolve(a); err == nil || at.token != "" || !strings.Contains(err.Error(), "no token for http://bridge.example.com") {
			t.Errorf("another bridge gets the token of up: %+v, %v", at, err)
		}
	}
	write("a/b/bridge.yaml", "127.0.0.1:2")
	check(here, "drawbridge serve", true)
	if path, _ := (connection{Config: "other.yaml"}).find(a); path != "other.yaml" {
		t.Errorf("--config does not count: %s", path)
	}
}
