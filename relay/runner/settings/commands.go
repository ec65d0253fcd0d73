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

// maxCommands bounds the rules of one entry.
const maxCommands = 64

// Command is a rule for questions of kind execute: a program and the arguments with which a command begins.
type Command struct {
	// Program is compared letter by letter: a name that the agent looks up in its PATH, or an absolute path.
	Program string `json:"program"`
	// Args are the first arguments. Further ones are allowed unless Exact is set, except those that are known to start another program.
	Args  []string `json:"args,omitempty"`
	Exact bool     `json:"exact,omitempty"`
}

// starters are programs that run what their arguments say. A rule for one would allow everything, so it is refused.
var starters = strings.Fields(`sh bash dash zsh ksh mksh yash ash fish csh tcsh rbash busybox toybox env xargs sudo doas su runuser pkexec nohup nice ionice
	timeout gtimeout time setsid stdbuf script unshare nsenter chroot chrt taskset flock watch parallel ssh scp rsync find fd awk gawk mawk nawk sed ed ex vi vim nvim emacs
	less more man tmux screen expect strace ltrace gdb lldb systemd-run at batch crontab entr make-kpkg xterm caffeinate launchctl osascript bwrap firejail docker podman`)

// interpreters run a program that their arguments name. A rule for one says which.
var interpreters = []string{
	"python", "python2", "python3", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "java", "npx", "bunx", "pnpm", "yarn", "npm", "uv", "uvx", "pipx", "git", "go", "cargo", "gem", "bundle",
}

// builtins are words that a shell reads itself. A rule for one would not name a program.
var builtins = strings.Fields(`. : [ [[ ]] ! { } alias autoload bg bind break builtin caller case cd chdir command compgen complete compopt continue coproc declare dirs disown do
	done echo elif else enable end esac eval exec exit export false fc fg fi float for foreach function functions getopts hash help history if in integer jobs kill let
	limit local logout mapfile nocorrect noglob popd print printf pushd pwd read readarray readonly rehash repeat return select set setopt shift shopt source suspend test then
	time times trap true type typeset ulimit umask unalias unfunction unhash unlimit unset unsetopt until wait whence where which while zmodload`)

// plainWord is a word that each shell reads as it stands. A program's name has no "=", which makes an assignment, nor a leading "%" or "-".
var (
	plainProgram = regexp.MustCompile(`^[A-Za-z0-9_./][A-Za-z0-9_./+-]*$`)
	numbered     = regexp.MustCompile(`[0-9.]+$`)
)

// check says why the rule cannot be kept.
func (c Command) check() (reason, remedy string) {
	name := filepath.Base(c.Program)
	switch base := numbered.ReplaceAllString(name, ""); {
	case !plainProgram.MatchString(c.Program):
		return "is not the plain name of a program", "write a name such as go, or an absolute path, of letters, digits and ._+-"
	case strings.Contains(c.Program, "/") && (!filepath.IsAbs(c.Program) || filepath.Clean(c.Program) != c.Program):
		return "is a path that depends on the agent's folder", "write a name such as go, or a clean absolute path"
	case slices.Contains(builtins, name):
		return "is a command of the shell itself", "name a program"
	case slices.Contains(starters, name) || slices.Contains(starters, base):
		return "starts any program that its arguments name, so the rule would allow everything", "name the program that it would start"
	case len(c.Args) == 0 && (slices.Contains(interpreters, name) || slices.Contains(interpreters, base)):
		return "needs arguments: alone it would allow everything", "add args, such as args: [test]"
	}
	for _, arg := range c.Args {
		if StartsAnother(arg) || strings.HasPrefix(arg, "-") && len(c.Args) > 0 && arg == c.Args[0] && name == "git" {
			return fmt.Sprintf("has the argument %q, which starts another program or changes what is run", arg), "remove it"
		}
	}
	return "", ""
}

// runFlags are arguments with which common programs start another one. The list is a second bar beside the sandbox: nobody knows all of them.
var runFlags = strings.Fields(`-exec --exec -execdir -ok -okdir -toolexec --toolexec -vettool --vettool -overlay --overlay -modfile --modfile
	--upload-pack --receive-pack --ext-diff --textconv --open-files-in-pager --config-env --exec-path --exec-batch --to-command --checkpoint-action --use-compress-program
	--rsh --rsync-path --pager --editor --shell --eval --command --script-shell --require --import --loader --node-options --init-file --rcfile --git-dir
	--work-tree --config --settings --output --preprocessor --pre --init-command --plugin --load-plugin -ldflags -gcflags --extra-search-path`)

// StartsAnother reports whether an argument is one of those with which common programs start another one, or read settings that do.
func StartsAnother(arg string) bool {
	name, _, _ := strings.Cut(arg, "=")
	if slices.Contains(runFlags, name) {
		return true
	}
	return slices.Contains([]string{"-c", "-C", "-e", "-x", "-O", "-I", "-exec-path"}, name)
}

// commands reads the rules of permissions.execute.
func (r *configReader) commands(n *yaml.Node, at string) (list []Command) {
	for i, element := range n.Content {
		place := fmt.Sprintf("%s[%d]", at, i)
		var c Command
		found := r.mapping(element, place, []setting{
			{"program", func(n *yaml.Node, at string) { c.Program, _ = r.scalar(n, at) }},
			{"args", func(n *yaml.Node, at string) { c.Args = r.words(n, at) }},
			{"exact", func(n *yaml.Node, at string) { c.Exact = r.truth(n, at) }},
		})
		if !found["program"] {
			r.report(Problem{Line: element.Line, Key: place + ".program"}, trust.Because("is missing", "write { program: go, args: [test] }"))
			continue
		}
		if reason, remedy := c.check(); reason != "" {
			r.report(Problem{Line: element.Line, Key: place, Value: c.Program}, trust.Because(reason, remedy))
		}
		list = append(list, c)
	}
	if len(list) > maxCommands {
		r.report(Problem{Line: n.Line, Key: at}, trust.Because(fmt.Sprintf("lists %d commands; an entry takes at most %d", len(list), maxCommands), "remove some"))
	}
	return list
}

// Check says why relay.yaml cannot have the rule, nil if it can.
func (c Command) Check() error {
	reason, remedy := c.check()
	if reason == "" {
		return nil
	}
	return fmt.Errorf("%q %w", c.Program, trust.Because(reason, remedy))
}

// String is what a rule allows, on one line.
func (c Command) String() string {
	text := strings.Join(append([]string{c.Program}, c.Args...), " ")
	if !c.Exact {
		text += " …"
	}
	return text
}

// String is what is allowed without a person, and for which kinds a person is asked, on one line.
func (p Permissions) String() string {
	var allowed, asked []string
	for _, each := range [][2]string{{"read", p.Read}, {"edit", p.Edit}, {"execute", p.Execute}, {"fetch", p.Fetch}, {"other", p.Other}} {
		switch kind := each[0]; {
		case each[1] == PermitAllow && (kind == "read" || kind == "edit"):
			allowed = append(allowed, kind+" in the workspace")
		case each[1] == PermitAllow:
			allowed = append(allowed, kind)
		default:
			asked = append(asked, kind)
		}
	}
	for _, c := range p.Commands {
		allowed = append(allowed, c.String())
	}
	text := "a person about everything"
	if len(asked) > 0 && len(allowed) > 0 {
		text = "a person about " + strings.Join(asked, ", ")
	} else if len(asked) == 0 {
		text = "a person about calls without exact arguments"
	}
	if len(allowed) > 0 {
		text += "; allowed: " + strings.Join(allowed, ", ")
	}
	return text
}
