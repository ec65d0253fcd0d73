package settings_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/proof/pages"
	"drawbridge/relay/runner/settings"
)

// The types below are relay.yaml as its schema describes it. TestSchema compares their keys, words and kinds with those of the reader.
type (
	file struct {
		Listen  string            `yaml:"listen"`
		Token   string            `yaml:"token"`
		Actions map[string]action `yaml:"actions"`
		Tools   tools             `yaml:"tools"`
		Agents  map[string]agent  `yaml:"agents"`
		Repos   map[string]repo   `yaml:"repos"`
		Limits  limits            `yaml:"limits"`
		State   string            `yaml:"state"`
		Journal string            `yaml:"journal"`
		Redact  []redacted        `yaml:"redact"`
	}
	tools struct {
		Path    []string          `yaml:"path"`
		Read    []string          `yaml:"read"`
		Env     map[string]string `yaml:"env"`
		EnvFrom []string          `yaml:"env_from"`
	}
	limits struct {
		Concurrent   int           `yaml:"concurrent"`
		Queue        int           `yaml:"queue"`
		PerMinute    int           `yaml:"per_minute"`
		PerDay       int           `yaml:"per_day"`
		ApprovalWait time.Duration `yaml:"approval_wait"`
	}
	redacted struct {
		Reference string `yaml:",short"`
		Pattern   string `yaml:"pattern"`
	}
	action struct {
		Argv        []string          `yaml:"argv"`
		Dir         string            `yaml:"dir"`
		Env         map[string]string `yaml:"env"`
		Timeout     time.Duration     `yaml:"timeout"`
		Output      int               `yaml:"output"`
		Concurrency int               `yaml:"concurrency"`
		Processes   int               `yaml:"processes"`
		Memory      string            `yaml:"memory"`
		OpenFiles   int               `yaml:"open_files"`
		FileSize    string            `yaml:"file_size"`
		CPU         time.Duration     `yaml:"cpu"`
		Approval    string            `yaml:"approval"`
		ApproveBy   string            `yaml:"approve_by" oneof:"machine bridge either"`
		Idempotent  bool              `yaml:"idempotent"`
		SHA256      string            `yaml:"sha256"`
		Files       []pinned          `yaml:"files"`
		Sandbox     sandbox           `yaml:"sandbox"`
		Redact      []redacted        `yaml:"redact"`
		IKnow       bool              `yaml:"i_know"`
	}
	pinned struct {
		Path   string `yaml:"path"`
		SHA256 string `yaml:"sha256"`
	}
	sandbox struct {
		Read    []string `yaml:"read"`
		Write   []string `yaml:"write"`
		Network bool     `yaml:"network"`
	}
	agent struct {
		Kind         string            `yaml:"kind" oneof:"acp cli"`
		Argv         []string          `yaml:"argv"`
		Env          map[string]string `yaml:"env"`
		EnvFrom      []string          `yaml:"env_from"`
		Slots        int               `yaml:"slots"`
		StartTimeout time.Duration     `yaml:"start_timeout"`
		Idle         time.Duration     `yaml:"idle"`
		TurnTimeout  time.Duration     `yaml:"turn_timeout"`
		AskHold      time.Duration     `yaml:"ask_hold"`
		SilentAfter  time.Duration     `yaml:"silent_after"`
		Sandbox      sandbox           `yaml:"sandbox"`
		Permissions  permissions       `yaml:"permissions"`
		ApproveBy    string            `yaml:"approve_by" oneof:"machine bridge either"`
		ToolCap      int               `yaml:"tool_cap"`
		IKnow        bool              `yaml:"i_know"`
		First        []string          `yaml:"first"`
		Resume       []string          `yaml:"resume"`
		Prompt       string            `yaml:"prompt" oneof:"argument stdin"`
		MCP          string            `yaml:"mcp" oneof:"argument file"`
		Format       string            `yaml:"format" oneof:"text claude-stream-json codex-json cursor-stream-json"`
	}
	permissions struct {
		All     string `yaml:",short" oneof:"allow ask"`
		Read    string `yaml:"read" oneof:"allow ask"`
		Edit    string `yaml:"edit" oneof:"allow ask"`
		Execute []rule `yaml:"execute" oneof:"allow ask"`
		Fetch   string `yaml:"fetch" oneof:"allow ask"`
		Other   string `yaml:"other" oneof:"allow ask"`
	}
	rule struct {
		Program string   `yaml:"program"`
		Args    []string `yaml:"args"`
		Exact   bool     `yaml:"exact"`
	}
	repo struct {
		Clone  string   `yaml:"clone"`
		Agents []string `yaml:"agents"`
		Setup  []string `yaml:"setup"`
	}
)

// TestSchema: the schema has the keys, words and kinds of the reader, and the texts of the reference, takes what the reader takes, and finds mistakes.
//
//go:generate go test . -run TestSchema -update
func TestSchema(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/reference/relay-yaml.md")
	if err != nil {
		t.Fatal(err)
	}
	said := keysOfPlaces(string(page))
	text := pages.Schema(t, file{}, said, func(path string) string { return path })
	pages.Same(t, "schema/relay.json", text)
	// One file with a key and a word that nobody knows in each place: the reader says which it knows.
	path := filepath.Join(t.TempDir(), "relay.yaml")
	var nonsense strings.Builder
	want := map[string][]string{}
	places(&nonsense, want, reflect.TypeFor[file](), "", "")
	if err := os.WriteFile(path, []byte(nonsense.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = settings.Load(path, nil)
	var wrong *settings.Error
	if !errors.As(err, &wrong) {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, p := range wrong.Problems {
		if list, ok := strings.CutPrefix(p.Remedy, "use one of "); ok && p.Reason == "is not a known key" {
			got[strings.TrimSuffix(p.Key, "nonsense")] = slices.Sorted(strings.SplitSeq(list, ", "))
		} else if list, ok := strings.CutPrefix(p.Remedy, "write "); ok && p.Reason == "is not known" {
			got[p.Key] = slices.Sorted(strings.SplitSeq(list, " or "))
		} else if slices.Contains(kinds, p.Reason) {
			got[p.Key] = []string{p.Reason}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) < 15 {
		t.Errorf("the keys and words of %d places in the schema (-) and at the reader (+):\n%s", len(want), diff)
	}
	for _, sample := range []string{settings.Sample, "actions: { a: { argv: [/bin/true], redact: [ x, { pattern: y } ] } }\nagents: { a: { permissions: ask }, b: { permissions: { execute: [ { program: go, args: [test] } ] } } }\n"} {
		if err := pages.Against(t, text, sample); err != nil {
			t.Errorf("%v:\n%s", err, sample)
		}
	}
	for _, sample := range []string{"action: {}\n", "agents: { a: { kind: api } }\n", "agents: { a: { permissions: { execute: never } } }\n", "limits: { queue: many }\n"} {
		if pages.Against(t, text, sample) == nil {
			t.Errorf("the schema takes %s", sample)
		}
	}
}

// keysOfPlaces are the rows of the page, those of actions, agents and clones under the paths of the file.
func keysOfPlaces(page string) map[string]pages.Key {
	said := map[string]pages.Key{}
	for _, part := range strings.Split(page, "\n\n") {
		prefix := ""
		for head, at := range map[string]string{"| key of an action |": "actions.<name>.", "| key of an agent |": "agents.<name>.", "| key of `repos.<name>` |": "repos.<name>.", "| key of `tools` |": "tools."} {
			if strings.HasPrefix(part, head) {
				prefix = at
			}
		}
		for key, row := range pages.Keys(part) {
			said[prefix+key] = row
		}
	}
	return said
}

// kinds are the reasons of the reader for a word where a value of another kind belongs.
var kinds = []string{"is not a number in range", "is neither true nor false", "is not a duration in range"}

// places collects the keys of each place, sorted, and the words or the kind of each value, and writes a file with a key and values that nobody
// knows in each place.
func places(b *strings.Builder, all map[string][]string, of reflect.Type, at, indent string) {
	b.WriteString(indent + "nonsense: 1\n")
	for i := range of.NumField() {
		field, inner := of.Field(i), of.Field(i).Type
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if name == "" {
			continue
		}
		all[at] = append(all[at], name)
		below, head := at+name, indent+name+":"
		if inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
			inner = inner.Elem()
		}
		words := strings.Fields(field.Tag.Get("oneof"))
		switch {
		case inner.Kind() != reflect.Struct && len(words) > 0:
			all[below] = slices.Sorted(slices.Values(words))
			b.WriteString(head + " nonsense\n")
		case field.Type.Kind() == reflect.Int, field.Type.Kind() == reflect.Bool, field.Type.Kind() == reflect.Int64:
			all[below] = []string{kinds[map[reflect.Kind]int{reflect.Int: 0, reflect.Bool: 1, reflect.Int64: 2}[field.Type.Kind()]]}
			b.WriteString(head + " nonsense\n")
		case inner.Kind() != reflect.Struct:
		case field.Type.Kind() == reflect.Struct:
			b.WriteString(head + "\n")
			places(b, all, inner, below+".", indent+"  ")
		case field.Type.Kind() == reflect.Slice:
			b.WriteString(head + "\n" + indent + "  -\n")
			places(b, all, inner, below+"[0].", indent+"    ")
		default:
			key := map[bool]string{true: "local/a", false: "a"}[name == "repos"]
			b.WriteString(head + "\n" + indent + "  " + key + ":\n")
			places(b, all, inner, below+"."+key+".", indent+"    ")
		}
	}
	slices.Sort(all[at])
}
