//go:build browser

package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"drawbridge/api"
	"drawbridge/api/office"
	"drawbridge/api/recall"
	"drawbridge/bridge"
	"drawbridge/internal/pause"
	"drawbridge/mail"
	"drawbridge/memory"
)

// The stories need a browser: scripts/browser.sh finds one, and axe, and names both. Screenshots go into DRAWBRIDGE_SHOTS, if it is set.
var (
	browserPath = os.Getenv("DRAWBRIDGE_BROWSER")
	axePath     = os.Getenv("DRAWBRIDGE_AXE")
	shotsPath   = os.Getenv("DRAWBRIDGE_SHOTS")
)

// stage is a bridge that real browsers can reach.
type stage struct {
	*world
	url     string
	server  *httptest.Server
	browser context.Context
	// away is true while the bridge does not run.
	away atomic.Bool
}

// act plays a story as people would, in real time.
func act(t *testing.T, reply func(text string) string, story func(t *testing.T, s *stage)) {
	t.Helper()
	if browserPath == "" || axePath == "" {
		t.Fatal("run the stories with: make browser")
	}
	within(t, reply, func(t *testing.T, w *world) {
		s := &stage{world: w}
		s.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if s.away.Load() {
				rw.WriteHeader(http.StatusBadGateway)
				return
			}
			s.handler.ServeHTTP(rw, r)
		}))
		defer s.server.Close()
		s.url = s.server.URL
		all, end := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browserPath), chromedp.NoSandbox,
			chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-component-update", true))...)
		defer end()
		var close context.CancelFunc
		s.browser, close = chromedp.NewContext(all)
		defer close()
		story(t, s)
	})
}

// tab is a page that one person has open.
type tab struct {
	t     *testing.T
	ctx   context.Context
	url   string
	close func()
}

// tab opens a browser of a person's own, which is not logged in.
func (s *stage) tab(t *testing.T, width, height int64, scheme string) tab {
	t.Helper()
	if err := chromedp.Do(s.browser); err != nil {
		t.Fatal(err)
	}
	ctx, end := chromedp.NewContext(s.browser, chromedp.WithNewBrowserContext())
	b := tab{t: t, ctx: ctx, url: s.url, close: end}
	if err := chromedp.Do(ctx); err != nil { // a tab lives as long as the context that opened it
		t.Fatal(err)
	}
	b.do(chromedp.EmulateViewport(width, height))
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}); err != nil {
		t.Fatal(err)
	}
	return b
}

// inside is a tab in which somebody has logged in.
func (s *stage) inside(t *testing.T) tab {
	t.Helper()
	b := s.tab(t, 1280, 900, "light")
	b.logIn(s)
	return b
}

func (b tab) logIn(s *stage) {
	b.t.Helper()
	b.open(s.link())
	b.do(chromedp.Click("button"))
	b.until(`document.querySelector("#live.live")`)
}

func (b tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("%v\n%s", err, b.text())
	}
}

func (b tab) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.url + path))
}

// press presses keys of the keyboard, one after another.
func (b tab) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		b.do(chromedp.KeyEvent(key))
	}
}

// is reports whether an expression is true on the page.
func (b tab) is(js string) bool {
	good, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+js+")"))
	return err == nil && good // a page that is just being loaded has no answer
}

// until waits for an expression to be true. A minute is more than anything here takes.
func (b tab) until(js string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	for !b.is(js) {
		if pause.For(ctx, 20*time.Millisecond) != nil {
			b.t.Fatalf("never true: %s\n%s", js, b.text())
		}
	}
}

// text is what a person reads on the page.
func (b tab) text() string {
	text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
	return text
}

// sees waits for words on the page.
func (b tab) sees(words string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.body.innerText.includes(%s)", quoted(words)))
}

func quoted(text string) string {
	out, _ := json.Marshal(text)
	return string(out)
}

// steady waits for the open card to stand still for as long as a decision needs.
func (b tab) steady() {
	b.t.Helper()
	b.until(`document.querySelector(".card.now") && performance.now() > still`)
}

// finds runs axe, which knows the rules of pages for people who hear them or use no mouse.
func (b tab) finds(t *testing.T) {
	t.Helper()
	source, err := os.ReadFile(axePath)
	if err != nil {
		t.Fatal(err)
	}
	found, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](string(source)+`;axe.run(document).then((r) => r.violations.map((v) => v.id + ": " + v.help + " " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 150)).join(" | ")).join("\n"))`, chromedp.EvalAwaitPromise))
	if err != nil || found != "" {
		t.Errorf("axe: %v\n%s", err, found)
	}
	if b.is("document.documentElement.scrollWidth > innerWidth") {
		t.Error("the page is wider than its window")
	}
}

// shot keeps a screenshot.
func (b tab) shot(name string) {
	b.t.Helper()
	if shotsPath == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(shotsPath, name+".png"), picture, 0o600)
	}
	if err != nil {
		b.t.Error(err)
	}
}

// command waits until something is true of a command.
func (s *stage) command(id string, is func(api.Command) bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx(), time.Minute)
	defer cancel()
	for {
		c, err := s.client.Command(ctx, id)
		if err != nil {
			s.t.Fatal(err)
		}
		if is(c) {
			return
		}
		if pause.For(ctx, 20*time.Millisecond) != nil {
			s.t.Fatalf("it never came to this: %+v", c)
		}
	}
}

// begin launches an orchestrator.
func (s *stage) begin(name, prompt string) {
	s.t.Helper()
	if _, err := s.client.Launch(s.ctx(), api.LaunchRequest{Repo: "github.com/me/agent-env", Prompt: prompt, Name: name}); err != nil {
		s.t.Fatal(err)
	}
}

// waiting waits until so many commands wait for a person, and returns them.
func (s *stage) waiting(n int) []api.Command {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx(), time.Minute)
	defer cancel()
	for {
		list, err := s.client.Commands(ctx, api.ListOptions{State: "held", Limit: 1000})
		if err != nil {
			s.t.Fatal(err)
		}
		if len(list.Commands) == n {
			return list.Commands
		}
		if pause.For(ctx, 20*time.Millisecond) != nil {
			past, err := s.client.History(s.ctx(), api.EventOptions{Limit: 20})
			s.t.Fatalf("%d commands wait, not %d; %+v, %v", len(list.Commands), n, past.Events, err)
		}
	}
}

// office opens a post office with a channel, and lets main write into it and to the person. The text stands in a block of its memory, too.
func (s *stage) office(text string) (channel string) {
	s.t.Helper()
	ctx := s.ctx()
	a, err := s.client.Agent(ctx, "main")
	if err != nil {
		s.t.Fatal(err)
	}
	if s.mail, err = mail.New(mail.Options{Steps: s.engine, Files: s.t.TempDir()}); err != nil {
		s.t.Fatal(err)
	}
	if s.memory, err = memory.New(memory.Options{Steps: s.engine}); err != nil {
		s.t.Fatal(err)
	}
	s.open(operatorToken, "")
	if _, err := s.client.WriteBlock(ctx, a.ID, recall.BlockRequest{Label: "plan", Content: text}); err != nil {
		s.t.Fatal(err)
	}
	c, err := s.client.CreateChannel(ctx, office.ChannelRequest{Name: "general", Members: []string{"main"}})
	if err == nil {
		_, err = s.mail.PostChannel(ctx, bridge.AgentID(a.ID), c.ID, text)
	}
	if err == nil {
		_, err = s.mail.Send(ctx, bridge.AgentID(a.ID), mail.Draft{To: "USER", Text: text})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return c.ID
}

// firstThen asks for one thing when it is launched, and notes everything else.
func firstThen(line string) func(string) string {
	return func(text string) string {
		if strings.Contains(text, "delegate") {
			return line
		}
		return "Noted."
	}
}

// A person opens the page for the first time, comes back, and the link lets nobody else in.
func TestBrowserLogin(t *testing.T) {
	act(t, firstThen("Nothing to do."), func(t *testing.T, s *stage) {
		link := s.link()
		b := s.tab(t, 1280, 900, "light")
		defer b.close()
		b.open(link)
		b.sees("This link works once.")
		b.finds(t)
		b.do(chromedp.Click("button"))
		b.sees("Nothing needs you.")
		b.until(`location.search === "" && !location.href.includes("code")`)
		b.open("/")
		b.sees("Nothing needs you.")
		other := s.tab(t, 1280, 900, "light")
		defer other.close()
		other.open(link)
		other.do(chromedp.Click("button"))
		other.sees("This link was used")
		other.open("/timeline")
		other.sees("drawbridge open")
		other.finds(t)
	})
}

// What waits is allowed and denied by keyboard alone. A key that comes with the card, before a person can have read it, decides nothing.
func TestBrowserDecidesByKeyboard(t *testing.T) {
	act(t, firstThen("SUBAGENT: repo=github.com/me/careful, prompt=First\nSUBAGENT: repo=github.com/me/careful, prompt=Second"), func(t *testing.T, s *stage) {
		b := s.inside(t)
		defer b.close()
		s.begin("main", "delegate")
		s.waiting(2)
		b.until(`document.querySelector(".card.now")`)
		b.press("a") // too early
		b.steady()
		if now, err := s.client.Commands(s.ctx(), api.ListOptions{State: "held"}); err != nil || len(now.Commands) != 2 {
			t.Errorf("a key decided what nobody could have read: %+v, %v", now, err)
		}
		b.finds(t)
		open := func() (key, bytes string) {
			key, _ = chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.querySelector(".card.now").dataset.key`))
			bytes, _ = chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.querySelector(".card.now .bytes").innerText`))
			return key, bytes
		}
		first, bytes := open()
		if bytes != "First" {
			t.Errorf("the card shows %q", bytes)
		}
		b.press("a")
		b.until(`document.querySelector("[data-done]")`)
		s.command(first, func(c api.Command) bool { return c.Approved })
		b.until(`document.querySelector(".card.now")`)
		b.steady()
		second, _ := open()
		b.press("d")
		b.until(`document.activeElement.name === "value"`)
		b.press("N", "o", "t", " ", "a", "d", "\r")
		b.sees("Nothing needs you.")
		s.command(second, func(c api.Command) bool { return strings.Contains(c.Reason, "Not ad") })
	})
}

// A turn failed. The page leads from what waits to the words of the failure, and to a second try.
func TestBrowserFindsWhyItFailed(t *testing.T) {
	reply := func(text string) string {
		if strings.Contains(text, "try again") {
			return "Done now."
		}
		return breaks
	}
	act(t, reply, func(t *testing.T, s *stage) {
		b := s.inside(t)
		defer b.close()
		s.begin("main", "delegate")
		b.sees("failed")
		b.until(`document.querySelector(".card.now")`)
		b.finds(t)
		b.open("/timeline?show=trouble")
		b.do(chromedp.Click(`.event summary`))
		b.do(chromedp.Click(`.event details[open] .tabs a`))
		b.until(`location.pathname.startsWith("/agents/") && document.querySelector(".turn .error")`)
		b.do(chromedp.SendKeys("textarea", "try again"), chromedp.Click(".say button"))
		b.sees("Done now.")
		b.open("/")
		b.sees("Nothing needs you.")
	})
}

// A person stops a tree with a reason, sees that it stands, and lets it go on.
func TestBrowserStopsATree(t *testing.T) {
	act(t, firstThen(stillWorks), func(t *testing.T, s *stage) {
		b := s.inside(t)
		defer b.close()
		s.begin("main", "delegate")
		b.sees("At work")
		b.press("g", "a")
		b.until(`document.querySelector("a.agent")`)
		b.finds(t)
		b.do(chromedp.Click("a.agent"), chromedp.Click(".acts summary"), chromedp.SendKeys(".acts input[name=value]", "too dear"), chromedp.Click(".acts details button"))
		b.sees("Let the tree go on")
		b.sees("too dear")
		tree, err := s.client.Tree(s.ctx(), "main")
		if err != nil || tree.StoppedAt.IsZero() {
			t.Errorf("the tree goes on: %+v, %v", tree, err)
		}
		b.do(chromedp.Click(".acts button.careful"))
		b.sees("Stop the tree")
	})
}

// A hundred different questions are answered by keyboard.
func TestBrowserClearsAHundred(t *testing.T) {
	reply := func(text string) string {
		name, begins := strings.CutPrefix(text[strings.LastIndex(text, "\n")+1:], "delegate ")
		if !begins {
			return "Noted."
		}
		var all []string
		for i := range 10 {
			all = append(all, fmt.Sprintf("SUBAGENT: repo=github.com/me/careful, prompt=Task %s-%d", name, i))
		}
		return strings.Join(all, "\n")
	}
	act(t, reply, func(t *testing.T, s *stage) {
		for i := range 10 {
			s.begin(fmt.Sprint("main-", i), fmt.Sprint("delegate ", i))
		}
		s.waiting(100)
		b := s.inside(t)
		defer b.close()
		b.until(`document.querySelectorAll("#items [data-key]").length === 100`)
		for i := range 100 {
			b.steady()
			if i%10 == 0 { // twenty launches an hour are allowed
				b.press("a")
			} else {
				b.press("d", "\r")
			}
			b.until(fmt.Sprintf(`Number(document.getElementById("count").textContent) === %d`, 99-i))
		}
		b.sees("Nothing needs you.")
		s.waiting(0)
	})
}

// Several people look at the same card. One answers; the others see it, and one whose page is not live cannot answer again.
func TestBrowserTwoPeople(t *testing.T) {
	act(t, firstThen(asksOnce("")), func(t *testing.T, s *stage) {
		one, two := s.inside(t), s.inside(t)
		defer one.close()
		defer two.close()
		s.begin("main", "delegate")
		m := s.waiting(1)[0]
		three := s.inside(t)
		defer three.close()
		for _, b := range []tab{one, two, three} {
			b.steady()
		}
		three.is(`(stream.close(), clearTimeout(retry), true)`) // this page hears nothing
		two.until(`performance.now() > placed`)
		two.do(chromedp.Click(`.card.now form[data-shortcut="a"] button`))
		two.sees("allowed")
		one.until(`document.querySelector("[data-done]") && !document.querySelector(".card.now")`)
		three.press("d", "N", "o", "\r")
		three.until(`document.querySelector("[data-done]") && !document.querySelector(".card.now")`)
		three.sees("allowed")
		s.command(m.ID, func(c api.Command) bool { return c.Approved })
	})
}

// The bridge ends and starts again under an open page. The page says so, goes on by itself, and decides.
func TestBrowserOutlivesARestart(t *testing.T) {
	act(t, firstThen(asksOnce("")), func(t *testing.T, s *stage) {
		b := s.inside(t)
		defer b.close()
		s.away.Store(true)
		s.server.CloseClientConnections()
		b.sees("reconnecting")
		s.open(operatorToken, "")
		s.away.Store(false)
		b.until(`document.querySelector("#live.live")`)
		s.begin("main", "delegate")
		m := s.waiting(1)[0]
		b.steady()
		b.press("a")
		s.command(m.ID, func(c api.Command) bool { return c.Approved })
	})
}

// Ten thousand events a minute arrive, for fifteen seconds. The page shows the last of them, stays small, and says how late it was.
func TestBrowserTakesAFlood(t *testing.T) {
	act(t, firstThen("Nothing to do."), func(t *testing.T, s *stage) {
		s.begin("main", "delegate")
		b := s.inside(t)
		defer b.close()
		b.open("/timeline")
		b.until(`document.querySelectorAll(".event").length > 3`)
		a, err := s.client.Agent(s.ctx(), "main")
		if err != nil {
			t.Fatal(err)
		}
		const each, rounds = 17, 150
		for round := range rounds {
			if err := s.engine.Change(t.Context(), func(tx bridge.Change) error {
				for i := range each {
					if err := tx.Record(bridge.EventMemory, bridge.Agent{ID: bridge.AgentID(a.ID), Name: a.Name, Root: bridge.AgentID(a.Root)}, bridge.Event{Text: fmt.Sprintf("passage %d is stored", round*each+i)}); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if err := pause.For(t.Context(), 100*time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		ended := time.Now()
		b.until(fmt.Sprintf(`document.querySelector(".event .line").textContent.includes("passage %d is stored")`, rounds*each-1))
		t.Logf("the last of %d events was seen after %v", rounds*each, time.Since(ended).Round(time.Millisecond))
		if !b.is(`document.querySelectorAll(".event").length === 100`) {
			t.Error("the page has another number of events than 100")
		}
	})
}

// While somebody reads an event, new ones wait, and so does what happens again in an open line. A button shows them.
func TestBrowserReadsInPeace(t *testing.T) {
	act(t, firstThen("Nothing to do."), func(t *testing.T, s *stage) {
		s.begin("main", "delegate")
		b := s.inside(t)
		defer b.close()
		a, err := s.client.Agent(s.ctx(), "main")
		if err != nil {
			t.Fatal(err)
		}
		happens := func(kind, text string) {
			t.Helper()
			if err := s.engine.Change(t.Context(), func(tx bridge.Change) error {
				return tx.Record(kind, bridge.Agent{ID: bridge.AgentID(a.ID), Name: a.Name, Root: bridge.AgentID(a.Root)}, bridge.Event{Text: text})
			}); err != nil {
				t.Fatal(err)
			}
		}
		b.open("/timeline")
		b.sees("Nothing to do.")
		happens(bridge.EventRetry, "tried once")
		b.sees("tried once")
		b.do(chromedp.Click(".event summary"))
		happens(bridge.EventRetry, "tried twice")
		b.until(`!document.getElementById("newer").hidden`)
		happens(bridge.EventMemory, "something else")
		b.until(`document.getElementById("newer").textContent === "1 new event"`)
		if !b.is(`document.querySelector(".event details").open && !document.body.innerText.includes("tried twice")`) {
			t.Errorf("the page changed under a reader:\n%s", b.text())
		}
		b.do(chromedp.Click("#newer"))
		b.sees("something else")
		b.until(`document.querySelectorAll(".event .took")[0].textContent === "2 times" && document.getElementById("newer").hidden`)
	})
}

// markup and hidden are what an agent writes that wants to be taken for something else. No command may hold hidden characters.
const (
	markup = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'> {{.Word}} </textarea></pre></details>"
	hidden = " \u202egnp.exe\u200b\ufeff"
)

// An agent writes markup, hidden characters and ten megabytes into what it can reach. Nothing of it runs, nothing hides, and the page stays usable.
func TestBrowserShowsHostileText(t *testing.T) {
	act(t, func(text string) string {
		switch {
		case strings.Contains(text, "delegate"):
			return hidden + "\nSUBAGENT: repo=github.com/me/careful, prompt=" + markup + "\nLOCAL_ACTION: " + markup + hidden
		case strings.Contains(text, "much"):
			return markup + hidden + "\n" + strings.Repeat("long ", 2_000_000)
		}
		return markup + hidden
	}, func(t *testing.T, s *stage) {
		s.begin("main", "delegate "+markup+hidden)
		s.begin("big", "much")
		m := s.waiting(1)[0]
		s.join().list[2].Running[0].Stdout = markup + hidden
		channel := s.office(markup + hidden)
		for _, width := range []int64{1280, 390} {
			b := s.tab(t, width, 844, "dark")
			b.logIn(s)
			for _, path := range []string{"/", "/needs/" + m.ID, "/agents", "/agents/main", "/agents/big", "/timeline", "/timeline?agent=main&show=commands", "/relays", "/rules", "/use", "/bridge", "/mail", "/mail/USER", "/mail/" + channel, "/agents/main/memory"} {
				b.open(path)
				b.until(`document.querySelector("#live.live")`)
				if path == "/timeline" {
					b.do(chromedp.Click(".event summary"))
				}
				b.finds(t)
				if b.is("window.pwned || document.querySelector('main img, main script')") {
					t.Errorf("%s: an agent's markup became part of the page", path)
				}
				if strings.ContainsAny(b.text(), "\u202e\u200b\ufeff") {
					t.Errorf("%s: hidden characters stand on the page", path)
				}
			}
			b.close()
		}
	})
}

// A person wants to take a rule away, sees that an agent needs it, and keeps it. Then they find out why an agent's line did not run.
func TestBrowserComparesRules(t *testing.T) {
	act(t, firstThen(asksOnce("")), func(t *testing.T, s *stage) {
		s.file = file("github.com/me/careful\n")
		s.open(operatorToken, "")
		for _, width := range []int64{1280, 390} {
			b := s.tab(t, width, 844, "light")
			b.logIn(s)
			if width == 1280 {
				s.begin("main", "delegate")
				s.waiting(1)
				b.press("g", "l")
			} else {
				b.do(chromedp.Click("#rest-open"), chromedp.Click("#rest a[href='/rules']"))
			}
			b.sees("once by main")
			b.until(`document.querySelector("textarea[name=allowlist]").value = "github.com/me/other"`)
			b.do(chromedp.Click("textarea[name=allowlist] ~ .acts button"))
			b.sees("Of 1 command since")
			b.sees("is not on the allowlist; allowed: github.com/me/other")
			b.finds(t)
			b.shot(fmt.Sprintf("rules-compared-%d", width))
			b.do(chromedp.SendKeys("textarea[name=text]", "**SUBAGENT: repo=github.com/me/careful, prompt=x**"), chromedp.SendKeys("input[name=agent]", "main"), chromedp.Click("textarea[name=text] ~ .acts button"))
			b.sees("begins with emphasis")
			b.until(`document.getElementById("tried").getBoundingClientRect().bottom <= innerHeight`)
			b.finds(t)
			b.close()
		}
	})
}

// An agent asks the person by mail. They read it, answer in the channel, and mark it as read, all from a phone.
func TestBrowserAnswersMail(t *testing.T) {
	act(t, firstThen("Noted."), func(t *testing.T, s *stage) {
		s.begin("main", "work")
		channel := s.office("May I deploy?")
		b := s.tab(t, 390, 844, "dark")
		defer b.close()
		b.logIn(s)
		b.do(chromedp.Click("#rest-open"), chromedp.Click("#rest a[href='/mail']"))
		b.sees("1 unread")
		b.do(chromedp.Click("a.row[href='/mail/USER']"))
		b.sees("May I deploy?")
		b.do(chromedp.Click("form.acts button"))
		b.until(`document.querySelector("form.acts").hidden`)
		b.sees("was read by you")
		b.until(`document.querySelector("#live.live")`)
		b.press("g", "m")
		b.until(`location.pathname === "/mail"`)
		b.do(chromedp.Click("a.row[href='/mail/"+channel+"']"), chromedp.SendKeys("textarea[name=value]", "Yes, at noon."), chromedp.Click(".say button"))
		b.sees("Yes, at noon.")
		b.sees("was read by main") // live
		b.finds(t)
		b.shot("mail-answered-390")
	})
}

// A relay goes away while work waits for it, and comes back. An open page follows, and the person sees at the end that there is nothing to do.
func TestBrowserFollowsARelay(t *testing.T) {
	act(t, firstThen(asksOnce("")), func(t *testing.T, s *stage) {
		m := s.join()
		s.open(operatorToken, "")
		b := s.inside(t)
		defer b.close()
		b.open("/relays")
		b.until(`document.querySelector("#live.live")`)
		b.sees("1 connected, 1 away")
		m.set("laptop", func(r *bridge.RelayView) { r.Connected, r.Running = false, nil })
		s.begin("main", "delegate") // an event, so that the page looks
		b.sees("0 connected, 2 away")
		m.set("laptop", func(r *bridge.RelayView) { r.Connected, r.StoppedAt = true, time.Time{} })
		m.set("desk", func(r *bridge.RelayView) { r.Connected = true })
		s.begin("second", "delegate")
		b.sees("2 connected")
		b.until(`document.querySelectorAll(".relay .chip.ok").length === 2 && !document.querySelector(".relay .chip.wait")`)
	})
}

// axe finds nothing in any view, wide and narrow, light and dark; a person looks at the pictures.
func TestBrowserViews(t *testing.T) {
	act(t, firstThen("I look first.\n"+asksOnce("")+"\nSUBAGENT: repo=github.com/evil/miner, prompt=Mine\n- SUBAGENT: repo=github.com/me/careful, prompt=x"), func(t *testing.T, s *stage) {
		s.begin("main", "delegate")
		s.begin("helper", "look at the docs")
		s.join()
		s.alerts = told{{Kind: "approval", Agent: "main", State: "waiting", Tries: 3, Trouble: "the address answered 500", MadeAt: time.Now()}, {Kind: "away", State: "sent", Tries: 1, MadeAt: time.Now()}}
		channel := s.office("The tests fail on the branch of the health check. Shall I look into it, or wait?")
		s.waiting(1)
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{1280, 390} {
				b := s.tab(t, width, map[int64]int64{1280: 900, 390: 844}[width], scheme)
				b.logIn(s)
				for name, path := range map[string]string{"needs": "/", "agents": "/agents", "conversation": "/agents/main", "timeline": "/timeline", "trouble": "/timeline?agent=main&show=trouble", "relays": "/relays", "rules": "/rules", "use": "/use", "bridge": "/bridge", "mail": "/mail", "channel": "/mail/" + channel, "memory": "/agents/main/memory?open=plan"} {
					b.open(path)
					b.until(`document.querySelector("#live.live")`)
					b.finds(t)
					b.shot(fmt.Sprintf("%s-%d-%s", name, width, scheme))
				}
				b.close()
			}
		}
	})
}
