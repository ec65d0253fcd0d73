package approval_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"drawbridge/relay/runner/approval"
)

func TestMain(m *testing.M) {
	syscall.Umask(0o077)
	os.Exit(m.Run())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, path string, prompters map[string]approval.Prompter) *approval.Desk {
	t.Helper()
	desk, err := approval.Open(approval.Options{Path: path, Now: time.Now, Wait: time.Minute, Prompters: prompters})
	must(t, err)
	return desk
}

func question(request, definition string) approval.Question {
	return approval.Question{Request: request, Action: "a", Definition: definition, Argv: []string{"/bin/echo"}}
}

type word struct {
	verdict approval.Verdict
	err     error
}

// ask asks in the background.
func ask(ctx context.Context, d *approval.Desk, q approval.Question) <-chan word {
	said := make(chan word, 1)
	go func() {
		v, err := d.Ask(ctx, q)
		said <- word{v, err}
	}()
	return said
}

func TestNoAnswerIsANo(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "approvals")
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		v, err := open(t, path, nil).Ask(t.Context(), question("1", "d"))
		if err != nil || v.Approved || v.By != "nobody" || time.Since(began) != time.Minute {
			t.Errorf("%+v, %v after %s", v, err, time.Since(began))
		}
	})
}

// A question outlives whoever asked it, and so does its answer, but only for the same request and definition, and once.
func TestQuestionsOutliveTheRelay(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "approvals")
	synctest.Test(t, func(t *testing.T) {
		ctx, crash := context.WithCancel(t.Context())
		said := ask(ctx, open(t, path, nil), question("1", "d"))
		synctest.Wait()
		crash()
		if got := <-said; !errors.Is(got.err, context.Canceled) {
			t.Errorf("the crash gave %+v", got)
		}
		desk := open(t, path, nil)
		pending := desk.Pending()
		if len(pending) != 1 || pending[0].Request != "1" {
			t.Fatalf("pending %+v", pending)
		}
		must(t, desk.Decide(pending[0].ID, true, "command line"))
		if err := desk.Decide(pending[0].ID, false, "command line"); !errors.Is(err, approval.ErrUnknown) {
			t.Errorf("a second word: %v", err)
		}
		desk = open(t, path, nil)
		other := ask(t.Context(), desk, question("2", "d"))
		synctest.Wait()
		if v, err := desk.Ask(t.Context(), question("1", "d")); err != nil || !v.Approved || v.By != "command line" {
			t.Errorf("asked again: %+v, %v", v, err)
		}
		if v, err := desk.Ask(t.Context(), question("1", "d")); err != nil || v.Approved {
			t.Errorf("a yes counts twice: %+v, %v", v, err)
		}
		if got := <-other; got.verdict.Approved {
			t.Errorf("another request: %+v", got)
		}
	})
}

func TestAnswerIsForOneDefinition(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "approvals")
	synctest.Test(t, func(t *testing.T) {
		ctx, crash := context.WithCancel(t.Context())
		desk := open(t, path, nil)
		said := ask(ctx, desk, question("1", "d"))
		synctest.Wait()
		id := desk.Pending()[0].ID
		crash()
		<-said
		must(t, desk.Decide(id, true, "command line"))
		if v, err := desk.Ask(t.Context(), question("1", "changed")); err != nil || v.Approved {
			t.Errorf("%+v, %v", v, err)
		}
	})
}

func TestOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "approvals")
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		yes := map[string]approval.Prompter{"terminal": func(ctx context.Context, _ approval.Pending, decide func(bool)) {
			asked++
			decide(true)
			<-ctx.Done()
		}}
		q := question("1", "d")
		q.Once = time.Hour
		for i, step := range []struct {
			definition string
			after      time.Duration
			asked      int
		}{{"d", 0, 1}, {"d", 30 * time.Minute, 1}, {"e", 0, 2}, {"d", 31 * time.Minute, 3}} {
			time.Sleep(step.after)
			q.Definition = step.definition
			v, err := open(t, path, yes).Ask(t.Context(), q)
			if err != nil || !v.Approved || asked != step.asked {
				t.Errorf("step %d: %+v, %v, asked %d times", i, v, err, asked)
			}
		}
		desk := open(t, path, nil)
		must(t, desk.DenyAll("kill switch"))
		if v, err := desk.Ask(t.Context(), q); err != nil || v.Approved {
			t.Errorf("after the kill switch: %+v, %v", v, err)
		}
	})
}

// An agent must not tire a person out.
func TestTooManyQuestions(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "approvals")
	synctest.Test(t, func(t *testing.T) {
		desk := open(t, path, nil)
		var asked []<-chan word
		for i := range 16 {
			q := question(string(rune('a'+i)), "d")
			q.Action = q.Request
			asked = append(asked, ask(t.Context(), desk, q))
		}
		synctest.Wait()
		if _, err := desk.Ask(t.Context(), question("more", "d")); !errors.Is(err, approval.ErrTooMany) {
			t.Errorf("%v", err)
		}
		must(t, desk.DenyAll("test"))
		for _, said := range asked {
			if got := <-said; got.verdict.Approved {
				t.Errorf("%+v", got)
			}
		}
	})
}

func TestFilesOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "approvals")
	for text, mode := range map[string]os.FileMode{`{"version":1}`: 0o620, `{"version":2}`: 0o600, `[]`: 0o600} {
		must(t, os.WriteFile(path, []byte(text), mode))
		must(t, os.Chmod(path, mode))
		if _, err := approval.Open(approval.Options{Path: path, Now: time.Now}); err == nil {
			t.Errorf("%s with mode %o was read", text, mode)
		}
	}
}

// A terminal decides only by the name of the question, and shows nothing that could move its cursor.
func TestTerminal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "approvals")
	synctest.Test(t, func(t *testing.T) {
		in, typed := io.Pipe()
		var shown strings.Builder
		terminal := approval.NewTerminal(&shown)
		done := make(chan struct{})
		go func() {
			defer close(done)
			terminal.Read(in)
		}()
		desk := open(t, path, map[string]approval.Prompter{"terminal": terminal.Prompt})
		q := question("1", "d")
		q.Line, q.Agent = "LOCAL_ACTION: a\x1b[2J\u202e", "\x07docs"
		said := ask(t.Context(), desk, q)
		synctest.Wait()
		id := desk.Pending()[0].ID
		for _, line := range []string{"y\n", "\n", "yes " + id + "\n", "y apr_other\n", "y " + id + " now\n"} {
			_, _ = typed.Write([]byte(line))
		}
		synctest.Wait()
		if len(desk.Pending()) != 1 {
			t.Error("something else than its name answered the question")
		}
		_, _ = typed.Write([]byte("y " + id + "\n"))
		if got := <-said; !got.verdict.Approved || got.verdict.By != "terminal" {
			t.Errorf("%+v", got)
		}
		_ = typed.Close()
		<-done
		for _, r := range shown.String() {
			if r != '\n' && (r < ' ' || r > '~') {
				t.Fatalf("the terminal got %q in\n%s", r, shown.String())
			}
		}
		if !strings.Contains(shown.String(), `wrote        LOCAL_ACTION: a\x1b[2J\u202e`) {
			t.Error(shown.String())
		}
	})
}

// The kill switch ends every yes, also one that nobody has come for and one that comes in the same moment.
func TestKillSwitchEndsEveryYes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "approvals")
	synctest.Test(t, func(t *testing.T) {
		ctx, crash := context.WithCancel(t.Context())
		desk := open(t, path, nil)
		said := ask(ctx, desk, question("1", "d"))
		synctest.Wait()
		id := desk.Pending()[0].ID
		crash()
		<-said
		must(t, desk.Decide(id, true, "command line"))
		must(t, desk.DenyAll("kill switch"))
		if v, err := desk.Ask(t.Context(), question("1", "d")); err != nil || v.Approved {
			t.Errorf("a yes that waited: %+v, %v", v, err)
		}

		q := question("2", "d")
		q.Action, q.Once = "b", time.Hour
		said = ask(t.Context(), desk, q)
		synctest.Wait()
		must(t, desk.Decide(desk.Pending()[0].ID, true, "command line"))
		must(t, desk.DenyAll("kill switch"))
		<-said
		q.Request = "3"
		if v, err := desk.Ask(t.Context(), q); err != nil || v.Approved {
			t.Errorf("a yes of the same moment: %+v, %v", v, err)
		}
	})
}

// A clock that is set back lengthens no yes.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "approvals")
	synctest.Test(t, func(t *testing.T) {
		var back time.Duration
		yes := map[string]approval.Prompter{"terminal": func(ctx context.Context, _ approval.Pending, decide func(bool)) { decide(true); <-ctx.Done() }}
		at := func(prompters map[string]approval.Prompter) *approval.Desk {
			desk, err := approval.Open(approval.Options{Path: path, Now: func() time.Time { return time.Now().Add(-back) }, Wait: time.Minute, Prompters: prompters})
			must(t, err)
			return desk
		}
		q := question("1", "d")
		q.Once = time.Hour
		if v, err := at(yes).Ask(t.Context(), q); err != nil || !v.Approved {
			t.Fatalf("%+v, %v", v, err)
		}
		back = 24 * time.Hour
		q.Request = "2"
		if v, err := at(nil).Ask(t.Context(), q); err != nil || v.Approved {
			t.Errorf("a day back: %+v, %v", v, err)
		}
	})
}

// Who watches the open questions hears of each change: asked, answered with yes or no, answered by nobody, withdrawn, and ended by the
// kill switch.
func TestOpenQuestionsAreWatched(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "approvals")
	synctest.Test(t, func(t *testing.T) {
		desk := open(t, path, nil)
		expect := func(what string, changed <-chan struct{}, want int) <-chan struct{} {
			t.Helper()
			synctest.Wait()
			select {
			case <-changed:
			default:
				t.Errorf("%s: nobody heard of it", what)
			}
			questions, changed := desk.Open()
			if len(questions) != want {
				t.Errorf("%s: %d questions are open, want %d", what, len(questions), want)
			}
			return changed
		}
		_, changed := desk.Open()
		action := 0
		begin := func() (id string, said <-chan word) {
			action++ // a no makes its action rest
			q := question("request", "d")
			q.Action = "a" + string(rune('0'+action))
			said = ask(t.Context(), desk, q)
			changed = expect("asked", changed, 1)
			questions, _ := desk.Open()
			return questions[0].ID, said
		}
		for what, end := range map[string]func(id string){
			"yes": func(id string) { must(t, desk.Decide(id, true, "test")) }, "no": func(id string) { must(t, desk.Decide(id, false, "test")) },
			"withdrawn": func(string) { desk.Withdraw("request") }, "kill switch": func(string) { must(t, desk.DenyAll("test")) },
			"nobody": func(string) { time.Sleep(time.Minute) },
		} {
			id, said := begin()
			end(id)
			<-said
			changed = expect(what, changed, 0)
		}
	})
}

// People who answer one question at the same moment, from several doors, with yes and with no: one of them counts, the others hear that
// nothing is pending, and the verdict is the word of the one who counted. A withdrawal at that moment makes no yes out of a no.
func TestAnswersAtTheSameMoment(t *testing.T) {
	t.Parallel()
	desk := open(t, filepath.Join(t.TempDir(), "approvals"), nil)
	for round := range 40 {
		q := question("request", "d")
		q.Action = "a" + strconv.Itoa(round) // a no makes its action rest
		_, changed := desk.Open()
		said := ask(t.Context(), desk, q)
		<-changed
		questions, _ := desk.Open()
		id, errs := questions[0].ID, make([]error, 6)
		var people sync.WaitGroup
		for n := range errs {
			people.Go(func() { errs[n] = desk.Decide(id, n%2 == 0, "door") })
		}
		withdrawn := round%2 == 1
		if withdrawn {
			people.Go(func() { desk.Withdraw("request") })
		}
		people.Wait()
		var counted []bool
		for n, err := range errs {
			switch {
			case err == nil:
				counted = append(counted, n%2 == 0)
			case !errors.Is(err, approval.ErrUnknown):
				t.Errorf("round %d: %v", round, err)
			}
		}
		got := <-said
		elsewhere := withdrawn && len(counted) == 0 && got.verdict.By == "elsewhere" && !got.verdict.Approved
		if got.err != nil || !elsewhere && (len(counted) != 1 || counted[0] != got.verdict.Approved) {
			t.Fatalf("round %d: counted %v, verdict %+v, %v", round, counted, got.verdict, got.err)
		}
	}
}
