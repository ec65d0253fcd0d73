package openai_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drawbridge/internal/httpx"
	"drawbridge/openai"
	"drawbridge/openai/upstream"
	"drawbridge/proof/pipes"
)

// frozen stops the door's clock, so that a slow machine changes nothing.
func frozen(o *openai.Options) {
	at := time.Now()
	o.Now = func() time.Time { return at }
}

// broken records a turn of a body whose connection broke a moment ago, begun so long before.
func broken(t *testing.T, w *world, token, body string, ago time.Duration) {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	row := openai.Turn{ID: "chatcmpl-1", Session: "ses_1", Token: token, Model: "m", State: openai.TurnEnded, Body: sum(body), StartedAt: now.Add(-ago), BrokenAt: now, EndedAt: now, Answer: []byte(`{"text":"first","finish":"stop"}`)}
	if err := w.records.Save(t.Context(), openai.Change{Turns: []openai.Turn{row}}); err != nil {
		t.Fatal(err)
	}
}

// TestOneRepeatForOneBreak: of several requests of the same body that come at once after a connection broke, one gets its answer, and each
// of the others is a turn of its own, whether they say that they are repeats or not.
func TestOneRepeatForOneBreak(t *testing.T) {
	t.Parallel()
	f := &fake{}
	w := newWorld(t, f, frozen)
	body := ask(false, said("user", "once"))
	broken(t, w, "all", body, time.Second)
	var all sync.WaitGroup
	got := make([]string, 8)
	for i := range got {
		all.Go(func() { _, got[i] = w.post("/v1/chat/completions", body) })
	}
	all.Wait()
	if n := strings.Count(strings.Join(got, " "), `"first"`); n != 1 || f.starts() != len(got)-1 {
		t.Errorf("%d requests got the first answer, and %d began a turn: %s", n, f.starts(), got)
	}
}

// TestRepeatsAtOnce: a client that lost its connection in the middle repeats at once, before the door has seen the break. Nothing is begun twice.
func TestRepeatsAtOnce(t *testing.T) {
	t.Parallel()
	for _, mark := range []string{"", "1"} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{gate: make(chan struct{}), say: func(upstream.Request) []upstream.Event {
				return []upstream.Event{{Kind: upstream.Text, Text: "first"}, {Text: "(gate)"}, {Kind: upstream.Text, Text: " half"}, {Kind: upstream.Ended, Finish: "stop"}}
			}}
			w := newBareWorld(t, f)
			body := ask(true, said("user", "again"))
			ctx, cut := context.WithCancel(t.Context())
			go w.try(ctx, "/v1/chat/completions", body)
			synctest.Wait() // the first is in the middle of its answer
			got := make(chan string, 1)
			go func() {
				_, answer := w.post("/v1/chat/completions", body, "X-Stainless-Retry-Count", mark)
				got <- answer
			}()
			synctest.Wait() // the repeat waits to learn what became of the first
			cut()
			synctest.Wait()
			close(f.gate)
			if answer := <-got; !strings.Contains(answer, "half") || f.starts() != 1 {
				t.Errorf("marked %q: %d turns began; the repeat got %s", mark, f.starts(), answer)
			}
			if w.post("/v1/chat/completions", body); f.starts() != 2 {
				t.Errorf("marked %q: a broken connection makes one repeat, not two", mark)
			}
		})
	}
}

// heldOnce are records whose first save waits until it is let go.
type heldOnce struct {
	openai.Records
	saves atomic.Int64
	let   chan struct{}
}

func (r *heldOnce) Save(ctx context.Context, c openai.Change) error {
	if r.saves.Add(1) == 1 {
		<-r.let
	}
	return r.Records.Save(context.WithoutCancel(ctx), c)
}

// TestRepeatBeforeTheRecord: the repeat of a request whose record is being written waits for that.
func TestRepeatBeforeTheRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		r := &heldOnce{let: make(chan struct{})}
		w := newBareWorld(t, f, func(o *openai.Options) { r.Records, o.Records = o.Records, r })
		body := ask(false, said("user", "go"))
		ctx, cut := context.WithCancel(t.Context())
		go w.try(ctx, "/v1/chat/completions", body)
		synctest.Wait() // its record is being written
		cut()
		got := make(chan int, 1)
		go func() {
			status, _ := w.post("/v1/chat/completions", body)
			got <- status
		}()
		synctest.Wait() // the repeat waits, or has begun a turn of its own
		close(r.let)
		status := <-got
		synctest.Wait()
		if status != 200 || f.starts() != 1 {
			t.Errorf("%d, %d turns", status, f.starts())
		}
	})
}

// TestAnswerSentWhole, in virtual time: a request that follows a whole answer is a new turn, whatever it says of itself. Where the connection of an openai
// library ended right behind the answer, the answer may be lost, and one request soon after that gets it.
func TestAnswerSentWhole(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		first, second string        // what the requests say of themselves
		open          bool          // the connection of the first stays open
		same          bool          // the second comes on the connection of the first
		after         time.Duration // until the connection of the first ends
		wait          time.Duration // from then on to the second
		again         bool          // the second gets the answer of the first
	}{
		"on the same connection":    {"0", "1", true, true, 0, 0, false},
		"beside an open one":        {"0", "1", true, false, 0, 0, false},
		"a client without a pool":   {"", "1", false, false, 0, 0, false},
		"at once":                   {"0", "0", false, false, 0, 0, true},
		"at once, marked":           {"0", "1", false, false, 0, 0, true},
		"within half a second":      {"0", "0", false, false, 200 * time.Millisecond, 400 * time.Millisecond, true},
		"after half a second":       {"0", "0", false, false, 0, 600 * time.Millisecond, false},
		"marked, within 2 seconds":  {"0", "2", false, false, 0, 1900 * time.Millisecond, true},
		"marked, after 2 seconds":   {"0", "2", false, false, 0, 2100 * time.Millisecond, false},
		"the connection ends later": {"0", "1", false, false, 300 * time.Millisecond, 0, false},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", stream), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					f := &fake{}
					w := newBareWorld(t, f)
					l := pipes.New()
					hs := &http.Server{Handler: w.door.Handler()}
					httpx.Watch(hs)
					served := make(chan error, 1)
					go func() { served <- hs.Serve(l) }()
					client := func() *http.Client { return &http.Client{Transport: &http.Transport{DialContext: l.Dial}} }
					asks := func(c *http.Client, mark string) {
						req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://door/v1/chat/completions", strings.NewReader(ask(stream, said("user", "Status please"))))
						if err != nil {
							t.Fatal(err)
						}
						req.Header = http.Header{"Authorization": {"Bearer " + w.token}, "Content-Type": {"application/json"}}
						if mark != "" {
							req.Header["X-Stainless-Retry-Count"], req.Header["Connection"] = []string{mark}, []string{"keep-alive"}
						}
						resp, err := c.Do(req)
						if err != nil {
							t.Fatal(err)
						}
						defer resp.Body.Close()
						if answer, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(answer), "Hello") {
							t.Errorf("%s, %v", answer, err)
						}
					}
					one, two := client(), client()
					asks(one, tt.first)
					time.Sleep(tt.after)
					if !tt.open {
						one.CloseIdleConnections()
					}
					time.Sleep(tt.wait)
					if tt.same {
						two = one
					}
					asks(two, tt.second)
					if again := f.starts() == 1; again != tt.again {
						t.Errorf("%d turns", f.starts())
					}
					if two.CloseIdleConnections(); tt.again {
						if asks(client(), tt.second); f.starts() != 2 {
							t.Error("an answer was given again twice")
						}
					}
					if err := hs.Close(); err != nil {
						t.Error(err)
					}
					<-served
				})
			})
		}
	}
}

// TestRepeatOfARefusal: a request that was refused before anything was begun is no repeat of an earlier turn of the same body, whoever
// refused it, and though nobody had that turn's answer.
func TestRepeatOfARefusal(t *testing.T) {
	t.Parallel()
	for _, byDoor := range []bool{false, true} {
		f := &fake{}
		var later atomic.Int64
		w := newWorld(t, f, func(o *openai.Options) {
			o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		})
		body := ask(false, said("user", "Status please"))
		if byDoor {
			w.mint(openai.Token{Name: "slow", Models: []string{"m"}, PerMinute: 1})
			broken(t, w, "slow", body, 5*time.Minute)
			later.Store(int64(time.Minute))
			w.post("/v1/chat/completions", ask(false, said("user", "something else")))
		} else {
			broken(t, w, "all", body, 5*time.Minute)
			later.Store(int64(time.Minute)) // after which a request of the same body is a new turn
			f.refuse = &upstream.Error{Status: 429, Message: "busy", NothingHappened: true}
		}
		if status, got := w.post("/v1/chat/completions", body); status != 429 {
			t.Fatalf("%d %s", status, got)
		}
		later.Store(int64(3 * time.Minute))
		f.refuse = nil
		if status, got := w.post("/v1/chat/completions", body, "X-Stainless-Retry-Count", "1"); status != 200 || !strings.Contains(got, "Hello") {
			t.Errorf("refused by the door %t: %d %s", byDoor, status, got)
		}
	}
}

// TestParkedTurnIsMetAfterARestart: a repeat gets the calls of a turn that waits, and the turn still takes their results.
func TestParkedTurnIsMetAfterARestart(t *testing.T) {
	t.Parallel()
	f := &fake{resumes: true, say: func(upstream.Request) []upstream.Event {
		return append(calls("ls"), upstream.Event{Kind: upstream.Text, Text: "Done"}, upstream.Event{Kind: upstream.Ended, Finish: "stop"})
	}}
	path := filepath.Join(t.TempDir(), "drawbridge.db")
	w := open(t, path, f)
	w.mint(openai.Token{Name: "all", Models: []string{"*"}})
	q, token := ask(false, said("user", "go")), w.token
	_, first := w.post("/v1/chat/completions", q, "Idempotency-Key", "k")
	w.stop()
	w = open(t, path, f)
	w.token = token
	if _, again := w.post("/v1/chat/completions", q, "Idempotency-Key", "k"); again != first {
		t.Errorf("%s, want %s", again, first)
	}
	id := read(t, first).Choices[0].Message.ToolCalls[0].ID
	if status, body := w.post("/v1/tool_results", fmt.Sprintf(`{"tool_call_id":%q,"content":"x","stream":false}`, id)); status != 200 || !strings.Contains(body, "Done") || f.starts() != 1 {
		t.Errorf("%d %s, %d turns", status, body, f.starts())
	}
}

// TestRepeatAfterTheClientsTimeout: clients wait ten minutes and more for an answer before they repeat.
func TestRepeatAfterTheClientsTimeout(t *testing.T) {
	t.Parallel()
	f := &fake{}
	w := newWorld(t, f)
	body := ask(false, said("user", "slow"))
	broken(t, w, "all", body, 25*time.Minute)
	if status, answer := w.post("/v1/chat/completions", body, "X-Stainless-Retry-Count", "2"); status != 200 || !strings.Contains(answer, `"first"`) || f.starts() != 0 {
		t.Errorf("%d %s, %d starts", status, answer, f.starts())
	}
}

// TestRepeatAfterAKill: the connections of a process that was killed broke with it, also those of turns that were over. Where several processes share
// the records, a repeat waits until it is known that the one before is over. All in virtual time.
func TestRepeatAfterAKill(t *testing.T) {
	t.Parallel()
	body := ask(false, said("user", "once"))
	for name, c := range map[string]struct {
		alone bool
		state openai.TurnState
		lives func(*openai.Turn) // what the other process does a second later; nil when it was killed
		wants []string
		waits time.Duration
	}{
		"alone":           {true, openai.TurnEnded, nil, []string{"first", "Hello"}, 0},
		"killed":          {false, openai.TurnEnded, nil, []string{"first", "Hello"}, 30 * time.Second},
		"killed at work":  {false, openai.TurnRunning, nil, []string{"backend_gone", "Hello"}, 30 * time.Second},
		"gives a sign":    {false, openai.TurnRunning, func(r *openai.Turn) { r.Held = r.Held.Add(2 * time.Second) }, []string{"Hello"}, time.Second},
		"answer was had":  {false, openai.TurnEnded, func(r *openai.Turn) { r.HadAt = time.Now() }, []string{"Hello"}, time.Second},
		"its reader left": {false, openai.TurnEnded, func(r *openai.Turn) { r.BrokenAt = time.Now() }, []string{"first", "Hello"}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newBareWorld(t, &fake{}, func(o *openai.Options) { o.Alone = c.alone })
				defer w.stop()
				now := time.Now()
				row := openai.Turn{ID: "chatcmpl-1", Session: "ses_1", Token: "all", Model: "m", State: c.state, Body: sum(body), Holder: "before", Held: now.Add(30 * time.Second), StartedAt: now}
				if c.state.Over() {
					row.EndedAt, row.Answer = now, []byte(`{"text":"first","finish":"stop"}`)
				}
				save := func(row openai.Turn) {
					if err := w.records.Save(t.Context(), openai.Change{Turns: []openai.Turn{row}}); err != nil {
						t.Error(err)
					}
				}
				save(row)
				if c.lives != nil {
					time.AfterFunc(time.Second, func() {
						row.Version++
						c.lives(&row)
						save(row)
					})
				}
				for n, want := range c.wants {
					began := time.Now()
					_, answer := w.post("/v1/chat/completions", body)
					if took := time.Since(began); !strings.Contains(answer, want) || n == 0 && (took < c.waits || took > c.waits+time.Second) {
						t.Errorf("request %d: %s after %s, want %s after %s", n, answer, took, want, c.waits)
					}
				}
			})
		})
	}
}

// TestLateMarkedRepeat: a request that says that it is a repeat gets the answer of a process before only for a while after that process ended.
func TestLateMarkedRepeat(t *testing.T) {
	t.Parallel()
	for late, begun := range map[time.Duration]int{time.Minute: 0, 15 * time.Minute: 1} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{}
			w := newBareWorld(t, f)
			defer w.stop()
			body, now := ask(false, said("user", "once")), time.Now()
			row := openai.Turn{ID: "chatcmpl-1", Session: "ses_1", Token: "all", Model: "m", State: openai.TurnEnded, Body: sum(body), Holder: "before", Held: now, StartedAt: now, EndedAt: now, Answer: []byte(`{"text":"first","finish":"stop"}`)}
			if err := w.records.Save(t.Context(), openai.Change{Turns: []openai.Turn{row}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(late)
			if _, answer := w.post("/v1/chat/completions", body, "X-Stainless-Retry-Count", "1"); strings.Contains(answer, "first") != (begun == 0) || f.starts() != begun {
				t.Errorf("after %s: %s, %d turns begun", late, answer, f.starts())
			}
		})
	}
}

// TestALivingTurnIsNotTakenOver: a replica takes over no turn of one that lives, also when that one changes the record of a turn that runs long.
func TestALivingTurnIsNotTakenOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{say: func(upstream.Request) []upstream.Event {
			return []upstream.Event{{Kind: upstream.Text, Text: "(wait)"}}
		}}
		several := func(o *openai.Options) { o.Alone = false }
		one := newBareWorld(t, f, several)
		time.Sleep(time.Second) // the other one looks between two signs of the first, and the caller leaves between a sign and a look
		two := newBareWorld(t, f, several, func(o *openai.Options) { o.Records = one.records })
		defer one.stop()
		defer two.stop()
		ctx, leave := context.WithTimeout(t.Context(), 61500*time.Millisecond)
		defer leave()
		body := ask(false, said("user", "go"))
		look := func() openai.Turn {
			found, err := one.records.Look(t.Context(), openai.Query{Token: "all", Body: sum(body)})
			if err != nil || len(found.Turns) != 1 {
				t.Fatalf("%+v, %v", found.Turns, err)
			}
			return found.Turns[0]
		}
		one.send(ctx, "/v1/chat/completions", body) // until the caller leaves
		before := look()
		time.Sleep(10 * time.Second)
		if now := look(); now.Holder != before.Holder || now.State.Over() || now.BrokenAt.IsZero() || time.Until(now.Held) < 25*time.Second {
			t.Errorf("was %+v, is %+v", before, now)
		}
	})
}

// TestARepeatedResultIsRefused: while other calls wait, the first result of a call stays.
func TestARepeatedResultIsRefused(t *testing.T) {
	t.Parallel()
	f := &fake{say: func(upstream.Request) []upstream.Event {
		return append(calls("ls", "pwd"), upstream.Event{Kind: upstream.Text, Text: "Done"}, upstream.Event{Kind: upstream.Ended, Finish: "stop"})
	}}
	w := newWorld(t, f)
	_, body := w.post("/v1/chat/completions", ask(false, said("user", "go")))
	m := read(t, body).Choices[0].Message
	result := func(n int, text string) (int, string) {
		return w.post("/v1/tool_results", fmt.Sprintf(`{"tool_call_id":%q,"content":%q,"stream":false}`, m.ToolCalls[n].ID, text))
	}
	if status, body := result(0, "one"); status != 200 || !strings.Contains(body, `"waiting"`) {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := result(0, "two"); status != 422 || !strings.Contains(body, "already_answered") {
		t.Errorf("%d %s", status, body)
	}
	if status, body := result(1, "three"); status != 200 || !strings.Contains(body, "Done") {
		t.Fatalf("%d %s", status, body)
	}
	turn := f.turns[f.started[0].Turn]
	turn.mu.Lock()
	defer turn.mu.Unlock()
	for _, r := range turn.got {
		if r.Text == "two" {
			t.Errorf("the second result of a call replaced the first: %+v", turn.got)
		}
	}
}

// TestResultsAgain: results that come again after their answer was had get the same answer, and other results are refused. Nothing new begins.
func TestResultsAgain(t *testing.T) {
	t.Parallel()
	f := &fake{say: func(upstream.Request) []upstream.Event {
		return append(calls("ls"), upstream.Event{Kind: upstream.Text, Text: "Done"}, upstream.Event{Kind: upstream.Ended, Finish: "stop"})
	}}
	w := newWorld(t, f)
	_, body := w.post("/v1/chat/completions", ask(false, said("user", "go")))
	id := read(t, body).Choices[0].Message.ToolCalls[0].ID
	asked := called(id)
	result := func(text string) string {
		return fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%q}`, id, text)
	}
	_, first := w.post("/v1/chat/completions", ask(false, said("user", "go"), asked, result("x")))
	if !strings.Contains(first, "Done") {
		t.Fatal(first)
	}
	if _, again := w.post("/v1/chat/completions", ask(false, said("user", "go"), asked, result("x"))); again != first {
		t.Errorf("the same results: %s, want %s", again, first)
	}
	if _, again := w.post("/v1/chat/completions", ask(false, said("user", "go"), asked, result("x"), said("system", "Be short."))); again != first {
		t.Errorf("the same results and a system message: %s, want %s", again, first)
	}
	if status, body := w.post("/v1/chat/completions", ask(false, said("user", "go"), asked, result("y"))); status != 422 || !strings.Contains(body, "already_answered") {
		t.Errorf("other results: %d %s", status, body)
	}
	if f.starts() != 1 {
		t.Errorf("%d turns", f.starts())
	}
}

// TestRepeatsAtReplicas: a repeat gets the answer at whichever replica it comes, also when another one gave it out meanwhile.
func TestRepeatsAtReplicas(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"k", ""} {
		f := &fake{}
		one := newWorld(t, f, frozen, func(o *openai.Options) { o.Alone = false })
		two := newWorld(t, f, frozen, func(o *openai.Options) { o.Records, o.Alone = one.records, false })
		body := ask(false, said("user", "go"))
		if key == "" {
			broken(t, one, "all", body, time.Second)
		}
		two.token = one.token
		_, first := one.post("/v1/chat/completions", body, "Idempotency-Key", key)
		for n, w := range []*world{two, one, two} {
			status, again := w.post("/v1/chat/completions", body, "Idempotency-Key", key)
			if status != 200 || key != "" && (again != first || f.starts() != 1) || key == "" && f.starts() != n+1 {
				t.Errorf("key %q, repeat %d: %d %s, %d turns, want %s", key, n, status, again, f.starts(), first)
			}
		}
	}
}

// TestTurnThatNobodyHolds: a turn of another process, of which no record says who reads it or until when it is held, keeps no request waiting.
func TestTurnThatNobodyHolds(t *testing.T) {
	t.Parallel()
	f := &fake{}
	w := newWorld(t, f, frozen, func(o *openai.Options) { o.Alone = false })
	body, begun := ask(false, said("user", "go")), time.Now().Add(-time.Hour).UTC().Truncate(time.Microsecond)
	row := openai.Turn{ID: "chatcmpl-1", Session: "ses_1", Token: "all", Model: "m", State: openai.TurnEnded, Body: sum(body), StartedAt: begun, EndedAt: begun, Answer: []byte(`{"text":"first","finish":"stop"}`)}
	if err := w.records.Save(t.Context(), openai.Change{Turns: []openai.Turn{row}}); err != nil {
		t.Fatal(err)
	}
	if status, got := w.post("/v1/chat/completions", body); status != 200 || strings.Contains(got, `"first"`) || f.starts() != 1 {
		t.Errorf("%d %s", status, got)
	}
}

// TestRefusedResultIsFree: where a backend that keeps nothing refuses before anything was begun, the result of a tool may come again, by either way.
func TestRefusedResultIsFree(t *testing.T) {
	t.Parallel()
	for _, byMessages := range []bool{false, true} {
		f := keepsNothing()
		w := newWorld(t, f, func(o *openai.Options) { o.Backends[0].Stateless = true })
		_, body := w.post("/v1/chat/completions", ask(false, said("user", "go")))
		id := read(t, body).Choices[0].Message.ToolCalls[0].ID
		result := fmt.Sprintf(`{"tool_call_id":%q,"content":"x","stream":false}`, id)
		f.refuse = &upstream.Error{Status: 429, Message: "busy", NothingHappened: true}
		f.meanwhile = func() { // it is recorded that the caller has the first answer
			found, err := w.records.Look(t.Context(), openai.Query{Token: "all", Calls: []string{id}})
			if err != nil || len(found.Turns) == 0 {
				t.Errorf("%+v, %v", found, err)
				return
			}
			if err := w.records.Save(t.Context(), openai.Change{Turns: found.Turns[:1]}); err != nil && !errors.Is(err, openai.ErrConflict) { // the door was faster
				t.Error(err)
			}
		}
		refused := func() (int, string) { return w.post("/v1/tool_results", result) }
		if byMessages {
			asked := called(id)
			refused = func() (int, string) {
				return w.post("/v1/chat/completions", ask(false, said("user", "go"), asked, fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":"x"}`, id)))
			}
		}
		if status, body := refused(); status != 429 {
			t.Fatalf("%d %s", status, body)
		}
		f.refuse = nil
		if status, body := w.post("/v1/tool_results", result); status != 200 || !strings.Contains(body, "Done") {
			t.Errorf("the same result again: %d %s", status, body)
		}
		if status, body := w.post("/v1/tool_results", result); status != 422 || !strings.Contains(body, "already_answered") {
			t.Errorf("once more: %d %s", status, body)
		}
		if kept, err := w.records.State(t.Context(), session(t, w, id), openai.BodyKey("chatcmpl-"+strings.TrimSuffix(strings.TrimPrefix(id, "call_"), "_1"))); err != nil || kept != nil {
			t.Errorf("the request is kept though the backend has the results: %s, %v", kept, err)
		}
	}
}

// keepsNothing is a backend that calls bash, and says Done to a request with the result.
func keepsNothing() *fake {
	return &fake{say: func(r upstream.Request) []upstream.Event {
		if len(r.Messages) > 1 {
			return []upstream.Event{{Kind: upstream.Text, Text: "Done"}, {Kind: upstream.Ended, Finish: "stop"}}
		}
		out := calls("ls")
		out[len(out)-1] = upstream.Event{Kind: upstream.Ended, Finish: "tool_calls"}
		return out
	}}
}

// called is the message of the assistant with a call.
func called(id string) string {
	return fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}]}`, id)
}

// session is the session of a call.
func session(t *testing.T, w *world, call string) string {
	t.Helper()
	found, err := w.records.Look(t.Context(), openai.Query{Token: "all", Calls: []string{call}})
	if err != nil || len(found.Turns) == 0 {
		t.Fatalf("%+v, %v", found, err)
	}
	return found.Turns[0].Session
}

// TestImageInAResult: a backend that keeps nothing gets the image that a tool returned to /v1/tool_results.
func TestImageInAResult(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"https://example.com/a.png", "data:image/png;base64,aGk="} {
		f := keepsNothing()
		w := newWorld(t, f, func(o *openai.Options) { o.Backends[0].Stateless = true })
		_, body := w.post("/v1/chat/completions", ask(false, said("user", "go")))
		id := read(t, body).Choices[0].Message.ToolCalls[0].ID
		status, body := w.post("/v1/tool_results", fmt.Sprintf(`{"tool_call_id":%q,"content":[{"type":"text","text":"a chart"},{"type":"image_url","image_url":{"url":%q}}],"stream":false}`, id, address))
		last := f.started[len(f.started)-1].Messages
		if m := last[len(last)-1]; status != 200 || m.Text != "a chart" || len(m.Images) != 1 || m.Images[0].Address() != address {
			t.Errorf("%d %s; the backend got %+v", status, body, m)
		}
	}
}

// TestResultsInTheMessagesEndTheCall: where the backend keeps nothing, a result counts once, by whichever of the two ways it came first.
func TestResultsInTheMessagesEndTheCall(t *testing.T) {
	t.Parallel()
	f := keepsNothing()
	w := newWorld(t, f, func(o *openai.Options) { o.Backends[0].Stateless = true })
	_, body := w.post("/v1/chat/completions", ask(false, said("user", "go")))
	id := read(t, body).Choices[0].Message.ToolCalls[0].ID
	asked := called(id)
	if status, body := w.post("/v1/chat/completions", ask(false, said("user", "go"), asked, fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":"x"}`, id))); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := w.post("/v1/tool_results", fmt.Sprintf(`{"tool_call_id":%q,"content":"y","stream":false}`, id)); status != 422 || !strings.Contains(body, "already_answered") || f.starts() != 2 {
		t.Errorf("%d %s, %d starts", status, body, f.starts())
	}
}

// TestRateAtOnce: requests that come at once do not pass the token's rate together.
func TestRateAtOnce(t *testing.T) {
	t.Parallel()
	f := &fake{}
	w := newWorld(t, f, frozen)
	w.mint(openai.Token{Name: "three", Models: []string{"m"}, PerMinute: 3})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { w.post("/v1/chat/completions", ask(false, said("user", fmt.Sprint(i)))) })
	}
	all.Wait()
	if f.starts() != 3 {
		t.Errorf("%d turns began", f.starts())
	}
}

// TestCallWithoutArguments: its pieces together are {} in a stream, too.
func TestCallWithoutArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &fake{say: func(upstream.Request) []upstream.Event {
		return []upstream.Event{{Kind: upstream.CallPiece, ID: "a", Name: "bash"}, {Kind: upstream.Parked}}
	}})
	_, body := w.post("/v1/chat/completions", ask(true, said("user", "go")))
	if strings.Count(body, `"arguments":"{}"`) != 1 {
		t.Error(body)
	}
}
