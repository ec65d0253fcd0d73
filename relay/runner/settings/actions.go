package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"drawbridge/relay/wire"

	"drawbridge/internal/trust"
)

func (r *configReader) listen(n *yaml.Node, at string) {
	text, ok := r.scalar(n, at)
	if !ok {
		return
	}
	if path, unix := strings.CutPrefix(text, "unix:"); unix || text == "none" {
		r.config.Listen, r.config.Socket = netip.AddrPort{}, r.socket(n, at, path)
		return
	}
	address, err := netip.ParseAddrPort(text)
	// What a client puts into Host has to equal the text, so there must be one spelling of it.
	if err != nil || !address.Addr().IsLoopback() || address.Addr().Is4In6() || address.Addr().Zone() != "" {
		r.reject(n, at, "is not a loopback address with a port", "write 127.0.0.1:7420, unix:relay.door or none; the relay never listens on a network")
		return
	}
	r.config.Listen = address
}

// maxSocket is the longest path that the address of a Unix socket holds on every system.
const maxSocket = 103

// socket returns the path after unix:, or nothing for none.
func (r *configReader) socket(n *yaml.Node, at, path string) string {
	if n.Value == "none" {
		return ""
	}
	if !r.isPlain(n, at, path) {
		return ""
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.outside.dir, path)
	}
	if err := trust.Folder(filepath.Dir(path), at); err != nil {
		r.report(Problem{Line: n.Line, Key: at, Value: n.Value}, err)
	}
	if len(path) > maxSocket || strings.ContainsRune(path, 0) {
		r.reject(n, at, "is too long for the path of a socket", fmt.Sprintf("use at most %d characters with its folders", maxSocket))
	}
	return path
}

func (r *configReader) token(n *yaml.Node, at string) {
	text, ok := r.scalar(n, at)
	if !ok {
		return
	}
	if !onlyReferences(n.Value) {
		r.ownToken(n, at)
	}
	unfit := func(c rune) bool { return c <= ' ' || c > '~' }
	switch {
	case len(text) < minToken || len(text) > maxToken:
		r.rejectHidden(n, at, fmt.Sprintf("has %d characters", len(text)),
			fmt.Sprintf("use %d to %d, for example the output of openssl rand -hex 32", minToken, maxToken))
	case strings.ContainsFunc(text, unfit):
		r.rejectHidden(n, at, "holds a blank or a character that is not plain ASCII", "use plain ASCII without blanks, for example the output of openssl rand -hex 32")
	default:
		r.config.Token = Secret(text)
		r.config.secrets = append(r.config.secrets, text)
	}
}

// onlyReferences reports whether a value leaves the secret outside of the file: it is made of ${file:path} and ${NAME} alone.
func onlyReferences(value string) bool {
	for value != "" {
		rest, opened := strings.CutPrefix(value, "${")
		reference, after, closed := strings.Cut(rest, "}")
		if !opened || !closed || !strings.HasPrefix(reference, "file:") && strings.Contains(reference, ":-") {
			return false
		}
		value = after
	}
	return true
}

// ownToken refuses a token that relay.yaml itself holds when others can read that file.
func (r *configReader) ownToken(n *yaml.Node, at string) {
	_, err := trust.ReadSecret(r.outside.config, maxConfigBytes)
	var why *trust.Problem
	if errors.As(err, &why) {
		r.rejectHidden(n, at, "is written in this file itself, and "+why.Reason, why.Remedy+", or write token: ${file:relay.token}")
	}
}

func (r *configReader) limits(n *yaml.Node, at string) {
	within := func(target *int, least, most int) func(*yaml.Node, string) {
		return func(n *yaml.Node, at string) {
			if value, ok := r.number(n, at, least, most); ok {
				*target = value
			}
		}
	}
	r.mapping(n, at, []setting{
		{"concurrent", within(&r.config.Limits.Concurrent, 1, maxConcurrent)},
		{"queue", within(&r.config.Limits.Queue, 0, maxQueue)},
		{"per_minute", within(&r.config.Limits.PerMinute, 1, maxPerMinute)},
		{"per_day", within(&r.config.Limits.PerDay, 1, maxPerDay)},
		{"approval_wait", func(n *yaml.Node, at string) {
			if value, ok := r.duration(n, at, maxApprovalWait); ok {
				r.config.Limits.ApprovalWait = value
			}
		}},
	})
}

// isPlain reports whether a path can be meant as it stands, and rejects it otherwise.
func (r *configReader) isPlain(n *yaml.Node, at, path string) bool {
	first, _, _ := strings.Cut(path, "/")
	switch {
	case strings.ContainsFunc(path, unicode.IsControl):
		r.reject(n, at, "holds a control character, such as a line break", "write the path in one line")
	case strings.HasPrefix(first, "~"):
		r.reject(n, at, "begins with ~, which only a shell replaces by a home folder", "write the whole path, such as /home/you/"+filepath.Base(path))
	default:
		return true
	}
	return false
}

// state chooses the folder of everything that outlives the process.
func (r *configReader) state(n *yaml.Node, at string) {
	path, ok := r.scalar(n, at)
	if !ok || !r.isPlain(n, at, path) {
		return
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.outside.dir, path)
	}
	if err := trust.Folder(path, at); err != nil {
		r.report(Problem{Line: n.Line, Key: at, Value: n.Value}, err)
	}
	r.config.State = filepath.Clean(path)
}

func (r *configReader) journal(n *yaml.Node, at string) {
	text, ok := r.scalar(n, at)
	if !ok {
		return
	}
	if text == "" || strings.ContainsRune(text, 0) || strings.HasSuffix(text, "/") {
		r.reject(n, at, "is not the path of a file", "write a path, or leave it out for "+defaultJournal+" beside this file")
		return
	}
	if !r.isPlain(n, at, text) {
		return
	}
	r.journalAt(Problem{Line: n.Line, Key: at, Value: n.Value}, text)
}

// journalAt sets the journal to a path relative to the folder of the file, and reports p when it cannot be used there.
func (r *configReader) journalAt(p Problem, path string) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.outside.dir, path)
	}
	if err := trust.Place(path, "journal"); err != nil {
		r.report(p, err)
	}
	r.config.Journal = path
}

func (r *configReader) actions(n *yaml.Node, at string) {
	r.pairs(n, at, func(key, value *yaml.Node, path string) {
		if !wire.ValidAction(key.Value) {
			r.report(Problem{Line: key.Line, Key: at, Value: key.Value}, trust.Because("is not an action id", actionNameAdvice))
			return
		}
		r.config.Actions[key.Value] = r.action(value, path)
	})
	if count := len(r.config.Actions); count > maxActions {
		r.report(Problem{Line: n.Line, Key: at}, trust.Because(fmt.Sprintf("lists %d actions; a bridge takes at most %d from one relay", count, maxActions),
			"remove some, or run a second relay with a relay.yaml, a state folder and a name of its own"))
	}
}

func (r *configReader) action(n *yaml.Node, at string) Action {
	action, iKnow := newAction(), false
	number := func(target *int, most int) func(*yaml.Node, string) {
		return func(n *yaml.Node, at string) { *target, _ = r.number(n, at, 1, most) }
	}
	found := r.mapping(n, at, []setting{
		{"argv", func(n *yaml.Node, at string) { action.Argv = r.argv(n, at, r.program) }},
		{"dir", func(n *yaml.Node, at string) { action.Dir = r.dir(n, at) }},
		{"env", func(n *yaml.Node, at string) { action.Env = r.env(n, at) }},
		{"timeout", func(n *yaml.Node, at string) { action.Timeout, _ = r.duration(n, at, maxTimeout) }},
		{"output", number(&action.Output, wire.MaxOutput)},
		{"concurrency", number(&action.Concurrency, maxConcurrency)},
		{"processes", number(&action.Processes, maxProcesses)},
		{"memory", func(n *yaml.Node, at string) { action.Bounds.Memory = r.bytes(n, at, minMemory) }},
		{"open_files", func(n *yaml.Node, at string) {
			files, _ := r.number(n, at, minOpenFiles, maxOpenFiles)
			action.Bounds.OpenFiles = int64(files)
		}},
		{"file_size", func(n *yaml.Node, at string) { action.Bounds.FileSize = r.bytes(n, at, 1) }},
		{"cpu", func(n *yaml.Node, at string) { action.Bounds.CPU = r.seconds(n, at) }},
		{"approval", func(n *yaml.Node, at string) { r.approval(n, at, &action.Approval) }},
		{"approve_by", func(n *yaml.Node, at string) { action.Approval.By = r.oneOf(n, at, AtMachine, AtBridge, AtEither) }},
		{"idempotent", func(n *yaml.Node, at string) { action.Idempotent = r.truth(n, at) }},
		{"sha256", func(n *yaml.Node, at string) { action.SHA256 = r.digest(n, at) }},
		{"files", func(n *yaml.Node, at string) { action.Files = r.files(n, at) }},
		{"sandbox", func(n *yaml.Node, at string) { action.Sandbox = r.sandbox(n, at, r.report) }},
		{"redact", func(n *yaml.Node, at string) { action.secrets, action.patterns = r.redact(n, at, nil) }},
		{"i_know", func(n *yaml.Node, at string) { iKnow = r.truth(n, at) }},
	})
	if !found["argv"] {
		r.report(Problem{Line: n.Line, Key: at + ".argv"}, trust.Because("is missing", "write argv: [/path/to/program, argument]"))
	}
	r.startable(n, at, action)
	if shell := inlineShell(action.Argv); shell != "" && !iKnow {
		r.report(Problem{Line: n.Line, Key: at + ".argv", Value: shell + " -c"}, trust.Because("gives a command line to a shell", "name the program and its arguments, or add i_know: true"))
	}
	return action
}

// startable refuses arguments and variables with which the kernel starts no program.
func (r *configReader) startable(n *yaml.Node, at string, a Action) {
	words := slices.Clone(a.Argv)
	for _, v := range a.Env {
		words = append(words, v.Name+"="+v.Value)
	}
	total := 0
	for _, word := range words {
		total += len(word) + 1
		if len(word) >= maxWord {
			r.report(Problem{Line: n.Line, Key: at}, trust.Because(fmt.Sprintf("has an argument or a variable of %d bytes; a program cannot be started with one of %d bytes or more", len(word), maxWord),
				"put the text into a file, and let the program read it"))
		}
	}
	if total > maxWords {
		r.report(Problem{Line: n.Line, Key: at}, trust.Because(fmt.Sprintf("has arguments and variables of %d bytes together; a program can get at most %d", total, maxWords),
			"put the text into files, and let the program read them"))
	}
}

func (r *configReader) truth(n *yaml.Node, at string) bool {
	text, ok := r.scalar(n, at)
	if ok && text != "true" && text != "false" {
		r.reject(n, at, "is neither true nor false", "write true or false")
	}
	return text == "true"
}

// argv reads a command line. judge looks at the path of its program.
func (r *configReader) argv(n *yaml.Node, at string, judge func(n *yaml.Node, at, path string)) []string {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		r.reject(n, at, "is not a list", "write argv: [/path/to/program, argument]; there is no shell to split a line")
		return nil
	}
	argv := make([]string, 0, len(n.Content))
	for i, element := range n.Content {
		path := fmt.Sprintf("%s[%d]", at, i)
		text, ok := r.scalar(element, path)
		if ok && strings.ContainsRune(text, 0) {
			r.reject(element, path, "holds a NUL character", "remove it")
		}
		argv = append(argv, text)
		if i == 0 && ok {
			judge(element, path, text)
		}
	}
	return argv
}

// program refuses the program of an action that cannot be run, or that others could replace.
func (r *configReader) program(n *yaml.Node, at, path string) {
	if err := r.judgeProgram(n, at, path); err != nil {
		r.report(Problem{Line: n.Line, Key: at, Value: n.Value}, err)
	}
}

// agentProgram is program for an agent. A missing program concerns that agent alone: it may be installed later, and is judged again at each start.
func (r *configReader) agentProgram(n *yaml.Node, at, path string) {
	err := r.judgeProgram(n, at, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.warn(Problem{Line: n.Line, Key: at, Value: n.Value}, trust.Because("does not exist, so turns of this agent fail",
			"install it or correct the path, and restart the relay; other agents are not affected"))
	case err != nil:
		r.report(Problem{Line: n.Line, Key: at, Value: n.Value}, err)
	}
}

// agentPath reports a path that an agent may use. One that does not exist is left out, which only makes its sandbox narrower.
func (r *configReader) agentPath(p Problem, err error) {
	if !errors.Is(err, fs.ErrNotExist) {
		r.report(p, err)
		return
	}
	r.warn(p, trust.Because("does not exist, so the relay cannot use it", "create it or correct the path, and restart the relay; everything else works"))
}

// judgeProgram reports a path that is not absolute, and returns what is wrong with the program at any other.
func (r *configReader) judgeProgram(n *yaml.Node, at, path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		r.reject(n, at, "is not an absolute path without . and ..", "write the full path; the relay does not search PATH")
		return nil
	}
	return trust.Executable(path)
}

func (r *configReader) dir(n *yaml.Node, at string) string {
	path, ok := r.scalar(n, at)
	if !ok {
		return ""
	}
	if !filepath.IsAbs(path) {
		r.reject(n, at, "is not an absolute path", "write the full path of a folder")
	} else if err := trust.Dir(path); err != nil {
		r.report(Problem{Line: n.Line, Key: at, Value: n.Value}, err)
	}
	return path
}

func (r *configReader) env(n *yaml.Node, at string) []EnvVar {
	var env []EnvVar
	r.pairs(n, at, func(key, value *yaml.Node, path string) {
		if !r.envName(key, path) {
			return
		}
		text, ok := r.scalar(value, path)
		if ok && strings.ContainsRune(text, 0) {
			r.rejectHidden(value, path, "holds a NUL character", "remove it")
		}
		env = append(env, EnvVar{Name: key.Value, Value: text})
	})
	return env
}

// envName reports a key that no variable can be called, and returns false then.
func (r *configReader) envName(n *yaml.Node, at string) bool {
	switch {
	case !validEnvName(n.Value):
		r.report(Problem{Line: n.Line, Key: at}, trust.Because("is not a variable name", "use letters, digits and _"))
	case reservedEnv(n.Value):
		r.report(Problem{Line: n.Line, Key: at}, trust.Because("may not be set, because it changes which code runs or where its traffic goes", "remove it"))
	default:
		return true
	}
	return false
}

// reservedEnv reports the variables by which an environment runs other code than the argv says (facts: relay, rule 3).
func reservedEnv(name string) bool {
	upper := strings.ToUpper(name)
	for _, prefix := range []string{"LD_", "DYLD_", "GIT_", "BASH_FUNC_"} {
		if strings.HasPrefix(upper, prefix) {
			return true
		}
	}
	return strings.HasSuffix(upper, "_PROXY") || slices.Contains([]string{"BASH_ENV", "ENV", "IFS", "SHELLOPTS", "BASHOPTS"}, upper)
}

// inlineShell returns the shell that argv hands a command line to, also behind a wrapper such as env or nice, or "".
func inlineShell(argv []string) string {
	for i, word := range argv {
		if filepath.Base(word) == "env" && splitsString(argv[i+1:]) {
			return word + " -S, which works like sh"
		}
		if !isShell(word) {
			continue
		}
		if takesCommand(argv[i+1:]) {
			return word
		}
	}
	return ""
}

// splitsString reports whether env with these arguments takes a whole command line as one word, wherever among its options.
func splitsString(args []string) bool {
	value := false
	for _, arg := range args {
		switch {
		case value:
			value = false
		case !strings.HasPrefix(arg, "-"):
			return false
		case strings.HasPrefix(arg, "--split"), !strings.HasPrefix(arg, "--") && strings.Contains(arg, "S"):
			return true
		default:
			value = slices.Contains([]string{"-u", "--unset", "-C", "--chdir", "-a", "--argv0"}, arg)
		}
	}
	return false
}

func isShell(word string) bool {
	names := []string{filepath.Base(word)}
	if real, err := filepath.EvalSymlinks(word); err == nil && filepath.IsAbs(word) {
		names = append(names, filepath.Base(real))
	}
	for _, name := range names {
		switch name {
		case "sh", "ash", "bash", "rbash", "dash", "zsh", "ksh", "mksh", "ksh93", "fish", "csh", "tcsh", "pwsh", "elvish", "nu", "xonsh":
			return true
		}
	}
	return false
}

// takesCommand reports whether a shell with these arguments reads its program from one of them.
func takesCommand(args []string) bool {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case strings.HasPrefix(strings.ToLower(arg), "--command") || strings.EqualFold(arg, "-command"):
			return true
		case arg == "--rcfile" || arg == "--init-file":
			i++
		case strings.HasPrefix(arg, "--"):
		case strings.HasPrefix(arg, "-") || strings.HasPrefix(arg, "+"):
			if arg[0] == '-' && strings.Contains(arg, "c") {
				return true
			}
			if strings.HasSuffix(arg, "o") || strings.HasSuffix(arg, "O") {
				i++
			}
		default:
			return false
		}
	}
	return false
}
