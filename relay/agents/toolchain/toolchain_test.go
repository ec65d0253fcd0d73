package toolchain_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drawbridge/relay/agents/toolchain"
	"drawbridge/relay/runner/settings"
)

func folder(t *testing.T, files ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The files in the top folder of a clone say what it is built with, and a lock file says with which package manager.
func TestAsks(t *testing.T) {
	t.Parallel()
	for files, want := range map[string]string{
		"go.mod":                           "go",
		"package.json package-lock.json":   "node npm",
		"package.json pnpm-lock.yaml":      "node pnpm",
		"package.json yarn.lock":           "node yarn",
		"package.json bun.lock":            "bun",
		"deno.jsonc":                       "deno",
		"Cargo.toml":                       "cargo",
		"pyproject.toml":                   "python3",
		"requirements.txt setup.py":        "python3",
		"pyproject.toml uv.lock":           "python3 uv",
		"pom.xml":                          "java mvn",
		"pom.xml mvnw":                     "java",
		"build.gradle.kts gradlew":         "java",
		"Gemfile Makefile":                 "bundle make",
		"go.mod package.json":              "go node npm",
		"README.md docs/go.mod":            "",
		"go.mod/a":                         "",
		"composer.json mix.exs":            "composer mix",
		"global.json CMakeLists.txt":       "dotnet cmake",
		"build.gradle poetry.lock":         "poetry java gradle",
		"package.json bun.lockb Makefile2": "bun",
	} {
		var got []string
		for _, n := range toolchain.Asks(folder(t, strings.Fields(files)...)) {
			got = append(got, n.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s ask for %v, want %s", files, got, want)
		}
	}
}

// An agent can run a program that is on its PATH and that its sandbox lets it read, wherever a link leads.
func TestLacks(t *testing.T) {
	t.Parallel()
	clone, other, bin := folder(t, "go.mod", "Cargo.toml"), folder(t, "README.md"), folder(t, "bin/go", "real/cargo")
	if err := os.Symlink(filepath.Join(bin, "real", "cargo"), filepath.Join(bin, "bin", "cargo")); err != nil {
		t.Fatal(err)
	}
	agent := func(read ...string) settings.Agent {
		return settings.Agent{Env: []settings.EnvVar{{Name: "PATH", Value: filepath.Join(bin, "bin")}}, Sandbox: &settings.Sandbox{Read: read}}
	}
	open := agent()
	open.Sandbox = nil
	c := settings.Config{
		Agents: map[string]settings.Agent{
			"blind": agent(), "half": agent(filepath.Join(bin, "bin")), "whole": agent(bin), "open": open, "pathless": {Env: []settings.EnvVar{{Name: "PATH", Value: "/none:rel"}}},
		},
		Repos: map[string]settings.Repo{
			"local/app":  {Clone: clone, Agents: []string{"blind", "half", "whole", "open", "pathless"}},
			"local/docs": {Clone: other, Agents: []string{"blind"}},
		},
	}
	var got []string
	for _, l := range toolchain.Lacks(c) {
		got = append(got, l.String())
	}
	want := []string{
		"local/app has go.mod, Cargo.toml, but agent blind cannot run go, cargo",
		"local/app has Cargo.toml, but agent half cannot run cargo",
		"local/app has go.mod, Cargo.toml, but agent pathless cannot run go, cargo",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
