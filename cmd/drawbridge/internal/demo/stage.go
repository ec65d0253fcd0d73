package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/internal/lifecycle"
)

// process is one child of the demo, with the end of what it logs.
type process struct {
	name string
	cmd  *exec.Cmd
	log  *tail
	done chan error
	// alive is open as long as the demo lives.
	alive *os.File
}

// tail keeps the last bytes that were written to it.
type tail struct {
	mu   sync.Mutex // guards data
	data []byte
}

const maxTail = 16 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if over := len(t.data) - maxTail; over > 0 {
		t.data = append([]byte(nil), t.data[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.data)
}

// start writes the files, runs the three programs and waits until each answers.
func (s *stage) start(ctx context.Context) error {
	for _, port := range []*string{&s.doorPort, &s.operatorPort, &s.cloudPort} {
		var err error
		if *port, err = s.hold(); err != nil {
			return err
		}
	}
	if err := s.writeFiles(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	for _, child := range []child{
		{"cloud", s.cloudURL() + "/v1/me", []string{"cloudsim", "--listen", "127.0.0.1:" + s.cloudPort, "--script", filepath.Join(s.dir, "cloud.yaml")}},
		s.bridgeChild(),
	} {
		if err := s.startOne(ctx, self, child); err != nil {
			return err
		}
	}
	return s.startRelay(ctx, self)
}

// startRelay enrolls the relay as a user does, with a token that works once, and waits until it has dialed in.
func (s *stage) startRelay(ctx context.Context, self string) error {
	client, err := api.NewClient(api.ClientOptions{URL: s.operatorURL(), Token: s.token})
	if err != nil {
		return err
	}
	defer client.Close()
	token, err := client.RelayToken(ctx, relayName, 0)
	if err != nil {
		return fmt.Errorf("invite the relay: %w", err)
	}
	config := filepath.Join(s.dir, "relay.yaml")
	join := exec.CommandContext(ctx, self, "relay-join", "--config", config, "drawbridge+"+s.doorURL()+"/"+token.Token)
	join.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir}
	if out, err := join.CombinedOutput(); err != nil {
		return fmt.Errorf("let the relay join: %w: %s", err, out)
	}
	p, err := s.spawn("relay", self, []string{"relay-run", "--config", config})
	if err != nil {
		return err
	}
	return p.until(ctx, "the bridge", func(ctx context.Context) bool {
		r, err := client.Relay(ctx, relayName)
		return err == nil && r.Connected != nil
	})
}

// child is a program of the stage and where it answers.
type child struct {
	name, url string
	args      []string
}

func (s *stage) bridgeChild() child {
	return child{"bridge", s.operatorURL() + "/health", []string{"serve", "--config", filepath.Join(s.dir, "bridge.yaml")}}
}

func (s *stage) startOne(ctx context.Context, self string, c child) error {
	p, err := s.spawn(c.name, self, c.args)
	if err != nil {
		return err
	}
	return p.ready(ctx, c.url)
}

// bridge returns the bridge's process, which runs for as long as the story does.
func (s *stage) bridge() *process {
	return s.running[slices.IndexFunc(s.running, func(p *process) bool { return p.name == "bridge" })]
}

// killBridge kills the bridge as a loss of power would, and starts it again.
func (s *stage) killBridge(ctx context.Context) error {
	p := s.bridge()
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill the bridge: %w", err)
	}
	<-p.done
	s.running = slices.DeleteFunc(s.running, func(other *process) bool { return other == p })
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	return errors.Join(p.alive.Close(), s.startOne(ctx, self, s.bridgeChild()))
}

func (s *stage) spawn(name, self string, args []string) (*process, error) {
	p := &process{name: name, cmd: exec.Command(self, args...), log: &tail{}, done: make(chan error, 1)}
	p.cmd.Dir, p.cmd.Env = s.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	// A child of its own group: an interrupt at the terminal reaches the demo
	// alone, which then stops its children in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// The child ends when the other end of this pipe closes, however the demo ends.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p.alive, p.cmd.ExtraFiles = w, []*os.File{r}
	p.cmd.Env = append(p.cmd.Env, lifecycle.ParentPipe+"=3")
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the %s: %w", name, err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	s.running = append(s.running, p)
	return p, nil
}

// ready waits until something answers at url, or the process ended.
func (p *process) ready(ctx context.Context, url string) error {
	return p.until(ctx, url, func(ctx context.Context) bool { return answers(ctx, url) })
}

// until waits until yes says so, or the process ended.
func (p *process) until(ctx context.Context, where string, yes func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if yes(ctx) {
			return nil
		}
		select {
		case err := <-p.done:
			p.done <- err
			return fmt.Errorf("the %s ended at its start (%v):\n%s", p.name, err, p.log)
		case <-ctx.Done():
			return fmt.Errorf("the %s does not answer at %s:\n%s", p.name, where, p.log)
		case <-tick.C:
		}
	}
}

// answers reports whether anything at all is said at url, if only that a key is missing.
func answers(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	req.Close = true // no connection is left that the child would wait for at its end
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil
}

// stop ends the processes in reverse, gently first.
func (s *stage) stop() error {
	var errs []error
	for i := len(s.running) - 1; i >= 0; i-- {
		p := s.running[i]
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		select {
		case err := <-p.done:
			if err != nil {
				errs = append(errs, fmt.Errorf("the %s ended with %w:\n%s", p.name, err, p.log))
			}
		case <-time.After(15 * time.Second):
			errs = append(errs, fmt.Errorf("the %s did not stop and was killed:\n%s", p.name, p.log), p.cmd.Process.Kill())
		}
		errs = append(errs, p.alive.Close())
	}
	for _, release := range s.held {
		errs = append(errs, release())
	}
	s.running, s.held = nil, nil
	return errors.Join(errs...)
}

// follow shows every event until the story is over. It is the person who approves, unless a real one is to do it.
func (s *stage) follow(ctx context.Context, client *api.Client, show *timeline) error {
	over := errors.New("over")
	err := client.Follow(ctx, 0, func(e api.Event) error {
		if err := show.show(e); err != nil {
			return err
		}
		if s.killNow(e) {
			if err := show.note("the bridge is killed (SIGKILL) and started again"); err != nil {
				return err
			}
			if err := s.killBridge(ctx); err != nil {
				return err
			}
		}
		if e.Kind == bridge.EventHeld && e.Fields["action"] == hold && !s.keeps {
			if err := approve(ctx, client, e.Command); err != nil {
				return fmt.Errorf("approve %s: %w", hold, err)
			}
		}
		done, err := s.over(ctx, client, e)
		if err == nil && done {
			return over
		}
		return err
	})
	if errors.Is(err, over) {
		return nil
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("the story did not end within %s; the bridge says:\n%s", limit, s.bridge().log)
	}
	return err
}

// approve says yes to a held command as the bridge shows it now.
func approve(ctx context.Context, client *api.Client, id string) error {
	m, err := client.Command(ctx, id)
	if err != nil {
		return err
	}
	hash := ""
	if m.Held != nil {
		hash = m.Held.Hash
	}
	_, err = client.Approve(ctx, id, hash)
	return err
}

// killNow picks the moment of the loss: both subagents are at work. A moment
// earlier the v0 launch may be on its way, and one that is cut off there ends as
// uncertain by design: another story, which a person has to end.
func (s *stage) killNow(e api.Event) bool {
	if s.fault != FaultKill || e.Kind != bridge.EventLaunched || e.Fields["repo"] == "github.com/me/agent-env" {
		return false
	}
	s.launched++
	return s.launched == 2
}

// over reports whether the orchestrator has nothing more to do.
func (s *stage) over(ctx context.Context, client *api.Client, e api.Event) (bool, error) {
	if e.Kind != bridge.EventDelivered && e.Kind != bridge.EventReply {
		return false, nil
	}
	main, err := client.Agent(ctx, "main")
	if err != nil || (main.State != string(bridge.AgentIdle) && !(s.keeps && main.State == string(bridge.AgentWaiting))) {
		return false, err
	}
	list, err := client.Commands(ctx, api.ListOptions{Agent: main.ID})
	if err != nil {
		return false, err
	}
	for _, m := range list.Commands {
		if m.State != string(bridge.CommandReported) && !(s.keeps && m.State == string(bridge.CommandHeld)) {
			return false, nil
		}
	}
	return len(list.Commands) > 0, nil
}

// effect is one line of the simulated cloud's own record.
type effect struct {
	Kind  string `json:"kind"`
	API   string `json:"api"`
	Repo  string `json:"repo"`
	Agent string `json:"agentId"`
}

// verify compares what happened with what should have, as the cloud, the disk and the ledger have it.
func (s *stage) verify(ctx context.Context, client *api.Client) (problems []string, err error) {
	launches, err := s.cloudLaunches(ctx)
	if err != nil {
		return nil, err
	}
	want := map[string]int{"v1 github.com/me/agent-env": 1, "v1 github.com/me/my-app": 1, "v0 github.com/acme/docs": 1}
	for key, n := range want {
		if launches[key] != n {
			problems = append(problems, fmt.Sprintf("%s was launched %d times, not %d", key, launches[key], n))
		}
	}
	for key := range launches {
		if want[key] == 0 {
			problems = append(problems, key+" was launched and should not have been")
		}
	}
	if info, err := os.Stat(filepath.Join(s.dir, "backup.tgz")); err != nil || info.Size() == 0 {
		problems = append(problems, "backup.tgz is missing or empty")
	}
	more, err := s.verifyEvents(ctx, client)
	return append(problems, more...), err
}

func (s *stage) verifyEvents(ctx context.Context, client *api.Client) (problems []string, err error) {
	list, err := client.Events(ctx, 0, 1000)
	if err != nil {
		return nil, err
	}
	got := map[string]int{}
	for _, e := range list.Events {
		got[e.Kind]++
		if e.Kind == bridge.EventCompleted {
			got["completed by "+e.Fields["source"]]++
		}
	}
	want := map[string]int{bridge.EventLaunched: 3, bridge.EventExecuted: 3, bridge.EventRefused: 2, bridge.EventHeld: 1, bridge.EventApproved: 1,
		bridge.EventNearMiss: 1, bridge.EventWebhook: 1, "completed by webhook": 1}
	switch s.fault {
	case FaultNoWebhooks:
		want[bridge.EventWebhook], want["completed by webhook"] = 0, 0
	case FaultKill: // who tells first depends on when the bridge was away
		delete(want, bridge.EventWebhook)
		delete(want, "completed by webhook")
	}
	if s.keeps {
		want[bridge.EventExecuted], want[bridge.EventApproved] = 2, 0
	}
	for kind, n := range want {
		if got[kind] != n {
			problems = append(problems, fmt.Sprintf("%q happened %d times, not %d", kind, got[kind], n))
		}
	}
	return problems, nil
}

// cloudLaunches counts the agents that the cloud really made, by API version and repository.
func (s *stage) cloudLaunches(ctx context.Context) (map[string]int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.cloudURL()+"/_sim/log", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer cursor_sim_key")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the cloud what was done: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return nil, err
	}
	var log []effect
	if err := json.Unmarshal(body, &log); err != nil {
		return nil, fmt.Errorf("read the cloud's record: %w", err)
	}
	count := map[string]int{}
	for _, e := range log {
		if e.Kind == "agent_created" {
			count[e.API+" "+e.Repo]++
		}
	}
	return count, nil
}
