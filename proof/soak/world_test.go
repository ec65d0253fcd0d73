//go:build deep

package soak_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"drawbridge/api"
	"drawbridge/internal/freeport"
	"drawbridge/proof/pg"
)

const (
	operatorToken = "operator-token-0123456789abcdef0123456789abcdef"
	bridgeKey     = "bridge-key-0123456789abcdef0123456789abcdef0123"
	relayToken    = "relay-token-0123456789abcdef0123456789abcdef012"
	cursorKey     = "cursor_sim_key"
)

// freePort holds a port until the test ends; its five digits are those of every other, so that a proxy may exchange them in a header.
func freePort(t testing.TB) string {
	t.Helper()
	port, release, err := freeport.Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = release() })
	return port
}

// setting is what differs between worlds.
type setting struct {
	// database is a PostgreSQL address, "" for SQLite.
	database string
	// lease is that of every bridge; 0 is the real one.
	lease time.Duration
	// cloud is more of the simulated cloud's script, such as faults.
	cloud string
	// proxied puts a proxy that can cut connections before cloud, relay and database.
	proxied  bool
	replicas int
	// team makes a world of a bridge alone, in whose own runtime a team works; see TestTeam.
	team bool
	// strayed makes the cloud report another repository for the library than was asked for.
	strayed bool
	// joined makes the relay dial the bridge that it has joined; otherwise the bridge calls the relay at an address.
	joined bool
	// certain says that no death of the plan meets an action under way: each action runs, and nobody has to settle one.
	certain bool
	// timeout is of the cloud's API; the bridge waits twice as long for what may still appear.
	timeout time.Duration
}

// world is a cloud, a relay and bridges on loopback, with a folder of their own.
type world struct {
	t            testing.TB
	set          setting
	dir          string
	cloud, relay *program
	bridges      []*program
	clients      []*api.Client
	cloudURL     string
	proxies      map[string]*proxy
	// reminder is the time that the orchestrator asks to be reminded at.
	reminder time.Time
}

const bridgeYAML = `listen: 127.0.0.1:%s
public_url: http://127.0.0.1:%s
token: ${file:bridge.token}
key: ${file:bridge.key}
cursor: { key: "${file:cursor.key}", url: "http://127.0.0.1:%s", timeout: %s }
poll: { min: 100ms, max: 400ms }
orchestrators: [{ name: main, repo: github.com/me/agent-env }]
parser: { remind: true }
relays:
  laptop: { url: "http://127.0.0.1:%s", token: "${file:relay.token}" }
`

// relayYAML: each action leaves a line in a file of its own, so that its runs can be counted on the disk.
const relayYAML = `listen: 127.0.0.1:%s
token: ${file:relay.token}
limits: { per_minute: 600 }
actions:
  backup_script: { argv: [/bin/sh, act.sh, backup_script], dir: %[2]q }
  stamp_release: { argv: [/bin/sh, act.sh, stamp_release], dir: %[2]q }
  tidy_up: { argv: [/bin/sh, act.sh, tidy_up], dir: %[2]q }
`

const actScript = "echo ran >> \"ran.$1\"\necho \"$1 says hello\"\n"

func newWorld(t testing.TB, set setting) *world {
	t.Helper()
	set.replicas, set.timeout = max(set.replicas, 1), max(set.timeout, 1200*time.Millisecond)
	w := &world{t: t, set: set, dir: t.TempDir(), proxies: map[string]*proxy{}}
	cloud, relay := freePort(t), freePort(t)
	w.cloudURL = "http://127.0.0.1:" + cloud
	files := map[string]string{
		"relay.yaml": fmt.Sprintf(relayYAML, relay, w.dir), "act.sh": actScript, "allowlist.yaml": storyAllowlist, "bridge.token": operatorToken,
		"bridge.key": bridgeKey, "relay.token": relayToken, "cursor.key": cursorKey, "database.url": set.database,
	}
	if set.joined {
		_, actions, _ := strings.Cut(files["relay.yaml"], "token: ${file:relay.token}\n")
		files["relay.yaml"] = "listen: none\n" + actions
		files["allowlist.yaml"] = strings.ReplaceAll(storyAllowlist, ": {}", ": { relay: laptop }")
	}
	cloudFor, relayFor := cloud, relay
	if set.proxied {
		cloudFor, relayFor = w.proxy("cloud", cloud), w.proxy("relay", relay)
		files["database.url"] = w.proxyDatabase(set.database)
	}
	for i := range set.replicas {
		port := freePort(t)
		text := fmt.Sprintf(bridgeYAML, port, port, cloudFor, set.timeout, relayFor)
		if set.team {
			text = strings.Replace(text, storyOrchestrators, teamOrchestrators, 1)
		}
		if set.joined {
			text, _, _ = strings.Cut(text, "relays:\n")
		}
		if set.database != "" {
			text += "database: ${file:database.url}\n"
		}
		name := fmt.Sprintf("bridge%d", i)
		files[name+".yaml"] = text
		w.bridges = append(w.bridges, &program{w: w, name: name, args: []string{"drawbridge", "serve", "--config", name + ".yaml"}})
		client, err := api.NewClient(api.ClientOptions{URL: "http://127.0.0.1:" + port, Token: operatorToken, Timeout: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		w.clients = append(w.clients, client)
	}
	for name, text := range files {
		w.write(name, text)
	}
	w.cloud = &program{w: w, name: "cloud", args: []string{"drawbridge", "cloudsim", "--listen", "127.0.0.1:" + cloud, "--script", "cloud.yaml"}}
	w.relay = &program{w: w, name: "relay", args: []string{"drawbridge-relay", "run", "--config", "relay.yaml"}}
	t.Cleanup(w.end)
	return w
}

func (w *world) write(name, text string) {
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// raise starts the cloud, the relay and the bridges and waits until each is ready or dead.
func (w *world) raise() {
	w.t.Helper()
	w.reminder = time.Now().Add(2500 * time.Millisecond).UTC()
	more := w.set.cloud
	if w.set.strayed {
		more = "faults: [{ fault: wrong_repo, repo: github.com/me/lib }]\n"
	}
	w.write("cloud.yaml", fmt.Sprintf(storyCloud, w.reminder.Format(time.RFC3339Nano))+more)
	if w.set.joined {
		w.join()
	}
	for _, p := range w.programs() {
		p.start()
	}
	for _, p := range w.programs() {
		p.ready()
	}
}

// join enrolls the relay at the bridge, in a life of the bridge that no plan counts.
func (w *world) join() {
	w.t.Helper()
	b := &program{w: w, name: w.bridges[0].name, args: w.bridges[0].args}
	b.start()
	b.ready()
	defer b.stop()
	token, err := w.clients[0].RelayToken(w.t.Context(), "laptop", 0)
	if err != nil {
		w.t.Fatal(err)
	}
	at := strings.Replace(token.URL, "http://", "drawbridge+http://", 1)
	cmd := exec.CommandContext(w.t.Context(), filepath.Join(programs, "drawbridge-relay"), "join", at+"/"+token.Token, "--config", "relay.yaml")
	cmd.Dir = w.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("join the bridge: %v\n%s", err, out)
	}
}

func (w *world) programs() []*program { return append([]*program{w.cloud, w.relay}, w.bridges...) }

// end kills what still runs, and shows the logs of a failed test.
func (w *world) end() {
	for _, p := range w.programs() {
		p.kill()
		if text, err := os.ReadFile(p.log()); err == nil {
			if found := broken.Find(text); found != nil {
				w.t.Errorf("%s: %q", p.name, found)
			}
			if w.t.Failed() {
				w.t.Logf("%s.log:\n%s", p.name, reads.ReplaceAll(text, nil))
			}
		}
	}
	for _, p := range w.proxies {
		p.close()
	}
}

// reads are the log lines of the test's own looks.
var reads = regexp.MustCompile(`(?m)^.*"method":"GET".*\n`)

var broken = regexp.MustCompile(`(?m)WARNING: DATA RACE|^panic: |^fatal error: |handler panicked`)

// program is one process of a world, over all its lives.
type program struct {
	w    *world
	name string
	args []string
	// deaths holds, for each life, the fail point that ends it; "" and what comes after the last is none.
	deaths []string
	// notes is the file that fail points are noted in, "" for none.
	notes string
	lives int
	// killed counts the lives that ended by SIGKILL.
	killed int
	cmd    *exec.Cmd
	end    *programEnd
}

func (p *program) log() string { return filepath.Join(p.w.dir, p.name+".log") }

func (p *program) start() {
	p.w.t.Helper()
	log, err := os.OpenFile(p.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		p.w.t.Fatal(err)
	}
	defer log.Close()
	fmt.Fprintf(log, "--- life %d\n", p.lives)
	p.cmd = exec.Command(filepath.Join(programs, p.args[0]), p.args[1:]...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = p.w.dir, log, log
	p.cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + p.w.dir, "TMPDIR=" + p.w.dir}
	if p.lives < len(p.deaths) {
		p.cmd.Env = append(p.cmd.Env, "DRAWBRIDGE_FAILPOINT="+p.deaths[p.lives])
	}
	if p.notes != "" {
		p.cmd.Env = append(p.cmd.Env, "DRAWBRIDGE_FAILPOINT_LOG="+p.notes)
	}
	if p.w.set.lease > 0 {
		p.cmd.Env = append(p.cmd.Env, "DRAWBRIDGE_FAILPOINT_LEASE="+p.w.set.lease.String())
	}
	p.cmd.SysProcAttr = pg.EndsWithUs()
	p.lives++
	if err := p.cmd.Start(); err != nil {
		p.w.t.Fatal(err)
	}
	cmd, end := p.cmd, &programEnd{over: make(chan struct{})}
	go func() {
		end.err = cmd.Wait()
		close(end.over)
	}()
	p.end = end
}

// programEnd is how a life of a program ended. err may be read after over is closed.
type programEnd struct {
	over chan struct{}
	err  error
}

// wait waits for the end of this life, and returns how it ended. It fails the test when the program outlives the bound.
func (p *program) wait() error {
	p.w.t.Helper()
	select {
	case <-p.end.over:
		return p.end.err
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		p.w.t.Fatalf("%s does not end within %s\n%s", p.name, patience, p.life())
		return nil
	}
}

// ready waits until the program has said so in this life, or has died.
func (p *program) ready() {
	p.w.t.Helper()
	if p.cmd == nil {
		return
	}
	until(p.w.t, patience, func() (bool, string) {
		life := p.life()
		return p.dead() || strings.Contains(life, `"message":"ready"`) || strings.Contains(life, "cloudsim ready"), p.name + ": " + life
	})
}

// dead reports whether this life is over.
func (p *program) dead() bool {
	select {
	case <-p.end.over:
		return true
	default:
		return false
	}
}

// kill ends this life by SIGKILL, if it is not over.
func (p *program) kill() {
	if p.cmd == nil || p.cmd.Process == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may be over
	_ = p.wait()
	p.cmd = nil
}

// stop ends this life in order. It first waits until the program is ready: one that has just begun dies of the signal.
func (p *program) stop() {
	p.w.t.Helper()
	if p.cmd == nil {
		return
	}
	p.ready()
	p.signal(syscall.SIGTERM)
	if err := p.wait(); err != nil {
		p.w.t.Fatalf("%s: %v\n%s", p.name, err, p.life())
	}
	p.cmd = nil
}

// crash is kill by the test's own hand; the supervisor starts the program again.
func (p *program) crash() {
	if p.cmd != nil && p.cmd.Process != nil {
		_ = p.cmd.Process.Kill()
	}
}

func (p *program) signal(s syscall.Signal) {
	if p.cmd != nil && p.cmd.Process != nil {
		_ = p.cmd.Process.Signal(s)
	}
}

// refusesToStart is what a bridge says that cannot start because its database is cut off, at once or in the middle of its start.
var refusesToStart = regexp.MustCompile(`\ndrawbridge: the database (at|server) `)

// supervise starts again what was killed, and fails the test when something ended by itself.
func (w *world) supervise() {
	w.t.Helper()
	for _, p := range w.programs() {
		if p.cmd == nil || !p.dead() {
			continue
		}
		err := p.end.err
		p.cmd = nil
		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
			p.killed++
			totals.add("kills of the "+strings.TrimRight(p.name, "0123456789"), 1)
		case w.set.proxied && refusesToStart.MatchString(p.life()) && !strings.Contains(p.life(), `"message":"ready"`) && exit.ExitCode() == 1:
			totals.add("clear refusals to start while the database was cut off", 1)
		default:
			w.t.Fatalf("%s ended by itself: %v\n%s", p.name, err, p.life())
		}
		p.start()
	}
}

// life is what the program has said in its latest life.
func (p *program) life() string {
	text, err := os.ReadFile(p.log())
	if err != nil {
		p.w.t.Fatal(err)
	}
	return string(text[max(bytes.LastIndex(text, []byte("--- life ")), 0):])
}

// effect is an entry of the simulated cloud's own log.
type effect struct {
	Kind, API, AgentID, RunID, Repo, Prompt string
}

// effects asks the cloud, past every proxy, what really happened.
func (w *world) effects() (log []effect) {
	w.t.Helper()
	req, err := http.NewRequest(http.MethodGet, w.cloudURL+"/_sim/log", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+cursorKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(body, &log)
	}
	if err != nil {
		w.t.Fatalf("read the cloud's log: %v\n%s", err, body)
	}
	return log
}

// runs counts how often an action really ran.
func (w *world) runs(action string) int {
	text, err := os.ReadFile(filepath.Join(w.dir, "ran."+action))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}
