//go:build deep

package soak_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // to look at a database from outside

	"drawbridge/api"
	"drawbridge/bridge"
)

// launcher launches agents by a person's word; each answer without an error is a promise that it is recorded.
type launcher struct {
	w            *world
	acknowledged []string
	next         int
}

func (l *launcher) launch(prompt string) error {
	l.next++
	name := fmt.Sprintf("agent%03d", l.next)
	_, err := l.w.clients[0].Launch(l.w.t.Context(), api.LaunchRequest{Name: name, Repo: "github.com/me/lib", Prompt: prompt})
	if err == nil {
		l.acknowledged = append(l.acknowledged, name)
	}
	return err
}

func (l *launcher) must(n int) {
	l.w.t.Helper()
	for range n {
		if err := l.launch("Look at the library"); err != nil {
			l.w.t.Fatal(err)
		}
	}
}

// check compares what was acknowledged with what the bridge shows, both ways.
func (l *launcher) check(t *testing.T) {
	t.Helper()
	list, err := l.w.clients[0].Agents(t.Context(), api.ListOptions{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, a := range list.Agents {
		there[a.Name] = true
	}
	for _, name := range l.acknowledged {
		if !there[name] {
			t.Errorf("%s was acknowledged and is lost", name)
			totals.add("PROBLEMS", 1)
		}
		delete(there, name)
	}
	for name := range there {
		t.Errorf("%s was refused and is there", name)
	}
	totals.add("acknowledged launches looked for after a fault of the store", len(l.acknowledged))
}

func (w *world) database() string { return filepath.Join(w.dir, "drawbridge.db") }

func (w *world) walSize() int64 {
	info, err := os.Stat(w.database() + "-wal")
	if err != nil {
		w.t.Fatal(err)
	}
	return info.Size()
}

// everyOneLaunchedOnce waits for all that was acknowledged and counts in the cloud's log.
func everyOneLaunchedOnce(t *testing.T, l *launcher) {
	t.Helper()
	until(t, patience, func() (bool, string) {
		list, err := l.w.clients[0].Agents(t.Context(), api.ListOptions{Limit: 1000})
		if err != nil {
			return false, err.Error()
		}
		for _, a := range list.Agents {
			if a.State != "idle" {
				return false, a.Name + " is " + a.State + " " + a.Trouble
			}
		}
		return true, ""
	})
	created := 0
	for _, e := range l.w.effects() {
		created += once(e.Kind == "agent_created")
	}
	if created != len(l.acknowledged) {
		t.Errorf("the cloud made %d agents, %d were acknowledged", created, len(l.acknowledged))
	}
}

// torn is a database as a loss of power leaves it, with what must be in it.
type torn struct {
	w   *world
	db  []byte
	wal []byte
	// after is the size of the log when the launch had been acknowledged.
	after map[string]int64
}

func makeTorn(t *testing.T) torn {
	w := newWorld(t, setting{})
	w.raise()
	l := &launcher{w: w}
	v := torn{w: w, after: map[string]int64{}}
	// What an orderly end leaves is in the main file; what comes afterwards is in the log.
	l.must(6)
	for _, name := range l.acknowledged {
		v.after[name] = 0
	}
	w.bridges[0].stop()
	w.bridges[0].start()
	w.bridges[0].ready()
	for range 12 {
		l.must(1)
		v.after[l.acknowledged[len(l.acknowledged)-1]] = w.walSize()
	}
	w.bridges[0].kill()
	for path, to := range map[string]*[]byte{w.database(): &v.db, w.database() + "-wal": &v.wal} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		*to = data
	}
	return v
}

// open puts files into a folder of a bridge's own, lets the real program open them, and returns the names of the agents
// that are there afterwards, or what the program said when it refused.
func (v torn) open(t *testing.T, db, wal []byte) (names map[string]bool, refusal string) {
	t.Helper()
	dir, err := os.MkdirTemp(v.w.dir, "torn")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	files := map[string][]byte{"drawbridge.db": db, "drawbridge.db-wal": wal}
	for _, name := range []string{"bridge0.yaml", "bridge.token", "bridge.key", "cursor.key", "relay.token", "allowlist.yaml"} {
		if files[name], err = os.ReadFile(filepath.Join(v.w.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(programs, "drawbridge"), "migrate", "--config", "bridge0.yaml")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if found := broken.Find(out); found != nil {
		t.Fatalf("%s", out)
	}
	if err != nil {
		return nil, string(out)
	}
	return agentNames(t, filepath.Join(dir, "drawbridge.db")), ""
}

func agentNames(t *testing.T, path string) map[string]bool {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT name FROM agents")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names := map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names[name] = true
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}

// intact checks that everything acknowledged before the log was as long as whole is there.
func (v torn) intact(t *testing.T, names map[string]bool, whole int64, how string) {
	t.Helper()
	for name, size := range v.after {
		if size <= whole && !names[name] {
			t.Errorf("%s: %s was acknowledged before and is lost", how, name)
			totals.add("PROBLEMS", 1)
		}
	}
	totals.add("torn databases that were opened", 1)
}

const (
	walHeader   = 32
	frameHeader = 24
)

// TestTornWrites: the log below SQLite is cut or its bytes are flipped at every place of its last frames (a sample in the
// short form), and the main file is torn where a checkpoint was writing it. Whatever was acknowledged before the place
// is there.
func TestTornWrites(t *testing.T) {
	t.Parallel()
	v := makeTorn(t)
	page := int64(binary.BigEndian.Uint32(v.wal[8:12]))
	frame := frameHeader + page
	frames := (int64(len(v.wal)) - walHeader) / frame
	if frames > 900 || int64(len(v.db)) < 10*page {
		t.Fatalf("%d frames, %d bytes in the main file: a checkpoint came in between, or none came before", frames, len(v.db))
	}
	r := rand.New(rand.NewPCG(uint64(*seed), 2))
	n := 12
	if *long > 0 {
		n = 300
	}
	for i := range n {
		// Around a frame's edges, and anywhere in the last sixty frames.
		at := walHeader + frame*(frames-r.Int64N(min(60, frames))) - r.Int64N(frame)
		if i%3 == 0 {
			at = walHeader + frame*(frames-r.Int64N(min(60, frames))) + []int64{-1, 0, 1, frameHeader}[r.IntN(4)]
		}
		at = min(at, int64(len(v.wal))-1)
		names, refusal := v.open(t, v.db, v.wal[:at])
		if refusal != "" {
			t.Fatalf("cut at %d: %s", at, refusal)
		}
		v.intact(t, names, at, fmt.Sprintf("the log cut at %d of %d", at, len(v.wal)))
		flipped := append([]byte(nil), v.wal...)
		flipped[at] ^= byte(1 + r.IntN(255))
		if names, refusal = v.open(t, v.db, flipped); refusal != "" {
			t.Fatalf("flipped at %d: %s", at, refusal)
		}
		v.intact(t, names, walHeader+(at-walHeader)/frame*frame, fmt.Sprintf("a byte of the log flipped at %d", at))
	}
	torn := 0
	for f := range frames {
		if *long == 0 && torn == 6 {
			break
		}
		// A checkpoint writes the pages of the log into the main file, which then may be torn there.
		number := int64(binary.BigEndian.Uint32(v.wal[walHeader+f*frame:]))
		if number*page > int64(len(v.db)) {
			continue // it is in the log alone
		}
		torn++
		half := append([]byte(nil), v.db...)
		for i := (number-1)*page + page/2; i < number*page; i++ {
			half[i] = 0xa5
		}
		names, refusal := v.open(t, half, v.wal)
		if refusal != "" {
			t.Fatalf("page %d torn: %s", number, refusal)
		}
		v.intact(t, names, int64(len(v.wal)), fmt.Sprintf("page %d of the main file torn", number))
	}
	if torn == 0 {
		t.Error("no page of the log is in the main file")
	}
}

// TestDamagedDatabase: where the damage is such that SQLite cannot go on, the program does not start and says what to do.
func TestDamagedDatabase(t *testing.T) {
	t.Parallel()
	v := makeTorn(t)
	names, refusal := v.open(t, v.db, v.wal)
	if refusal != "" || len(names) != len(v.after) {
		t.Fatalf("undamaged: %d agents, %s", len(names), refusal)
	}
	head := append([]byte(nil), v.db...)
	copy(head, "something else altogether")
	for how, db := range map[string][]byte{"another file's beginning": head, "a text": []byte(strings.Repeat("notes\n", 2000))} {
		_, refusal := v.open(t, db, nil)
		if !strings.Contains(refusal, "choose another path, or restore it from a backup. Nothing was changed") {
			t.Errorf("%s: the program said %q", how, refusal)
		}
		totals.add("clear refusals to start on a damaged database", once(refusal != ""))
	}
}

// TestLockedDatabase: a second bridge, and another program that holds the database.
func TestLockedDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setting{})
	w.raise()
	l := &launcher{w: w}
	l.must(2)
	refused := func(want string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(programs, "drawbridge"), "serve", "--config", "bridge0.yaml")
		cmd.Dir = w.dir
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), want) {
			t.Errorf("a start on a locked database ended with %v and said %q, want %q", err, out, want)
		}
		totals.add("clear refusals to start on a locked database", 1)
	}
	refused("another drawbridge serves this database; stop it or use another file")
	l.must(1)
	hold := func(work func()) {
		t.Helper()
		db, err := sql.Open("sqlite", "file:"+w.database()+"?_pragma=busy_timeout(10000)")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		db.SetMaxOpenConns(1)
		if _, err := db.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
			t.Fatal(err)
		}
		work()
		if _, err := db.ExecContext(context.WithoutCancel(t.Context()), "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
	}
	answered := make(chan error, 1)
	hold(func() {
		// The bridge waits for the other program and does not give up before it has gone.
		go func() { answered <- l.launch("Look at the library") }()
		until(t, patience, func() (bool, string) {
			_, err := l.w.clients[0].Agents(t.Context(), api.ListOptions{})
			return err == nil, fmt.Sprint(err)
		})
	})
	if err := <-answered; err != nil {
		t.Errorf("a launch while another program held the database: %v", err)
	}
	w.bridges[0].kill()
	hold(func() {
		refused("is locked by another program, such as a sqlite3 shell or a backup; end it and start again")
	})
	w.bridges[0].start()
	w.bridges[0].ready()
	l.check(t)
	everyOneLaunchedOnce(t, l)
	if kind := bridge.KindOf(l.launch("")); kind != bridge.Invalid {
		t.Errorf("the bridge does not work as before: %q", kind)
	}
}
