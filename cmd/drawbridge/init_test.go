package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drawbridge/cmd/drawbridge/internal/local"
	"drawbridge/config"
)

// TestAskTools: only a yes opens folders to agents. Ctrl-C at the question is none.
func TestAskTools(t *testing.T) {
	t.Parallel()
	tools := local.Tools{Found: []local.Tool{{Name: "cargo", Dir: "/home/me/.cargo/bin"}}, Opens: []string{"/home/me/.cargo/bin", "/home/me/.rustup"}}
	for given, want := range map[string]bool{"y": true, "YES ": true, "": false, "n": false, "no": false, "perhaps,y": true, "perhaps,n": false} {
		answers, asked := strings.Split(given, ","), ""
		got := askTools(t.Context(), func(question string) (string, error) {
			asked += question
			answer := answers[0]
			answers = answers[1:]
			return answer + "\n", nil
		}, tools)
		if got != want || !strings.Contains(asked, "cargo (/home/me/.cargo/bin).\nTo use them, all agents must be able to read everything in: /home/me/.cargo/bin, /home/me/.rustup.") {
			t.Errorf("%q: %t\n%s", given, got, asked)
		}
	}
	if askTools(t.Context(), func(string) (string, error) { return "", io.EOF }, tools) {
		t.Error("the end of the input is a yes")
	}
	ctx, stop := context.WithCancel(t.Context())
	never := make(chan struct{})
	defer close(never)
	if askTools(ctx, func(string) (string, error) { stop(); <-never; return "", io.EOF }, tools) {
		t.Error("Ctrl-C is a yes")
	}
}

// TestInitAsks: on a terminal init asks for what it cannot know, and for nothing else.
func TestInitAsks(t *testing.T) {
	t.Parallel()
	answers := func(list ...string) func(string) (string, error) {
		return func(string) (string, error) {
			if len(list) == 0 {
				return "", io.EOF
			}
			answer := list[0]
			list = list[1:]
			return answer + "\n", nil
		}
	}
	for name, c := range map[string]struct {
		given, want initCmd
		there       config.SampleValues
		ask         func(string) (string, error)
		fails       error
	}{
		"both are asked for": {
			ask:  answers("github.com/me/agent-env", " github.com/me/my-app "),
			want: initCmd{Repo: "github.com/me/agent-env", Allow: "github.com/me/my-app", Relay: "laptop"},
		},
		"only what is missing": {
			given: initCmd{Repo: "github.com/me/agent-env", Relay: "desk"}, ask: answers("github.com/me/my-app"),
			want: initCmd{Repo: "github.com/me/agent-env", Allow: "github.com/me/my-app", Relay: "desk"},
		},
		"an allowlist that allows nothing stays so": {
			given: initCmd{}, there: config.SampleValues{Repo: "github.com/me/agent-env", Repos: []string{}}, ask: answers(),
			want: initCmd{Repo: "github.com/me/agent-env", Relay: "laptop"},
		},
		"no answer": {ask: answers(), fails: io.EOF},
	} {
		got := c.given
		err := got.complete(c.there, c.ask)
		if !errors.Is(err, c.fails) || (c.fails == nil && err != nil) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); c.fails == nil && diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A file that init writes names its JSON schema, which each further call writes anew.
func TestInitWritesSchemas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		if got := call(t, dir, "", "init", ".", "--repo", "github.com/me/agent-env", "--allow", "github.com/me/my-app"); got.code != exitOK {
			t.Fatalf("exit code %d, stderr %q", got.code, got.stderr)
		}
		for name, schema := range schemas {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			at, named := strings.CutPrefix(strings.SplitN(string(text), "\n", 2)[0], "# yaml-language-server: $schema=")
			kept, err := os.ReadFile(filepath.Join(dir, at))
			if !named || err != nil || string(kept) != schema {
				t.Errorf("%s names %q: %v", name, at, err)
			}
			if err := os.WriteFile(filepath.Join(dir, at), []byte("{}"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestInitOpenAI: init writes the endpoint for OpenAI clients once, in front of the address that was given, and the file loads.
func TestInitOpenAI(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		key  string
	}{
		"local": {[]string{"--local", "--tools", "none", "--openai", "http://127.0.0.1:11434/v1"}, ""},
		"cloud": {[]string{"--repo", "github.com/me/env", "--allow", "github.com/me/app", "--openai", "https://models.example.com/v1"}, "sk-of-the-endpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.Chmod(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "bridge.yaml")
			init := func(args ...string) (int, string) {
				var said strings.Builder
				a := app{stdin: strings.NewReader(""), stdout: &said, stderr: &said, getenv: func(string) (string, bool) { return "", false }}
				return run(t.Context(), a, append([]string{"init", dir}, args...)), said.String()
			}
			for again := range 2 {
				code, said := init(c.args...)
				if code != exitOK || !strings.Contains(said, "give the program the address http://127.0.0.1:") || strings.Contains(said, "has the endpoint for OpenAI clients now") != (again == 0) ||
					strings.Contains(said, "export OPENAI_API_KEY=") != (again == 0 && c.key != "") {
					t.Errorf("%d: %s", code, said)
				}
			}
			getenv := func(name string) (string, bool) {
				return map[string]string{"CURSOR_API_KEY": "key_for_the_cloud", "OPENAI_API_KEY": c.key}[name], true
			}
			cfg, problems := config.Load(path, getenv)
			if cfg == nil {
				t.Fatal(problems)
			}
			u := cfg.OpenAI.Upstreams["models"]
			if u.Kind != config.UpstreamChat || u.URL != c.args[len(c.args)-1] || u.Key.Reveal() != c.key || cfg.OpenAI.Upstreams["agents"].Kind != config.UpstreamAgent {
				t.Errorf("%+v", cfg.OpenAI)
			}
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			code, said := init(append(c.args[:len(c.args)-1:len(c.args)-1], "http://127.0.0.1:1/v1")...)
			if after, err := os.ReadFile(path); err != nil || code != exitUsage || string(after) != string(before) || !strings.Contains(said, "has an openai: block without http://127.0.0.1:1/v1") {
				t.Errorf("%d: %s, %v", code, said, err)
			}
		})
	}
	for _, address := range []string{"foo", "http://models.example.com/v1", "https://"} {
		var said strings.Builder
		a := app{stdin: strings.NewReader(""), stdout: &said, stderr: &said, getenv: func(string) (string, bool) { return "", false }}
		if code := run(t.Context(), a, []string{"init", "--local", t.TempDir(), "--openai", address}); code != exitUsage || !strings.Contains(said.String(), "is not an address of an endpoint") {
			t.Errorf("%s: %d %s", address, code, &said)
		}
	}
}
