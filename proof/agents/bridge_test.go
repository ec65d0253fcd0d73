//go:build deep

package agents_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"drawbridge/internal/freeport"
	"drawbridge/relay/agents"
	"drawbridge/relay/runner/settings"
)

// product is a bridge and a relay as a person starts them, with one real agent at the relay. The orchestrator lap lives there.
type product struct {
	*bench
	w     *world
	relay *world // runs the relay's program
	// local says what the agent does, and once where it is of kind cli: it has the names of its tools alone.
	local
	// asks says whether the agent can ask for a permission: kind cli cannot.
	asks bool
}

// newProduct starts both programs and waits until the relay is connected.
func newProduct(t *testing.T, name string) *product {
	t.Helper()
	b := &bench{T: t, model: newChatFor(name), dir: t.TempDir(), agent: name}
	t.Cleanup(b.model.Close)
	p := &product{bench: b}
	var entry map[string]any
	var prepare func(home, url string) error
	if o, found := onces[name]; found {
		entry, prepare, p.server = o.settings(t, name, b.model.URL), o.prepare, o.server
	} else {
		l := locals[name]
		entry, prepare, p.local, p.asks = l.settings(t, name, b.model.URL), l.prepare, l, true
		entry["approve_by"] = "bridge"
		if l.forgets { // it loses its session with its slot
			entry["slots"] = 2
		}
	}
	program, err := build()
	b.must(err)
	relay, err := buildRelay()
	b.must(err)
	port, release, err := freeport.Hold()
	b.must(err)
	p.w = &world{T: t, dir: b.dir, program: program, url: "http://127.0.0.1:" + port, operator: rand.Text() + rand.Text(), log: &output{}}
	p.relay = &world{T: t, dir: b.dir, program: relay, log: &output{}}
	t.Cleanup(func() {
		_ = release()
		if t.Failed() {
			t.Logf("the bridge's log:\n%s\nthe relay's log:\n%s", p.w.log, p.relay.log)
		}
	})
	p.files(port, entry)
	b.must(os.MkdirAll(b.home(), 0o700))
	b.must(prepare(b.home(), b.model.URL))
	p.begin()
	return p
}

// files writes what a person writes for one machine.
func (p *product) files(port string, entry map[string]any) {
	p.Helper()
	p.must(os.Chmod(p.dir, 0o700))
	repos := map[string]any{}
	for _, name := range []string{"env", "notes"} {
		p.clone(filepath.Join(p.dir, name))
		repos["local/"+name] = map[string]any{"clone": filepath.Join(p.dir, name), "agents": []string{p.agent}}
	}
	text, err := json.Marshal(map[string]any{"listen": "none", "state": filepath.Join(p.dir, "state"), "agents": map[string]any{p.agent: entry}, "repos": repos})
	p.must(err)
	p.must(os.Mkdir(filepath.Join(p.dir, "state"), 0o700))
	p.Config, err = settings.Load(p.w.write("relay.yaml", string(text)), nil)
	p.must(err)
	p.w.write("bridge.token", p.w.operator)
	p.w.write("bridge.key", rand.Text()+rand.Text())
	p.w.write("allowlist.yaml", "repos:\n  - { repo: local/notes, runtime: laptop }\n")
	p.w.write("bridge.yaml", fmt.Sprintf(`listen: 127.0.0.1:%s
token: ${file:bridge.token}
key: ${file:bridge.key}
poll: { min: 100ms, max: 400ms }
log: { level: info }
runtimes: { laptop: { kind: relay, relay: laptop, agent: %s } }
orchestrators:
  - { name: lap, repo: local/env, runtime: laptop, toolsets: [bridge, team] }
`, port, p.agent))
}

// clone makes a repository of a person, with one commit.
func (p *product) clone(dir string) {
	p.Helper()
	for _, args := range [][]string{{"init", "-q", "-b", "main", dir}, {"-C", dir, "commit", "-q", "--allow-empty", "-m", "first"}} {
		cmd := exec.CommandContext(p.Context(), "git", args...)
		cmd.Env = []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=P", "GIT_AUTHOR_EMAIL=p@example.com", "GIT_COMMITTER_NAME=P", "GIT_COMMITTER_EMAIL=p@example.com",
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			p.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
}

// begin starts both programs.
func (p *product) begin() {
	p.Helper()
	p.beginBridge()
	var token struct{ Token string }
	p.must(json.Unmarshal([]byte(p.w.cli("relay", "token", "laptop", "--json")), &token))
	p.relay.cli("join", "drawbridge+"+p.w.url+"/"+token.Token, "--config", filepath.Join(p.dir, "relay.yaml"))
	p.beginRelay()
	p.until("the relay is connected", func() bool { return strings.Contains(p.w.cli("relay", "list"), " connected") })
}

var ready = regexp.MustCompile(`"message":"ready"`)

func (p *product) beginBridge() {
	p.Helper()
	_, p.w.log = p.w.start(ready, "serve", "--config", filepath.Join(p.dir, "bridge.yaml"))
}

func (p *product) beginRelay() {
	p.Helper()
	_, p.relay.log = p.relay.start(ready, "run", "--config", filepath.Join(p.dir, "relay.yaml"))
}

// until waits for what happens by itself.
func (p *product) until(what string, done func() bool) {
	p.Helper()
	look, limit := time.NewTicker(100*time.Millisecond), time.After(patience)
	defer look.Stop()
	for !done() {
		select {
		case <-look.C:
		case <-limit:
			p.Fatalf("waited too long: %s\n%s\n%s\nthe last tool returned %.2000s", what, p.w.cli("agents"), p.w.cli("relay", "list"), p.model.result())
		}
	}
}

// list reads a list of the command line into rows.
func list[T any](p *product, key string, args ...string) []T {
	p.Helper()
	var rows map[string]json.RawMessage
	text := p.w.cli(append(args, "--json")...)
	var found []T
	if err := json.Unmarshal([]byte(text), &rows); err != nil || json.Unmarshal(rows[key], &found) != nil {
		p.Fatalf("%q: %v: %s", args, err, text)
	}
	return found
}

// told is a turn as `drawbridge turns` lists it.
type told struct{ ID, Cause, State, Reply, Trouble, Text string }

// turn returns the turn of an agent that has a mark.
func (p *product) turn(agent, mark string) (t told) {
	p.Helper()
	for _, t := range list[told](p, "turns", "turns", agent) {
		if strings.Contains(t.Text, mark) {
			return t
		}
	}
	return told{}
}

// replied waits for the answer to a turn with a mark.
func (p *product) replied(agent, mark, want string) {
	p.Helper()
	p.until(mark+" is answered", func() bool {
		t := p.turn(agent, mark)
		if t.State == "failed" || t.State == "uncertain" {
			p.Fatalf("%s: %+v", mark, t)
		}
		return t.State == "replied"
	})
	if t := p.turn(agent, mark); !strings.Contains(t.Reply, want) {
		p.Errorf("%s: it said %q, want %q", mark, t.Reply, want)
	}
}

// held is a command about which a person is asked at the bridge.
type held struct {
	ID, Verb string
	Held     struct{ Hash, Shown string }
}

// asked waits until one permission question is at the bridge.
func (p *product) asked() (q held) {
	p.Helper()
	p.until("the agent asks", func() bool {
		for _, q = range list[held](p, "commands", "commands", "--state", "held") {
			if q.Verb == "PERMISSION" {
				return true
			}
		}
		return false
	})
	return q
}

// answer says yes or no to a question, and waits until it is not open any more.
func (p *product) answer(q held, yes bool) {
	p.Helper()
	if yes {
		p.w.cli("approve", q.ID+"@"+q.Held.Hash)
	} else {
		p.w.cli("deny", q.ID)
	}
}

// Real agents at a real relay of a real bridge, as a person has them: no token, no key, no address. Each plays a turn, a command line with a
// yes and with a no at the bridge, a call at the bridge's door that launches a subagent, a kill in mid-turn, and after it the same session.
func TestAgentsThroughTheBridge(t *testing.T) {
	t.Parallel()
	for _, name := range append(slices.Sorted(maps.Keys(locals)), "codex") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProduct(t, name)
			p.w.cli("launch", "local/env", "[turn 1] Say something.", "--name", "lap")
			p.replied("lap", "[turn 1]", "All done.")
			p.commands()
			p.launches()
			p.killed()
			p.counts()
		})
	}
}

// commands lets the agent run a command line, and refuses another one.
func (p *product) commands() {
	p.Helper()
	for i, yes := range []bool{true, false} {
		if !p.asks && !yes {
			continue
		}
		mark := fmt.Sprintf("[turn %d]", i+2)
		file := filepath.Join(p.home(), fmt.Sprintf("made%d.txt", i))
		command := "echo one > " + file
		p.w.cli("say", "lap", mark+" Make a file.\nRUN: "+command)
		if p.asks {
			q := p.asked()
			if !strings.Contains(q.Held.Shown, command) {
				p.Errorf("the question does not show %q:\n%s", command, q.Held.Shown)
			}
			p.answer(q, yes)
		}
		if !yes && p.refused != "" {
			p.ended(mark, p.refused)
		} else {
			p.replied("lap", mark, "")
		}
		if _, err := os.Stat(file); (err == nil) != yes {
			p.Errorf("%s made: %t, want %t", file, err == nil, yes)
		}
	}
}

// launches lets the agent call a tool of the bridge, and wants the subagent that it launches, with its answer.
func (p *product) launches() {
	p.Helper()
	p.w.cli("say", "lap", "[turn 4] Launch.\nTOOL: "+p.server+`spawn_agent {"name":"kid","repo":"local/notes","instructions":"[turn 9] Work."}`)
	if p.asks {
		p.until("the agent asks or calls", func() bool {
			for _, q := range list[held](p, "commands", "commands", "--state", "held") {
				p.answer(q, true)
			}
			return strings.Contains(p.w.cli("agents"), "kid")
		})
	}
	p.replied("lap", "[turn 4]", "The tool answered.")
	p.replied("kid", "[turn 9]", "All done.")
	p.until("the agent read the result of its subagent", func() bool {
		for _, t := range list[told](p, "turns", "turns", "lap") {
			if t.Cause == "completion" {
				return t.State == "replied"
			}
		}
		return false
	})
	if got := list[struct{ Name, Repo, Runtime string }](p, "agents", "agents"); len(got) != 2 {
		p.Errorf("the bridge has the agents %+v", got)
	}
}

// killed kills every process of the agent in the middle of a turn, which goes on by itself. Meanwhile it looks at what they hold.
func (p *product) killed() {
	p.Helper()
	release := p.model.holds()
	p.w.cli("say", "lap", "[turn 5] Wait.")
	p.until("the turn reaches the model", func() bool { return p.model.times("[turn 5]") > 0 })
	var door *doorWay
	p.until("the agent started its way to the bridge", func() bool { door = p.door(); return door != nil })
	p.holdsNothing(door)
	if p.kill() == 0 {
		p.Error("no process of the agent was found")
	}
	release()
	if p.forgets {
		p.goneOrOn("[turn 5]")
	} else {
		p.replied("lap", "[turn 5]", "All done.")
	}
	p.until("nothing is left of the way", func() bool { _, err := os.Stat(door.socket); return os.IsNotExist(err) })
	p.w.cli("say", "lap", "[turn 6] Go on.")
	p.replied("lap", "[turn 6]", "All done.")
}

// ended waits until a turn of lap ended without an answer, and wants its cause in the bridge's words.
func (p *product) ended(mark string, cause agents.Cause) {
	p.Helper()
	p.until(mark+" ended", func() bool {
		s := p.turn("lap", mark).State
		return s == "failed" || s == "uncertain" || s == "replied"
	})
	words := map[agents.Cause]string{agents.Crashed: "the agent crashed", agents.Stopped: "cancelled", agents.SessionGone: "session"}[cause]
	if got := p.turn("lap", mark); got.State == "replied" || !strings.Contains(got.Trouble, words) {
		p.Errorf("%s: %+v, want %s", mark, got, cause)
	}
}

// goneOrOn waits for the end of a turn whose session the agent has lost, or has not. Then it answers that turn alone.
func (p *product) goneOrOn(mark string) {
	p.Helper()
	p.until(mark+" ended", func() bool {
		s := p.turn("lap", mark).State
		return s == "failed" || s == "replied"
	})
	t := p.turn("lap", mark)
	if t.State == "replied" && t.Reply != "All done." || t.State == "failed" && !strings.Contains(t.Trouble, "session") {
		p.Errorf("%s: %+v", mark, t)
	}
}

// doorWay is how the agent's MCP server was started.
type doorWay struct{ socket, word string }

// door finds the process of `drawbridge-relay mcp` below the agent.
func (p *product) door() *doorWay {
	for _, pid := range p.living() {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		words := strings.Split(string(cmdline), "\x00")
		if len(words) < 4 || filepath.Base(words[0]) != "drawbridge-relay" || words[1] != "mcp" {
			continue
		}
		for _, pair := range p.environ(pid) {
			if word, found := strings.CutPrefix(pair, "DRAWBRIDGE_DOOR="); found {
				return &doorWay{words[3], word}
			}
		}
	}
	return nil
}

func (p *product) environ(pid int) []string {
	env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return strings.Split(string(env), "\x00")
}

// holdsNothing wants that no process of the agent and no file that it can read has a token, and that its word opens nothing for anybody else.
func (p *product) holdsNothing(door *doorWay) {
	p.Helper()
	secrets := map[string]string{"the operator's token": p.w.operator, "the agent's token": strings.TrimSpace(p.w.cli("token", "lap"))}
	for _, name := range []string{"bridge.key", "relay.identity"} {
		text, err := os.ReadFile(filepath.Join(p.dir, name))
		p.must(err)
		secrets["what is in "+name] = strings.TrimSpace(string(text))
	}
	p.wantsNone(secrets, func(check func(where, text string)) {
		for _, pid := range p.living() {
			for _, pair := range p.environ(pid) {
				check(fmt.Sprintf("the environment of process %d", pid), pair)
				if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "DRAWBRIDGE_") && name != "DRAWBRIDGE_DOOR" {
					p.Errorf("process %d has %s", pid, pair)
				}
			}
		}
		for _, root := range []string{p.home(), filepath.Join(p.Config.State, "workspaces")} {
			p.must(filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
				if err == nil && entry.Type().IsRegular() {
					text, _ := os.ReadFile(path) // the agent removes files meanwhile
					check(path, string(text))
				}
				return nil
			}))
		}
	})
	// The word is not a token at the door, and the socket takes nobody else who has it.
	r, err := http.NewRequestWithContext(p.Context(), http.MethodPost, p.w.url+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	p.must(err)
	r.Header.Set("Authorization", "Bearer "+door.word)
	resp, err := http.DefaultClient.Do(r)
	p.must(err)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		p.Errorf("the word as a token: %s", resp.Status)
	}
	cmd := exec.CommandContext(p.Context(), p.relay.program, "mcp", "--socket", door.socket)
	cmd.Env = []string{"DRAWBRIDGE_DOOR=" + door.word}
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "did not let this program in") {
		p.Errorf("another program at the agent's socket: %v: %s", err, out)
	}
}

// wantsNone reports each secret that stands in one of the places.
func (p *product) wantsNone(secrets map[string]string, places func(check func(where, text string))) {
	p.Helper()
	looked := 0
	places(func(where, text string) {
		looked++
		for what, secret := range secrets {
			if secret == "" || strings.Contains(text, secret) {
				p.Errorf("%s has %s", where, what)
			}
		}
	})
	if looked < 20 {
		p.Errorf("only %d places were looked at", looked)
	}
}

// counts wants that no prompt was put to the model twice.
func (p *product) counts() {
	p.Helper()
	marks := []string{"[turn 1]", "[turn 2]", "[turn 4]", "[turn 5]", "[turn 6]", "[turn 9]"}
	if p.asks {
		marks = append(marks, "[turn 3]")
	}
	for _, mark := range marks {
		want := 1
		if mark == "[turn 9]" { // turn 4 names it
			want = 2
		}
		n := p.model.times(mark)
		if mark == "[turn 5]" && n == 2 { // the agent was killed before its session had the turn, or puts the turn to the model with what continues it
			n = 1
		}
		if n != want {
			p.Errorf("%s was put to the model %d times, want %d", mark, n, want)
		}
	}
	if len(p.model.faults) > 0 {
		p.Errorf("the model says %q", p.model.faults)
	}
}
