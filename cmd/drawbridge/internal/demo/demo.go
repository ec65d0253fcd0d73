// Package demo tells the whole story of the bridge on one machine: a simulated
// cloud, a bridge and a relay run as processes of this very program, an
// orchestrator asks, some of it is allowed, and what came of it is compared with
// what should have. It is no test harness and knows nothing that a user could not
// know: it reads the bridge's API, the cloud's record and the disk. Rule of thumb:
// nothing is left behind, however the demo ends.
package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"drawbridge/api"
	"drawbridge/internal/freeport"
)

// Options say how the story is told.
type Options struct {
	// JSON prints what happens as JSON lines instead of words for a person.
	JSON bool
	// Keep stays up at the end until ctx ends, and prints addresses and the token.
	Keep bool
	// Fault is what goes wrong: "", FaultKill or FaultNoWebhooks. The story must end the same.
	Fault string
	// Out is where the story goes; Color paints it for a terminal.
	Out   io.Writer
	Color bool
}

// limit bounds the whole story, which takes some seconds on an idle machine.
const limit = 3 * time.Minute

// story is what can be told on a stage. Its functions are methods of the stage.
type story struct {
	// start writes the files and runs the processes.
	start   func(*stage, context.Context) error
	opening string
	launch  api.LaunchRequest
	// end shows what happens up to the end of the story, and checks it.
	end func(*stage, context.Context, *api.Client, *timeline) error
}

// Run tells the whole story and cleans up behind it. The error says what did not
// happen as expected; the folder and the processes are gone in any case.
func Run(ctx context.Context, o Options) error {
	return tell(ctx, o, story{(*stage).start, opening, api.LaunchRequest{Name: "main", Repo: "github.com/me/agent-env", Prompt: prompt}, (*stage).end})
}

func tell(ctx context.Context, o Options, t story) error {
	dir, err := os.MkdirTemp("", "drawbridge-demo-")
	if err != nil {
		return fmt.Errorf("make the demo's folder: %w", err)
	}
	defer os.RemoveAll(dir)
	s := &stage{dir: dir, fault: o.Fault, keeps: o.Keep, token: secret()}
	if err := t.start(s, ctx); err != nil {
		return errors.Join(err, s.stop())
	}
	show := &timeline{out: o.Out, json: o.JSON, color: o.Color, start: time.Now()}
	err = s.play(ctx, show, t)
	if err == nil && o.Keep {
		err = s.keep(ctx, show)
	}
	return errors.Join(err, s.stop())
}

// play launches the story's first agent, shows what happens and checks the end.
func (s *stage) play(ctx context.Context, show *timeline, t story) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	client, err := api.NewClient(api.ClientOptions{URL: s.operatorURL(), Token: s.token})
	if err != nil {
		return err
	}
	defer client.Close()
	show.say(t.opening)
	if _, err := client.Launch(ctx, t.launch); err != nil {
		return fmt.Errorf("launch %q: %w", t.launch.Name, err)
	}
	return t.end(s, ctx, client, show)
}

// end follows the orchestrator and checks what came of it.
func (s *stage) end(ctx context.Context, client *api.Client, show *timeline) error {
	if err := s.follow(ctx, client, show); err != nil {
		return err
	}
	problems, err := s.verify(ctx, client)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return fmt.Errorf("the demo did not go as expected:\n  %s", strings.Join(problems, "\n  "))
	}
	show.say(fmt.Sprintf("\nEach expected step happened exactly once, in %.1f s. Nothing that the allowlist refuses happened.\nNext: drawbridge init, or look at this one with drawbridge demo --keep.\n", time.Since(show.start).Seconds()))
	return nil
}

const opening = `A simulated cloud, a bridge and a relay are running on this machine, each as a process of its own.
The orchestrator "main" can only write text. The allowlist has github.com/me/my-app, github.com/acme/* and three
actions on this machine. One of the actions needs a person's approval. The relay has its own list, and needs that approval, too.
The relay joined with a token. It dials the bridge and opens no port. The bridge refuses everything else.

`

func (s *stage) keep(ctx context.Context, show *timeline) error {
	client, err := api.NewClient(api.ClientOptions{URL: s.operatorURL(), Token: s.token})
	if err != nil {
		return err
	}
	defer client.Close()
	link, err := client.PageLink(ctx, "")
	if err != nil {
		return fmt.Errorf("make a link to the page: %w", err)
	}
	page := s.operatorURL() + link.Path
	lines := [][2]string{{"bridge", s.operatorURL()}, {"token", s.token}, {"page", page}, {"cloud", s.cloudURL()}, {"folder", s.dir}}
	line := map[string]any{"time": time.Now().UTC().Format(time.RFC3339Nano), "event": "kept"}
	for _, l := range lines {
		line[l[0]] = l[1]
	}
	if show.json {
		if err := show.line(line); err != nil {
			return err
		}
	}
	show.say(fmt.Sprintf(stillRunning, page, s.operatorURL(), s.token, s.cloudURL()))
	<-ctx.Done()
	return nil
}

const stillRunning = `
Still running; interrupt to end and remove it. lock_screen still waits for you. To decide, open this link, which works once:
  %s
In another terminal:
  export DRAWBRIDGE_URL=%s DRAWBRIDGE_TOKEN=%s
  drawbridge agents
  drawbridge say main "And now?"
  the cloud's own record of what was done: curl -H 'Authorization: Bearer cursor_sim_key' %s/_sim/log
`

// stage is the demo's three processes and their files.
type stage struct {
	// fault is what goes wrong, "" for nothing; launched counts subagents, to know when.
	fault    string
	launched int
	// keeps leaves lock_screen to a real person, who finds it on the page at the end.
	keeps bool

	dir, token string
	// doorPort is the bridge's for the relay, agents and webhooks, operatorPort the one for its operator.
	doorPort, operatorPort, cloudPort string
	running                           []*process
	held                              []func() error
}

func (s *stage) operatorURL() string { return "http://127.0.0.1:" + s.operatorPort }
func (s *stage) doorURL() string     { return "http://127.0.0.1:" + s.doorPort }
func (s *stage) cloudURL() string    { return "http://127.0.0.1:" + s.cloudPort }

// secret is long enough for each of the keys and tokens of a configuration.
func secret() string { return rand.Text() + rand.Text() }

// hold finds a port that stays the stage's own until stop, whichever of its programs is down meanwhile.
func (s *stage) hold() (string, error) {
	port, release, err := freeport.Hold()
	if err == nil {
		s.held = append(s.held, release)
	}
	return port, err
}

// writeFiles lays out what a user would have: three configurations, secrets in
// files of their own, and some work worth a backup.
func (s *stage) writeFiles() error {
	tar, err := exec.LookPath("tar")
	if err != nil {
		return errors.New("the demo needs the program tar, which is not on PATH; install tar, and start the demo again")
	}
	echo, err := exec.LookPath("echo")
	if err != nil {
		return errors.New("the demo needs the program echo, which is not on PATH; install echo, and start the demo again")
	}
	if err := os.Mkdir(filepath.Join(s.dir, "work"), 0o700); err != nil {
		return err
	}
	relay := fmt.Sprintf(demoRelay, tar, filepath.Join(s.dir, "backup.tgz"), s.dir, echo, echo)
	bridge := fmt.Sprintf(demoBridge, s.doorPort, s.doorPort, s.operatorPort, s.cloudPort)
	for name, text := range map[string]string{
		"bridge.yaml": bridge, "allowlist.yaml": demoAllowlist, "relay.yaml": relay, "cloud.yaml": demoScript + demoFaults[s.fault],
		"bridge.key": secret() + "\n", "bridge.token": s.token + "\n", "cursor.key": "cursor_sim_key\n",
		"work/notes.txt": "Important notes.\n", "work/todo.txt": "Ship the health check.\n",
	} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

const demoBridge = `listen: 127.0.0.1:%s
public_url: http://127.0.0.1:%s
operator: { listen: "127.0.0.1:%s" }
token: ${file:bridge.token}
key: ${file:bridge.key}
database: drawbridge.db
allowlist: allowlist.yaml
cursor:
  key: ${file:cursor.key}
  url: http://127.0.0.1:%s
  timeout: 5s
poll: { min: 3s, max: 5s }
orchestrators:
  - name: main
    repo: github.com/me/agent-env
`

const demoRelay = `listen: none
actions:
  backup_script:
    argv: [%q, -czvf, %q, -C, %q, work]
    timeout: 30s
  open_browser:
    argv: [%q, "a browser would open here"]
  lock_screen:
    argv: [%q, "the screen would be locked here"]
    approval: each
    approve_by: bridge
`
