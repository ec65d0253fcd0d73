package scripted_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"drawbridge/bridge"
	"drawbridge/proof/runtimes"
	"drawbridge/scripted"
)

const suiteScript = `agents:
  - turns:
      - { match: "never ends", after: 1h }
      - { match: "fails", status: ERROR }
      - reply: "You said: {{.prompt}}"
`

// TestRuntime: the stand-in keeps the contract of all Runtimes, over restarts too.
func TestRuntime(t *testing.T) {
	t.Parallel()
	runtimes.Run(t, runtimes.Suite{
		Abilities: runtimes.Abilities{Repeats: true, Busy: true, Cancelled: true, Follows: true, Inspects: true},
		New: func(t *testing.T) runtimes.World {
			h := newHost(t, suiteScript)
			return runtimes.World{
				Runtime: h.Runtime, Name: "stand-in",
				Made:    func() (int, int) { return len(h.lines(scripted.Launched)), len(h.lines(scripted.Told)) },
				Restart: func() bridge.Runtime { h.restart(); return h.Runtime },
			}
		},
	})
}

const noteScript = `agents:
  - match: "Keep notes"
    hear:
      - { match: 'fact (\w+) is (\w+)', as: "fact_$1", value: "$2" }
    turns:
      - once: true
        steps:
          - { call: note, with: '{"text": "first"}', keep: { id: first } }
          - { call: note, with: '{"text": {{json .first}}}', keep: { id: second } }
        reply: "Noted as {{.first}} and {{.second}}."
      - when: "{{and .fact_a .fact_b}}"
        steps:
          - { call: note, with: '{"text": "{{.fact_a}}{{.fact_b}}{{.missing}}"}' }
          - { when: "{{.error}}", call: note, with: '{"text": "it said {{.error}}"}' }
        reply: "{{add .fact_a .fact_b}} of {{words .prompt}}"
`

// TestAgentCallsTools: an agent calls its door with its token, knows what came back, and what it heard in other turns.
func TestAgentCallsTools(t *testing.T) {
	t.Parallel()
	var got []string
	door := newDoor(t, func(text string) (string, error) {
		got = append(got, text)
		if text == "12" {
			return "", errors.New("full up")
		}
		return "id-" + text, nil
	})
	h := newHost(t, noteScript)
	if o := h.launch("Keep notes", door); o.State != bridge.RunFinished || o.Reply != "Noted as id-first and id-id-first." {
		t.Errorf("%+v", o)
	}
	if o := h.tell("[bridge trn_2]", "fact a is 1"); o.Reply != "" {
		t.Errorf("%+v", o)
	}
	h.restart()
	if o := h.tell("[bridge trn_3]", "fact b is 2"); o.Reply != "3 of 6" {
		t.Errorf("%+v", o)
	}
	if all := strings.Join(got, ","); all != "first,id-first,12,it said full up" {
		t.Errorf("the door was told %s", all)
	}
}

// TestCutOff: an agent that is cut off goes on behind the last return that it saw, and what it was told once it knows for good.
func TestCutOff(t *testing.T) {
	t.Parallel()
	reached, goOn := make(chan struct{}), make(chan struct{})
	var calls atomic.Int64
	door := newDoor(t, func(text string) (string, error) {
		if calls.Add(1) == 2 {
			close(reached)
			<-goOn
		}
		return "id", nil
	})
	h := newHost(t, noteScript)
	r := h.begin("Keep notes", door)
	<-reached
	ended := make(chan struct{})
	end := h.end
	go func() { end(); close(ended) }()
	close(goOn)
	<-ended
	h.start()
	if err := h.Follow(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if o := h.observe(r); o.Reply != "Noted as id and id." {
		t.Errorf("%+v", o)
	}
	// In order, a call under way gets its answer, so that none is repeated.
	if n := calls.Load(); n != 2 || len(h.lines(scripted.Calling)) != 2 || len(h.lines(scripted.Returned)) != 2 {
		t.Errorf("%d calls, the journal says %+v", n, h.lines(scripted.Calling))
	}
}

// TestTrouble: what cannot be ends the run with a reason and not the Runtime.
func TestTrouble(t *testing.T) {
	t.Parallel()
	h := newHost(t, noteScript)
	if o := h.launch("Keep notes", nil); o.State != bridge.RunError || !strings.Contains(o.Detail, "no MCP address") {
		t.Errorf("%+v", o)
	}
	h = newHost(t, noteScript)
	if o := h.launch("Somebody else", nil); o.State != bridge.RunError || !strings.Contains(o.Detail, "no agent for this prompt") {
		t.Errorf("%+v", o)
	}
	h = newHost(t, "agents: [{ turns: [{ steps: [{ call: note, with: 'no json' }] }] }]")
	if o := h.launch("x", newDoor(t, nil)); o.State != bridge.RunError || !strings.Contains(o.Detail, "not JSON") {
		t.Errorf("%+v", o)
	}
}

// TestOneProcess: two cannot let the same agents work.
func TestOneProcess(t *testing.T) {
	t.Parallel()
	h := newHost(t, suiteScript)
	script, err := scripted.Parse("s", []byte(suiteScript))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := scripted.Open(scripted.Options{Script: script, Dir: h.dir}); bridge.KindOf(err) != bridge.Conflict {
		t.Errorf("a second one opened the folder: %v", err)
	}
	info, err := os.Stat(filepath.Join(h.dir, scripted.JournalFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

func TestScriptProblems(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"agents: [{ turn: [] }]":                                      "did you mean turns?",
		"agents: [{ match: '(' }]":                                    "agents[0].match",
		"agents: [{ turns: [{ reply: '{{' }] }]":                      "is not a template",
		"agents: [{ turns: [{ status: DONE }] }]":                     "use FINISHED or ERROR",
		"agents: [{ turns: [{ steps: [{ with: '{}' }] }] }]":          "name a tool",
		"agents: [{ hear: [{ match: x }], turns: [{ match: '[' }] }]": "agents[0].hear[0].as",
	} {
		_, err := scripted.Parse("team.yaml", []byte(text))
		if bridge.KindOf(err) != bridge.Invalid || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "team.yaml:1") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
