//go:build deep

package soak_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"drawbridge/api"
	"drawbridge/proof/acpagent"
	"drawbridge/proof/pg"
)

const hostedBridge = `listen: 127.0.0.1:%[1]s
public_url: http://127.0.0.1:%[1]s
token: ${file:bridge.token}
key: ${file:bridge.key}
poll: { min: 100ms, max: 400ms }
runtimes: { laptop-acp: { kind: relay, relay: laptop, agent: acp } }
orchestrators: [{ name: main, repo: local/env, runtime: laptop-acp }]
`

const hostedRelay = `listen: none
state: %[1]s/state
agents:
  acp: { kind: acp, argv: [%[2]s], i_know: true, slots: 3, permissions: { execute: ask }, approve_by: bridge }
repos:
  local/env: { clone: %[1]s/env, agents: [acp] }
`

const hostedAllowlist = `repos: [{ repo: local/env, runtime: laptop-acp }]
limits: { launches_per_hour: 100000, open_subagents: 1000, tree: { launches: 100000, open: 1000, turns: 100000 } }
`

// hostedPatience bounds one kill.
const hostedPatience = 2 * time.Minute

// Whom a loop kills, and when.
const (
	theAgent, theRelay, theBridge = "agent", "relay", "bridge"
	inATurn, afterIt, asking      = "in a turn", "after its end", "while asking"
)

// TestHostedKills kills a hosted agent, its relay or the bridge in the middle of a turn, up to 50 ms after its end, and while a person
// is asked; the bridge on both databases. Each kill has words of its own. The agent's own log says what it was told, and counts.
func TestHostedKills(t *testing.T) {
	t.Parallel()
	for _, victim := range []string{theAgent, theRelay, theBridge} {
		for _, moment := range []string{inATurn, afterIt, asking} {
			kills := 3 // the tests of relay/agents kill agent and relay 20 times each
			if victim == theBridge {
				kills = 10
			}
			if *rounds > 0 {
				kills = *rounds
			}
			t.Run(victim+"/"+moment, func(t *testing.T) {
				t.Parallel()
				playHosted(t, "", victim, moment, kills)
			})
			if victim == theBridge {
				t.Run(victim+"/"+moment+"/postgres", func(t *testing.T) {
					t.Parallel()
					playHosted(t, pg.Database(t), victim, moment, kills)
				})
			}
		}
	}
}

func playHosted(t *testing.T, database, victim, moment string, kills int) {
	h := newHosted(t, database)
	random := rand.New(rand.NewPCG(uint64(*seed), uint64(kills)))
	for i := range kills {
		k := &kill{hosted: h, victim: victim, moment: moment, word: fmt.Sprintf("word-%d-", i), delegates: i%10 == 3}
		k.play(random)
		if t.Failed() {
			t.Fatalf("kill %d of %d", i, kills)
		}
		totals.add(fmt.Sprintf("kills of the %s of a hosted turn, %s", victim, moment), 1)
	}
	h.relay.stop()
	h.bridges[0].stop()
	until(t, patience, func() (bool, string) { left := h.left(); return left == "", "left of the agents: " + left })
}

// hosted is a bridge and a relay that hosts the scripted agent.
type hosted struct {
	*world
	// lines are those of the agent's log, and read how much of it they are.
	lines []acpagent.Line
	read  int64
	// judged counts the lines in which faults were looked for.
	judged int
}

// newHosted makes them on a PostgreSQL database, or on SQLite when it is "".
func newHosted(t *testing.T, database string) *hosted {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), set: setting{database: database}}
	bridge, port := hostedBridge, freePort(t)
	if database != "" {
		w.set.lease = 2 * time.Second // until it ends, the next bridge does not take what a killed one held
		bridge += "database: ${file:database.url}\n"
	}
	for name, text := range map[string]string{
		"bridge.yaml": fmt.Sprintf(bridge, port), "database.url": database, "relay.yaml": fmt.Sprintf(hostedRelay, w.dir, filepath.Join(programs, "program")),
		"allowlist.yaml": hostedAllowlist, "bridge.token": operatorToken, "bridge.key": bridgeKey,
	} {
		w.write(name, text)
	}
	if err := os.Mkdir(filepath.Join(w.dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main", "env"}, {"-C", "env", "commit", "-q", "--allow-empty", "-m", "first"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = w.dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=P", "GIT_AUTHOR_EMAIL=p@e.org", "GIT_COMMITTER_NAME=P", "GIT_COMMITTER_EMAIL=p@e.org"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	w.cloud = &program{w: w, name: "cloud"} // never started
	w.relay = &program{w: w, name: "relay", args: []string{"drawbridge-relay", "run", "--config", "relay.yaml"}}
	w.bridges = []*program{{w: w, name: "bridge0", args: []string{"drawbridge", "serve", "--config", "bridge.yaml"}}}
	client, err := api.NewClient(api.ClientOptions{URL: "http://127.0.0.1:" + port, Token: operatorToken, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	w.clients = []*api.Client{client}
	t.Cleanup(w.end)
	w.join()
	for _, p := range []*program{w.bridges[0], w.relay} {
		p.start()
		p.ready()
	}
	h := &hosted{world: w}
	h.must("launch main", func(ctx context.Context) error {
		_, err := client.Launch(ctx, api.LaunchRequest{Name: "main", Repo: "local/env", Prompt: "Begin."})
		return err
	})
	h.rest()
	return h
}

// must calls the bridge until it says yes. What it calls is safe to be called again.
func (h *hosted) must(what string, call func(context.Context) error) {
	h.t.Helper()
	until(h.t, hostedPatience, func() (bool, string) {
		h.supervise()
		ctx, cancel := context.WithTimeout(h.t.Context(), 5*time.Second)
		defer cancel()
		err := call(ctx)
		return err == nil, fmt.Sprintf("%s: %v", what, err)
	})
}

// rest does what a person would, until main rests and nothing is open: it approves each question and says a failed turn again.
func (h *hosted) rest() {
	h.t.Helper()
	c := h.clients[0]
	until(h.t, hostedPatience, func() (bool, string) {
		h.supervise()
		ctx, cancel := context.WithTimeout(h.t.Context(), 5*time.Second)
		defer cancel()
		now, err := look(ctx, c)
		if err != nil {
			return false, err.Error()
		}
		for _, a := range now.agents {
			if last := now.turns[a.ID][len(now.turns[a.ID])-1]; a.Name == "main" && last.State == "failed" {
				_, err := c.Continue(ctx, last.ID)
				return false, fmt.Sprintf("replay %s: %v\n%s", last.ID, err, now)
			}
		}
		for _, m := range now.commands {
			if m.State == "held" {
				whole, err := c.Command(ctx, m.ID)
				if err == nil && whole.Held != nil {
					_, err = c.Approve(ctx, m.ID, whole.Held.Hash)
				}
				return false, fmt.Sprintf("approve %s: %v\n%s", m.ID, err, now)
			}
			if m.State == "uncertain" { // the relay was killed on the way, and its state may be a copy for all the bridge knows
				if h.count(acpagent.Prompted, "\n"+m.Prompt) > 0 {
					h.t.Fatalf("the bridge is uncertain about what the relay knows:\n%s", now)
				}
				_, err := c.Resolve(ctx, m.ID, api.ResolveRequest{NotLaunched: true})
				totals.add("launches at a relay that a person had to settle", 1)
				return false, fmt.Sprintf("resolve %s: %v", m.ID, err)
			}
			if m.State != "reported" && (m.Verb != "PERMISSION" || m.State != "finished") {
				return false, now.String()
			}
		}
		for _, a := range now.agents {
			if a.State != "idle" && a.State != "done" && (a.Name == "main" || a.State != "failed") {
				return false, now.String()
			}
		}
		return len(now.agents) > 0, now.String()
	})
}

// log returns what the agent has written down.
func (h *hosted) log() []acpagent.Line {
	f, err := os.Open(filepath.Join(h.dir, "state", "agents", "acp", "home", acpagent.LogName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close()
	more, err := io.ReadAll(io.NewSectionReader(f, h.read, 1<<30))
	if err != nil {
		h.t.Fatal(err)
	}
	whole := bytes.LastIndexByte(more, '\n') + 1
	for line := range bytes.Lines(more[:whole]) {
		var l acpagent.Line
		if json.Unmarshal(line, &l) == nil { // a kill may have cut one
			h.lines = append(h.lines, l)
		}
	}
	h.read += int64(whole)
	return h.lines
}

// count counts the lines of the agent's log of one kind that hold a text.
func (h *hosted) count(event, text string) (n int) {
	for _, l := range h.log() {
		if l.Event == event && strings.Contains(l.Text, text) {
			n++
		}
	}
	return n
}

// left names the processes of the world's agents that live.
func (h *hosted) left() string {
	var found []string
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err == nil && bytes.Contains(text, []byte("HOME="+h.dir)) {
			found = append(found, path)
		}
	}
	return strings.Join(found, " ")
}

// kill is one kill, with a word that nothing else has.
type kill struct {
	*hosted
	victim, moment, word string
	// delegates says that the turn ends with a command to launch a subagent.
	delegates bool
}

func (k *kill) play(random *rand.Rand) {
	k.t.Helper()
	text, event, seen := "do: busy 200ms\ndo: say done "+k.word, acpagent.Prompted, k.word
	within := 200 * time.Millisecond
	switch k.moment {
	case afterIt:
		text, event, within = "do: say done "+k.word, acpagent.Answered, 50*time.Millisecond
		if k.delegates {
			text = "do: say SUB\ndo: say AGENT: repo=local/env, prompt=do: say sub " + k.word // a whole command would be an echo
		}
	case asking:
		text, within = "do: ask execute make "+k.word, 0
	}
	_, err := k.clients[0].Say(k.t.Context(), "main", text)
	if err != nil {
		k.t.Fatal(err)
	}
	until(k.t, hostedPatience, func() (bool, string) {
		if k.moment == asking {
			return k.asked() == "held", "no question yet"
		}
		return k.happened(event, seen), "the agent has not " + event + " yet"
	})
	if within > 0 {
		<-time.After(time.Duration(random.Int64N(int64(within))))
	}
	switch k.victim {
	case theAgent:
		log := k.log()
		at := slices.IndexFunc(log, func(l acpagent.Line) bool { return l.Event == acpagent.Prompted && strings.Contains(l.Text, k.word) })
		if err := syscall.Kill(log[at].PID, syscall.SIGKILL); err != nil {
			k.t.Errorf("kill the agent: %v", err)
		}
	case theRelay:
		k.killed(k.relay)
	case theBridge:
		k.killed(k.bridges[0])
	}
	k.rest()
	k.judge()
}

// happened reports whether the agent was told a word, or has answered with it and ended the turn.
func (k *kill) happened(event, word string) bool {
	log := k.log()
	at := slices.IndexFunc(log, func(l acpagent.Line) bool { return l.Event == event && strings.Contains(l.Text, word) })
	return at >= 0 && (event == acpagent.Prompted || slices.ContainsFunc(log[at:], func(l acpagent.Line) bool {
		return l.Event == acpagent.Ended && l.Session == log[at].Session
	}))
}

// killed kills a program and waits until it is dead.
func (k *kill) killed(p *program) {
	k.t.Helper()
	p.crash()
	until(k.t, hostedPatience, func() (bool, string) { return p.dead(), p.name + " lives" })
}

// asked returns the state of the question of this kill, "" when the bridge does not know it.
func (k *kill) asked() string {
	ctx, cancel := context.WithTimeout(k.t.Context(), 5*time.Second)
	defer cancel()
	list, err := k.clients[0].Commands(ctx, api.ListOptions{State: "held"})
	if err != nil {
		return ""
	}
	at := slices.IndexFunc(list.Commands, func(c api.Command) bool {
		return c.Verb == "PERMISSION" && strings.Contains(c.Canonical+c.Prompt, k.word)
	})
	if at < 0 {
		return ""
	}
	return list.Commands[at].State
}

// judge compares what the bridge shows with what the agent wrote down.
func (k *kill) judge() {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), time.Minute)
	defer cancel()
	now, err := look(ctx, k.clients[0])
	if err != nil {
		k.t.Fatal(err)
	}
	for _, l := range k.lines[k.judged:] {
		if l.Event == acpagent.Fault {
			k.t.Errorf("the agent says that the relay is wrong: %s", l.Text)
		}
	}
	k.judged = len(k.lines)
	answers, failed, answer := 0, 0, k.word
	if k.moment == asking && k.victim == theBridge { // the process that asks goes on, and gets the yes
		answer = "make " + k.word + ": allow_once"
	}
	for _, a := range now.agents {
		for _, turn := range now.turns[a.ID] {
			if turn.State == "replied" && strings.Count(turn.Reply, answer) == 1 {
				answers++
			}
			if a.Name == "main" && turn.State == "failed" && strings.Contains(turn.Text, k.word) {
				failed++
			}
		}
	}
	k.judgeSaid(now, answers, failed)
}

// judgeSaid knows what each kill may lead to.
func (k *kill) judgeSaid(now picture, answers, failed int) {
	k.t.Helper()
	wrong := func(format string, args ...any) {
		k.t.Helper()
		k.t.Errorf("%s, %s, %s: %s\n%s", k.victim, k.moment, k.word, fmt.Sprintf(format, args...), now)
	}
	order := "do: say done " + k.word
	if k.moment == asking {
		order = "do: ask execute make " + k.word
	}
	delegated := k.moment == afterIt && k.delegates
	if delegated {
		order = "do: say AGENT: repo=local/env, prompt=do: say sub " + k.word
	}
	told := map[string]int{}
	for _, l := range k.log() {
		if l.Event == acpagent.Prompted && strings.Contains(l.Text, order) {
			marker, _, _ := strings.Cut(l.Text[strings.LastIndex(l.Text[:strings.Index(l.Text, order)], "[bridge "):], "]")
			told[marker]++
		}
	}
	for marker, n := range told {
		if n > 1 {
			wrong("the agent was told the turn %s] %d times", marker, n)
		}
	}
	if len(told) != 1+failed {
		wrong("the agent was told it as %d turns, of which %d failed", len(told), failed)
	}
	if failed > 0 && (k.victim == theBridge || k.moment == afterIt) {
		wrong("a turn failed")
	}
	if (k.moment != asking || k.victim == theBridge) && !delegated && answers != 1 {
		wrong("the answer stands in %d turns", answers)
	}
	if delegated {
		launched := false
		for _, m := range now.commands {
			launched = launched || strings.Contains(m.Prompt, "sub "+k.word) && !strings.Contains(m.Reason, "a person says")
		}
		if n := k.count(acpagent.Prompted, "\ndo: say sub "+k.word); n != once(launched) {
			wrong("the subagent was told its task %d times; it was launched: %t", n, launched)
		}
	}
}
