package mail_test

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drawbridge/bridge"
	"drawbridge/mail"
)

// slowBody is a file that arrives over a line on which nothing happens for long.
func slowBody(d time.Duration) io.Reader {
	return io.MultiReader(strings.NewReader("begin "), &pauseReader{d}, strings.NewReader("end"))
}

type pauseReader struct{ d time.Duration }

// Read implements io.Reader.
func (p *pauseReader) Read([]byte) (int, error) {
	<-time.After(p.d)
	return 0, io.EOF
}

// slowWorld has ann, bob, cy, dee and eli in one tree and the agent lone with a child in another.
func slowWorld(t *testing.T) (w *world, child bridge.AgentID) {
	t.Helper()
	w = newWorld(t, mail.Options{Files: filepath.Join(t.TempDir(), "files"), MaxFile: 1000, PerPair: -1})
	w.team("ann", "bob", "cy", "dee", "eli")
	lone := w.root("team: far", "lone")
	w.view(func(tx *bridge.Scene) error {
		children, err := tx.Agents(bridge.AgentFilter{Parent: lone.ID, Limit: 1})
		if err == nil {
			child = children[0].ID
		}
		return err
	})
	return w, child
}

// TestSlowUploads: an agent that uploads slowly holds up only uploads of its own. Four such bodies once took all places that
// there are, for as long as they liked.
func TestSlowUploads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, child := slowWorld(t)
		ids := map[string]bridge.AgentID{"lone": w.id("lone")}
		for _, name := range []string{"ann", "bob", "cy", "dee", "eli"} {
			ids[name] = w.id(name)
		}
		put := func(from, to string, body io.Reader) error {
			_, _, err := w.mail.Transfer(w.ctx, ids[from], mail.FileDraft{To: to, Source: "f", Name: "f", Content: body, Arriving: true})
			return err
		}
		var slow sync.WaitGroup
		hold := func(from, to string) {
			slow.Go(func() {
				if err := put(from, to, slowBody(9*time.Minute)); err != nil {
					t.Errorf("a slow upload of %s: %v", from, err)
				}
			})
		}
		for range 4 {
			hold("ann", "bob")
		}
		synctest.Wait()
		begun := time.Now()
		wantKind(t, "a fifth upload of one agent", put("ann", "bob", strings.NewReader("x")), bridge.RateLimited)
		for from, to := range map[string]string{"bob": "ann", "lone": string(child)} {
			if err := put(from, to, strings.NewReader("x")); err != nil {
				t.Errorf("an upload of %s beside slow ones: %v", from, err)
			}
		}
		// What the call itself holds waits for no upload, neither its own tree's nor another's.
		if _, _, err := w.mail.Transfer(w.ctx, ids["ann"], mail.FileDraft{To: "bob", Source: "f", Content: strings.NewReader("x")}); err != nil {
			t.Error(err)
		}
		for _, from := range []string{"bob", "cy", "dee"} {
			for range 4 {
				hold(from, "ann")
			}
		}
		synctest.Wait()
		wantKind(t, "a seventeenth upload of one tree", put("eli", "ann", strings.NewReader("x")), bridge.RateLimited)
		if err := put("lone", string(child), strings.NewReader("x")); err != nil {
			t.Errorf("an upload of another tree: %v", err)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("those beside slow uploads waited for %s", took)
		}
		slow.Wait()
		for _, from := range []string{"ann", "eli"} {
			if err := put(from, "bob", strings.NewReader("x")); err != nil {
				t.Errorf("an upload of %s after the slow ones: %v", from, err)
			}
		}
	})
}

// TestUploadThatEndsGivesItsPlaceBack, be it with an error of the line or of the rules.
func TestUploadThatEndsGivesItsPlaceBack(t *testing.T) {
	t.Parallel()
	w, _ := slowWorld(t)
	ann := w.id("ann")
	for range 50 {
		for _, d := range []mail.FileDraft{
			{To: "bob", Source: "f", Content: &brokenReader{}}, {To: "bob", Name: "../x", Content: strings.NewReader("x")}, {To: "bob", Source: "f", Content: strings.NewReader(strings.Repeat("x", 2000))},
		} {
			d.Arriving = true
			if _, _, err := w.mail.Transfer(w.ctx, ann, d); err == nil || bridge.KindOf(err) == bridge.RateLimited {
				t.Fatalf("a bad upload: %v", err)
			}
		}
	}
}

type brokenReader struct{}

// Read implements io.Reader.
func (*brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestSlowReads: an agent that reads files slowly has sixteen of them open at most.
func TestSlowReads(t *testing.T) {
	t.Parallel()
	w, _ := slowWorld(t)
	ann, bob := w.id("ann"), w.id("bob")
	f, _, err := w.mail.Transfer(w.ctx, ann, mail.FileDraft{To: "bob", Source: "f", Content: strings.NewReader("text")})
	if err != nil {
		t.Fatal(err)
	}
	var open []io.Closer
	for n := range 17 {
		r, _, err := w.mail.OpenFile(w.ctx, bob, f.ID)
		if n == 16 {
			wantKind(t, "the seventeenth", err, bridge.RateLimited)
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, r)
	}
	for _, who := range []bridge.AgentID{ann, bridge.User} {
		r, _, err := w.mail.OpenFile(w.ctx, who, f.ID)
		if err != nil {
			t.Fatalf("%s beside a slow reader: %v", who, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, c := range open {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if r, _, err := w.mail.OpenFile(w.ctx, bob, f.ID); err != nil {
		t.Errorf("after the slow ones: %v", err)
	} else if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestSlowCopies: a tree whose copies on this machine stand still takes two places, and a caller that goes away waits no longer.
func TestSlowCopies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, child := slowWorld(t)
		ann, lone := w.id("ann"), w.id("lone")
		var slow sync.WaitGroup
		for range 20 {
			slow.Go(func() {
				_, _, err := w.mail.Transfer(w.ctx, ann, mail.FileDraft{To: "bob", Source: "f", Content: slowBody(time.Minute)})
				if err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		begun := time.Now()
		if _, _, err := w.mail.Transfer(w.ctx, lone, mail.FileDraft{To: string(child), Source: "f", Content: strings.NewReader("x")}); err != nil || time.Since(begun) > time.Second {
			t.Errorf("a copy of another tree: %v after %s", err, time.Since(begun))
		}
		gone, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		if _, _, err := w.mail.Transfer(gone, ann, mail.FileDraft{To: "bob", Source: "f", Content: strings.NewReader("x")}); err == nil || time.Since(begun) > 2*time.Second {
			t.Errorf("a copy whose caller is gone: %v after %s", err, time.Since(begun))
		}
		slow.Wait()
		if took := time.Since(begun); took != 10*time.Minute {
			t.Errorf("twenty copies of a minute, two at a time, took %s", took)
		}
	})
}
