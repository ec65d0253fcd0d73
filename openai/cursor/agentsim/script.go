package agentsim

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"text/template"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"drawbridge/internal/yamlconf"
	"drawbridge/openai/cursor/wire"
)

// Script says what the models answer. Unknown keys are refused.
type Script struct {
	// Keys are the API keys that are accepted; DefaultKey when absent.
	Keys []string `yaml:"keys"`
	// TokenFor is how long an access token is good; an hour when absent.
	TokenFor time.Duration `yaml:"token_for"`
	// Models replaces the built-in list of models.
	Models []Model `yaml:"models"`
	// Turns are the rules: the first that fits answers.
	Turns []Turn `yaml:"turns"`
	// Faults are those of the HTTP calls, in their order.
	Faults []CallFault `yaml:"faults"`
}

// CallFault is a fault of some HTTP calls.
type CallFault struct {
	// Call is run (over HTTP/1.1), append, exchange or models. Skip lets so many calls pass first; Times is how many it hits, 1 when absent.
	Call  string `yaml:"call"`
	Skip  int    `yaml:"skip"`
	Times int    `yaml:"times"`
	// Status answers with an HTTP status, and RetryAfter names the seconds to wait with it.
	Status     int `yaml:"status"`
	RetryAfter int `yaml:"retry_after"`
	// After lets time pass before the call is served. Drop answers an append as if it were taken.
	After time.Duration `yaml:"after"`
	Drop  bool          `yaml:"drop"`
	// Late lets time pass between what a call does and its answer.
	Late time.Duration `yaml:"late"`
	// Type is the content type of the answer, such as text/event-stream.
	Type string `yaml:"type"`
}

// Model is one entry of the list of models; Aliases are accepted, too.
type Model struct {
	ID      string   `yaml:"id" json:"id"`
	Name    string   `yaml:"name" json:"displayName"`
	Aliases []string `yaml:"aliases" json:"aliases,omitempty"`
}

// Turn is what a model does with one message of the user.
type Turn struct {
	// Match is a part of the newest words; "" fits all.
	Match string `yaml:"match"`
	// Tools have to be offered, by the caller's names.
	Tools []string `yaml:"tools"`
	// Number is which turn of its conversation it is, from 1; 0 fits all. Try is which run of the same turn; 0 fits all.
	Number int    `yaml:"number"`
	Try    int    `yaml:"try"`
	Steps  []Step `yaml:"steps"`
}

// Step is one thing that the service does. Exactly one key may be given.
type Step struct {
	// Text and Thinking are said in one piece, or as often as Times says. {{.Text}} is the newest words, {{.Result}} the texts of the newest results.
	Text     string `yaml:"text"`
	Thinking string `yaml:"thinking"`
	Times    int    `yaml:"times"`
	// Calls asks for tools of the caller at once, and waits for all results. Listed says how many there are beforehand.
	Calls  []Call `yaml:"calls"`
	Listed bool   `yaml:"listed"`
	// Saved hands the state over a second later, while the calls wait.
	Saved bool `yaml:"saved"`
	// Exec asks for a tool of the service's own, such as read_args: { path: a.txt }, and waits for its result. Withdraw takes the request back when
	// what came of it so far holds this text.
	Exec     map[string]any `yaml:"exec"`
	Withdraw string         `yaml:"withdraw"`
	// Send sends any message of the service as its JSON, and Raw one as hex. Neither waits.
	Send map[string]any `yaml:"send"`
	Raw  string         `yaml:"raw"`
	// Bytes, as hex, go into the stream as they are, between its frames.
	Bytes string `yaml:"bytes"`
	// Query asks something, such as web_search_request_query, and waits for the answer.
	Query string `yaml:"query"`
	// Blob sets a blob of so many bytes, and reads it again.
	Blob int `yaml:"blob"`
	// Checkpoint hands the state over.
	Checkpoint bool `yaml:"checkpoint"`
	// Wait lets time pass with heartbeats, and Silence without them. Stall only beats from here on.
	Wait    time.Duration `yaml:"wait"`
	Silence time.Duration `yaml:"silence"`
	Stall   bool          `yaml:"stall"`
	// End ends the stream: "cut" breaks the connection, "clean" ends it in order without the end of the turn.
	End string `yaml:"end"`
	// Error ends the stream with an error.
	Error *Fault `yaml:"error"`
}

// Call is a call of a tool of the caller.
type Call struct {
	Name string         `yaml:"name"`
	Args map[string]any `yaml:"args"`
	// After lets time pass before this call.
	After time.Duration `yaml:"after"`
	// Twice sends the same request once more, and Abort withdraws it at once.
	Twice bool `yaml:"twice"`
	Abort bool `yaml:"abort"`
}

// Fault is an error at the end of a stream. Kind is the service's number, 0 sends no details.
type Fault struct {
	Code   string `yaml:"code"`
	Kind   int32  `yaml:"kind"`
	Title  string `yaml:"title"`
	Detail string `yaml:"detail"`
}

// DefaultKey is the API key that is accepted where the script names none.
const DefaultKey = "cursor_sim_key"

// maxScript bounds a script file, in bytes.
const maxScript = 4 << 20

// Load reads and checks the script at path.
func Load(path string) (*Script, error) { return yamlconf.Script(path, Parse) }

// Parse reads and checks a script.
func Parse(data []byte) (*Script, error) {
	s := &Script{}
	if err := yamlconf.Strict(data, maxScript, s); err != nil {
		return nil, err
	}
	for i, f := range s.Faults {
		if calls[f.Call] == "" {
			return nil, fmt.Errorf("faults[%d]: call is %q; write run, append, exchange or models", i, f.Call)
		}
	}
	for i, t := range s.Turns {
		for n, step := range t.Steps {
			if err := step.check(); err != nil {
				return nil, fmt.Errorf("turns[%d].steps[%d]: %w", i, n, err)
			}
		}
	}
	return s, nil
}

// calls are the paths of the calls by the names that a script has for them.
var calls = map[string]string{"run": wire.RunSSE, "append": wire.BidiAppend, "exchange": wire.Exchange, "models": wire.Models}

// check refuses a step that does nothing, or whose messages do not exist.
func (s Step) check() error {
	done := 0
	for _, is := range []bool{s.Text != "", s.Thinking != "", s.Calls != nil, s.Exec != nil, s.Send != nil, s.Raw != "", s.Bytes != "", s.Query != "", s.Blob > 0, s.Checkpoint,
		s.Wait > 0, s.Silence > 0, s.Stall, s.End != "", s.Error != nil} {
		if is {
			done++
		}
	}
	if done != 1 {
		return fmt.Errorf("it has %d things to do; write exactly one, such as text: Hello", done)
	}
	if s.End != "" && s.End != "cut" && s.End != "clean" {
		return fmt.Errorf("end is %q; write cut or clean", s.End)
	}
	if _, err := template.New("").Parse(s.Text); err != nil {
		return err
	}
	if _, err := hex.DecodeString(s.Raw + s.Bytes); err != nil {
		return err
	}
	if s.Exec != nil {
		return asMessage(s.Exec, &wire.ExecServerMessage{})
	}
	if s.Query != "" {
		return asMessage(map[string]any{s.Query: map[string]any{}}, &wire.InteractionQuery{})
	}
	if s.Send != nil {
		return asMessage(s.Send, &wire.AgentServerMessage{})
	}
	return nil
}

// asMessage reads a part of a script as a message.
func asMessage(v map[string]any, m proto.Message) error {
	raw, err := json.Marshal(v)
	if err == nil {
		err = protojson.Unmarshal(raw, m)
	}
	return err
}

// filled is a text with what it refers to.
func filled(text string, words, result string) string {
	if !strings.Contains(text, "{{") {
		return text
	}
	var b strings.Builder
	if err := template.Must(template.New("").Parse(text)).Execute(&b, map[string]string{"Text": words, "Result": result}); err != nil {
		return err.Error()
	}
	return b.String()
}

// story is what is played without a script: a model that runs the caller's shell once when it has one, and else answers.
func story() *Script {
	return &Script{Turns: []Turn{
		{Match: "echo hello", Tools: []string{"bash"}, Steps: []Step{
			{Thinking: "The user wants a command to run. "},
			{Text: "I run it. "},
			{Calls: []Call{{Name: "bash", Args: map[string]any{"command": "echo hello"}}}},
			{Text: "It said: {{.Result}}"},
		}},
		{Steps: []Step{{Thinking: "This is a stand-in. "}, {Text: "Hello "}, {Text: "from the stand-in. "}, {Text: "You said: {{.Text}}"}}},
	}}
}
