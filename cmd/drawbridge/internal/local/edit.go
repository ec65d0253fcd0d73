package local

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"gopkg.in/yaml.v3"

	"drawbridge/relay/runner/settings"
)

// Edit writes the changed text into a file beside path, and shows that to judge. Without an error of judge the file takes the place of path, otherwise
// path stays as it is. Of a link, the file that it names is changed. The file keeps its mode. Programs that edit files of one folder wait for each other.
func Edit(path string, change func([]byte) ([]byte, error), judge func(trial string) error) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", folder.Name(), err)
	}
	stat, err := os.Stat(path)
	if err != nil {
		return err
	}
	before, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	after, err := change(before)
	if err != nil {
		return fmt.Errorf("this program cannot edit %s, so edit the file by hand, and start again: the file %w", path, err)
	}
	trial := path + ".new"
	if err := errors.Join(os.WriteFile(trial, after, 0o600), os.Chmod(trial, stat.Mode().Perm())); err != nil {
		return err
	}
	if err := judge(trial); err != nil {
		_ = os.Remove(trial)
		return fmt.Errorf("the change would make %s invalid, so the file stays as it is; edit the file by hand, and start again: %w", path, err)
	}
	return os.Rename(trial, path)
}

// Add puts one entry into a mapping or a sequence of a YAML file, before those that are there. keys lead to it; only its last key may be
// missing. entry is one line in flow style: "name: value" for a mapping, "value" for a sequence. Everything else of the file stays as it is,
// comments and blanks as well. The caller checks the result before it replaces the file.
func Add(file []byte, entry string, keys ...string) ([]byte, error) {
	root, err := document(file)
	if err != nil {
		return nil, err
	}
	node, missing := root, ""
	for _, key := range keys {
		at := slices.IndexFunc(node.Content, func(n *yaml.Node) bool { return n.Value == key })
		if node.Kind != yaml.MappingNode || missing != "" {
			return nil, fmt.Errorf("has no %s", strings.Join(keys, "."))
		}
		if at < 0 || at%2 != 0 {
			missing = key
			continue
		}
		node = node.Content[at+1]
	}
	switch {
	case missing != "" && len(keys) == 1:
		return append(append(bytes.TrimRight(file, "\n"), '\n'), []byte(missing+":\n  "+item(keys[0], entry)+"\n")...), nil
	case missing != "":
		return nil, fmt.Errorf("has no %s", strings.Join(keys, "."))
	}
	return insert(file, node, entry)
}

// item is an entry as it stands below a key that was missing: sequences of our files are repos of the allowlist and agents of a repository.
func item(_, entry string) string {
	if strings.HasPrefix(entry, "{") {
		return "- " + entry
	}
	return entry
}

// insert puts an entry before the first of a node.
func insert(file []byte, node *yaml.Node, entry string) ([]byte, error) {
	lines := strings.SplitAfter(string(file), "\n")
	sequence := node.Kind == yaml.SequenceNode
	switch {
	case node.Anchor != "" || node.Kind == yaml.AliasNode:
		return nil, fmt.Errorf("uses an anchor at line %d", node.Line)
	case len(node.Content) > 0 && node.Style&yaml.FlowStyle != 0:
		first := node.Content[0]
		return splice(lines, first.Line, first.Column, entry+", "), nil
	case len(node.Content) > 0:
		first := node.Content[0]
		line := lines[first.Line-1]
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		if sequence && !strings.HasPrefix(strings.TrimLeft(line, " "), "-") {
			return nil, fmt.Errorf("has a list at line %d that this program cannot extend", first.Line)
		}
		if sequence {
			entry = "- " + entry
		}
		return []byte(strings.Join(slices.Insert(lines, first.Line-1, indent+entry+"\n"), "")), nil
	}
	return fill(lines, node, entry)
}

// fill puts an entry into a collection that is empty: {}, [] or nothing behind the key.
func fill(lines []string, node *yaml.Node, entry string) ([]byte, error) {
	rest := lines[node.Line-1][node.Column-1:]
	for _, empty := range []string{"{}", "[]"} {
		if strings.HasPrefix(rest, empty) {
			lines[node.Line-1] = lines[node.Line-1][:node.Column-1] + empty[:1] + entry + empty[1:] + rest[len(empty):]
			return []byte(strings.Join(lines, "")), nil
		}
	}
	return nil, fmt.Errorf("has a value at line %d that this program cannot extend", node.Line)
}

// splice puts text at a place that counts from 1.
func splice(lines []string, line, column int, text string) []byte {
	at := lines[line-1]
	// Columns of the reader count characters.
	runes := []rune(at)
	lines[line-1] = string(runes[:column-1]) + text + string(runes[column-1:])
	return []byte(strings.Join(lines, ""))
}

// SetRuntime gives the rule for a repository in an allowlist another runtime. The rule must be a mapping with the key runtime.
func SetRuntime(file []byte, repo, runtime string) ([]byte, error) {
	root, err := document(file)
	if err != nil {
		return nil, err
	}
	for _, rule := range value(root, "repos").Content {
		name, old := value(rule, "repo"), value(rule, "runtime")
		if !strings.EqualFold(name.Value, repo) || old.Kind != yaml.ScalarNode {
			continue
		}
		return replace(file, old, text(runtime)), nil
	}
	return nil, fmt.Errorf("has no rule for %s with a runtime", repo)
}

// replace puts a text in the place of a scalar.
func replace(file []byte, old *yaml.Node, with string) []byte {
	lines := strings.SplitAfter(string(file), "\n")
	at := []rune(lines[old.Line-1])
	written := at[old.Column-1:]
	length := len([]rune(old.Value))
	if old.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		length += 2
	}
	lines[old.Line-1] = string(at[:old.Column-1]) + with + string(written[length:])
	return []byte(strings.Join(lines, ""))
}

// Rule is a rule for a command as relay.yaml has it, on one line.
func Rule(c settings.Command) string {
	rule := "{ program: " + text(c.Program)
	if len(c.Args) > 0 {
		rule += ", args: " + list(c.Args)
	}
	if c.Exact {
		rule += ", exact: true"
	}
	return rule + " }"
}

// AllowCommand adds a rule for a command to the permissions of an agent in relay.yaml. What else an agent is asked stays as it is.
func AllowCommand(file []byte, agent string, c settings.Command) ([]byte, error) {
	rule := Rule(c)
	root, err := document(file)
	if err != nil {
		return nil, err
	}
	entry := value(value(root, "agents"), agent)
	permissions := value(entry, "permissions")
	execute := value(permissions, "execute")
	switch {
	case entry.Kind != yaml.MappingNode:
		return nil, fmt.Errorf("has no agent %s", agent)
	case execute.Value == "allow" || permissions.Value == "allow":
		return nil, fmt.Errorf("already lets agent %s run every command", agent)
	case execute.Kind == yaml.SequenceNode:
		return insert(file, execute, rule)
	case execute.Kind == yaml.ScalarNode:
		return replace(file, execute, "["+rule+"]"), nil
	case permissions.Kind == yaml.MappingNode:
		return insert(file, permissions, "execute: ["+rule+"]")
	case permissions.Kind == yaml.ScalarNode:
		return replace(file, permissions, "{ execute: ["+rule+"] }"), nil
	}
	return insert(file, entry, "permissions: { execute: ["+rule+"] }")
}

// value returns the value of a key; a node without content where there is none.
func value(n *yaml.Node, key string) *yaml.Node {
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return n.Content[i+1]
			}
		}
	}
	return &yaml.Node{}
}

// document returns the mapping that a file holds.
func document(file []byte) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(file, &doc); err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("is not a YAML mapping")
	}
	return doc.Content[0], nil
}

// AddBlock is Add for an entry of several lines that are indented by two, as Agent.Entry is. The mapping must be in block style or empty.
func AddBlock(file []byte, entry, key string) ([]byte, error) {
	root, err := document(file)
	if err != nil {
		return nil, err
	}
	entry = strings.TrimRight(entry, "\n") + "\n"
	lines := strings.SplitAfter(string(file), "\n")
	at := slices.IndexFunc(root.Content, func(n *yaml.Node) bool { return n.Value == key })
	if at < 0 {
		return append(append(bytes.TrimRight(file, "\n"), '\n'), []byte(key+":\n"+entry)...), nil
	}
	node := root.Content[at+1]
	switch {
	case node.Kind == yaml.MappingNode && len(node.Content) > 0 && node.Style&yaml.FlowStyle == 0 && node.Content[0].Column == 3:
		return []byte(strings.Join(slices.Insert(lines, node.Content[0].Line-1, entry), "")), nil
	case node.Kind == yaml.MappingNode && len(node.Content) == 0 && node.Line == root.Content[at].Line:
		line := lines[node.Line-1]
		rest := strings.TrimSpace(strings.Replace(line[node.Column-1:], "{}", "", 1))
		lines[node.Line-1] = strings.TrimRight(line[:node.Column-1]+rest, " \n") + "\n" + entry
		return []byte(strings.Join(lines, "")), nil
	}
	return nil, fmt.Errorf("has %s at line %d in a form that this program cannot extend; add there:\n%s", key, node.Line, entry)
}
