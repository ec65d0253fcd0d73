package turns

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/internal/trust"
	"drawbridge/relay/agents"
	"drawbridge/relay/agents/acp"
	"drawbridge/relay/agents/workspace"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/settings"
	"drawbridge/relay/wire"
)

// Folder is the name of the folder with the records of sessions, below the relay's state folder.
const Folder = "sessions"

// Options is what a [Host] is made of.
type Options struct {
	Config settings.Config
	// Live is Config with the changes that count since.
	Live *settings.Live
	// Drivers open conversations, by the kind of an entry.
	Drivers map[string]Driver
	Spaces  *workspace.Store
	// Asker answers questions; unless set, each is refused.
	Asker Asker
	// Door gives processes their MCP servers; unless set they get none.
	Door Door
	// SetUp runs the setup of a clone in a workspace; required where relay.yaml has one. A *host.Host is one.
	SetUp Setter
	// Await returns when nothing is left of what an earlier relay started here; keeper.AwaitOrphans unless set.
	Await func(ctx context.Context) error
	// Now is time.Now unless set.
	Now func() time.Time
	Log zerolog.Logger
}

// Setter runs the setup of clones.
type Setter interface {
	// SetUp runs a command line in a workspace with the means of an entry. An error is an *agents.Error.
	SetUp(ctx context.Context, agent, dir string, argv []string) error
	// Named is the command line for people, without secrets.
	Named(argv []string) string
}

// Host takes the turns of one relay's agents. It is a wire.AgentHost, safe for concurrent use.
type Host struct {
	o   Options
	dir string
	// unsaid are turns that are not to be said, because they were stopped.
	unsaid *stops
	// slots are those of each entry.
	slots map[string]*slots
	// accounts are those of each entry. The map does not change.
	accounts map[string]*account
	steps    *stepLog
	// base is the parent of what runs without a caller.
	base context.Context
	// before is closed when the processes of an earlier relay are gone, or were waited for. alone is set before that, and false in the
	// second case.
	before chan struct{}
	alone  bool

	mu    sync.Mutex // guards the fields below
	lanes map[string]*lane
	ended bool
	// processes counts the processes that live.
	processes int
	// helpers counts the goroutines that outlive a turn. quiet is closed when there are none, nil while nobody waits for that.
	helpers int
	quiet   chan struct{}
	// halt is closed while no process may live without a turn.
	halt   chan struct{}
	halted bool
}

var _ wire.AgentHost = (*Host)(nil)

// Open makes the folder of the records. It starts no agent and reads no record.
func Open(ctx context.Context, o Options) (*Host, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Await == nil {
		o.Await = keeper.AwaitOrphans
	}
	if o.Asker == nil {
		o.Asker = refuser{}
	}
	dir := filepath.Join(o.Config.State, Folder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder of sessions: %w", err)
	}
	if err := trust.Folder(dir, "state"); err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	unsaid, err := openStops(dir)
	if err != nil {
		return nil, err
	}
	h := &Host{o: o, steps: newStepLog(o.Now, o.Config.Redactor().Hide), unsaid: unsaid, dir: dir, base: context.WithoutCancel(ctx), slots: map[string]*slots{}, accounts: map[string]*account{}, halt: make(chan struct{}), before: make(chan struct{}), lanes: map[string]*lane{}}
	for name, a := range o.Config.Agents {
		h.slots[name], h.accounts[name] = newSlots(a.Slots), new(account)
	}
	h.help(h.awaitOrphans)
	return h, nil
}

// orphansFor bounds the wait for processes of an earlier relay. Their keepers end them within two seconds.
const orphansFor = 30 * time.Second

// awaitOrphans waits for what an earlier relay started. Such an agent may have a turn in its input that it has not read yet, so that its
// history tells nothing before it is gone.
func (h *Host) awaitOrphans(halt <-chan struct{}) {
	ctx, cancel := context.WithTimeout(h.base, orphansFor)
	defer cancel()
	go func() {
		select {
		case <-halt:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := h.o.Await(ctx)
	if err != nil && ctx.Err() == nil || errors.Is(err, context.DeadlineExceeded) {
		h.o.Log.Warn().Err(err).Msg("processes of an earlier relay may still run")
	}
	h.alone = err == nil
	close(h.before)
}

// Close ends every process and returns when nothing is left. Turns that run are the caller's to end before.
func (h *Host) Close() {
	h.mu.Lock()
	h.ended = true
	h.mu.Unlock()
	h.Halt()
}

// Processes is how many processes of agents live now.
func (h *Host) Processes() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.processes
}

// Waiting is how many turns wait for a slot of an entry now.
func (h *Host) Waiting(agent string) int {
	s := h.slots[agent]
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}

func (h *Host) living(by int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.processes += by
}

// Halt ends every process without a turn, and returns when they are gone. Until [Host.Proceed] none stays after its turn, and
// nothing is looked up in an agent's history. Turns that run are the caller's to end.
func (h *Host) Halt() {
	h.mu.Lock()
	if !h.halted {
		h.halted = true
		close(h.halt)
	}
	for h.helpers > 0 {
		if h.quiet == nil {
			h.quiet = make(chan struct{})
		}
		quiet := h.quiet
		h.mu.Unlock()
		<-quiet
		h.mu.Lock()
	}
	h.mu.Unlock()
}

// Proceed takes back a Halt.
func (h *Host) Proceed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.halted && !h.ended {
		h.halted, h.halt = false, make(chan struct{})
	}
}

// help runs fn beside the turns. halt is closed when it has to end.
func (h *Host) help(fn func(halt <-chan struct{})) {
	h.mu.Lock()
	h.helpers++
	halt := h.halt
	h.mu.Unlock()
	go func() {
		defer func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.helpers--; h.helpers == 0 && h.quiet != nil {
				close(h.quiet)
				h.quiet = nil
			}
		}()
		fn(halt)
	}()
}

// refuser answers every question with no.
type refuser struct{}

// Ask implements Asker.
func (refuser) Ask(context.Context, Work, acp.Question) acp.Reply { return acp.Refuse }

// path is the file of a session's record. The bridge's name of a session may differ from another in case alone, and may be "..".
func (h *Host) path(session string) string {
	sum := sha256.Sum256([]byte(session))
	return filepath.Join(h.dir, hex.EncodeToString(sum[:16])+".session")
}

// errEnding is the cause of turns that end with the relay.
var errEnding = &agents.Error{Cause: agents.Stopped, Reason: "the relay is stopping"}

// enter returns the lane of a session, to be left. Without make a session without a record gives nil.
func (h *Host) enter(t wire.Turn, create bool) (*lane, error) {
	path := h.path(t.Session)
	h.mu.Lock()
	if h.ended {
		h.mu.Unlock()
		return nil, errEnding
	}
	l := h.lanes[t.Session]
	if l == nil {
		if _, err := os.Lstat(path); !create && errors.Is(err, fs.ErrNotExist) {
			h.mu.Unlock()
			return nil, nil
		}
		l = &lane{host: h, session: t.Session, path: path, free: make(chan struct{}, 1), runs: map[string]*run{}}
		h.lanes[t.Session] = l
	}
	l.users++
	h.mu.Unlock()
	if err := l.open(); err != nil {
		l.leave()
		return nil, err
	}
	return l, nil
}

// RunTurn implements wire.AgentHost.
func (h *Host) RunTurn(ctx context.Context, t wire.Turn) wire.TurnEnded {
	if why := h.refuse(t); why != nil {
		return *why
	}
	l, err := h.enter(t, true)
	if err != nil {
		return refusal(err)
	}
	defer l.leave()
	for {
		r, mine, end := l.join(ctx, t)
		switch {
		case end != nil:
			return *end
		case mine:
			l.carry(r, t)
		}
		select {
		case <-r.done:
		case <-ctx.Done(): // the run has this cause, too, or is another caller's
			<-r.done
		}
		if !r.again {
			return r.end
		}
	}
}

// LookupTurn implements wire.AgentHost. A turn that an earlier process of the relay began and did not end is settled meanwhile.
func (h *Host) LookupTurn(t wire.Turn) wire.TurnFound {
	l, err := h.enter(t, false)
	if err != nil || l == nil {
		return wire.TurnFound{Known: wire.TurnKnownNot}
	}
	defer l.leave()
	found := l.look(t.ID)
	return h.settled(l, t, found)
}

// settled has an open turn that is in nobody's hand looked for, and returns what is known of it until then. The agent of a record may not be listed
// any more, so that it cannot be asked.
func (h *Host) settled(l *lane, t wire.Turn, found wire.TurnFound) wire.TurnFound {
	if found.Known != wire.TurnKnownOpen || found.State != "" {
		return found
	}
	if a, listed := h.o.Config.Agents[t.Agent]; !listed || h.o.Drivers[a.Kind] == nil {
		return wire.TurnFound{Known: wire.TurnKnownNot}
	}
	h.settle(l, t)
	found.State = wire.TurnStarting
	return found
}

// settle finds out in the background what became of a turn that a crash cut off.
func (h *Host) settle(l *lane, t wire.Turn) {
	h.mu.Lock()
	if h.halted {
		h.mu.Unlock()
		return
	}
	l.users++
	h.mu.Unlock()
	h.help(func(halt <-chan struct{}) {
		defer l.leave()
		ctx, cancel := context.WithCancelCause(h.base)
		defer cancel(nil)
		go func() {
			select {
			case <-halt:
				cancel(h.whyHalted())
			case <-ctx.Done():
			}
		}()
		t.Text = ""
		if r, mine, _ := l.join(ctx, t); mine {
			l.carry(r, t)
		}
	})
}

// whyHalted is the cause of what a Halt ends: the end of the relay, which leaves turns open, or the kill switch.
func (h *Host) whyHalted() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return wire.ErrEnding
	}
	return errSwitched
}

// errSwitched is the cause of turns that the kill switch ends.
var errSwitched = &agents.Error{Cause: agents.Stopped, Reason: "the relay's kill switch is on"}

// StopTurn implements wire.AgentHost. The stop of a turn without an end is on the disk before it answers.
func (h *Host) StopTurn(t wire.Turn) wire.TurnFound {
	h.unsaid.add(t.ID)
	found := h.stop(t)
	if found.Known == wire.TurnKnownEnded {
		h.unsaid.forget(t.ID)
		return found
	}
	if err := h.unsaid.keep(t.ID); err != nil {
		h.o.Log.Error().Err(err).Str("session", t.Session).Str("turn", t.ID).Msg("record a stop; the relay will not send the turn until the relay ends")
	}
	return found
}

// stop ends a turn in hand, and says what was known of it.
func (h *Host) stop(t wire.Turn) wire.TurnFound {
	l, err := h.enter(t, false)
	if err != nil || l == nil {
		return wire.TurnFound{Known: wire.TurnKnownNot}
	}
	defer l.leave()
	found := h.settled(l, t, l.stop(t.ID))
	if t.Over {
		l.close()
	}
	return found
}

// stopped reports whether a turn was stopped before it was said.
func (h *Host) stopped(id string) bool { return h.unsaid.has(id) }

// refuse returns why nothing of a turn may reach an agent, before anything is looked at on the disk.
func (h *Host) refuse(t wire.Turn) *wire.TurnEnded {
	file := h.o.Config.File
	a, listed := h.o.Config.Agents[t.Agent]
	switch {
	case !listed:
		return unlisted("agent %q is not listed in %s; add an entry below agents:, and restart the relay", t.Agent, file)
	case h.o.Drivers[a.Kind] == nil:
		return unlisted("this relay cannot run agent %q, whose kind is %s; in the agents list of %s, use an entry of another kind", t.Agent, a.Kind, file)
	case t.Marker == "" || !strings.Contains(t.Text, t.Marker):
		return &wire.TurnEnded{Refusal: wire.RefusedInvalid, Error: "the turn's text does not hold its marker"}
	}
	if t.Home.Repo == "" {
		return nil
	}
	_, why := h.repo(h.o.Live.Now().Repos, t.Agent, t.Home.Repo)
	return why
}

// repo returns the clone of a list that an agent may work on, or why it may not.
func (h *Host) repo(list map[string]settings.Repo, agent, name string) (settings.Repo, *wire.TurnEnded) {
	repo, listed := list[name]
	if !listed {
		return repo, unlisted("repository %q is not listed in %s; add it: repos: { %s: { clone: /path/to/your/clone, agents: [%s] } }%s", name, h.o.Config.File, name, agent, h.restart())
	}
	if slices.Contains(repo.Agents, agent) {
		return repo, nil
	}
	return repo, unlisted("agent %q may not work on %s; add it to repos: %s: agents: in %s%s", agent, name, name, h.o.Config.File, h.restart())
}

// restart says what to do where a change of relay.yaml does not count at once.
func (h *Host) restart() string {
	if h.o.Live.Outdated() {
		return ", and restart the relay, because another change of relay.yaml needs a restart"
	}
	return ""
}

func unlisted(format string, args ...any) *wire.TurnEnded {
	return &wire.TurnEnded{Refusal: wire.RefusedUnlisted, Error: clipped(fmt.Sprintf(format, args...))}
}

// refusal is the refusal for an error that came before anything reached the agent.
func refusal(err error) wire.TurnEnded {
	end := wire.TurnEnded{Refusal: wire.RefusedUnsafe, Error: clipped(err.Error())}
	if agents.CauseOf(err) == agents.Stopped {
		end.Refusal, end.RetryMS = wire.RefusedBusy, (5 * time.Second).Milliseconds()
	}
	return end
}
