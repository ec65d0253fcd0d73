package scripted

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/yamlconf"
)

// scriptFile is a script as it is written. Every text is a template in the syntax
// of text/template over the agent's variables, with the functions json, words
// (which counts them) and add; "prompt" and "turn" are variables of each turn.
type scriptFile struct {
	Agents []struct {
		// Match is a pattern for the first prompt: the first entry that fits is who an agent is.
		Match string `yaml:"match"`
		// Hear keeps what a prompt says: for each place that fits, a variable and its
		// value, in which $1 is what the first group found.
		Hear []struct {
			Match string `yaml:"match"`
			As    string `yaml:"as"`
			Value string `yaml:"value"`
		} `yaml:"hear"`
		Turns []turnFile `yaml:"turns"`
	} `yaml:"agents"`
}

// turnFile says what an agent does in a turn. All that fit are done, in order,
// because a turn may bring several things at once; the last reply counts.
type turnFile struct {
	Match string `yaml:"match"`
	// When is a condition: it holds unless its text is empty, 0 or false.
	When string `yaml:"when"`
	// Once does it in the first turn that fits alone.
	Once  bool       `yaml:"once"`
	Steps []stepFile `yaml:"steps"`
	Reply string     `yaml:"reply"`
	// After is how long the agent thinks before it ends its turn.
	After time.Duration `yaml:"after"`
	// Status is how the run ends; FINISHED when nothing says otherwise.
	Status string `yaml:"status"`
}

type stepFile struct {
	When string `yaml:"when"`
	// Call names a tool, With is the JSON of its arguments. What it returned is in
	// the variables that Keep names, by the paths of its fields; "error" says why it refused, or is empty.
	Call string            `yaml:"call"`
	With string            `yaml:"with"`
	Keep map[string]string `yaml:"keep"`
}

// Script is a checked script. It is never changed.
type Script struct{ agents []*role }

// role is what one kind of agent does.
type role struct {
	match *regexp.Regexp
	hear  []heard
	turns []*turn
}

type heard struct {
	match     *regexp.Regexp
	as, value string
}

type turn struct {
	id          string
	match       *regexp.Regexp
	when, reply *template.Template
	once        bool
	steps       []step
	after       time.Duration
	status      bridge.RunState
}

type step struct {
	call       string
	when, with *template.Template
	keep       map[string]string
}

// Load reads a script. The error names the file and every problem in it.
func Load(path string) (*Script, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read script: %w", err)
	}
	return Parse(path, data)
}

// Parse is Load for a text that is in memory; name is how problems name it.
func Parse(name string, data []byte) (*Script, error) {
	var file scriptFile
	src, problems := yamlconf.Read(yamlconf.Source{Name: name, Dir: filepath.Dir(name), Data: data}, &file)
	c := compiler{file: src, problems: problems}
	s := &Script{}
	if len(problems) == 0 {
		s = c.script(file)
	}
	if len(c.problems) == 0 {
		return s, nil
	}
	lines := make([]string, len(c.problems))
	for i, p := range c.problems {
		lines[i] = p.String()
	}
	return nil, bridge.Errorf(bridge.Invalid, "%s", strings.Join(lines, "\n"))
}

// compiler collects every problem of a script.
type compiler struct {
	file     *yamlconf.File
	problems []yamlconf.Problem
}

func (c *compiler) wrong(key, value, reason, remedy string) {
	c.problems = append(c.problems, c.file.Problem(key, value, reason, remedy))
}

func (c *compiler) script(file scriptFile) *Script {
	s := &Script{}
	for i, a := range file.Agents {
		at := fmt.Sprintf("agents[%d]", i)
		r := &role{match: c.pattern(at+".match", a.Match)}
		for j, h := range a.Hear {
			at := fmt.Sprintf("%s.hear[%d]", at, j)
			if h.As == "" {
				c.wrong(at+".as", "", "is required", "name the variable")
			}
			r.hear = append(r.hear, heard{match: c.pattern(at+".match", h.Match), as: h.As, value: h.Value})
		}
		for j, t := range a.Turns {
			r.turns = append(r.turns, c.turn(fmt.Sprintf("%s.turns[%d]", at, j), t))
		}
		s.agents = append(s.agents, r)
	}
	return s
}

func (c *compiler) turn(at string, t turnFile) *turn {
	out := &turn{
		id: at, match: c.pattern(at+".match", t.Match), when: c.template(at+".when", t.When), reply: c.template(at+".reply", t.Reply),
		once: t.Once, after: t.After, status: bridge.RunState(t.Status),
	}
	switch out.status {
	case "", bridge.RunFinished, bridge.RunError:
	default:
		c.wrong(at+".status", t.Status, "is not a way to end", "use FINISHED or ERROR")
	}
	for k, st := range t.Steps {
		at := fmt.Sprintf("%s.steps[%d]", at, k)
		if st.Call == "" {
			c.wrong(at+".call", "", "is required", "name a tool of the bridge, such as send_message")
		}
		out.steps = append(out.steps, step{call: st.Call, when: c.template(at+".when", st.When), with: c.template(at+".with", st.With), keep: st.Keep})
	}
	return out
}

// pattern of nothing fits everything.
func (c *compiler) pattern(at, text string) *regexp.Regexp {
	re, err := regexp.Compile(text)
	if err != nil {
		c.wrong(at, text, "is not a pattern: "+err.Error(), "use the syntax of RE2")
	}
	return re
}

var functions = template.FuncMap{
	"json":  func(v string) (string, error) { b, err := json.Marshal(v); return string(b), err },
	"words": func(v string) int { return len(strings.Fields(v)) },
	"add": func(all ...string) (sum int, err error) {
		for _, v := range all {
			n, err := strconv.Atoi(v)
			if err != nil {
				return 0, err
			}
			sum += n
		}
		return sum, nil
	},
}

// template of nothing is nil.
func (c *compiler) template(at, text string) *template.Template {
	if text == "" {
		return nil
	}
	t, err := template.New(at).Option("missingkey=zero").Funcs(functions).Parse(text)
	if err != nil {
		c.wrong(at, text, "is not a template: "+err.Error(), "use the syntax of text/template")
	}
	return t
}

// roleOf returns who an agent with that first prompt is, nil for nobody.
func (s *Script) roleOf(prompt string) *role {
	for _, r := range s.agents {
		if r.match.MatchString(prompt) {
			return r
		}
	}
	return nil
}

// listen puts what a prompt says into the variables.
func (r *role) listen(prompt string, vars map[string]string) {
	for _, h := range r.hear {
		for _, found := range h.match.FindAllStringSubmatchIndex(prompt, -1) {
			vars[string(h.match.ExpandString(nil, h.as, prompt, found))] = string(h.match.ExpandString(nil, h.value, prompt, found))
		}
	}
}

// render fills a template; nil is the empty text.
func render(t *template.Template, vars map[string]string) (string, error) {
	if t == nil {
		return "", nil
	}
	var b strings.Builder
	if err := t.Execute(&b, vars); err != nil {
		return "", fmt.Errorf("fill the script's text: %w", err)
	}
	return b.String(), nil
}

// holds reports whether a condition does; none always does.
func holds(t *template.Template, vars map[string]string) (bool, error) {
	if t == nil {
		return true, nil
	}
	text, err := render(t, vars)
	text = strings.TrimSpace(text)
	return text != "" && text != "0" && text != "false", err
}

// ending is how an agent ends its turn.
type ending struct {
	state bridge.RunState
	reply string
	after time.Duration
	// vars are what the agent knows afterwards.
	vars map[string]string
}

// caller makes a tool call, or returns what the journal says that it returned.
type caller func(tool string, args json.RawMessage) (returned, error)

// promptVar is what the agent was told in this turn.
const promptVar = "prompt"

// play goes through a turn. With the same variables, prompt and returns it takes
// the same way, so that a turn that was cut off is found again. The error is the caller's, or the script's.
func (r *role) play(prompt string, known map[string]string, call caller) (ending, error) {
	end := ending{state: bridge.RunFinished, vars: maps.Clone(known)}
	if end.vars == nil {
		end.vars = map[string]string{}
	}
	end.vars[promptVar] = prompt
	r.listen(prompt, end.vars)
	for _, t := range r.turns {
		fits, err := t.fits(prompt, end.vars)
		if err != nil {
			return end, err
		}
		if !fits {
			continue
		}
		if err := t.play(&end, call); err != nil {
			return end, err
		}
	}
	return end, nil
}

func (t *turn) fits(prompt string, vars map[string]string) (bool, error) {
	if !t.match.MatchString(prompt) || t.once && vars[t.id] != "" {
		return false, nil
	}
	return holds(t.when, vars)
}

func (t *turn) play(end *ending, call caller) error {
	vars := end.vars
	for _, st := range t.steps {
		if yes, err := holds(st.when, vars); err != nil || !yes {
			if err != nil {
				return err
			}
			continue
		}
		args, err := render(st.with, vars)
		if err != nil {
			return err
		}
		if args == "" {
			args = "{}"
		}
		if !json.Valid([]byte(args)) {
			return fmt.Errorf("the arguments of %s are not JSON: %s", st.call, args)
		}
		got, err := call(st.call, json.RawMessage(args))
		if err != nil {
			return err
		}
		vars["error"] = got.Refused
		for field, name := range st.keep {
			vars[name] = got.field(field)
		}
	}
	reply, err := render(t.reply, vars)
	if err != nil {
		return err
	}
	if reply != "" {
		end.reply = reply
	}
	if t.status != "" {
		end.state = t.status
	}
	vars[t.id], end.after = "done", max(end.after, t.after)
	return nil
}
