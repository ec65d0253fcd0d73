package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"drawbridge/api"
	"drawbridge/api/office"
	"drawbridge/api/recall"
	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/internal/pause"
	"drawbridge/mail"
	"drawbridge/memory"
	"drawbridge/policy"
	"drawbridge/proof/memstore"
	"drawbridge/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	operatorToken = "token-of-the-tests"
	site          = "http://127.0.0.1:7400"
)

// passes is web.Records in memory.
type passes struct {
	mu  sync.Mutex // guards all
	all map[string]web.Pass
}

func (r *passes) AddPass(_ context.Context, p web.Pass) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[p.Hash] = p
	return nil
}

func (r *passes) FindPass(_ context.Context, hash string) (web.Pass, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, found := r.all[hash]
	return p, found, nil
}

func (r *passes) TakePass(ctx context.Context, hash string) (web.Pass, bool, error) {
	p, found, err := r.FindPass(ctx, hash)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, hash)
	return p, found, err
}

// stillWorks keeps a run going, and breaks ends it badly.
const (
	stillWorks = "…"
	breaks     = "✗"
)

// cloud answers each text with what reply makes of it.
type cloud struct {
	bridge.Runtime
	reply func(text string) string
	mu    sync.Mutex // guards runs
	runs  map[string]string
}

func (c *cloud) start(id, text string) (bridge.Started, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	run := bridge.NewID("run_")
	c.runs[run] = text
	return bridge.Started{Agent: id, Run: run}, nil
}

func (c *cloud) Launch(_ context.Context, l bridge.Launch) (bridge.Started, error) {
	return c.start(l.AgentID, l.Grant.Prompt())
}

func (c *cloud) Send(_ context.Context, f bridge.FollowUp) (bridge.Started, error) {
	return c.start(f.Agent, f.Text)
}

func (c *cloud) Observe(_ context.Context, r bridge.RunRef) (bridge.Observation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	reply := c.reply(c.runs[r.Run])
	switch reply {
	case stillWorks:
		return bridge.Observation{State: bridge.RunRunning}, nil
	case breaks:
		return bridge.Observation{State: bridge.RunError, Reply: "The disk is full.", Final: true}, nil
	}
	return bridge.Observation{State: bridge.RunFinished, Reply: reply}, nil
}

// noRelay runs nothing.
type noRelay struct{ bridge.ActionRunner }

// world is a bridge with its page.
type world struct {
	t       testing.TB
	engine  *engine.Engine
	records *passes
	handler http.Handler
	// steps are what api.Options.Live tells.
	steps func(after int64) api.Live
	// relays and spaces are what api.Options has.
	relays bridge.RelayAdmin
	spaces func(context.Context) (api.WorkspaceList, error)
	// rules are the policy's, and file is the allowlist; nil for none.
	rules *policy.Policy
	file  api.AllowlistFile
	// mail is what api.Options has.
	mail *mail.Service
	// memory changes what agents remember.
	memory recall.Keeper
	// alerts and database are what api.Options has.
	alerts   api.Alerts
	database bridge.DatabaseHealth
	// people are the operators besides the owner.
	people []api.Operator
	client *api.Client
	cookie string
}

// play runs a story in a bubble of virtual time. The agents' replies come from reply.
func play(t *testing.T, reply func(text string) string, story func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { within(t, reply, story) })
}

// within runs a story with a bridge.
func within(t *testing.T, reply func(text string) string, story func(t *testing.T, w *world)) {
	t.Helper()
	w := &world{t: t, records: &passes{all: map[string]web.Pass{}}}
	var problems []policy.Problem
	w.rules, problems = policy.New(policy.Rules{
		Repos:         []policy.RepoRule{{Pattern: "github.com/me/careful", Approval: policy.Approval{Mode: policy.ApprovalEach}}},
		OperatorRepos: []string{"github.com/me/agent-env"},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	db := memstore.NewDisk().Open()
	defer db.Close()
	var err error
	allow := func() *policy.Policy { return w.rules }
	w.engine, err = engine.New(engine.Options{Store: db, Runtime: &cloud{reply: reply, runs: map[string]string{}}, Actions: noRelay{}, Policy: allow, Log: zerolog.Nop(),
		Keys: bridge.Keys{Current: bridge.Key{ID: "k1", Secret: []byte(strings.Repeat("k", 32))}}, PollMin: time.Second, PollMax: time.Second,
		Mail:  func(ctx context.Context, work bridge.Work) error { return w.mail.Work(ctx, work) },
		Hosts: func(runtime string) (string, string, bool) { return "laptop", "one", runtime == "laptop" }})
	if err != nil {
		t.Fatal(err)
	}
	w.open(operatorToken, "")
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.engine.Run(ctx) })
	defer running.Wait()
	defer cancel()
	story(t, w)
}

// pass lets time pass; in a bubble it is virtual.
func (w *world) pass(d time.Duration) {
	if err := pause.For(w.t.Context(), d); err != nil {
		w.t.Fatal(err)
	}
}

// owner lets client ask as the operator.
func owner(ctx context.Context) context.Context {
	return bridge.ByPerson(ctx, bridge.Person{Name: bridge.OwnerName, Role: bridge.RoleAdmin, Address: "192.0.2.7"})
}

func (w *world) ctx() context.Context { return owner(w.t.Context()) }

// open makes the bridge's handler, as a start of the program does.
func (w *world) open(token, shownAt string) {
	w.t.Helper()
	allow := func() *policy.Policy { return w.rules }
	h, err := api.New(api.Options{Engine: w.engine, Policy: allow, Token: token, Operators: w.people, PublicURL: shownAt, Log: zerolog.Nop(), Live: func(_ context.Context, _ bridge.Agent, after int64) (api.Live, error) {
		return w.steps(after), nil
	}, Allowlist: w.file, Mail: w.mail, Memory: w.memory, Alerts: w.alerts, Database: func(context.Context, time.Time) (bridge.DatabaseHealth, error) { return w.database, nil }, Relays: w.relays, RelayDoor: http.NotFoundHandler(), Workspaces: w.spaces, Page: func(c *api.Client, people []api.Operator) (api.Page, error) {
		w.client = c
		return web.New(web.Options{API: c, Watch: w.engine.Watch, Records: w.records, Operators: people, URL: shownAt})
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.handler = h
}

// link makes a one-time link.
func (w *world) link() string {
	w.t.Helper()
	l, err := w.client.PageLink(w.ctx(), "")
	if err != nil {
		w.t.Fatal(err)
	}
	return l.Path
}

// request makes a request of a browser that shows the page.
func (w *world) request(method, path string, form url.Values) *http.Request {
	r := httptest.NewRequest(method, site+path, strings.NewReader(form.Encode()))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", site)
	}
	if w.cookie != "" {
		r.Header.Set("Cookie", w.cookie)
	}
	return r
}

func (w *world) do(r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	return rec
}

func (w *world) get(path string) *httptest.ResponseRecorder {
	return w.do(w.request(http.MethodGet, path, nil))
}

// spend opens a link as its button does.
func (w *world) spend(link string) *httptest.ResponseRecorder {
	u, err := url.Parse(link)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.do(w.request(http.MethodPost, "/login", url.Values{"code": {u.Query().Get("code")}}))
}

// logIn keeps the session's cookie.
func (w *world) logIn() {
	w.t.Helper()
	rec := w.spend(w.link())
	if rec.Code != http.StatusSeeOther {
		w.t.Fatalf("login: %d %s", rec.Code, rec.Body)
	}
	w.cookie, _, _ = strings.Cut(rec.Header().Get("Set-Cookie"), ";")
}

var formWord = regexp.MustCompile(`name="csrf" value="([0-9a-f]+)"`)

// word is the session's word for forms.
func (w *world) word() string {
	w.t.Helper()
	found := formWord.FindStringSubmatch(w.get("/").Body.String())
	if found == nil {
		w.t.Fatal("the page has no form")
	}
	return found[1]
}

// launch lets an orchestrator have its first turn to the end.
func (w *world) launch(prompt string) {
	w.t.Helper()
	if _, err := w.client.Launch(w.ctx(), api.LaunchRequest{Repo: "github.com/me/agent-env", Prompt: prompt, Name: "main"}); err != nil {
		w.t.Fatal(err)
	}
	w.pass(time.Minute)
}

// held is the one command that waits.
func (w *world) held() api.Command {
	w.t.Helper()
	list, err := w.client.Commands(w.ctx(), api.ListOptions{State: "held"})
	if err != nil || len(list.Commands) != 1 {
		w.t.Fatalf("%+v, %v", list, err)
	}
	return list.Commands[0]
}

// form is what the card of a held command sends besides the session's word.
func form(m api.Command, more ...string) url.Values {
	f := url.Values{"key": {m.ID}, "kind": {"approval"}, "turn": {m.Turn}}
	for i := 0; i < len(more); i += 2 {
		f.Set(more[i], more[i+1])
	}
	return f
}

func asksOnce(string) string { return "SUBAGENT: repo=github.com/me/careful, prompt=Look at the tests" }

// TestLogin: a link opens once and not by a look, and nobody else comes in.
func TestLogin(t *testing.T) {
	t.Parallel()
	play(t, asksOnce, func(t *testing.T, w *world) {
		for _, path := range []string{"/", "/needs/cmd_1", "/live"} {
			if rec := w.get(path); rec.Code != http.StatusUnauthorized || !strings.Contains(rec.Body.String(), "drawbridge open") {
				t.Errorf("%s without a login: %d %s", path, rec.Code, rec.Body)
			}
		}
		link := w.link()
		for range 3 { // previews of a link
			if rec := w.get(link); rec.Code != http.StatusOK || rec.Header().Get("Set-Cookie") != "" {
				t.Errorf("a look at the link: %d, %v", rec.Code, rec.Header())
			}
		}
		first := w.spend(link)
		cookie := first.Header().Get("Set-Cookie")
		if first.Code != http.StatusSeeOther || first.Header().Get("Location") != "/" || !strings.HasPrefix(cookie, "drawbridge-7400=") || !strings.Contains(cookie, "; HttpOnly; SameSite=Lax") || strings.Contains(cookie, "Secure") {
			t.Errorf("the first use: %d %v", first.Code, first.Header())
		}
		if rec := w.spend(link); rec.Code != http.StatusUnauthorized || rec.Header().Get("Set-Cookie") != "" || !strings.Contains(rec.Body.String(), "was used") {
			t.Errorf("the second use: %d %s", rec.Code, rec.Body)
		}
		late := w.link()
		w.pass(web.LinkLife)
		if rec := w.spend(late); rec.Code != http.StatusUnauthorized {
			t.Errorf("a link that is too old: %d", rec.Code)
		}
		w.logIn()
		if rec := w.spend("/login?code=" + strings.TrimPrefix(w.cookie, "drawbridge-7400=")); rec.Code != http.StatusUnauthorized {
			t.Errorf("a session as a link: %d", rec.Code)
		}
		if rec := w.get("/"); rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), "Nothing needs you.") {
			t.Errorf("the page: %d %s", rec.Code, rec.Body)
		}
		w.open(operatorToken, "") // a start of the program
		if rec := w.get("/"); rec.Code != http.StatusOK {
			t.Errorf("after a start: %d", rec.Code)
		}
		w.pass(web.SessionLife)
		if rec := w.get("/"); rec.Code != http.StatusUnauthorized {
			t.Errorf("after its end: %d", rec.Code)
		}
		w.logIn()
		w.open("another-token", "")
		if rec := w.get("/"); rec.Code != http.StatusUnauthorized {
			t.Errorf("under another token: %d", rec.Code)
		}
		w.logIn()
		out := w.do(w.request(http.MethodPost, "/logout", url.Values{"csrf": {w.word()}}))
		if rec := w.get("/"); out.Code != http.StatusSeeOther || rec.Code != http.StatusUnauthorized {
			t.Errorf("after the logout: %d, %d", out.Code, rec.Code)
		}
	})
}

// TestLoginAttempts: who guesses codes is slowed down, and keeps nobody out who has a link.
func TestLoginAttempts(t *testing.T) {
	t.Parallel()
	play(t, asksOnce, func(t *testing.T, w *world) {
		codes := map[int]int{}
		for range 30 {
			codes[w.spend("/login?code=guess").Code]++
		}
		if codes[http.StatusUnauthorized] != 10 || codes[http.StatusTooManyRequests] != 20 {
			t.Errorf("30 guesses: %v", codes)
		}
		w.logIn()
	})
}

// TestLoginUnderTLS: behind a proxy with TLS the cookie is for this host and for TLS alone.
func TestLoginUnderTLS(t *testing.T) {
	t.Parallel()
	play(t, asksOnce, func(t *testing.T, w *world) {
		w.open(operatorToken, "https://bridge.example")
		for _, host := range []string{"bridge.example", "127.0.0.1:7400"} { // some proxies send their own name for it
			r := w.request(http.MethodPost, "/login", url.Values{"code": {strings.TrimPrefix(w.link(), "/login?code=")}})
			r.Host = host
			r.Header.Set("Origin", "https://bridge.example")
			rec := w.do(r)
			cookie := rec.Header().Get("Set-Cookie")
			if !strings.HasPrefix(cookie, "__Host-drawbridge=") || !strings.Contains(cookie, "Path=/;") || !strings.Contains(cookie, "; HttpOnly; Secure; SameSite=Lax") {
				t.Errorf("%s: %d %q", host, rec.Code, cookie)
			}
			w.cookie, _, _ = strings.Cut(cookie, ";")
			if rec := w.get("/"); rec.Code != http.StatusOK {
				t.Errorf("%s: logged in, and then %d", host, rec.Code)
			}
		}
	})
}

// TestForgery: another site, a frame and a form without the session's word change nothing.
func TestForgery(t *testing.T) {
	t.Parallel()
	play(t, asksOnce, func(t *testing.T, w *world) {
		w.launch("go")
		w.logIn()
		m, word := w.held(), w.word()
		right, without := form(m, "csrf", word, "word", "approve", "hash", m.Held.Hash), form(m, "word", "approve", "hash", m.Held.Hash)
		for name, change := range map[string]func(r *http.Request) *http.Request{
			"another site": func(r *http.Request) *http.Request { r.Header.Set("Origin", "https://evil.example"); return r },
			"no origin":    func(r *http.Request) *http.Request { r.Header.Del("Origin"); return r },
			"no word":      func(*http.Request) *http.Request { return w.request(http.MethodPost, "/decide", without) },
			"another's word": func(*http.Request) *http.Request {
				return w.request(http.MethodPost, "/decide", form(m, "csrf", strings.Repeat("0", len(word)), "word", "approve", "hash", m.Held.Hash))
			},
			"a word in the query": func(*http.Request) *http.Request {
				return w.request(http.MethodPost, "/decide?csrf="+word, without)
			},
			"another port": func(r *http.Request) *http.Request { r.Header.Set("Origin", "http://127.0.0.1:7401"); return r },
		} {
			if rec := w.do(change(w.request(http.MethodPost, "/decide", right))); rec.Code != http.StatusForbidden {
				t.Errorf("%s: %d", name, rec.Code)
			}
		}
		if m = w.held(); m.State != "held" {
			t.Error("a forged form decided")
		}
		for _, from := range []string{"cross-site", "same-site"} { // perhaps in the middle of a click
			r := w.request(http.MethodGet, "/needs/"+m.ID, nil)
			r.Header.Set("Sec-Fetch-Site", from)
			r.Header.Set("Sec-Fetch-Mode", "navigate")
			r.Header.Set("Sec-Fetch-Dest", "document")
			if body := w.do(r).Body.String(); strings.Contains(body, "/decide") || !strings.Contains(body, `href="/needs/`+m.ID+`"`) {
				t.Errorf("led here by another site:\n%s", body)
			}
		}
		if rec := w.get("/decide"); rec.Code != http.StatusMethodNotAllowed || !strings.Contains(rec.Body.String(), "does not accept this HTTP method") {
			t.Errorf("a look at a form's address: %d %s", rec.Code, rec.Body)
		}
		h := w.get("/").Header()
		if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%q", csp)
		}
		if h.Get("X-Frame-Options") != "DENY" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%v", h)
		}
	})
}

// TestOperators: each person sees everything and has the buttons of their role. What they do is recorded as theirs.
func TestOperators(t *testing.T) {
	t.Parallel()
	play(t, asksOnce, func(t *testing.T, w *world) {
		w.people = []api.Operator{{Name: "ann", Role: bridge.RoleApprover, Token: "the token of ann"}, {Name: "vic", Role: bridge.RoleViewer, Token: "the token of vic"}}
		var err error
		if w.mail, err = mail.New(mail.Options{Steps: w.engine, Files: t.TempDir()}); err != nil {
			t.Fatal(err)
		}
		if w.memory, err = memory.New(memory.Options{Steps: w.engine}); err != nil {
			t.Fatal(err)
		}
		w.open(operatorToken, "")
		w.launch("go")
		m := w.held()
		as := func(name string) (agent, card string) {
			t.Helper()
			l, err := w.client.PageLink(w.ctx(), name)
			if err != nil {
				t.Fatal(err)
			}
			w.cookie, _, _ = strings.Cut(w.spend(l.Path).Header().Get("Set-Cookie"), ";")
			return w.get("/agents/" + m.Agent).Body.String(), w.get("/").Body.String()
		}
		agent, card := as("vic")
		for _, bad := range []string{`value="approve"`, `value="deny"`, `action="/agents/` + m.Agent} {
			if strings.Contains(agent+card, bad) {
				t.Errorf("a viewer has %s", bad)
			}
		}
		for _, want := range []string{"vic, viewer", "viewer: you can read this, but not decide it; ask an admin", "Look at the tests"} {
			if !strings.Contains(card, want) {
				t.Errorf("a viewer does not see %q:\n%s", want, card)
			}
		}
		memory := "/agents/" + m.Agent + "/memory"
		if rec := w.get(memory); strings.Contains(rec.Body.String(), "<textarea") {
			t.Errorf("a viewer may write memory: %s", rec.Body)
		}
		word := w.word()
		for path, f := range map[string]url.Values{
			"/decide": form(m, "word", "approve", "hash", m.Held.Hash), "/agents/" + m.Agent + "/say": {"value": {"x"}}, "/agents/" + m.Agent + "/stop": {}, memory: {"label": {"l"}, "version": {"0"}, "value": {"x"}},
			"/mail/" + m.Agent: {"word": {"post"}, "value": {"x"}},
		} {
			f.Set("csrf", word)
			if rec := w.do(w.request(http.MethodPost, path, f)); rec.Code != http.StatusForbidden || !strings.Contains(rec.Body.String(), "vic has the role viewer, and this needs the role") {
				t.Errorf("%s by a viewer: %d %s", path, rec.Code, rec.Body)
			}
		}
		if other := strings.Replace(w.cookie, "=vic.", "=ann.", 1); other != w.cookie { // a session is its own operator's
			mine := w.cookie
			if w.cookie = other; w.get("/").Code != http.StatusUnauthorized {
				t.Error("a session of vic opens as ann")
			}
			w.cookie = mine
		} else {
			t.Error(w.cookie)
		}
		if agent, _ = as("ann"); strings.Contains(agent, "/say") || !strings.Contains(agent, "/stop") {
			t.Errorf("an approver cannot stop the tree, or speaks to the agent:\n%s", agent)
		}
		f := form(m, "csrf", w.word(), "word", "approve", "hash", m.Held.Hash)
		r := w.request(http.MethodPost, "/decide", f)
		r.RemoteAddr = "198.51.100.4:1"
		if rec := w.do(r); rec.Code != http.StatusSeeOther {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
		list, err := w.client.History(w.ctx(), api.EventOptions{Kinds: []string{bridge.EventApproved}, Limit: 1})
		if err != nil || len(list.Events) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		if e := list.Events[0]; e.Fields["by"] != "ann" || e.Fields["address"] != "198.51.100.4" || e.Fields["hash"] != m.Held.Hash {
			t.Errorf("%v", e.Fields)
		}
		w.people = w.people[1:]
		if w.open(operatorToken, ""); w.get("/").Code != http.StatusUnauthorized {
			t.Error("who is not in the configuration any more is still logged in")
		}
	})
}

// TestVerbs: the page shows a person the buttons that the API takes from them.
func TestVerbs(t *testing.T) {
	t.Parallel()
	play(t, asksOnce, func(t *testing.T, w *world) {
		w.join()
		w.open(operatorToken, "")
		web.Verbs(func(word string, admins bool, say func(context.Context, *api.Client) error) {
			for role, may := range map[bridge.Role]bool{bridge.RoleViewer: false, bridge.RoleApprover: !admins} {
				err := say(bridge.ByPerson(t.Context(), bridge.Person{Name: "ann", Role: role}), w.client)
				if refused := err != nil && strings.Contains(err.Error(), "ann has the role"); refused == may {
					t.Errorf("%s by the role %s: %v", word, role, err)
				}
			}
		})
	})
}

// TestDecide: a person sees a command whole, and their word goes to what they were shown alone.
func TestDecide(t *testing.T) {
	t.Parallel()
	reply := func(text string) string {
		if !strings.Contains(text, "go on") {
			return "Fine."
		}
		return "SUBAGENT: repo=github.com/me/careful, prompt=<script>alert(1)</script> x\ufe0fgnp.exe \u0430pple"
	}
	play(t, reply, func(t *testing.T, w *world) {
		w.launch("go on")
		w.logIn()
		m := w.held()
		page := w.get("/").Body.String()
		for _, want := range []string{`<title>(1) Needs you · Drawbridge</title>`, `<b>main</b> wants to launch an agent on github.com/me/careful`, `&lt;script&gt;alert(1)&lt;/script&gt; x<span class="code">U&#43;FE0F</span>gnp.exe`,
			"these characters look like other letters: а (U&#43;0430)", `name="hash" value="` + m.Held.Hash + `"`, `<span class="chip info">yours</span>`, `class="careful">Allow once`} {
			if !strings.Contains(page, want) {
				t.Errorf("%s is missing in\n%s", want, page)
			}
		}
		if strings.Contains(page, "<script>alert") {
			t.Error("an agent's words are markup")
		}
		word := w.word()
		send := func(f url.Values) *httptest.ResponseRecorder {
			f.Set("csrf", word)
			return w.do(w.request(http.MethodPost, "/decide", f))
		}
		if rec := send(form(m, "word", "approve", "hash", strings.Repeat("0", 32))); rec.Code != http.StatusConflict || !strings.Contains(rec.Body.String(), `role="alert">This changed after it was shown. Read it again.`) || w.held().State != "held" {
			t.Errorf("a yes to something else: %d %s", rec.Code, rec.Body)
		}
		if rec := send(form(m, "word", "explode")); rec.Code != http.StatusBadRequest {
			t.Errorf("a word that nobody knows: %d", rec.Code)
		}
		for _, other := range []string{"turn", "kind"} { // what was shown was about something else
			if rec := send(form(m, "word", "deny", other, "another")); rec.Code != http.StatusConflict {
				t.Errorf("another %s: %d", other, rec.Code)
			}
		}
		rec := send(form(m, "word", "deny", "value", "not today"))
		if rec.Code != http.StatusSeeOther || rec.Header().Get("Location") != "/?done="+m.ID {
			t.Fatalf("%d %v %s", rec.Code, rec.Header(), rec.Body)
		}
		if after := w.get(rec.Header().Get("Location")).Body.String(); !strings.Contains(after, `<span class="chip bad">denied</span>`) || !strings.Contains(after, "a person denied it: not today") {
			t.Errorf("after the no:\n%s", after)
		}
		if rec := send(form(m, "word", "deny")); rec.Code != http.StatusConflict || !strings.Contains(rec.Body.String(), "does not wait any more") {
			t.Errorf("a second word: %d %s", rec.Code, rec.Body)
		}
		if _, err := w.client.Say(w.ctx(), "main", "go on again"); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		m = w.held()
		if page := w.get("/needs/" + m.ID).Body.String(); !strings.Contains(page, `<span class="chip wait">outside</span>`) {
			t.Errorf("the no of a person is not the only word that reached the agent:\n%s", page)
		}
		if rec := send(form(m, "word", "approve", "hash", m.Held.Hash)); rec.Code != http.StatusSeeOther {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
		if c, err := w.client.Command(w.ctx(), m.ID); err != nil || !c.Approved {
			t.Errorf("%+v, %v", c, err)
		}
	})
}

// folded is what a page shows only to those who open it.
var folded = regexp.MustCompile(`(?s)<details.*?</details>`)

// TestConversation: an agent's turns show what it heard and said, and what came of each line; a person speaks, stops and resumes there.
func TestConversation(t *testing.T) {
	t.Parallel()
	reply := func(text string) string {
		if !strings.Contains(text, "delegate") {
			return "Noted <b>all</b>."
		}
		return "I delegate.\n" + asksOnce("") + "\nSUBAGENT: repo=github.com/evil/miner, prompt=Mine\n- SUBAGENT: repo=github.com/me/careful, prompt=x\nThat is all."
	}
	play(t, reply, func(t *testing.T, w *world) {
		w.launch("please delegate")
		w.logIn()
		m := w.held()
		all := w.get("/agents").Body.String()
		if !strings.Contains(all, `href="/agents/`+m.Agent+`"`) || !strings.Contains(all, "<b>main</b> please delegate <code>github.com/me/agent-env</code>") || !strings.Contains(all, ">waiting</span>") {
			t.Errorf("the agents:\n%s", all)
		}
		r := w.listen("&place=agent&agent=" + m.Agent)
		defer r.end()
		if n := r.next(t); n.Title != "main" || len(n.Items) != 2 || n.Count != 1 {
			t.Errorf("%+v", n)
		}
		one := w.get("/agents/main").Body.String()
		for _, want := range []string{`<div class="heard">please delegate</div>`, `<div class="words">I delegate.`, `<code>SUBAGENT: repo=github.com/me/careful, prompt=Look at the tests</code><span><a href="/needs/` + m.ID + `"><span class="chip wait">held</span></a>`,
			`<code>SUBAGENT: repo=github.com/evil/miner, prompt=Mine</code><span><span class="chip bad">refused</span></span><span class="why">repository`, `<span class="chip ">not a command</span></span><span class="why">line 4 is a list item`, `<div class="words">That is all.</div>`,
			"heard from the bridge", `<div class="words">Noted &lt;b&gt;all&lt;/b&gt;.</div>`, "The tree has used 2 of 500 turns"} {
			if !strings.Contains(one, want) {
				t.Errorf("%s is missing in\n%s", want, one)
			}
		}
		if !strings.Contains(one, "[items ") || strings.Contains(folded.ReplaceAllString(one, ""), "[items ") {
			t.Errorf("the marks for programs stand elsewhere than in what is folded:\n%s", one)
		}
		word := w.word()
		speak := func(verb, value string, want int) {
			t.Helper()
			rec := w.do(w.request(http.MethodPost, "/agents/main/"+verb, url.Values{"csrf": {word}, "value": {value}}))
			if rec.Code != want {
				t.Errorf("%s: %d %s", verb, rec.Code, rec.Body)
			}
		}
		speak("say", "And now?", http.StatusSeeOther)
		for n := r.next(t); len(n.Items) != 3; n = r.next(t) {
			if n.Title != "main" {
				t.Errorf("%+v", n)
			}
		}
		speak("say", "", http.StatusBadRequest)
		speak("stop", "enough", http.StatusSeeOther)
		if page := w.get("/agents/main").Body.String(); !strings.Contains(page, "Let the tree go on") || !strings.Contains(page, "enough") {
			t.Errorf("after the stop:\n%s", page)
		}
		speak("resume", "", http.StatusSeeOther)
		if rec := w.get("/agents/nobody"); rec.Code != http.StatusNotFound {
			t.Errorf("an agent that nobody knows: %d", rec.Code)
		}
	})
}

// TestNow: while an agent on a machine works, its conversation shows each second what it does, and its turn at the end.
func TestNow(t *testing.T) {
	t.Parallel()
	var done atomic.Bool
	reply := func(string) string {
		if done.Load() {
			return "The tests pass."
		}
		return stillWorks
	}
	play(t, reply, func(t *testing.T, w *world) {
		w.steps = func(after int64) api.Live {
			if after > 0 {
				return api.Live{Run: "run", Steps: []api.Step{{Seq: after + 1, Run: "run", Kind: "says", Text: "step <b>" + strconv.FormatInt(after+1, 10)}}}
			}
			return api.Live{Run: "run", Steps: []api.Step{{Seq: 1, Run: "before", Kind: "says", Text: "old"}, {Seq: 2, Run: "run", Kind: "uses", Tool: "execute", Text: "go test ./..."}}}
		}
		w.logIn()
		if _, err := w.client.Launch(w.ctx(), api.LaunchRequest{Repo: "github.com/me/agent-env", Prompt: "go", Name: "main", Runtime: "laptop"}); err != nil {
			t.Fatal(err)
		}
		w.pass(3 * time.Second)
		r := w.listen("&place=agent&agent=main")
		defer r.end()
		html := ""
		for range 3 {
			n := r.next(t)
			html = n.Items[len(n.Items)-1].HTML
		}
		if !strings.Contains(html, "<code>go test ./...</code>") || !strings.Contains(html, "step &lt;b&gt;4") || strings.Contains(html, "old") {
			t.Errorf("after three looks: %s", html)
		}
		done.Store(true)
		for n := r.next(t); ; n = r.next(t) {
			if last := n.Items[len(n.Items)-1]; last.Key != "now" {
				if !strings.Contains(last.HTML, "The tests pass.") {
					t.Errorf("at the end: %+v", last)
				}
				break
			}
		}
	})
}

// reader reads a stream of news.
type reader struct {
	lines *bufio.Reader
	end   func()
}

// pipe is a response that is read while it is written.
type pipe struct {
	*io.PipeWriter
	header http.Header
}

func (p pipe) Header() http.Header { return p.header }
func (pipe) WriteHeader(int)       {}
func (pipe) Flush()                {}

// listen opens a stream as a page does that has a card open.
func (w *world) listen(open string) reader {
	ctx, cancel := context.WithCancel(w.t.Context())
	in, out := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer out.Close()
		w.handler.ServeHTTP(pipe{out, http.Header{}}, w.request(http.MethodGet, "/live?open="+open, nil).WithContext(ctx))
	}()
	return reader{bufio.NewReader(in), func() { cancel(); in.Close(); <-done }}
}

// news is what page.js reads.
type news struct {
	Count       int
	Title, More string
	Sub         string
	Items, Gone []struct{ Key, Hash, HTML string }
	Side        struct{ Hash, HTML string }
}

// next returns the next news, without signs of life.
func (r reader) next(t testing.TB) (n news) {
	t.Helper()
	for {
		line, err := r.lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			if err := json.Unmarshal([]byte(data), &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
}

// TestLive: an open page hears of what begins to wait and of what waits no more, within a second, and gets nothing twice.
func TestLive(t *testing.T) {
	t.Parallel()
	play(t, asksOnce, func(t *testing.T, w *world) {
		w.logIn()
		r := w.listen("")
		defer r.end()
		if n := r.next(t); n.Count != 0 || len(n.Items) != 0 {
			t.Errorf("at first: %+v", n)
		}
		if _, err := w.client.Launch(w.ctx(), api.LaunchRequest{Repo: "github.com/me/agent-env", Prompt: "go", Name: "main"}); err != nil {
			t.Fatal(err)
		}
		n := r.next(t)
		for n.Count == 0 { // the agent works
			if !strings.Contains(n.Side.HTML, "main") {
				t.Errorf("the agent is not at work: %+v", n)
			}
			n = r.next(t)
		}
		m := w.held()
		if late := time.Since(m.UpdatedAt); late > time.Second || n.Items[0].Key != m.ID || !strings.Contains(n.Items[0].HTML, "github.com/me/careful") || n.Sub != "1 approval" {
			t.Errorf("after %v: %+v", late, n)
		}
		if _, err := w.client.Deny(w.ctx(), m.ID, "no"); err != nil {
			t.Fatal(err)
		}
		for n = r.next(t); len(n.Gone) == 0; n = r.next(t) {
			if len(n.Items) > 0 && n.Items[0].HTML != "" {
				t.Errorf("the same comes again: %+v", n)
			}
		}
		if n.Count != 0 || n.Gone[0].Key != m.ID || !strings.Contains(n.Gone[0].HTML, ">denied<") {
			t.Errorf("after the no: %+v", n)
		}
		late := w.listen(m.ID) // a page that was not live meanwhile
		defer late.end()
		if n := late.next(t); len(n.Gone) != 1 || n.Gone[0].Key != m.ID || !strings.Contains(n.Gone[0].HTML, ">denied<") {
			t.Errorf("a card that was decided meanwhile: %+v", n)
		}
	})
}

// TestLiveEnds: the end of a session ends its streams, and of five streams the oldest ends.
func TestLiveEnds(t *testing.T) {
	t.Parallel()
	play(t, asksOnce, func(t *testing.T, w *world) {
		w.logIn()
		var all []reader
		for range 5 {
			r := w.listen("")
			defer r.end()
			r.next(t)
			all = append(all, r)
		}
		if rest, err := io.ReadAll(all[0].lines); err != nil || strings.Contains(string(rest), "news") || !strings.Contains(string(rest), "event: enough") {
			t.Errorf("the oldest stream: %q, %v", rest, err)
		}
		w.do(w.request(http.MethodPost, "/logout", url.Values{"csrf": {w.word()}}))
		for _, r := range all[1:] {
			if rest, err := io.ReadAll(r.lines); err != nil || strings.Contains(string(rest), "news") {
				t.Errorf("after the logout: %q, %v", rest, err)
			}
		}
	})
}

// The timeline tells what happened, the newest first; of an agent, a tree or a part; live, and further back on demand.
func TestTimeline(t *testing.T) {
	t.Parallel()
	play(t, func(text string) string {
		if strings.Contains(text, "delegate") {
			return asksOnce("") + "\nSUBAGENT: repo=github.com/evil/miner, prompt=Mine"
		}
		return "Noted <script>\u202eall."
	}, func(t *testing.T, w *world) {
		w.launch("please delegate")
		w.logIn()
		all := w.get("/timeline").Body.String()
		held, asked := strings.Index(all, `<span class="chip wait">held</span><span class="line"><b>main</b>`), strings.Index(all, `<span class="chip info">agent</span>`)
		if held < 0 || asked < held || !strings.Contains(all, `<a href="/needs/`+w.held().ID+`">Decide, or see what came of it</a>`) || !strings.Contains(all, `Noted &lt;script&gt;<span class="code">U&#43;202E</span>all.`) || strings.Contains(all, "<script>") {
			t.Errorf("the timeline:\n%s", all)
		}
		if got := kinds(w.get("/timeline?show=trouble").Body.String()); got != "refused" {
			t.Errorf("the trouble: %s", got)
		}
		if got := kinds(w.get("/timeline?agent=main&show=turns").Body.String()); got != "reply turn reply launched turn agent" {
			t.Errorf("the agent's turns: %s", got)
		}
		if got := kinds(w.get("/timeline?before=3").Body.String()); got != "turn agent" {
			t.Errorf("further back: %s", got)
		}
		for path, want := range map[string]int{"/timeline?show=mail": 200, "/timeline?show=x": 404, "/timeline?agent=nobody": 404, "/timeline?before=x": 400, "/timeline?before=1": 200} {
			if rec := w.get(path); rec.Code != want {
				t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
			}
		}
		r := w.listen("&place=timeline&show=turns&tree=main")
		defer r.end()
		first := r.next(t)
		if first.Title != "Timeline" || len(first.Items) != 6 || first.More != "" || !strings.Contains(first.Side.HTML, "main and all of its tree") {
			t.Errorf("%+v", first)
		}
		for i := range 60 {
			if _, err := w.client.Say(w.ctx(), "main", fmt.Sprint("word ", i)); err != nil {
				t.Fatal(err)
			}
			w.pass(10 * time.Second)
		}
		n := r.next(t)
		for last := fmt.Sprint("word ", 59); len(n.Items) < 100 || !strings.Contains(n.Items[1].HTML, last); n = r.next(t) {
			if len(n.Items) > 1 && n.Items[len(n.Items)-1].HTML != "" && len(n.Items) < 100 {
				t.Errorf("the oldest comes again: %+v", n.Items)
			}
		}
		if !strings.HasPrefix(n.More, "/timeline?before=") || !strings.HasSuffix(n.More, "&show=turns&tree=main") {
			t.Errorf("further back leads to %q", n.More)
		}
		turns, err := w.client.Turns(w.ctx(), "main", api.ListOptions{Limit: 1, Before: "3"})
		if err != nil {
			t.Fatal(err)
		}
		old := turns.Turns[0].ID
		if page := w.get("/agents/main").Body.String(); strings.Contains(page, old) || !strings.Contains(page, `?before=43">Earlier turns</a>`) {
			t.Errorf("the latest turns:\n%s", page)
		}
		if page := w.get("/agents/main?turn=" + old).Body.String(); !strings.Contains(page, `id="`+old+`"`) || !strings.Contains(page, "These are earlier turns.") || strings.Contains(page, ">Turn 3<") || !strings.Contains(page, "&amp;before=3\"") {
			t.Errorf("an old turn:\n%s", page)
		}
	})
}

var chips = regexp.MustCompile(`<summary><span class="chip [a-z]*">([a-z ]+)</span>`)

// kinds are the kinds of the events of a page.
func kinds(page string) string {
	var all []string
	for _, found := range chips.FindAllStringSubmatch(page, -1) {
		all = append(all, found[1])
	}
	return strings.Join(all, " ")
}

// machines are relays of which a test says everything.
type machines struct {
	bridge.RelayAdmin
	mu   sync.Mutex // guards list
	list []bridge.RelayView
}

func (m *machines) RelayList(_ context.Context, _ string, limit int) ([]bridge.RelayView, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.list[:min(limit, len(m.list))]), nil
}

// set changes a relay.
func (m *machines) set(name string, change func(*bridge.RelayView)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.list {
		if m.list[i].Name == name {
			change(&m.list[i])
		}
	}
}

func (*machines) Invitations(context.Context) ([]bridge.RelayJoin, error) { return nil, nil }

// join gives the bridge two relays.
func (w *world) join() *machines {
	now := time.Now()
	m := &machines{list: []bridge.RelayView{
		{Relay: bridge.Relay{Name: "old", State: bridge.RelayRevoked}},
		{Relay: bridge.Relay{Name: "desk", State: bridge.RelayEnrolled, SeenAt: now.Add(-time.Hour)}},
		{Relay: bridge.Relay{Name: "laptop", State: bridge.RelayEnrolled, ConnectedAt: now, SeenAt: now, StoppedAt: now}, Connected: true, KeyID: "k-1",
			Offers:  []bridge.RelayOffer{{Action: "lock", Approval: "each", Bridge: true, ApproveBy: "bridge", Shows: "/bin/lock <b>"}, {Action: "backup", Approval: "never"}},
			Running: []bridge.RelayRun{{Request: "op", Action: "backup", Since: now, Stdout: "one\n"}}},
	}}
	w.relays, w.spaces = m, func(context.Context) (api.WorkspaceList, error) {
		return api.WorkspaceList{Workspaces: []api.Workspace{{Relay: "laptop", Name: "a", Agent: "ada", Branch: "fix", Dirty: 2, Unfetched: 1, Unsaved: []string{"2 untracked files", "1 commit that was not fetched"}}, {Relay: "laptop", Name: "b"}, {Relay: "laptop", Name: "c", Unsaved: []string{"1 stash"}}},
			Missing: []api.RelayTrouble{{Relay: "desk", Error: "it is not connected"}}}, nil
	}
	return m
}

// The relays: what each runs, offers and holds that is nowhere else, those first that need a look; and what a running action writes, each second.
func TestRelays(t *testing.T) {
	t.Parallel()
	play(t, asksOnce, func(t *testing.T, w *world) {
		w.logIn()
		if page := w.get("/relays").Body.String(); !strings.Contains(page, "No machine has joined.") {
			t.Errorf("a bridge without relays:\n%s", page)
		}
		m := w.join()
		w.open(operatorToken, "")
		page := w.get("/relays").Body.String()
		for _, want := range []string{`<span class="chip ok">connected</span><span class="chip bad">stopped</span><p><b>laptop</b>`, "The kill switch is on", "runs <b>backup</b>", "one</pre>", "asks the operator\n<code>/bin/lock &lt;b&gt;</code>", "needs no approval",
			`<a href="/agents/ada">ada</a></dt><dd>fix: 2 untracked files, 1 commit that was not fetched`, `<span class="chip wait">away</span><p><b>desk</b>`, "it is not connected", "1 connected, 1 away", "<dt>c</dt><dd>1 stash</dd>"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s is missing in\n%s", want, page)
			}
		}
		if order := []int{strings.Index(page, "<b>laptop</b>"), strings.Index(page, "<b>desk</b>"), strings.Index(page, "<b>old</b>")}; !slices.IsSorted(order) {
			t.Errorf("a relay that needs a look stands below one that does not: %v", order)
		}
		r := w.listen("&place=relays")
		defer r.end()
		r.next(t)
		m.set("laptop", func(r *bridge.RelayView) {
			r.Running = slices.Clone(r.Running)
			r.Running[0].Stdout += "two\n"
		})
		if n := r.next(t); !strings.Contains(n.Items[0].HTML, "one\ntwo</pre>") || n.Items[1].HTML != "" {
			t.Errorf("a second later: %+v", n)
		}
	})
}

// file is an allowlist that lists repositories, one a line.
type file string

func (f file) Text() (string, error) { return string(f), nil }

func (f file) Compile(text string) (*policy.Policy, error) {
	var r policy.Rules
	for line := range strings.Lines(text) {
		r.Repos = append(r.Repos, policy.RepoRule{Pattern: strings.TrimSpace(line)})
	}
	p, problems := policy.New(r)
	if len(problems) > 0 {
		return nil, bridge.Errorf(bridge.Invalid, "the edited allowlist has a problem: %s", problems[0].Value)
	}
	return p, nil
}

// TestRules: the page shows what is allowed and who used it. It says what a text would do and what an edited allowlist would change, and
// changes nothing.
func TestRules(t *testing.T) {
	t.Parallel()
	reply := func(text string) string {
		if !strings.Contains(text, "Look at the tests") {
			return "I see."
		}
		return "SUBAGENT: repo=github.com/me/careful, prompt=Look\nSUBAGENT: repo=github.com/me/careful, prompt=Look again\nLOCAL_ACTION: <b>\nLOCAL_ACTION: deploy"
	}
	play(t, reply, func(t *testing.T, w *world) {
		w.file = file("github.com/me/careful\n")
		w.open(operatorToken, "")
		w.logIn()
		w.launch("Look at the tests")
		shows := func(rec *httptest.ResponseRecorder, status int, all ...string) {
			t.Helper()
			for _, want := range all {
				if text := strings.Join(strings.Fields(rec.Body.String()), " "); rec.Code != status || !strings.Contains(text, want) {
					t.Errorf("%d, and not %d with %s:\n%s", rec.Code, status, want, text)
				}
			}
		}
		shows(w.get("/rules"), 200,
			`<td class="name">github.com/me/careful</td><td data-head="A person agrees">each time</td><td data-head="Runtime"></td><td data-head="Used in 30 days">2 times by main <time`,
			`no rule allows it now</h2>`, `<td class="name">LOCAL_ACTION deploy</td><td data-head="Asked in 30 days">once by main <time`,
			`github.com/me/careful </textarea>`, `<td class="name">commands in one reply</td><td data-head="At most">10</td>`)
		try := func(more ...string) *httptest.ResponseRecorder {
			f := url.Values{"csrf": {w.word()}}
			for i := 0; i < len(more); i += 2 {
				f.Set(more[i], more[i+1])
			}
			return w.do(w.request(http.MethodPost, "/rules", f))
		}
		before, err := w.client.Commands(w.ctx(), api.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		shows(try("word", "try", "agent", "main", "text", "**LOCAL_ACTION: deploy**\r\nSUBAGENT: repo=github.com/me/careful, prompt=<i>\r\nSUBAGENT: repo=github.com/me/x, prompt=y"), 200,
			`<code>SUBAGENT: repo=github.com/me/careful, prompt=&lt;i&gt;</code><span><span class="chip wait">held</span></span><span class="why">github.com/me/careful needs a person&#39;s approval each time`,
			`prompt=y</code><span><span class="chip bad">refused`, `<code>**LOCAL_ACTION: deploy**</code><span><span class="chip wait">not a command`, `name="agent" value="main"`)
		shows(try("word", "try", "agent", "nobody", "text", "hello"), 404, `role="alert">no agent`, "hello</textarea>")
		shows(try("word", "try", "text", "hello"), 200, "The text has no command", "github.com/me/careful </textarea>")
		shows(try("word", "compare", "allowlist", "github.com/me/x\n"), 200, "Of 3 commands since",
			`<td class="name">SUBAGENT github.com/me/careful</td><td data-head="Before">held</td><td data-head="Edited">refused: repository &#34;github.com/me/careful&#34; is not on the allowlist; allowed: github.com/me/x</td><td data-head="Asked">2 times by main`)
		shows(try("word", "compare", "allowlist", "not a repository"), 400, `role="alert">the edited allowlist has a problem: not a repository`, "not a repository</textarea>")
		shows(try("word", "compare", "allowlist", "github.com/me/*"), 200, "Of 3 commands", "granted: allowed by github.com/me/*")
		shows(w.do(w.request(http.MethodPost, "/rules", url.Values{"word": {"try"}, "text": {"hello"}})), 403, "this form is too old")
		after, err := w.client.Commands(w.ctx(), api.ListOptions{})
		if err != nil || len(after.Commands) != len(before.Commands) {
			t.Errorf("%d commands before and %d after, %v", len(before.Commands), len(after.Commands), err)
		}
	})
}

// TestMail: the page lists conversations with their latest words, shows messages with how far they came, and lets the person write and
// mark as read.
func TestMail(t *testing.T) {
	t.Parallel()
	play(t, func(string) string { return "I see." }, func(t *testing.T, w *world) {
		w.logIn()
		if rec := w.get("/mail"); rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), "This bridge has no mail.") {
			t.Errorf("without mail: %d", rec.Code)
		}
		var err error
		if w.mail, err = mail.New(mail.Options{Steps: w.engine, Files: t.TempDir()}); err != nil {
			t.Fatal(err)
		}
		w.open(operatorToken, "")
		w.launch("Work")
		ann := func() api.Agent {
			a, err := w.client.Agent(w.ctx(), "main")
			if err != nil {
				t.Fatal(err)
			}
			return a
		}()
		bob, err := w.client.Launch(w.ctx(), api.LaunchRequest{Repo: "github.com/me/agent-env", Prompt: "Work", Name: "bob"})
		if err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		general, err := w.client.CreateChannel(w.ctx(), office.ChannelRequest{Name: "general", Members: []string{"main", "bob"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.mail.PostChannel(t.Context(), bridge.AgentID(ann.ID), general.ID, "The tests <b>fail</b>"); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		asked, err := w.mail.Send(t.Context(), bridge.AgentID(ann.ID), mail.Draft{To: "USER", Text: "May I deploy?"})
		if err != nil {
			t.Fatal(err)
		}
		shows := func(path string, all ...string) {
			t.Helper()
			rec := w.get(path)
			text := strings.Join(strings.Fields(rec.Body.String()), " ")
			at := 0
			for _, want := range all { // in this order
				next := strings.Index(text[at:], want)
				if rec.Code != http.StatusOK || next < 0 {
					t.Errorf("%s: %d, no %s behind %d of\n%s", path, rec.Code, want, at, text)
					return
				}
				at += next
			}
		}
		shows("/mail", `<span class="sub" id="sub">1 unread message</span>`, `href="/mail/USER"`, "1 unread</span>", "<b>To you</b> main: May I deploy?",
			`href="/mail/`+general.ID+`"`, "channel</span>", "<b>general</b> main: The tests &lt;b&gt;fail&lt;/b&gt;", "main, bob")
		shows("/mail/"+general.ID, "<h1>general</h1>", "channel of main, bob", `<b>main</b></a>`, `<div class="outside">The tests &lt;b&gt;fail&lt;/b&gt;</div>`, "waits for bob", `placeholder="Write to general…"`)
		post := func(path string, more ...string) *httptest.ResponseRecorder {
			f := url.Values{"csrf": {w.word()}}
			for i := 0; i < len(more); i += 2 {
				f.Set(more[i], more[i+1])
			}
			return w.do(w.request(http.MethodPost, path, f))
		}
		if rec := post("/mail/"+general.ID, "word", "post", "value", "Look at them"); rec.Code != http.StatusSeeOther || !strings.HasPrefix(rec.Header().Get("Location"), "/mail/"+general.ID+"#msg_") {
			t.Errorf("write: %d %s", rec.Code, rec.Body)
		}
		w.pass(10 * time.Minute) // the members are woken one after another
		shows("/mail/general", "<h1>general</h1>", "The tests", "was read by bob", "<b>You</b>", `<div class="words">Look at them</div>`, "was read by main, bob")
		shows("/mail/"+bob.Agent.ID, "<h1>Mail to bob</h1>", "The tests", "Look at them")
		shows("/mail/USER", "<h1>Mail to you</h1>", "May I deploy?", `">Answer</a>`, "Mark 1 message as read")
		if rec := post("/mail/USER", "word", "read", "message", string(asked.Message.ID)); rec.Code != http.StatusSeeOther {
			t.Errorf("read: %d %s", rec.Code, rec.Body)
		}
		shows("/mail/USER", "May I deploy?", "was read by you")
		shows("/mail/main", "<h1>Mail to main</h1>", "Look at them", `placeholder="Write to main…"`)
		if text := w.get("/mail/USER").Body.String() + w.get("/mail").Body.String(); strings.Contains(text, "Mark 1") || strings.Contains(text, "unread") {
			t.Error("what was read is unread")
		}
		if rec := post("/mail/USER", "word", "sing"); rec.Code != http.StatusBadRequest {
			t.Errorf("another word: %d", rec.Code)
		}
		if rec := w.get("/mail/nobody"); rec.Code != http.StatusNotFound {
			t.Errorf("nobody's mail: %d", rec.Code)
		}
		if _, err := w.client.ChannelStatus(w.ctx(), "general", "closed"); err != nil {
			t.Fatal(err)
		}
		shows("/mail/"+general.ID, "closed channel of main, bob")
		if strings.Contains(w.get("/mail/"+general.ID).Body.String(), "Write to general") {
			t.Error("a closed channel takes words")
		}
		if rec := post("/mail/general", "word", "post", "value", "Too late"); rec.Code != http.StatusConflict || !strings.Contains(rec.Body.String(), "takes no messages") || !strings.Contains(rec.Body.String(), "Too late</textarea>") {
			t.Errorf("words for a closed channel: %d %s", rec.Code, rec.Body)
		}
	})
}

// TestMemory: the page shows what an agent remembers, and changes a block that still says what the person read.
func TestMemory(t *testing.T) {
	t.Parallel()
	play(t, func(string) string { return "I see." }, func(t *testing.T, w *world) {
		var err error
		if w.memory, err = memory.New(memory.Options{Steps: w.engine}); err != nil {
			t.Fatal(err)
		}
		w.open(operatorToken, "")
		w.logIn()
		w.launch("Work")
		shows := func(rec *httptest.ResponseRecorder, status int, all ...string) {
			t.Helper()
			text := strings.Join(strings.Fields(rec.Body.String()), " ")
			for _, want := range all {
				if rec.Code != status || !strings.Contains(text, want) {
					t.Errorf("%d, not %d with %s:\n%s", rec.Code, status, want, text)
				}
			}
		}
		write := func(label, version, text string) *httptest.ResponseRecorder {
			return w.do(w.request(http.MethodPost, "/agents/main/memory", url.Values{"csrf": {w.word()}, "label": {label}, "version": {version}, "value": {text}}))
		}
		shows(w.get("/agents/main"), 200, `/memory">Memory</a>`)
		shows(w.get("/agents/main/memory"), 200, "The agent remembers nothing yet.", "Write a block")
		if rec := write("plan", "0", "<b>Docs</b>\r\nfirst"); rec.Code != http.StatusSeeOther || rec.Header().Get("Location") != "/agents/main/memory" {
			t.Errorf("write: %d %s", rec.Code, rec.Body)
		}
		shows(w.get("/agents/main/memory"), 200, "<b>plan</b>", "version 1", "&lt;b&gt;Docs&lt;/b&gt; first")
		shows(w.get("/agents/main/memory?open=plan"), 200, "Change the block plan", `name="version" value="1"`, `name="label" value="plan"`)
		shows(write("plan", "0", "My own"), 409, "The block has changed since you opened it.", "My own</textarea>", `name="version" value="1"`, "&lt;b&gt;Docs&lt;/b&gt;")
		shows(write("plan", "0", strings.Repeat("long ", 5000)), 413, `role="alert">`, `name="version" value="0"`) // and not the version that nobody read
		if rec := write("plan", "1", "My own"); rec.Code != http.StatusSeeOther {
			t.Errorf("write again: %d %s", rec.Code, rec.Body)
		}
		shows(w.get("/agents/main/memory"), 200, "version 2", "My own")
		shows(write("", "0", "Text"), 400, `role="alert">`, "Text</textarea>")
		list, err := w.client.Blocks(w.ctx(), "main", "plan")
		if err != nil || len(list.Blocks) != 2 || list.Blocks[1].Content != "<b>Docs</b>\nfirst" {
			t.Errorf("versions: %+v, %v", list, err)
		}
		if rec := w.get("/agents/nobody/memory"); rec.Code != http.StatusNotFound {
			t.Errorf("nobody's memory: %d", rec.Code)
		}
	})
}

// TestUse: the page draws what each day saw, and its words say the same as its bars.
func TestUse(t *testing.T) {
	t.Parallel()
	reply := func(text string) string {
		if strings.Contains(text, "Work") {
			return "SUBAGENT: repo=github.com/me/careful, prompt=Look"
		}
		return "I see."
	}
	play(t, reply, func(t *testing.T, w *world) {
		w.logIn()
		w.launch("Work")
		m := w.held()
		if _, err := w.client.Approve(w.ctx(), m.ID, m.Held.Hash); err != nil {
			t.Fatal(err)
		}
		w.pass(48 * time.Hour)
		if _, err := w.client.Say(w.ctx(), "main", "Hello"); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		list, err := w.client.Use(w.ctx())
		if err != nil || len(list.Days) != 30 {
			t.Fatalf("%+v, %v", list, err)
		}
		first, between, last := list.Days[27], list.Days[28], list.Days[29]
		if first.Day != "2000-01-01" || first.Launches != 1 || first.Turns < 3 || first.Untold != first.Turns || between.Turns != 0 || last.Day != "2000-01-03" || last.Turns != 1 {
			t.Errorf("%+v", list.Days[26:])
		}
		rec := w.get("/use")
		text := strings.Join(strings.Fields(rec.Body.String()), " ")
		for _, want := range []string{
			fmt.Sprintf("%d turns, 1 launch<", first.Turns+1), fmt.Sprintf("<title>2000-01-01: %d turns, 1 launch</title>", first.Turns), "<title>2000-01-03: 1 turn, 0 launches</title>",
			fmt.Sprintf("highest day: %d<", first.Turns), `<rect x="540" y="0" width="19" height="120"/>`, "0 tokens, $0.00; unknown for", "the last 30 days, in UTC",
		} {
			if rec.Code != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("%d without %s:\n%s", rec.Code, want, text)
			}
		}
	})
}

// told are alerts that were sent.
type told []api.Alert

func (t told) List(context.Context, string, int) ([]api.Alert, error) { return t, nil }
func (told) Test(context.Context) error                               { return nil }
func (told) Trouble(context.Context) (int, string, error)             { return 1, "the address answered 500", nil }

// TestBridge: the page shows how the bridge is, what it sent and what came.
func TestBridge(t *testing.T) {
	t.Parallel()
	play(t, asksOnce, func(t *testing.T, w *world) {
		w.logIn()
		if page := w.get("/bridge").Body.String(); strings.Contains(page, "<h2>Alerts</h2>") || !strings.Contains(page, "Health") {
			t.Errorf("without alerts:\n%s", page)
		}
		now := time.Now()
		w.alerts = told{{Kind: "approval", Agent: "main", State: "waiting", Tries: 3, Trouble: "the address answered 500", MadeAt: now.Add(-time.Hour)}}
		w.database = bridge.DatabaseHealth{Bytes: 300 << 20, BytesBefore: 200 << 20, Before: now.Add(-7 * 24 * time.Hour), Queued: 12, Replicas: []bridge.Replica{{Name: "host:1", Since: now.Add(-time.Minute)}}}
		w.open(operatorToken, "https://bridge.example.com")
		w.launch("go")
		a, err := w.client.Agent(w.ctx(), "main")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.engine.RecordDelivery(w.ctx(), bridge.Delivery{Op: bridge.AgentID(a.ID), External: a.External, Status: "FINISHED"}); err != nil {
			t.Fatal(err)
		}
		page := w.get("/bridge").Body.String()
		for _, want := range []string{"300 MiB, 100 MiB more than 7 d ago", ">12<", "host:1, connected for", "1 alert did not arrive: the address answered 500", "waiting: the address answered 500", "FINISHED", a.External, "https://bridge.example.com"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s is missing in\n%s", want, page)
			}
		}
	})
}
