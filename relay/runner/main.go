package runner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/internal/trust"
	"drawbridge/relay/runner/approval"
	"drawbridge/relay/runner/audit"
	"drawbridge/relay/runner/control"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/sandbox"
	"drawbridge/relay/runner/settings"
	"drawbridge/relay/tunnel"
	"drawbridge/relay/wire"
)

// Names in the state folder.
const (
	AuditName     = "relay.audit"
	approvalsName = "relay.approvals"
	keyName       = "relay.key"
)

// MainOptions is what a whole relay process needs: where its file is, where its environment and its log are.
type MainOptions struct {
	// ConfigPath is the path of relay.yaml.
	ConfigPath string
	// Env is os.LookupEnv in a real process.
	Env settings.LookupEnv
	// Log receives JSON lines; the one with the message "ready" carries the address in "addr", in "interrupted" how many
	// requests the relay before left unfinished, and in "audit" the head of the audit log.
	Log io.Writer
	// Grace is DefaultGrace unless set.
	Grace time.Duration
	// Terminal is where a person can be asked, or nil. Main reads it until ctx is done and then closes it.
	Terminal io.ReadWriteCloser
	// Beside, if set, runs beside the door with the same relay behind it, such as the connection to a bridge; it returns
	// when its context is done. An error ends the relay.
	Beside func(ctx context.Context, h wire.Handler, log zerolog.Logger) error
	// Agents, if set, makes what hosts the agents that the file lists. It is not called for a file without agents.
	Agents func(ctx context.Context, p Parts) (Agents, error)
}

// NotJoined is what to do with a relay that nobody can ask for anything.
const NotJoined = "make an invitation at the bridge with `drawbridge relay token <name>` and join here with the command that it prints; on one machine `drawbridge up` does both"

// Main is a relay process from its start to its end, which comes when ctx is done. It changes the umask of the process
// and of everything that it starts to 077, so it belongs into a process of its own, whose main called keeper.Main first.
// Problems with the file come back as a *settings.Error.
func Main(ctx context.Context, o MainOptions) error {
	// The umask is one per process and inherited by children. Setting it here, before anything runs beside us, is the only
	// moment at which no other goroutine can be creating a file.
	syscall.Umask(0o077)
	closeInherited()
	config, err := settings.Load(o.ConfigPath, o.Env)
	if err != nil {
		return err
	}
	if !config.Listens() && o.Beside == nil {
		return trust.Because(o.ConfigPath+" says listen: none, and this relay has not joined a bridge", NotJoined)
	}
	m := &mains{o: o, config: config, log: zerolog.New(o.Log).With().Timestamp().Logger()}
	for _, w := range config.Warnings {
		m.log.Warn().Msg(w.String())
	}
	err = m.open(ctx)
	if err == nil {
		err = m.serve(ctx)
		m.log.Info().Msg("stopped")
	}
	return errors.Join(err, m.close())
}

// mains are the parts of a relay process.
type mains struct {
	o       MainOptions
	config  settings.Config
	log     zerolog.Logger
	journal *FileJournal
	audit   *audit.Log
	pool    *keeper.Pool
	relay   *Relay
	door    *control.Server
	// agents is nil for a relay without agents.
	agents Agents
	// ways are those to ask a person here.
	ways   map[string]approval.Prompter
	tunnel tunnel.Client
	// terminal is done when nobody reads the terminal any more.
	terminal sync.WaitGroup
	// alarm is what was found wrong at the start, or "".
	alarm string
}

// open makes every part. The journal comes first: its lock keeps a second relay off everything else.
func (m *mains) open(ctx context.Context) (err error) {
	if m.journal, err = OpenJournal(m.config.Journal, time.Now); err != nil {
		return err
	}
	if err := m.openAudit(); err != nil {
		return err
	}
	key, err := ownKey(filepath.Join(m.config.State, keyName))
	if err != nil {
		return err
	}
	m.ways = m.prompters()
	desk, err := approval.Open(approval.Options{
		Path: filepath.Join(m.config.State, approvalsName), Now: time.Now, Wait: m.config.Limits.ApprovalWait, Prompters: m.ways,
	})
	if err != nil {
		return err
	}
	if m.pool, err = keeper.NewPool(true); err != nil {
		return err
	}
	ability := sandbox.Ability{}
	if m.wantsSandbox() {
		ability = sandbox.Probe(ctx, nil)
	}
	// Only now: the look at namespaces needs what this takes away.
	hideMemory()
	m.relay, err = Listen(ctx, Options{
		Config: m.config, Env: m.o.Env, Executor: m.pool, Journal: m.journal, Audit: m.audit, Desk: desk, Ability: ability, Key: key, Log: m.log, Grace: m.o.Grace,
	})
	if err != nil {
		return err
	}
	if m.door, err = control.Listen(ctx, m.config.State, m.relay); err != nil {
		return errors.Join(err, m.relay.Close())
	}
	if err := errors.Join(m.pool.Warm(), m.openAgents(ctx, ability)); err != nil {
		return errors.Join(err, m.relay.Close(), m.door.Close())
	}
	return m.ready(ability)
}

// openAudit opens the audit log and holds its last day against the journal: a journal that was put back from a backup, or removed,
// forgot what ran since. Both put back from one backup agree, and nobody notices.
func (m *mains) openAudit() (err error) {
	now, forgotten := time.Now(), map[string]record{}
	m.audit, err = audit.Open(filepath.Join(m.config.State, AuditName), time.Now, func(at time.Time, e audit.Event) {
		started := e.Event == audit.Accepted || e.Event == audit.Ran
		// The journal takes its time a moment before the audit log takes its own, and may have forgotten by right.
		if started && now.Sub(at) < rememberFor-time.Minute && wire.ValidRequestID(e.Request) && wire.ValidAction(e.Action) && !m.journal.knows(e.Request) {
			forgotten[e.Request] = record{Action: e.Action, Body: e.Body, At: at}
		}
	})
	if err != nil || len(forgotten) == 0 {
		return err
	}
	if err := m.journal.recall(forgotten); err != nil {
		return fmt.Errorf("journal %s: %w", m.config.Journal, err)
	}
	reason := fmt.Sprintf("the journal lacks requests that were started in the last 24 hours: %d. The relay does not run them again. Check whether the journal was restored from a backup, or removed", len(forgotten))
	m.alarm = reason
	return m.audit.Add(audit.Event{Event: audit.Alarm, Reason: reason})
}

// ready says what is in force, and what is not.
func (m *mains) ready(ability sandbox.Ability) error {
	switched := control.Switched(m.config.State)
	m.log.Info().Str("addr", m.relay.Addr()).Int("actions", len(m.config.Actions)).Str("sandbox", ability.String()).
		Str("trees", m.pool.String()).Str("journal", m.config.Journal).Int("interrupted", m.journal.interrupted).
		Bool("stopped", switched).Str("file", fmt.Sprintf("%.16s", m.config.SHA256)).Msg("ready")
	if m.alarm != "" {
		m.log.Error().Str("journal", m.config.Journal).Str("reason", m.alarm).Msg("alarm")
	}
	for _, offer := range m.relay.Offers() {
		action := m.config.Actions[offer.Action]
		if bounds := action.Bounds.String(); bounds != "" && !keeper.Bounds {
			m.log.Warn().Str("action", offer.Action).Str("missing", bounds).Msg("this machine cannot enforce the limits of an action")
		}
		if action.Sandbox == nil {
			continue
		}
		plan := m.relay.plan(action)
		if missing := plan.Missing(); missing != "" {
			m.log.Warn().Str("action", offer.Action).Str("missing", missing).Msg("this machine cannot enforce the whole sandbox of an action")
		}
	}
	if err := m.noteFile(); err != nil {
		return err
	}
	return m.relay.note(audit.Event{Event: audit.Ready, File: m.config.SHA256, Sandbox: ability.String()})
}

// noteFile says that relay.yaml is not what it was at the start before. Whoever changed it is not known: an action without a
// sandbox could, and so could its user.
func (m *mains) noteFile() error {
	before := m.audit.Before()
	if before == "" || before == m.config.SHA256 {
		return nil
	}
	m.log.Warn().Str("file", m.config.SHA256).Str("before", before).Msg("relay.yaml changed since the last start; if you did not change it, run drawbridge-relay stop and review the file")
	return m.relay.note(changedFile(before, m.config.SHA256))
}

func (m *mains) wantsSandbox() bool {
	for _, action := range m.config.Actions {
		if action.Sandbox != nil {
			return true
		}
	}
	// Git looks at workspaces in a sandbox, whatever the agents have.
	return len(m.config.Agents) > 0
}

// serve runs the doors until ctx is done or one of them fails.
func (m *mains) serve(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() {
		if err := m.door.Serve(); err != nil {
			stop(fmt.Errorf("serve control socket: %w", err))
		}
	})
	defer m.door.Close()
	if m.o.Beside != nil {
		beside.Go(func() {
			if err := m.o.Beside(ctx, m.handler(), m.log); err != nil && ctx.Err() == nil {
				stop(err)
			}
		})
	}
	err := m.relay.Serve(ctx)
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		err = errors.Join(err, cause)
	}
	stop(nil)
	return err
}

func (m *mains) close() error {
	var errs []error
	if m.o.Terminal != nil {
		errs = append(errs, m.o.Terminal.Close())
		m.terminal.Wait()
	}
	if m.relay != nil {
		errs = append(errs, m.relay.note(audit.Event{Event: audit.Ended}))
	}
	if m.agents != nil {
		m.agents.Close()
	}
	if m.pool != nil {
		m.pool.Close()
	}
	if m.audit != nil {
		errs = append(errs, m.audit.Close())
	}
	if m.journal != nil {
		errs = append(errs, m.journal.Close())
	}
	return errors.Join(errs...)
}

// prompters are the ways to ask a person here. Whatever there is, drawbridge-relay approvals shows the question too.
func (m *mains) prompters() map[string]approval.Prompter {
	ways := map[string]approval.Prompter{}
	if m.o.Terminal != nil {
		terminal := approval.NewTerminal(m.o.Terminal)
		ways["terminal"] = terminal.Prompt
		m.terminal.Go(func() { terminal.Read(m.o.Terminal) })
	}
	return ways
}

// ownKey reads the key of the definitions, or makes one.
func ownKey(path string) ([]byte, error) {
	if err := trust.Place(path, "state"); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		key := make([]byte, 32)
		_, _ = rand.Read(key)
		_, err = file.Write(key)
		return key, errors.Join(err, file.Sync(), file.Close())
	}
	if !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	key, err := trust.ReadSecret(path, 64)
	if err == nil && len(key) != 32 {
		err = trust.Because("is not a key of a relay", "move it away; the relay then asks again for the approvals that it remembered")
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return key, nil
}
