package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drawbridge/cmd/drawbridge/internal/local"
	"drawbridge/relay/agents/toolchain"
	"drawbridge/relay/runner/settings"
)

// The programs of a person are found with what they need, and no more: not the tokens beside cargo's programs. What is written is what the relay reads.
func TestTools(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{".cargo/bin/rustup", ".rustup/settings.toml", ".pyenv/shims/python3", ".nvm/v20/bin/node", ".nvm/v20/lib/node_modules/npm/bin/npm", "open/deno", "config/bun", "own/bin/gh", "me/uv", "me/shims/poetry", "me/.docker/bin/docker", "me/.docker/config.json"} {
		must(t, os.MkdirAll(filepath.Dir(at(name)), 0o700))
		must(t, os.WriteFile(at(name), nil, 0o700))
	}
	must(t, os.Symlink("rustup", at(".cargo/bin/cargo")))
	must(t, os.Symlink("../lib/node_modules/npm/bin/npm", at(".nvm/v20/bin/npm")))
	must(t, os.Mkdir(at("linked"), 0o700))
	must(t, os.Symlink(at(".cargo/bin/rustup"), at("linked/rustc"))) // found elsewhere, it opens no more
	must(t, os.Symlink(at("me"), at("home")))
	must(t, os.Chmod(at("open"), 0o777))
	must(t, os.Chmod(at("own/bin"), 0o775)) // as Homebrew has it
	m := local.Machine{Own: at("config/own"), Home: at("me"), Getenv: func(name string) (string, bool) {
		return map[string]string{"RUSTUP_HOME": at(".rustup")}[name], true
	}, Path: strings.Join([]string{at(".cargo/bin"), at(".pyenv/shims"), at(".nvm/v20/bin"), at("open"), at("config"), at("own/bin"), at("home"), at("me/shims"), at("me/.docker/bin"), at("linked"), "/usr/bin", "/bin"}, ":")}
	got, notes := m.Tools(append(toolchain.Names(), "gh", "sh", "docker", "rustc"), true)
	want := local.Tools{
		Found: []local.Tool{{Name: "node", Dir: at(".nvm/v20/bin")}, {Name: "npm", Dir: at(".nvm/v20/bin")}, {Name: "cargo", Dir: at(".cargo/bin")}, {Name: "python3", Dir: at(".pyenv/shims")}, {Name: "gh", Dir: at("own/bin")}, {Name: "docker", Dir: at("me/.docker/bin")}, {Name: "rustc", Dir: at("linked")}},
		Path:  []string{at(".nvm/v20/bin"), at(".cargo/bin"), at(".pyenv/shims"), at("own/bin"), at("me/.docker/bin"), at("linked")},
		Read:  []string{at(".nvm/v20"), at(".nvm/v20/lib/node_modules"), at(".rustup"), at(".pyenv"), at("own")},
		Env:   []settings.EnvVar{{Name: "RUSTUP_HOME", Value: at(".rustup")}},
	}
	want.Opens = []string{at(".nvm/v20"), at(".cargo/bin"), at(".rustup"), at(".pyenv"), at("own"), at("me/.docker/bin"), at("linked")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(notes) != 4 || !strings.Contains(strings.Join(notes, "\n"), "your uv: "+at("home")+" holds your home folder") || !strings.Contains(strings.Join(notes, "\n"), "your poetry: "+at("me/shims")+" holds shims of a version manager") || !strings.Contains(strings.Join(notes, "\n"), "your deno: "+at("open")+" can be written by everybody") || !strings.Contains(strings.Join(notes, "\n"), "your bun: "+at("config")+" holds the configuration") {
		t.Errorf("notes: %q", notes)
	}
	if none, _ := m.Tools(toolchain.Names(), false); len(none.Found) != 0 {
		t.Errorf("without opening anything: %+v", none)
	}
	files := local.Setup{Relay: "desk", Tools: got}.Files()
	for name, text := range map[string]func() ([]byte, error){
		"new":      func() ([]byte, error) { return []byte(files["relay.yaml"]), nil },
		"again":    func() ([]byte, error) { return got.AddTo([]byte(files["relay.yaml"])) },
		"none yet": func() ([]byte, error) { return got.AddTo([]byte("listen: none\nactions: {}\n")) },
		"more": func() ([]byte, error) {
			return got.AddTo([]byte("listen: none\nactions: {}\ntools:\n  path:\n    - " + at("own/bin") + " # mine\n  read: []\n  env: { RUSTUP_HOME: " + at(".rustup") + " }\n"))
		},
	} {
		file, err := text()
		must(t, err)
		path := filepath.Join(t.TempDir(), "relay.yaml")
		must(t, os.WriteFile(path, append(file, "\nstate: "+t.TempDir()...), 0o600))
		c, err := settings.Load(path, nil)
		if err != nil || len(c.Warnings) > 0 {
			t.Errorf("%s: %v %v\n%s", name, err, c.Warnings, file)
		}
		for _, folder := range append(got.Path, got.Read...) {
			if n := strings.Count(string(file), folder+",") + strings.Count(string(file), folder+"]") + strings.Count(string(file), "- "+folder+"\n") + strings.Count(string(file), folder+" # mine"); n != 1 {
				t.Errorf("%s: %s stands there %d times:\n%s", name, folder, n, file)
			}
		}
	}
	if _, err := got.AddTo([]byte("tools: {}\n")); err == nil || !strings.Contains(err.Error(), "add this by hand:\ntools:\n  path: [") {
		t.Errorf("a file that cannot be extended: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
