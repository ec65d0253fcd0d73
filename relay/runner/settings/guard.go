package settings

import (
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"drawbridge/internal/trust"
	"drawbridge/relay/runner/output"
)

// approval reads never, each, or once per <duration>.
func (r *configReader) approval(n *yaml.Node, at string, into *Approval) {
	text, ok := r.scalar(n, at)
	if !ok {
		return
	}
	if period, once := strings.CutPrefix(text, "once per "); once {
		d, err := time.ParseDuration(strings.TrimSpace(period))
		if err != nil || d < time.Minute || d > maxApprovalFor {
			r.reject(n, at, "is not a period in range", "write once per 24h, from 1m to 720h")
		}
		into.Mode, into.For = ApproveOnce, d
		return
	}
	if text != ApproveNever && text != ApproveEach {
		r.reject(n, at, "is not a way to approve", "write never, each, or once per 24h")
	}
	into.Mode = text
}

func (r *configReader) oneOf(n *yaml.Node, at string, words ...string) string {
	text, ok := r.scalar(n, at)
	if ok && !slices.Contains(words, text) {
		r.reject(n, at, "is not known", "write "+strings.Join(words, " or "))
	}
	return text
}

func (r *configReader) digest(n *yaml.Node, at string) string {
	text, ok := r.scalar(n, at)
	if !ok {
		return ""
	}
	if raw, err := hex.DecodeString(text); err != nil || len(raw) != 32 {
		r.reject(n, at, "is not a SHA-256 digest", "write the 64 hex digits that sha256sum prints for it")
	}
	return strings.ToLower(text)
}

// files reads a list of pinned files, each of which has to be there and changeable by nobody else. That its digest is right is looked
// at when the action is to start.
func (r *configReader) files(n *yaml.Node, at string) []File {
	if n.Kind != yaml.SequenceNode || len(n.Content) > maxFiles {
		r.reject(n, at, "is not a list of files", fmt.Sprintf("write [ { path: /path, sha256: 64 hex digits } ], at most %d", maxFiles))
		return nil
	}
	var list []File
	size := 0
	for i, element := range n.Content {
		var f File
		place := fmt.Sprintf("%s[%d]", at, i)
		found := r.mapping(element, place, []setting{
			{"path", func(n *yaml.Node, at string) { f.Path = r.pinned(n, at) }},
			{"sha256", func(n *yaml.Node, at string) { f.SHA256 = r.digest(n, at) }},
		})
		if !found["path"] || !found["sha256"] {
			r.report(Problem{Line: element.Line, Key: place}, trust.Because("has no path or no sha256", "write { path: /path, sha256: 64 hex digits }"))
		}
		list = append(list, f)
		size += len(strconv.QuoteToASCII(f.Path)) + len(f.SHA256)
	}
	if size > maxFilesText {
		r.report(Problem{Line: n.Line, Key: at}, trust.Because("is too long for the audit log", "name fewer files, or shorter paths"))
	}
	return list
}

func (r *configReader) pinned(n *yaml.Node, at string) string {
	path, ok := r.scalar(n, at)
	if !ok {
		return ""
	}
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsRune(path, 0) {
		r.reject(n, at, "is not an absolute path without . and ..", "write the full path")
		return path
	}
	file, err := trust.File(path)
	if err != nil {
		r.report(Problem{Line: n.Line, Key: at, Value: n.Value}, err)
		return path
	}
	_ = file.Close()
	return path
}

// sandbox reads what a program may use. missing judges a path that does not exist, and decides nothing else.
func (r *configReader) sandbox(n *yaml.Node, at string, missing func(p Problem, err error)) *Sandbox {
	var s Sandbox
	if n.Kind != yaml.MappingNode {
		r.reject(n, at, "is not a mapping", "write sandbox: { read: [/path], write: [/path], network: false }")
		return &s
	}
	r.mapping(n, at, []setting{
		{"read", func(n *yaml.Node, at string) { s.Read = r.paths(n, at, missing) }},
		{"write", func(n *yaml.Node, at string) { s.Write = r.paths(n, at, missing) }},
		{"network", func(n *yaml.Node, at string) { s.Network = r.truth(n, at) }},
	})
	return &s
}

// paths reads a list of existing paths. They are resolved, because a link decides at run time where it leads.
// One that cannot be resolved is left out.
func (r *configReader) paths(n *yaml.Node, at string, missing func(p Problem, err error)) []string {
	if n.Kind != yaml.SequenceNode || len(n.Content) > maxPaths {
		r.reject(n, at, "is not a list of paths", fmt.Sprintf("write [/path, /other], at most %d", maxPaths))
		return nil
	}
	list := []string{}
	for i, element := range n.Content {
		place := fmt.Sprintf("%s[%d]", at, i)
		text, ok := r.scalar(element, place)
		if !ok {
			continue
		}
		if !filepath.IsAbs(text) || filepath.Clean(text) != text {
			r.reject(element, place, "is not an absolute path without . and ..", "write the full path")
			continue
		}
		leaf, err := filepath.EvalSymlinks(text)
		if err != nil {
			missing(Problem{Line: element.Line, Key: place, Value: element.Value}, trust.PathError(err))
			continue
		}
		list = append(list, leaf)
	}
	return list
}

// keepApart refuses a sandbox that lets an action or an agent write what decides about them: relay.yaml, the relay's state, the
// programs and files of the list, and the user's clones (Cursor CVE-2025-54135: the agent wrote the file that started a process). An agent must
// not read the relay's keys either.
func (r *configReader) keepApart() {
	own := map[string]string{resolve(r.config.State): "the relay's state"}
	// The same folder, as a rule.
	own[resolve(r.outside.dir)] = "the folder of relay.yaml"
	own[entry(r.config.Journal)] = "the relay's journal"
	guarded := maps.Clone(own)
	for id, action := range r.config.Actions {
		for _, f := range action.Files {
			guarded[resolve(f.Path)] = "a file that action " + id + " relies on"
			guarded[entry(f.Path)] = "a file that action " + id + " relies on"
		}
		guardProgram(guarded, action.Argv, "the program of action "+id)
	}
	for name, agent := range r.config.Agents {
		guardProgram(guarded, agent.Argv, "the program of agent "+name)
	}
	r.outOf(own, "tools.path", r.tools.path, "so agents could read the relay's keys")
	r.outOf(own, "tools.read", r.tools.read, "so agents could read the relay's keys")
	r.outOfState("tools", slices.Concat(r.tools.path, r.tools.read))
	for _, id := range sorted(r.config.Actions) {
		if s := r.config.Actions[id].Sandbox; s != nil {
			r.outOf(guarded, "actions."+id+".sandbox.write", s.Write, "so the action could change what may run")
			r.outOfTools("actions."+id+".sandbox.write", s.Write)
		}
	}
	for name, repo := range r.config.Repos {
		guarded[resolve(repo.Clone)] = "the clone of repository " + name
	}
	for _, name := range sorted(r.config.Agents) {
		if s := r.config.Agents[name].Sandbox; s != nil {
			r.outOf(guarded, "agents."+name+".sandbox.write", s.Write, "so the agent could change it")
			r.outOfTools("agents."+name+".sandbox.write", s.Write)
			r.outOf(own, "agents."+name+".sandbox.read", s.Read, "so the agent could read the relay's keys")
			r.outOfState("agents."+name+".sandbox", slices.Concat(s.Read, s.Write))
		}
	}
}

// guardProgram adds the program of a command line.
func guardProgram(guarded map[string]string, argv []string, what string) {
	if len(argv) == 0 || !filepath.IsAbs(argv[0]) {
		return
	}
	guarded[resolve(argv[0])] = what
	// A link leads to another program when it is replaced.
	guarded[entry(argv[0])] = what
}

// outOf reports each path of a list that holds something guarded.
func (r *configReader) outOf(guarded map[string]string, at string, list []string, why string) {
	for i, path := range list {
		for _, inner := range sorted(guarded) {
			if trust.Within(inner, path) {
				r.report(Problem{Key: fmt.Sprintf("%s[%d]", at, i), Value: path},
					trust.Because("holds "+guarded[inner]+", "+why, "name a folder beside it"))
			}
		}
	}
}

// outOfTools reports each path of a list that holds something of tools:, or lies in it: what stands there runs in the sandboxes of all agents.
func (r *configReader) outOfTools(at string, list []string) {
	for i, path := range list {
		for _, tool := range slices.Concat(r.tools.path, r.tools.read) {
			if trust.Within(tool, path) || trust.Within(path, tool) {
				r.report(Problem{Key: fmt.Sprintf("%s[%d]", at, i), Value: path}, trust.Because("overlaps "+tool+", a folder of tools: from which all agents run programs", "name a folder beside it"))
			}
		}
	}
}

// outOfState reports each path of a list that is the relay's own: its files with keys, and the homes and workspaces of agents.
func (r *configReader) outOfState(at string, list []string) {
	state := resolve(r.config.State)
	for _, path := range list {
		file := filepath.Dir(path) == state && strings.HasPrefix(filepath.Base(path), "relay.")
		if file || trust.Within(path, filepath.Join(state, agentOwnFolder)) || trust.Within(path, filepath.Join(state, workspacesFolder)) {
			r.report(Problem{Key: at, Value: path}, trust.Because("is a file of the relay's, or the home or the workspace of an agent", "remove it; each agent can use its own home and workspace anyway"))
		}
	}
}

func sorted[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func resolve(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	return path
}

// entry is where the name itself stands, also when it is a link or nothing is there yet.
func entry(path string) string {
	return filepath.Join(resolve(filepath.Dir(path)), filepath.Base(path))
}

// redact reads a list of secrets by reference, and of patterns. A secret that stood in the file itself would be no secret.
func (r *configReader) redact(n *yaml.Node, at string, secrets []string) ([]string, []*regexp.Regexp) {
	if n.Kind != yaml.SequenceNode || len(n.Content) > maxRedact {
		r.reject(n, at, "is not a list", fmt.Sprintf("write [ ${file:path}, ${NAME}, { pattern: 'ghp_[A-Za-z0-9]{36}' } ], at most %d", maxRedact))
		return secrets, nil
	}
	var patterns []*regexp.Regexp
	for i, element := range n.Content {
		place := fmt.Sprintf("%s[%d]", at, i)
		if element.Kind == yaml.MappingNode {
			r.mapping(element, place, []setting{{"pattern", func(n *yaml.Node, at string) {
				if pattern := r.pattern(n, at); pattern != nil {
					patterns = append(patterns, pattern)
				}
			}}})
			continue
		}
		if !strings.HasPrefix(element.Value, "${") || !strings.HasSuffix(element.Value, "}") || strings.Contains(element.Value, ":-") {
			r.rejectHidden(element, place, "is not a reference", "write ${NAME} or ${file:path}, so that the secret is not in this file")
			continue
		}
		text, ok := r.scalar(element, place)
		switch {
		case !ok:
		case len(text) < output.MinSecret:
			r.rejectHidden(element, place, fmt.Sprintf("has %d characters", len(text)),
				fmt.Sprintf("remove it; a secret of fewer than %d characters would also hide ordinary text", output.MinSecret))
		default:
			secrets = append(secrets, text)
		}
	}
	return secrets, patterns
}

func (r *configReader) pattern(n *yaml.Node, at string) *regexp.Regexp {
	// A pattern is taken as it stands: $ and braces mean something in it.
	if n.Kind != yaml.ScalarNode {
		r.report(Problem{Line: n.Line, Key: at}, trust.Because("is not a single value", "write one regular expression"))
		return nil
	}
	pattern, err := regexp.Compile(n.Value)
	if err != nil || n.Value == "" || pattern.MatchString("") {
		r.reject(n, at, "is not a regular expression that matches something", "write one in RE2 syntax, such as 'ghp_[A-Za-z0-9]{36}'")
		return nil
	}
	return pattern
}
