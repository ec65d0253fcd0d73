package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"drawbridge/internal/trust"
	"drawbridge/relay/agents/toolchain"
	"drawbridge/relay/runner/sandbox"
	"drawbridge/relay/runner/settings"
)

// Tools are programs of the person's that agents may use, such as compilers, and what each of them needs.
type Tools struct {
	// Found are the programs, each with the folder in which it was found.
	Found []Tool
	// Path are folders that join the PATH of each agent. Read is what else the programs need, and Env are their variables.
	Path, Read []string
	Env        []settings.EnvVar
	// Opens are the files and folders that no agent could read before.
	Opens []string
}

// Tool is a program that was found.
type Tool struct{ Name, Dir string }

// Names lists the programs with their folders, for people.
func (t Tools) Names() string {
	var list []string
	for _, f := range t.Found {
		list = append(list, fmt.Sprintf("%s (%s)", f.Name, f.Dir))
	}
	return strings.Join(list, ", ")
}

// Without returns the programs that another one does not have.
func (t Tools) Without(o Tools) Tools {
	return Tools{Found: slices.DeleteFunc(slices.Clone(t.Found), func(f Tool) bool { return slices.Contains(o.Found, f) })}
}

// Tools returns those of the programs that are installed and that agents do not have without being told, with what they need. Only those that open
// nothing to agents count, unless opening is true. A note says why a program is left out.
func (m Machine) Tools(names []string, opening bool) (t Tools, notes []string) {
	for _, name := range names {
		path := toolchain.Find(m.Path, name)
		if path == "" || slices.Contains(filepath.SplitList(settings.DefaultPath), filepath.Dir(path)) {
			continue
		}
		dir := filepath.Dir(path)
		read, env, note := m.behind(path)
		if note == "" {
			note = m.unfit(append(read, dir))
		}
		if note != "" {
			notes = append(notes, fmt.Sprintf("agents cannot use your %s: %s", name, note))
			continue
		}
		opens := slices.DeleteFunc(append([]string{dir}, read...), sandbox.System)
		if len(opens) > 0 && !opening {
			continue
		}
		t.Found = append(t.Found, Tool{name, dir})
		t.Path = added(t.Path, dir)
		for _, folder := range read {
			t.Read = added(t.Read, folder)
		}
		for _, v := range env {
			t.Env = added(t.Env, v)
		}
		for _, folder := range opens {
			t.Opens = added(t.Opens, folder)
		}
	}
	whole := slices.Clone(t.Opens)
	t.Opens = slices.DeleteFunc(t.Opens, func(folder string) bool {
		return slices.ContainsFunc(whole, func(o string) bool { return o != folder && trust.Within(folder, o) })
	})
	return t, notes
}

func added[T comparable](list []T, one T) []T {
	if slices.Contains(list, one) {
		return list
	}
	return append(list, one)
}

// unfit says why folders cannot be opened to agents, "" where they can.
func (m Machine) unfit(folders []string) string {
	for _, folder := range folders {
		real, err := filepath.EvalSymlinks(folder)
		if err == nil {
			if stat, own := os.Stat(real); own == nil && !stat.IsDir() {
				err = trust.Executable(real)
			} else {
				err = trust.ProgramFolder(real)
			}
		}
		switch {
		case err != nil:
			return err.Error()
		case trust.Within(m.Own, real):
			return folder + " holds the configuration of this bridge"
		case m.Home != "" && trust.Within(m.Home, real):
			return folder + " holds your home folder"
		}
	}
	return ""
}

// behind returns what a program needs beside its folder: the files of a version manager, or the folder that it brings along. A note says why agents
// cannot use it.
func (m Machine) behind(path string) (read []string, env []settings.EnvVar, note string) {
	dir := filepath.Dir(path)
	manager := filepath.Dir(dir)
	real, err := filepath.EvalSymlinks(path)
	switch {
	case err != nil:
		return nil, nil, trust.PathError(err).Error()
	case filepath.Base(real) == "rustup": // cargo and others by their names; beside it there may be the person's tokens
		home := m.rustup()
		if home == "" {
			return nil, nil, "rustup has no toolchains in RUSTUP_HOME or ~/.rustup; set RUSTUP_HOME to their folder"
		}
		return []string{home}, []settings.EnvVar{{Name: "RUSTUP_HOME", Value: home}}, ""
	case filepath.Base(dir) == "shims" && strings.HasSuffix(filepath.Base(manager), "env"): // pyenv, rbenv: a shim says where its manager is
		read = []string{manager}
	case filepath.Base(dir) == "shims", strings.Contains(filepath.Base(real), "shim"):
		return nil, nil, dir + " holds shims of a version manager, and shims need files of your home that agents cannot read; put the folder of the program itself into PATH"
	case !trust.Within(m.home(path), dir):
		read = []string{m.home(path)}
	}
	return slices.DeleteFunc(read, sandbox.System), nil, ""
}

// rustup is the folder with the toolchains of rustup, "" without one.
func (m Machine) rustup() string {
	home, _ := m.Getenv("RUSTUP_HOME")
	if home == "" && m.Home != "" {
		home = filepath.Join(m.Home, ".rustup")
	}
	if stat, err := os.Stat(home); err != nil || !stat.IsDir() || !filepath.IsAbs(home) {
		return ""
	}
	return home
}

// Block is what relay.yaml says of the tools.
func (t Tools) Block() string {
	of := t.entries()
	env := "{}"
	if len(t.Env) > 0 {
		env = "{ " + strings.Join(of["env"], ", ") + " }"
	}
	return fmt.Sprintf("tools:\n  path: [%s]\n  read: [%s]\n  env: %s\n", strings.Join(of["path"], ", "), strings.Join(of["read"], ", "), env)
}

// AddTo adds the tools to a relay.yaml that has tools: or has none.
func (t Tools) AddTo(file []byte) ([]byte, error) {
	root, err := document(file)
	if err != nil {
		return nil, err
	}
	there := value(root, "tools")
	if there.Kind == 0 {
		return append(append([]byte(strings.TrimRight(string(file), "\n")), "\n\n"+toolsComment...), t.Block()...), nil
	}
	for _, key := range []string{"path", "read", "env"} {
		for _, entry := range slices.Backward(t.entries()[key]) {
			name, _, _ := strings.Cut(entry, ": ")
			if slices.ContainsFunc(value(there, key).Content, func(n *yaml.Node) bool { return text(n.Value) == name }) {
				continue
			}
			if file, err = Add(file, entry, "tools", key); err != nil {
				return nil, fmt.Errorf("%w; add this by hand:\n%s", err, t.Block())
			}
		}
	}
	return file, nil
}

// entries are the tools as they stand below the keys of tools.
func (t Tools) entries() map[string][]string {
	of := map[string][]string{}
	for _, dir := range t.Path {
		of["path"] = append(of["path"], text(dir))
	}
	for _, dir := range t.Read {
		of["read"] = append(of["read"], text(dir))
	}
	for _, v := range t.Env {
		of["env"] = append(of["env"], v.Name+": "+text(v.Value))
	}
	return of
}

const toolsComment = "# Programs of yours that all agents may use, beside those in /usr/local/bin, /usr/bin and /bin.\n"
