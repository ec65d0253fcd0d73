package settings

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"drawbridge/internal/trust"
)

// DefaultPath is the PATH of an agent whose entry sets none.
const DefaultPath = "/usr/local/bin:/usr/bin:/bin"

// tools are programs of the machine, such as compilers, that every agent of the file may run. Each entry is completed by them.
type tools struct {
	// path are folders that join the PATH of each agent, between its own and the usual ones. read is what else the programs need.
	path, read []string
	// env are variables that each agent gets unless its entry sets them.
	env []EnvVar
}

func (r *configReader) readTools(n *yaml.Node, at string) {
	t := &r.tools
	var from []EnvVar
	r.mapping(n, at, []setting{
		{"path", func(n *yaml.Node, at string) { t.path = r.toolFolders(n, at) }},
		{"read", func(n *yaml.Node, at string) { t.read = r.paths(n, at, r.agentPath) }},
		{"env", func(n *yaml.Node, at string) {
			t.env = r.agentEnv(n, at)
			if slices.ContainsFunc(t.env, func(v EnvVar) bool { return v.Name == "PATH" }) {
				r.report(Problem{Line: n.Line, Key: at + ".PATH"}, trust.Because("cannot be set for all agents", "list the folders below tools: path:"))
			}
		}},
		{"env_from", func(n *yaml.Node, at string) { from = r.envFrom(n, at) }},
	})
	t.env = r.bothEnv(n, at, t.env, from)
	r.startable(n, at, Action{Env: t.env})
	home, _ := r.outside.env("HOME")
	for _, dir := range slices.Concat(t.path, t.read) {
		if filepath.IsAbs(home) && trust.Within(resolve(home), dir) {
			r.report(Problem{Line: n.Line, Key: at, Value: dir}, trust.Because("holds your home folder, so all agents could read it", "name the folders of the programs"))
		}
	}
}

// toolFolders reads folders of programs. Others could put programs of their own into one that they can write.
func (r *configReader) toolFolders(n *yaml.Node, at string) []string {
	folders := r.paths(n, at, r.agentPath)
	for _, dir := range folders {
		if err := trust.ProgramFolder(dir); err != nil {
			r.report(Problem{Line: n.Line, Key: at, Value: dir}, err)
		}
		if strings.ContainsRune(dir, filepath.ListSeparator) {
			r.report(Problem{Line: n.Line, Key: at, Value: dir}, trust.Because("has a colon in its name, and PATH separates folders by colons", "rename the folder"))
		}
	}
	return folders
}

// envFrom reads names of variables, and takes their values from the environment of the relay. One that is not set there is left out.
func (r *configReader) envFrom(n *yaml.Node, at string) (env []EnvVar) {
	if n.Kind != yaml.SequenceNode {
		r.reject(n, at, "is not a list", "write [NAME, OTHER], with names of variables of the relay's environment")
		return nil
	}
	for i, element := range n.Content {
		place := fmt.Sprintf("%s[%d]", at, i)
		if !r.envName(element, place) {
			continue
		}
		if element.Value == "PATH" {
			r.report(Problem{Line: element.Line, Key: place}, trust.Because("cannot be in env_from", "list the folders below tools: path:"))
			continue
		}
		v := EnvVar{Name: element.Value}
		if v.Value, _ = r.outside.env(v.Name); v.Value == "" {
			continue
		}
		r.agentVariable(element, place, v)
		secrets := userinfo.FindAllString(v.Value, -1)
		if namesSecret(v.Name) {
			secrets = append(secrets, v.Value)
		}
		r.config.secrets = append(r.config.secrets, secrets...)
		env = append(env, v)
	}
	return env
}

// userinfo matches a user and a password in an address, such as that of a proxy.
var userinfo = regexp.MustCompile(`[^/:@,|\s]*:[^/@,|\s]+@`)

// bothEnv joins env and env_from.
func (r *configReader) bothEnv(n *yaml.Node, at string, env, from []EnvVar) []EnvVar {
	for _, v := range from {
		if slices.ContainsFunc(env, func(o EnvVar) bool { return o.Name == v.Name }) {
			r.report(Problem{Line: n.Line, Key: at + ".env_from", Value: v.Name}, trust.Because("is set twice, in env: and env_from: or in env_from: alone", "remove one of them"))
			continue
		}
		env = append(env, v)
	}
	return env
}

// complete gives an agent the tools of the machine.
func (t tools) complete(a Agent) Agent {
	env := slices.Clone(a.Env)
	path := filepath.SplitList(DefaultPath)
	at := slices.IndexFunc(env, func(v EnvVar) bool { return v.Name == "PATH" })
	if at >= 0 {
		path = filepath.SplitList(env[at].Value)
	}
	usual := slices.IndexFunc(path, func(dir string) bool { return slices.Contains(filepath.SplitList(DefaultPath), dir) })
	if usual < 0 {
		usual = len(path)
	}
	path = slices.Concat(path[:usual], slices.DeleteFunc(slices.Clone(t.path), func(dir string) bool { return slices.Contains(path, dir) }), path[usual:])
	whole := EnvVar{Name: "PATH", Value: strings.Join(path, string(filepath.ListSeparator))}
	switch {
	case len(t.path) == 0:
	case at >= 0:
		env[at] = whole
	default:
		env = append(env, whole)
	}
	for _, v := range t.env {
		if !slices.ContainsFunc(env, func(o EnvVar) bool { return o.Name == v.Name }) {
			env = append(env, v)
		}
	}
	a.Env = env
	if a.Sandbox != nil {
		s := *a.Sandbox
		s.Read = slices.Concat(s.Read, t.path, t.read)
		a.Sandbox = &s
	}
	return a
}

// PathOf is the PATH that an agent gets.
func (a Agent) PathOf() string {
	for _, v := range a.Env {
		if v.Name == "PATH" {
			return v.Value
		}
	}
	return DefaultPath
}
