// Package toolchain knows with which programs a repository is built, and whether an agent of this machine can run them.
//
// It runs nothing and changes nothing. Rule of thumb: a file in the top folder of a clone asks for a program, and nothing else does.
package toolchain

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"drawbridge/internal/trust"
	"drawbridge/relay/runner/sandbox"
	"drawbridge/relay/runner/settings"
)

// Tool is a program with which repositories are built.
type Tool struct {
	// Name is the name of the program. Version are the arguments with which it says its version.
	Name, Version string
	// files ask for the program, unless one of unless is there, too.
	files, unless []string
}

const version = "--version"

var tools = []Tool{
	{"go", "version", []string{"go.mod"}, nil},
	{"node", version, []string{"package.json"}, []string{"bun.lock", "bun.lockb"}},
	{"npm", version, []string{"package.json"}, []string{"pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb"}},
	{"pnpm", version, []string{"pnpm-lock.yaml"}, nil},
	{"yarn", version, []string{"yarn.lock"}, nil},
	{"bun", version, []string{"bun.lock", "bun.lockb"}, nil},
	{"deno", version, []string{"deno.json", "deno.jsonc"}, nil},
	{"cargo", version, []string{"Cargo.toml"}, nil},
	{"python3", version, []string{"pyproject.toml", "requirements.txt", "setup.py"}, nil},
	{"uv", version, []string{"uv.lock"}, nil},
	{"poetry", version, []string{"poetry.lock"}, nil},
	{"java", version, []string{"pom.xml", "build.gradle", "build.gradle.kts"}, nil},
	{"mvn", version, []string{"pom.xml"}, []string{"mvnw"}},
	{"gradle", version, []string{"build.gradle", "build.gradle.kts"}, []string{"gradlew"}},
	{"bundle", version, []string{"Gemfile"}, nil},
	{"composer", version, []string{"composer.json"}, nil},
	{"mix", version, []string{"mix.exs"}, nil},
	{"dotnet", version, []string{"global.json"}, nil},
	{"make", version, []string{"Makefile", "GNUmakefile"}, nil},
	{"cmake", version, []string{"CMakeLists.txt"}, nil},
}

// Names returns the names of all programs that this package knows.
func Names() (names []string) {
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return names
}

// Need is a program that a clone asks for.
type Need struct {
	Tool
	// File is the file that asks for it.
	File string
}

// Asks returns the programs that the files in the top folder of a clone ask for.
func Asks(clone string) (needs []Need) {
	first := func(names []string) string {
		for _, name := range names {
			if stat, err := os.Stat(filepath.Join(clone, name)); err == nil && stat.Mode().IsRegular() {
				return name
			}
		}
		return ""
	}
	for _, t := range tools {
		if file := first(t.files); file != "" && first(t.unless) == "" {
			needs = append(needs, Need{t, file})
		}
	}
	return needs
}

// Lack is what a clone asks for and an agent cannot run: it is not on the agent's PATH, or the agent's sandbox hides it.
type Lack struct {
	Repo, Agent string
	// Programs are the names of the programs, and Files the files that ask for them.
	Programs, Files []string
}

// String says what is wrong, in half a sentence.
func (l Lack) String() string {
	return fmt.Sprintf("%s has %s, but agent %s cannot run %s", l.Repo, strings.Join(l.Files, ", "), l.Agent, strings.Join(l.Programs, ", "))
}

// Lacks returns what the agents of a relay.yaml lack, by repository and agent.
func Lacks(c settings.Config) (lacks []Lack) {
	for _, name := range slices.Sorted(maps.Keys(c.Repos)) {
		needs := Asks(c.Repos[name].Clone)
		for _, agent := range c.Repos[name].Agents {
			l := Lack{Repo: name, Agent: agent}
			for _, n := range needs {
				if runs(c.Agents[agent], n.Name) {
					continue
				}
				l.Programs = append(l.Programs, n.Name)
				if !slices.Contains(l.Files, n.File) {
					l.Files = append(l.Files, n.File)
				}
			}
			if l.Programs != nil {
				lacks = append(lacks, l)
			}
		}
	}
	return lacks
}

func runs(a settings.Agent, name string) bool {
	path := Find(a.PathOf(), name)
	if path == "" {
		return false
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	return a.Sandbox == nil || sandbox.System(real) || slices.ContainsFunc(slices.Concat(a.Sandbox.Read, a.Sandbox.Write), func(dir string) bool { return trust.Within(real, dir) })
}

// Find returns the absolute path of a program in a list of folders as in PATH, "" where there is none.
func Find(list, name string) string {
	if name == "" || strings.ContainsRune(name, filepath.Separator) {
		return ""
	}
	for _, dir := range filepath.SplitList(list) {
		path := filepath.Join(dir, name)
		if stat, err := os.Stat(path); err == nil && filepath.IsAbs(path) && stat.Mode().IsRegular() && stat.Mode().Perm()&0o111 != 0 {
			return path
		}
	}
	return ""
}
