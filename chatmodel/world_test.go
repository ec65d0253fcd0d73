package chatmodel_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/bridge/runtimes"
	"drawbridge/chatmodel"
	"drawbridge/mail"
	"drawbridge/mcpserver"
	"drawbridge/mcpserver/doors"
	"drawbridge/memory"
	"drawbridge/openai/agents"
	"drawbridge/parser"
	"drawbridge/policy"
	"drawbridge/proof/chatsim"
	"drawbridge/proof/memstore"
	proof "drawbridge/proof/runtimes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a bridge whose agents are chat models: a real engine, door, mail and memory on a store in memory, and a strict endpoint.
type world struct {
	testing.TB
	disk  *memstore.Disk
	model *chatsim.Server
	web   *httptest.Server
	// change may change the options of the next start.
	change func(*chatmodel.Options)

	*life
}

// life is one process.
type life struct {
	engine *engine.Engine
	door   *mcpserver.Door
	chat   *chatmodel.Runtime
	memory *memory.Service
	mail   *mail.Service
	// callers are tools of those who wait for an answer at another door.
	callers *agents.Tools
	stop    func()
	// dead makes every further step fail, as when the process is killed; it counts down from a number of steps.
	dead atomic.Int64
	// died is closed when the first step fails so.
	died  chan struct{}
	death sync.Once
	// peer is another replica, which hears of each change.
	peer atomic.Pointer[life]
}

const (
	bossRepo = "github.com/me/agent-env"
	workRepo = "github.com/me/my-app"
	modelKey = "sk-0123456789abcdef0123456789abcdef"
)

var sets = []string{"bridge", "team", "threads", "channels", "memory"}

func newWorld(t testing.TB, answer func(chatsim.Request, int) chatsim.Answer) *world {
	t.Helper()
	w := &world{TB: t, disk: memstore.NewDisk(), model: &chatsim.Server{Key: modelKey, Models: []string{"qwen"}, Answer: answer}, change: func(*chatmodel.Options) {}}
	w.web = httptest.NewServer(w.model)
	t.Cleanup(func() {
		w.stop()
		w.web.CloseClientConnections()
		w.web.Close()
		for _, why := range w.model.Refused() {
			if !strings.Contains(why, "API key") && !strings.Contains(why, "does not exist") {
				t.Errorf("the endpoint refused a request: %s", why)
			}
		}
	})
	return w
}

// killable is the engine for the chat models and the door: a killed process records nothing more.
type killable struct {
	*engine.Engine
	life *life
}

var errKilled = errors.New("the process was killed")

func (k killable) Change(ctx context.Context, fn func(bridge.Change) error, hints ...bridge.Need) error {
	switch n := k.life.dead.Add(-1); {
	case n == 0, n > 0:
	case n < -1_000_000_000: // not armed
		k.life.dead.Store(-2_000_000_000)
	default:
		k.life.dead.Store(-1)
		k.life.death.Do(func() { close(k.life.died) })
		return errKilled
	}
	return k.Engine.Change(ctx, fn, hints...)
}

// announced is a store whose commits wake the other replica, as PostgreSQL's do.
type announced struct {
	bridge.Store
	life *life
}

// Update implements bridge.Store.
func (a announced) Update(ctx context.Context, fn func(*bridge.Scene) error, hints ...bridge.Need) error {
	err := a.Store.Update(ctx, fn, hints...)
	if peer := a.life.peer.Load(); err == nil && peer != nil {
		peer.engine.Wake()
	}
	return err
}

func (w *world) start() {
	w.Helper()
	w.life = &life{stop: func() {}, died: make(chan struct{})}
	w.dead.Store(-2_000_000_000)
	p, problems := policy.New(policy.Rules{Repos: []policy.RepoRule{{Pattern: workRepo}}, OperatorRepos: []string{bossRepo}, Actions: []policy.ActionRule{{ID: "backup_script"}}})
	if len(problems) > 0 {
		w.Fatal(problems)
	}
	store := w.disk.Open()
	log := zerolog.New(zerolog.NewTestWriter(w)).Level(zerolog.ErrorLevel)
	o := chatmodel.Options{Name: "local", URL: w.web.URL + "/v1", Model: "qwen", Key: modelKey, Steps: lateSteps{w.life}, Tools: lateTools{w.life},
		Blocks: memory.Preamble, Now: time.Now, Rand: func() float64 { return 0 }, Log: log}
	w.change(&o)
	var err error
	if w.chat, err = chatmodel.New(o); err != nil {
		w.Fatal(err)
	}
	w.chat.Hasten()
	l := w.life
	w.engine, err = engine.New(engine.Options{
		Store: announced{store, l}, Runtime: runtimes.Set{Named: map[string]bridge.Runtime{"local": w.chat}}, Actions: &proof.Relay{}, Policy: func() *policy.Policy { return p },
		Keys:    bridge.Keys{Current: bridge.Key{ID: "1", Secret: []byte(strings.Repeat("k", 32))}},
		PollMin: time.Hour, PollMax: time.Hour, RetryWait: time.Millisecond, Parser: parser.Options{Remind: true}, Log: log, Grace: time.Second,
		Mail: func(ctx context.Context, work bridge.Work) error { return l.mail.Work(ctx, work) },
		Chat: func(ctx context.Context, work bridge.Work) error {
			return chatmodel.Runtimes{"local": l.chat}.Work(ctx, lateSteps{l}, work)
		},
	})
	if err != nil {
		w.Fatal(err)
	}
	if w.mail, err = mail.New(mail.Options{Steps: w.engine}); err != nil {
		w.Fatal(err)
	}
	if w.memory, err = memory.New(memory.Options{Steps: w.engine}); err != nil {
		w.Fatal(err)
	}
	w.callers = agents.NewTools(agents.ToolsOptions{Steps: w.engine, Watch: w.engine.Watch})
	w.door, err = mcpserver.New(mcpserver.Options{Callers: w.callers, Engine: killable{w.engine, w.life}, Policy: func() *policy.Policy { return p }, Tokens: doors.NewKeyring(w.engine), Mail: w.mail, Memory: w.memory,
		Toolsets: func(_, _ bridge.Agent) []string { return sets }, Log: log})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.engine.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("run: %v", err)
		}
		if err := store.Close(); err != nil {
			w.Error(err)
		}
		l.stop = func() {}
	}
}

// lateSteps and lateTools are what a process has once it is wired.
type lateSteps struct{ *life }

func (l lateSteps) Change(ctx context.Context, fn func(bridge.Change) error, hints ...bridge.Need) error {
	return killable{l.engine, l.life}.Change(ctx, fn, hints...)
}

func (l lateSteps) View(ctx context.Context, fn func(*bridge.Scene) error) error {
	return l.engine.View(ctx, fn)
}

type lateTools struct{ *life }

func (l lateTools) Offered(ctx context.Context, a bridge.AgentID) (string, []bridge.ToolOffer, error) {
	return l.door.Offered(ctx, a)
}

func (l lateTools) Call(ctx context.Context, a bridge.AgentID, k bridge.ToolCall) (bridge.ToolReturn, error) {
	return l.door.Call(ctx, a, k)
}

// restart ends the process and starts the next one on what it left.
func (w *world) restart() {
	w.Helper()
	w.stop()
	w.start()
}

func (w *world) launch(name, prompt string) bridge.Agent {
	w.Helper()
	a, _, err := w.engine.LaunchAgent(w.Context(), engine.Spec{Name: name, Repo: bossRepo, Runtime: "local", Prompt: prompt})
	if err != nil {
		w.Fatal(err)
	}
	return a
}

// until waits for a condition on the store, looked at after each change.
func (w *world) until(what string, ok func(*bridge.Scene) bool) {
	w.Helper()
	changed, end := w.engine.Watch()
	defer end()
	limit, died := time.After(time.Minute), w.died
	for {
		met := false
		if err := w.engine.View(w.Context(), func(tx *bridge.Scene) error { met = ok(tx); return nil }); err != nil {
			w.Fatal(err)
		}
		if met {
			return
		}
		select {
		case <-changed:
		case <-died:
			died = nil
		case <-limit:
			for _, m := range w.model.Log() {
				w.Logf("asked: %d messages", len(m.Messages))
			}
			w.Fatalf("%s never happened", what)
		}
	}
}

// over waits until a turn of an agent is over and returns it.
func (w *world) over(a bridge.Agent, seq int64) (t bridge.Turn) {
	w.Helper()
	w.until("the end of the turn", func(tx *bridge.Scene) bool {
		turns, err := tx.Turns(bridge.TurnFilter{Agent: a.ID})
		for _, one := range turns {
			if one.Seq == seq && one.State.Over() {
				t = one
				return true
			}
		}
		return err != nil
	})
	return t
}

// record is what the run of a turn left.
func (w *world) record(t bridge.Turn) (all []bridge.RunMessage) {
	w.Helper()
	if err := w.engine.View(w.Context(), func(tx *bridge.Scene) (err error) {
		all, err = tx.RunMessages(t.ID, 0, 1000)
		return err
	}); err != nil {
		w.Fatal(err)
	}
	return all
}

// kinds are the kinds of a record in short, with the ids of calls.
func kinds(all []bridge.RunMessage) string {
	var out []string
	for _, m := range all {
		out = append(out, strings.TrimSuffix(string(m.Kind), "_message")+":"+m.CallID)
	}
	return strings.Join(out, " ")
}

// ending is the last line of a run's record.
func (w *world) ending(t bridge.Turn) string {
	w.Helper()
	all := w.record(t)
	if len(all) == 0 || all[len(all)-1].Kind != bridge.RunEndedMessage {
		w.Fatalf("the record does not end: %s", kinds(all))
	}
	return all[len(all)-1].Payload
}

func contains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("nothing says %q:\n%s", part, text)
		}
	}
}

// userOf is the user message of a request, systemOf the system prompt.
func userOf(r chatsim.Request) string   { return contentOf(r, "user") }
func systemOf(r chatsim.Request) string { return contentOf(r, "system") }

func contentOf(r chatsim.Request, role string) string {
	for _, m := range r.Messages {
		if m.Role == role {
			return *m.Content
		}
	}
	return ""
}

// calls is an answer with tool calls, given as name and arguments in turn.
func calls(pairs ...string) chatsim.Answer {
	var a chatsim.Answer
	for i := 0; i < len(pairs); i += 2 {
		a.Calls = append(a.Calls, chatsim.Function{Name: pairs[i], Arguments: pairs[i+1]})
	}
	return a
}

// steps answers one after the other, by the place in the turn.
func steps(answers ...chatsim.Answer) func(chatsim.Request, int) chatsim.Answer {
	return chatsim.Scripted([]chatsim.Turn{{Steps: answers}})
}
