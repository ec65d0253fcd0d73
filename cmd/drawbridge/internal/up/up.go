// Package up runs the bridge and the relay of one machine with one command, and gives its agents turns.
//
// It decides nothing that bridge and relay decide: it writes single lines into their files, starts them, and asks them as any operator does.
// Rule of thumb: what it changed, it says.
package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/cmd/drawbridge/internal/local"
	"drawbridge/cmd/drawbridge/internal/watch"
	"drawbridge/config"
	"drawbridge/internal/freeport"
	"drawbridge/internal/lifecycle"
	"drawbridge/relay/agents/toolchain"
	"drawbridge/relay/link"
	"drawbridge/relay/runner/settings"
)

// Options are what one call of up was given, and what the program around it lends.
type Options struct {
	// Folder is a clone to work on, "" without one; Prompt is what the agent is to do there, and Agent which entry of relay.yaml does it.
	Folder, Prompt, Agent string
	// Name is what the agent is called, "" for a name made of the clone and Agent. Each name is an agent of its own, with its own workspace.
	Name string
	// Dir is the folder of the configuration and all state. It exists, and only its user can change it. Usual means that other commands find it without
	// being told.
	Dir   string
	Usual bool
	// Once ends the run with its turn. Always lets agents that others launch on the clone live where Agent does.
	Once, Always bool
	// WithChanges gives a new agent the uncommitted changes of the clone.
	WithChanges bool

	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) (string, bool)
	// Person is true where somebody at a terminal reads Stderr and writes Stdin.
	Person bool
	// TakeInterrupts lets take have Ctrl-C until the function that it returns is called. What take leaves ends the context of Run.
	TakeInterrupts func(take func() bool) (leave func())
	// End ends the context of Run, as a Ctrl-C does that nobody takes.
	End context.CancelFunc
	// Shown makes words of others harmless to a terminal.
	Shown func(string) string
	// Problems makes an error of what is wrong with a file.
	Problems func(file string, problems []config.Problem) error
	// Usage marks an error as one of the call.
	Usage func(error) error
	// SetUp writes what the folder lacks. It is called where a file is missing.
	SetUp func(ctx context.Context) error
	// Missing lists the files that the folder lacks.
	Missing func() []string
	// Machine is what a look for agents depends on here.
	Machine func(ctx context.Context) local.Machine
}

// ErrTurn means that the turn did not end well. Why was said.
var ErrTurn = errors.New("the turn failed")

// Run runs bridge and relay until ctx ends. Where another process runs those of the folder, it gives them the turn instead.
func Run(ctx context.Context, o Options) error {
	u := &upping{Options: o, screen: &screen{out: o.Stderr}}
	defer u.screen.close()
	lock, err := local.Hold(u.Dir)
	switch {
	case errors.Is(err, local.ErrRuns) && o.Prompt != "":
		return u.beside(ctx)
	case errors.Is(err, local.ErrRuns):
		return fmt.Errorf("%w; give it work with: drawbridge up FOLDER \"PROMPT\", or choose another folder with --dir", err)
	case err != nil:
		return err
	}
	err = u.run(ctx)
	switch {
	case errors.Is(err, errOver):
		err = u.result
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		err = nil // Ctrl-C is how it ends
	}
	return errors.Join(err, lock.Release())
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// upping is one run of up.
type upping struct {
	Options
	bridge *config.Bridge
	relay  settings.Config
	client *api.Client
	// relayID is what the bridge calls the relay.
	relayID string
	screen  *screen
	// watcher tells what agents do, and console shows what they ask.
	watcher *watch.Watcher
	console *console
	// own asks whether a login may run here, and whether a rule may be written.
	own *ownDesk
	// repo is what the agent works on, nil without a folder.
	repo *local.Repo
	// result is what came of the turn: nil, ErrTurn where it failed, or why there was none.
	result error
}

// say writes a sentence about bridge and relay.
func (u *upping) say(format string, args ...any) {
	u.screen.text("drawbridge: " + u.Shown(fmt.Sprintf(format, args...)) + "\n")
}

// where is what the words of a command need so that it finds the bridge, with a space in front; "" where it finds it by itself.
func (u *upping) where() string {
	if u.Usual {
		return ""
	}
	return " --config " + local.Quoted(u.file("bridge.yaml"))
}

func (u *upping) file(name string) string { return filepath.Join(u.Dir, name) }

// run sets up what is missing, and runs both programs.
func (u *upping) run(ctx context.Context) error {
	if missing := u.Missing(); len(missing) > 0 {
		if err := u.SetUp(ctx); err != nil {
			return err
		}
	}
	if err := u.enlistAgent(ctx); err != nil {
		return err
	}
	if err := u.load(); err != nil {
		return err
	}
	defer u.keepPorts()()
	if err := u.enlist(ctx); err != nil {
		return err
	}
	program, err := u.relayProgram()
	if err != nil {
		return err
	}
	defer u.client.Close()
	u.say("starting the bridge and the relay; logs in %s", u.Dir)
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	bridge := local.NewKeeper(u.bridgeProgram(self), u.say)
	if err := bridge.Start(ctx); err != nil {
		return err
	}
	relay := local.NewKeeper(u.relayOf(program), u.say)
	return lifecycle.Run(ctx,
		lifecycle.Part{Name: "bridge", Run: bridge.Run, Stop: bridge.Grace + time.Minute},
		lifecycle.Part{Name: "relay and work", Run: func(ctx context.Context) error { return u.withBridge(ctx, relay) }, Stop: relay.Grace + time.Minute},
	)
}

// keepPorts holds the bridge's ports until the function that it returns is called, so that a bridge which is started again finds them.
// What cannot be held is left to the bridge, which says why.
func (u *upping) keepPorts() func() {
	var held []func() error
	for _, address := range []string{u.bridge.Listen, u.bridge.Operator.Listen} {
		if release, err := freeport.Keep(address); err == nil {
			held = append(held, release)
		}
	}
	return func() {
		for _, release := range held {
			_ = release()
		}
	}
}

// load reads the configuration of both.
func (u *upping) load() error {
	cfg, problems := config.Load(u.file("bridge.yaml"), u.Getenv)
	if cfg == nil {
		return u.Problems(u.file("bridge.yaml"), problems)
	}
	relay, err := settings.Load(u.file("relay.yaml"), u.Getenv)
	if err != nil {
		return err
	}
	client, err := api.NewClient(api.ClientOptions{URL: cfg.OperatorURL(), Token: cfg.Token.Reveal(), Start: "drawbridge up"})
	if err != nil {
		return err
	}
	for _, w := range relay.Warnings {
		u.say("warning: %s", w)
	}
	u.bridge, u.relay, u.client = cfg, relay, client
	u.relayID = u.relayName(cfg)
	return nil
}

// relayProgram finds drawbridge-relay beside this program, or on PATH.
func (u *upping) relayProgram() (string, error) {
	const name = "drawbridge-relay"
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	path, _ := u.Getenv("PATH")
	if at := toolchain.Find(filepath.Dir(self)+string(filepath.ListSeparator)+path, name); at != "" {
		return at, nil
	}
	return "", fmt.Errorf("the program %s is neither beside %s nor on PATH; build both with `make build` and keep them in one folder", name, self)
}

// ready matches the line with which a program says that it listens.
var ready = regexp.MustCompile(`"message":"ready"|\bready\b`)

func (u *upping) bridgeProgram(self string) local.Program {
	return local.Program{
		Name: "bridge", Path: self, Args: []string{"serve", "--config", u.file("bridge.yaml")}, Dir: u.Dir, Log: u.file("bridge.log"), Begun: ready.MatchString,
		Ready: func(ctx context.Context) error { _, err := u.client.Status(ctx); return err }, Grace: 30 * time.Second,
	}
}

func (u *upping) relayOf(program string) local.Program {
	return local.Program{
		Name: "relay", Path: program, Args: []string{"run", "--config", u.file("relay.yaml")}, Dir: u.Dir, Log: u.file("relay.log"), Begun: ready.MatchString,
		Ready: func(ctx context.Context) error {
			r, err := u.client.Relay(ctx, u.relayID)
			if err == nil && r.Connected == nil {
				err = errors.New("not connected")
			}
			return err
		}, Grace: 30 * time.Second,
	}
}

// withBridge lets the relay join and runs it, with what is to be done.
func (u *upping) withBridge(ctx context.Context, relay *local.Keeper) error {
	if err := u.join(ctx); err != nil {
		return err
	}
	if err := relay.Start(ctx); err != nil {
		return err
	}
	u.say("bridge at %s, relay %s connected; they run until Ctrl-C", u.bridge.OperatorURL(), u.relayID)
	u.say("to see and decide in a browser, type in another terminal: drawbridge open%s", u.where())
	if err := u.look(ctx, ""); err != nil {
		return err
	}
	return lifecycle.Run(ctx,
		lifecycle.Part{Name: "relay", Run: relay.Run, Stop: relay.Grace + 30*time.Second},
		lifecycle.Part{Name: "watch", Run: u.watcher.Run},
		lifecycle.Part{Name: "questions", Run: u.console.run},
		lifecycle.Part{Name: "changes of relay.yaml", Run: func(ctx context.Context) error { return u.watch(ctx, relay) }},
		lifecycle.Part{Name: "turn", Run: u.work},
	)
}

// look makes what tells of one agent, or of all.
func (u *upping) look(ctx context.Context, only string) error {
	say := func(line string) { u.say("%s", line) }
	step := func(line string) { u.screen.text(u.Shown(line) + "\n") }
	u.watcher = watch.New(watch.Options{Client: u.client, Say: say, Step: step, Last: u.screen.wrote, Questions: true, Only: only})
	u.console = u.newConsole(ctx, only)
	return u.watcher.Start(ctx)
}

// errOver ends up because of its turn; what to return is in result.
var errOver = errors.New("the turn is over")

// work gives the turn that was asked for, and waits for the end unless that turn was all.
func (u *upping) work(ctx context.Context) error {
	defer func() {
		if busy := u.console.goOn(u.watcher.Busy()); ctx.Err() != nil && len(busy) > 0 {
			u.say("stopping; the turns of these agents go on when `drawbridge up` runs again: %s", strings.Join(busy, ", "))
		}
	}()
	if u.Prompt != "" {
		u.result = u.turn(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if u.Once || u.result != nil && !errors.Is(u.result, ErrTurn) {
			return errOver
		}
		if !u.Person {
			u.say("to give the agent more work, type in another terminal: drawbridge up %s \"…\"; Ctrl-C stops bridge and relay", u.Folder)
		}
	}
	<-ctx.Done()
	return nil
}

// join enrolls the relay with a token that only this process sees. A relay that has joined stays as it is.
func (u *upping) join(ctx context.Context) error {
	identity := u.file(link.DefaultFile)
	known, err := link.Load(identity)
	if err == nil {
		if _, err := u.client.Relay(ctx, known.Relay); bridge.KindOf(err) == bridge.NotFound {
			return fmt.Errorf("this bridge does not know relay %s (the database of the bridge may be lost); move %s away, and start again", known.Relay, identity)
		}
		u.relayID = known.Relay
		return nil
	}
	if exists(identity) {
		return err
	}
	token, err := u.client.RelayToken(ctx, u.relayID, time.Minute)
	if err != nil {
		return fmt.Errorf("invite the relay: %w", err)
	}
	in, err := link.NewInvitation(u.bridge.DoorURL(), token.Token)
	if err != nil {
		return err
	}
	if _, err := link.Join(ctx, identity, in, time.Now); err != nil {
		return err
	}
	u.say("this machine is relay %s of its bridge now", u.relayID)
	return nil
}

// watch restarts the relay when relay.yaml has a change that needs it, is right, and no agent has a turn.
func (u *upping) watch(ctx context.Context, relay *local.Keeper) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	current, complained := settings.Follow(u.relay, u.Getenv, nil), ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if !current.Outdated() {
			continue
		}
		next, err := settings.Load(u.file("relay.yaml"), u.Getenv)
		if err != nil {
			if err.Error() != complained {
				complained = err.Error()
				u.say("relay.yaml was changed and has an error, so the relay keeps the earlier settings: %v", err)
			}
			continue
		}
		if busy, err := u.client.Agents(ctx, api.ListOptions{State: string(bridge.AgentBusy), Limit: 1}); err != nil || len(busy.Agents) > 0 {
			continue // the next look comes soon
		}
		current = settings.Follow(next, u.Getenv, nil)
		u.say("relay.yaml was changed; the relay starts again with it")
		relay.Restart()
	}
}
