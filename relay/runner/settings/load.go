package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"drawbridge/internal/trust"
	"drawbridge/internal/yamlconf"
)

// Load reads and checks relay.yaml at path. Only we or root may change the file and every ${file:…} in it, and read a ${file:…} or a
// file that holds the token itself.
// Programs and folders that it names must exist, except the program of an agent, the paths of its sandbox and those of tools: these are Config.Warnings. The journal need not, and is not opened. A nil env has no variables. All problems come back together as one *Error.
func Load(path string, env LookupEnv) (Config, error) {
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return Config{}, fmt.Errorf("find %q: %w", path, err)
	}
	r := configReader{file: path, outside: outside{env: env, dir: filepath.Dir(abs), config: abs}}
	data, err := trust.Read(abs, maxConfigBytes)
	if errors.Is(err, fs.ErrNotExist) {
		err = trust.Because("does not exist", "write one with drawbridge-relay init, or name yours with --config FILE")
	}
	if err != nil {
		r.report(Problem{}, err)
		return Config{}, &Error{Problems: r.problems}
	}
	config, err := r.load(data)
	if err == nil {
		sum := sha256.Sum256(data)
		config.SHA256, config.File = hex.EncodeToString(sum[:]), abs
	}
	return config, err
}

// StateOf returns the state folder of relay.yaml at path, whatever else is wrong with the file: the kill switch must not need a
// variable that only the relay's service has. The file must be changeable by us or root only. Problems come back as *Error.
func StateOf(path string, env LookupEnv) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find %q: %w", path, err)
	}
	r := configReader{file: path, outside: outside{env: env, dir: filepath.Dir(abs), config: abs}}
	r.config.State = r.outside.dir
	data, err := trust.Read(abs, maxConfigBytes)
	if err != nil {
		r.report(Problem{}, err)
	} else if root := r.document(data); root != nil {
		r.pairs(root, "", func(key, value *yaml.Node, at string) {
			if key.Value == "state" {
				r.state(value, at)
			}
		})
	}
	if len(r.problems) > 0 {
		return "", &Error{Problems: r.problems}
	}
	return r.config.State, nil
}

// configReader walks the nodes of the file rather than decoding into structs, because it has to say line, key and value
// of every problem, and to put in ${…} after parsing, so that no value can change the file's structure.
type configReader struct {
	file     string
	outside  outside
	config   Config
	tools    tools
	problems []Problem
}

// setting is one known key and what reads its value.
type setting struct {
	name string
	read func(n *yaml.Node, at string)
}

func (r *configReader) load(data []byte) (Config, error) {
	r.config = Config{
		Listen:  netip.MustParseAddrPort("127.0.0.1:7420"),
		Actions: map[string]Action{},
		Agents:  map[string]Agent{},
		Repos:   map[string]Repo{},
		Limits:  defaultLimits(),
		State:   r.outside.dir,
	}
	if root := r.document(data); root != nil {
		r.top(root)
	}
	if len(r.problems) > 0 {
		return Config{}, &Error{Problems: r.problems}
	}
	return r.config, nil
}

// document returns the root of the only document of the file.
func (r *configReader) document(data []byte) *yaml.Node {
	root, fault := yamlconf.Document(yamlconf.Source{Name: r.file, Data: data})
	switch {
	case fault != nil:
		r.problems = append(r.problems, Problem{File: fault.At, Reason: fault.Reason, Remedy: fault.Remedy})
	case root == nil:
		r.report(Problem{}, trust.Because("is empty", "write listen and actions; see drawbridge-relay --help"))
	}
	return root
}

func (r *configReader) top(root *yaml.Node) {
	found := r.mapping(root, "", []setting{
		{"listen", r.listen},
		{"token", r.token},
		{"actions", r.actions},
		{"tools", r.readTools},
		{"agents", r.agents},
		{"repos", r.repos},
		{"limits", r.limits},
		{"state", r.state},
		{"journal", r.journal},
		{"redact", func(n *yaml.Node, at string) { r.config.secrets, r.config.patterns = r.redact(n, at, r.config.secrets) }},
	})
	if root.Kind != yaml.MappingNode && len(r.problems) > 0 {
		return
	}
	if !found["journal"] {
		r.journalAt(Problem{Key: "journal", Value: defaultJournal}, filepath.Join(r.config.State, defaultJournal))
	}
	r.keepApart()
	r.judgeRepos()
	for name, a := range r.config.Agents {
		r.config.Agents[name] = r.tools.complete(a)
	}
	if !found["token"] && r.config.Listens() {
		r.report(Problem{Key: "token"}, trust.Because("is missing", "write listen: none for a relay that joins and dials out, or token: ${file:relay.token} for one that is called at an address"))
	}
	if !found["actions"] && !found["agents"] {
		r.report(Problem{Key: "actions"}, trust.Because("is missing", "list what may run, or write actions: {} to allow nothing"))
	}
}

// report adds a problem, whose reason and remedy are taken from err.
func (r *configReader) report(p Problem, err error) {
	r.problems = append(r.problems, r.because(p, err))
}

// warn adds a problem of one agent that keeps nothing else from working.
func (r *configReader) warn(p Problem, err error) {
	r.config.Warnings = append(r.config.Warnings, r.because(p, err))
}

// because fills in the file, and takes reason and remedy from err.
func (r *configReader) because(p Problem, err error) Problem {
	p.File = r.file
	p.Reason = err.Error()
	var why *trust.Problem
	if errors.As(err, &why) {
		p.Reason = strings.TrimSuffix(p.Reason, "; "+why.Remedy)
		p.Remedy = why.Remedy
	}
	return p
}

// reject reports the value of n as it stands in the file, before anything was put in.
func (r *configReader) reject(n *yaml.Node, at, reason, remedy string) {
	r.report(Problem{Line: n.Line, Key: at, Value: n.Value}, trust.Because(reason, remedy))
}

// rejectHidden is reject for values that may be secret.
func (r *configReader) rejectHidden(n *yaml.Node, at, reason, remedy string) {
	r.report(Problem{Line: n.Line, Key: at, Value: hiddenValue}, trust.Because(reason, remedy))
}

// mapping reads n by the settings given and returns which of them it held.
func (r *configReader) mapping(n *yaml.Node, at string, settings []setting) map[string]bool {
	readers, names := map[string]func(*yaml.Node, string){}, make([]string, len(settings))
	for i, s := range settings {
		readers[s.name], names[i] = s.read, s.name
	}
	found := map[string]bool{}
	r.pairs(n, at, func(key, value *yaml.Node, path string) {
		read, known := readers[key.Value]
		if !known {
			r.report(Problem{Line: key.Line, Key: path}, trust.Because("is not a known key", "use one of "+strings.Join(names, ", ")))
			return
		}
		found[key.Value] = true
		read(value, path)
	})
	return found
}

// pairs calls each for every member of a mapping, and reports what is none and keys that come twice.
func (r *configReader) pairs(n *yaml.Node, at string, each func(key, value *yaml.Node, path string)) {
	if n.Kind != yaml.MappingNode {
		if n.Kind != yaml.ScalarNode || n.Tag != "!!null" {
			r.report(Problem{Line: n.Line, Key: at}, trust.Because("is not a mapping", "write lines of the form key: value below it"))
		}
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		path := key.Value
		if at != "" {
			path = at + "." + key.Value
		}
		switch {
		case key.Kind != yaml.ScalarNode || key.Tag == "!!merge":
			r.report(Problem{Line: key.Line, Key: at}, trust.Because("has a key that is not a plain word", "write the keys out"))
		case seen[key.Value]:
			r.report(Problem{Line: key.Line, Key: path}, trust.Because("is here twice", "keep one of them"))
		default:
			seen[key.Value] = true
			each(key, value, path)
		}
	}
}

// scalar returns the text of a value with everything put in.
func (r *configReader) scalar(n *yaml.Node, at string) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		r.report(Problem{Line: n.Line, Key: at}, trust.Because("is not a single value", "write one value; anchors and aliases are not read"))
		return "", false
	}
	text, secrets, err := r.outside.expand(n.Value)
	if err != nil {
		r.report(Problem{Line: n.Line, Key: at}, err)
		return "", false
	}
	r.config.secrets = append(r.config.secrets, secrets...)
	return text, true
}

func (r *configReader) number(n *yaml.Node, at string, least, most int) (int, bool) {
	text, ok := r.scalar(n, at)
	if !ok {
		return 0, false
	}
	value, err := strconv.Atoi(text)
	if err != nil || value < least || value > most {
		r.reject(n, at, "is not a number in range", fmt.Sprintf("write a number from %d to %d", least, most))
		return 0, false
	}
	return value, true
}

func (r *configReader) duration(n *yaml.Node, at string, most time.Duration) (time.Duration, bool) {
	text, ok := r.scalar(n, at)
	if !ok {
		return 0, false
	}
	value, err := time.ParseDuration(text)
	if err != nil || value <= 0 || value > most {
		r.reject(n, at, "is not a duration in range", fmt.Sprintf("write one above 0 and up to %s, such as 60s or 5m", short(most)))
		return 0, false
	}
	return value, true
}

// seconds reads a duration that the kernel can count: whole seconds.
func (r *configReader) seconds(n *yaml.Node, at string) time.Duration {
	value, ok := r.duration(n, at, maxTimeout)
	if ok && value%time.Second != 0 {
		r.reject(n, at, "is not a whole number of seconds", "write one such as 60s or 5m")
	}
	return value
}

// units are the words for sizes. Those of thousands are not among them, because half of all people take them for these.
var units = []struct {
	name string
	size int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"", 1}}

// sized writes a number of bytes in the largest unit of which it is a whole number.
func sized(n int64) string {
	for _, unit := range slices.Backward(units[:3]) {
		if n%unit.size == 0 {
			return fmt.Sprint(n/unit.size, unit.name)
		}
	}
	return fmt.Sprint(n, " bytes")
}

// bytes reads a number of bytes, with a unit or without.
func (r *configReader) bytes(n *yaml.Node, at string, least int64) int64 {
	text, ok := r.scalar(n, at)
	if !ok {
		return 0
	}
	for _, unit := range units {
		digits, found := strings.CutSuffix(text, unit.name)
		if !found {
			continue
		}
		value, err := strconv.ParseInt(digits, 10, 64)
		if err == nil && value <= maxBytes/unit.size && value*unit.size >= least {
			return value * unit.size
		}
		break
	}
	r.reject(n, at, "is not a size in range", fmt.Sprintf("write a whole number with KiB, MiB or GiB, such as 512MiB; from %d to %d bytes", least, int64(maxBytes)))
	return 0
}

// short is a whole number of hours without its zeros.
func short(d time.Duration) string { return fmt.Sprintf("%dh", int(d.Hours())) }
