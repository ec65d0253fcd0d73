package host

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"drawbridge/internal/trust"
	"drawbridge/relay/agents/toolchain"
	"drawbridge/relay/runner/settings"
)

// Login is how a person at a terminal runs the login of an agent's own.
type Login struct {
	// Argv begins with an absolute path.
	Argv []string
	// Env has the HOME of the entry. Dir is that HOME.
	Env []string
	Dir string
}

// terminalEnv are the variables of the person's terminal that a login gets: it may open a browser, ask for a code and answer a callback.
var terminalEnv = []string{
	"TERM", "COLORTERM", "LANG", "LC_ALL", "LC_CTYPE", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "BROWSER", "SSH_CONNECTION",
	"SSH_TTY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS",
}

// Login returns how to log an entry in, in its HOME, which is made where it is missing. args replace what is known of the agent: they are
// arguments of its program, or begin with the absolute path of another program. getenv reads the terminal's variables.
// The login has no sandbox, because a sandbox keeps browsers and callbacks from working.
func (h *Host) Login(name string, args []string, getenv settings.LookupEnv) (Login, error) {
	a, listed := h.Config.Agents[name]
	if !listed {
		return Login{}, fmt.Errorf("agent %q is not listed in %s; it lists: %s", name, h.Config.File, cmp.Or(strings.Join(sortedNames(h.Config.Agents), ", "), "no agents"))
	}
	argv, known := a.LoginCommand()
	switch {
	case len(args) > 0 && filepath.IsAbs(args[0]):
		argv = args
	case len(args) > 0:
		argv = append([]string{a.Argv[0]}, args...)
	case !known:
		return Login{}, fmt.Errorf("this relay does not know how agent %s logs in; give the arguments of its login: drawbridge-relay login %s -- ARGUMENTS", name, name)
	}
	home, err := h.home(name)
	if err != nil {
		return Login{}, err
	}
	env := loginEnv(a, home, getenv)
	if argv[0], err = program(argv[0], env); err != nil {
		return Login{}, err
	}
	return Login{Argv: argv, Env: env, Dir: home}, nil
}

func sortedNames(agents map[string]settings.Agent) (names []string) {
	for name := range agents {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// loginEnv is the environment of the agent with what the terminal adds. Programs of the person, such as a browser, are found last.
func loginEnv(a settings.Agent, home string, getenv settings.LookupEnv) []string {
	env := environment(a, home)
	for i, pair := range env {
		if list, ok := strings.CutPrefix(pair, "PATH="); ok {
			if own, set := getenv("PATH"); set && own != "" {
				env[i] = "PATH=" + list + string(filepath.ListSeparator) + own
			}
		}
	}
	for _, name := range terminalEnv {
		value, set := getenv(name)
		at := slices.IndexFunc(env, func(pair string) bool { return strings.HasPrefix(pair, name+"=") })
		switch {
		case !set:
		case at < 0:
			env = append(env, name+"="+value)
		case name == "TERM":
			env[at] = "TERM=" + value
		}
	}
	return env
}

// program finds a program on the PATH of an environment, and refuses one that others could replace.
func program(name string, env []string) (string, error) {
	path := name
	if !filepath.IsAbs(name) {
		path = ""
		for _, pair := range env {
			if list, ok := strings.CutPrefix(pair, "PATH="); ok {
				path = toolchain.Find(list, name)
			}
		}
	}
	if path == "" {
		return "", fmt.Errorf("the program %s, which logs this agent in, is not on PATH; install it, or give its path: drawbridge-relay login NAME -- /path/to/%s ARGUMENTS", name, name)
	}
	if err := trust.Executable(path); err != nil {
		return "", fmt.Errorf("the program %s %w", path, err)
	}
	return path, nil
}
