package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gopkg.in/yaml.v3"

	"drawbridge/internal/yamlconf"
)

// maxScript bounds a script file, in bytes; YAML anchors can make a small file large, not a large one small.
const maxScript = 4 << 20

// Duration is a time span written as in Go, "200ms" or "1m30s".
type Duration time.Duration

// UnmarshalYAML refuses negative spans and plain numbers, naming the line.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	if err := d.parse(n.Value); err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	return nil
}

// UnmarshalJSON takes the same strings as YAML does.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("a duration is a string such as \"200ms\": %w", err)
	}
	return d.parse(text)
}

// MarshalJSON writes the span as Go prints it.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

func (d *Duration) parse(text string) error {
	v, err := time.ParseDuration(text)
	if err != nil || v < 0 {
		return fmt.Errorf("%q is not a duration such as 200ms or 1m30s", text)
	}
	*d = Duration(v)
	return nil
}

// Script says what the simulated agents answer and how the simulated service is set up. Unknown keys are refused.
type Script struct {
	// Keys are the API keys that are accepted.
	Keys []string `yaml:"keys"`
	// Latency is the time from a run's creation to its end when its turn names none; 200 ms when absent.
	Latency Duration `yaml:"latency"`
	// Account is what /me says.
	Account Account `yaml:"account"`
	// Models replaces the built-in list of models.
	Models []Model `yaml:"models"`
	// Repositories is what the repository lists say.
	Repositories []string `yaml:"repositories"`
	// Access, when not empty, names every repository that may be launched on; others are refused with repository_access.
	// Patterns with * within a segment are allowed.
	Access []string `yaml:"access"`
	// Agents are the rules: the first rule of the repository with a turn that matches answers.
	Agents []AgentRule `yaml:"agents"`
	// Default answers what no rule answers.
	Default *Turn `yaml:"default"`
	// Faults are switched on from the start.
	Faults []Fault `yaml:"faults"`
	// Settings decide what the vendor leaves open.
	Settings Settings `yaml:"settings"`
}

// Account is the owner of the API keys.
type Account struct {
	KeyName   string `yaml:"key_name"`
	UserID    int64  `yaml:"user_id"`
	Email     string `yaml:"email"`
	FirstName string `yaml:"first_name"`
	LastName  string `yaml:"last_name"`
	// Service makes the keys service-account keys: /me then names no user.
	Service bool `yaml:"service"`
}

// Model is one entry of the model lists; Aliases are accepted wherever the ID is.
type Model struct {
	ID          string   `yaml:"id" json:"id"`
	DisplayName string   `yaml:"name" json:"displayName"`
	Description string   `yaml:"description" json:"description,omitempty"`
	Aliases     []string `yaml:"aliases" json:"aliases,omitempty"`
}

// AgentRule holds the turns of the agents on one repository.
type AgentRule struct {
	// Repo is "github.com/owner/name", with * allowed in a segment; "none" is agents without a repository, "" is all.
	Repo  string `yaml:"repo"`
	Turns []Turn `yaml:"turns"`
}

// Turn is what an agent does with one prompt.
type Turn struct {
	// Match is a part of the prompt, Regexp an expression found in it. At most one may be given; with none every prompt matches.
	Match  string `yaml:"match"`
	Regexp string `yaml:"regexp"`
	// Reply is the assistant's text. {{.Prompt}}, {{.Repo}}, {{.AgentID}} and {{.Turn}} (1 for the first prompt) are filled in.
	Reply string `yaml:"reply"`
	// After is the time to the end of the run; absent means the script's latency.
	After *Duration `yaml:"after"`
	// Status is FINISHED (when absent), ERROR or EXPIRED.
	Status string `yaml:"status"`
	// Branch is pushed when the run ends, PR opened on it.
	Branch string `yaml:"branch"`
	PR     string `yaml:"pr"`
	// Summary is what v0 shows besides the reply; absent means the reply.
	Summary string `yaml:"summary"`
	// Error is the detail of a run that ends in ERROR; usually there is none.
	Error *RunError `yaml:"error"`
	// Thinking and Tools come in the stream ahead of the reply.
	Thinking  string     `yaml:"thinking"`
	Tools     []Tool     `yaml:"tools"`
	Artifacts []Artifact `yaml:"artifacts"`
	// Usage is what the run consumes; absent means tokens by the lengths of the texts.
	Usage *Usage `yaml:"usage"`
	// Once uses the turn up for the agent that had it.
	Once bool `yaml:"once"`
}

// RunError is the detail of a failed run.
type RunError struct {
	Message string `yaml:"message" json:"message"`
	Code    string `yaml:"code" json:"code,omitempty"`
}

// Tool is one tool call in the stream.
type Tool struct {
	Name   string         `yaml:"name"`
	Args   map[string]any `yaml:"args"`
	Result any            `yaml:"result"`
	// Unfinished leaves the call in status running without end, as the vendor sometimes does.
	Unfinished bool `yaml:"unfinished"`
}

// Usage is what one run consumes, as the usage call tells it.
type Usage struct {
	Input      int `yaml:"input"`
	Output     int `yaml:"output"`
	CacheWrite int `yaml:"cache_write"`
	CacheRead  int `yaml:"cache_read"`
	// Cents is what the tokens cost, Charged what is charged for them: Cents when absent, 0 within a plan.
	Cents   float64  `yaml:"cents"`
	Charged *float64 `yaml:"charged"`
}

// check bounds the numbers, so that their sums stay exact.
func (u *Usage) check() bool {
	cost := func(f float64) bool { return f >= 0 && f <= 1e9 }
	for _, n := range []int{u.Input, u.Output, u.CacheWrite, u.CacheRead} {
		if n < 0 || n > 1e9 {
			return false
		}
	}
	return cost(u.Cents) && (u.Charged == nil || cost(*u.Charged))
}

// Artifact is a file that a run leaves behind, Path relative to the artifacts folder.
type Artifact struct {
	Path    string `yaml:"path"`
	Content string `yaml:"content"`
}

// Load reads and checks the script at path.
func Load(path string) (*Script, error) { return yamlconf.Script(path, Parse) }

// Parse reads and checks a script. Errors name the line. An empty document is an empty script.
func Parse(data []byte) (*Script, error) {
	s := &Script{}
	if err := yamlconf.Strict(data, maxScript, s); err != nil {
		return nil, err
	}
	_, err := Compile(s)
	var p *problem
	if errors.As(err, &p) {
		p.line = lineOf(data, p.path)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// problem is something wrong at a Place of the script: keys and indexes from the root.
type problem struct {
	path []any
	text string
	line int
}

func (p *problem) Error() string {
	where := ""
	for _, step := range p.path {
		switch step := step.(type) {
		case int:
			where += fmt.Sprintf("[%d]", step)
		case string:
			if where != "" {
				where += "."
			}
			where += step
		}
	}
	if p.line > 0 {
		where = fmt.Sprintf("line %d: %s", p.line, where)
	}
	return where + ": " + p.text
}

// lineOf follows path as far as it exists, so that a missing key is reported at the entry that lacks it.
func lineOf(data []byte, path []any) int {
	var root yaml.Node
	if yaml.Unmarshal(data, &root) != nil || len(root.Content) == 0 {
		return 0
	}
	n := root.Content[0]
	for _, step := range path {
		next := child(n, step)
		if next == nil {
			break
		}
		n = next
	}
	return n.Line
}

func child(n *yaml.Node, step any) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch step := step.(type) {
	case int:
		if n.Kind == yaml.SequenceNode && step < len(n.Content) {
			return n.Content[step]
		}
	case string:
		for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i+1]
			}
		}
	}
	return nil
}
