//go:build deep

package soak_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"drawbridge/proof/gobuild"
	"drawbridge/proof/pg"
)

// TestReleaseHasNoFailPoints: what is built without the tag does not even know the variables.
func TestReleaseHasNoFailPoints(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := gobuild.Into(dir, "", "drawbridge/cmd/drawbridge", "drawbridge/cmd/drawbridge-relay"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"drawbridge", "drawbridge-relay"} {
		released, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		armed, err := os.ReadFile(filepath.Join(programs, name))
		if err != nil {
			t.Fatal(err)
		}
		if word := []byte("DRAWBRIDGE_FAILPOINT"); bytes.Contains(released, word) || !bytes.Contains(armed, word) {
			t.Errorf("%s: the release has fail points, or the build under test has none", name)
		}
	}
}

// TestPoints kills the bridge or the relay at named fail points: first a story in which every point is counted, then one
// story for each point and occurrence (a sample in the short form), in which the process dies there and is started again.
func TestPoints(t *testing.T) {
	t.Parallel()
	if db, death, ok := strings.Cut(*only, "/"); ok {
		dieAt(t, db, death)
		return
	}
	for _, db := range []struct {
		name   string
		sample int
	}{{"sqlite", 26}, {"postgres", 10}, {"joined", len(links)}} {
		t.Run(db.name, func(t *testing.T) {
			t.Parallel()
			pointsOn(t, db.name, db.sample)
		})
	}
}

func worldOn(t *testing.T, db string) setting {
	switch db {
	case "sqlite":
		return setting{}
	case "joined":
		return setting{joined: true}
	}
	// What a killed bridge held is free on SQLite at the next start, on PostgreSQL when its lease ends.
	return setting{database: pg.Database(t), lease: 2 * time.Second}
}

func pointsOn(t *testing.T, db string, sample int) {
	w := newWorld(t, worldOn(t, db))
	for _, p := range []*program{w.relay, w.bridges[0]} {
		p.notes = filepath.Join(w.dir, p.name+".points")
	}
	w.raise()
	check(t, w.play(undisturbed), "")
	var deaths []string
	for _, p := range []*program{w.relay, w.bridges[0]} {
		found := occurrences(t, p)
		t.Logf("%s: %d occurrences of fail points", p.name, len(found))
		deaths = append(deaths, found...)
	}
	w.end()
	if db == "joined" {
		deaths = linked(t, deaths)
	} else {
		deaths = append(deaths, afterwards...)
	}
	totals.add("occurrences of points counted on "+db, len(deaths))
	started := time.Now()
	for _, death := range choose(deaths, sample) {
		t.Run(death, func(t *testing.T) {
			t.Parallel()
			if *long > 0 && time.Since(started) > *long {
				return // the summary says how many were played
			}
			dieAt(t, db, death)
		})
	}
}

// afterwards are deaths that the first story does not come by: while an agent on a wrong repository is cancelled, and in
// the life after a death, while the bridge looks for what that one left in doubt.
var afterwards = []string{
	"bridge0/runtime.launch.after#2,runtime.findlaunch.before#1", "bridge0/runtime.launch.after#3,runtime.findlaunch.after#1",
	"bridge0/runtime.launch.before#2,runtime.findlaunch.after#1,runtime.launch.after#1", "bridge0/runtime.send.after#1,runtime.findsend.before#1",
	"bridge0/runtime.send.before#2,runtime.findsend.after#1", "bridge0/runtime.send.after#2,store.commit.before#1,store.commit.after#1",
	"bridge0/runtime.cancel.before#1", "bridge0/runtime.cancel.after#1", "bridge0/runtime.cancel.after#1,runtime.cancel.before#1,runtime.cancel.after#1",
	"bridge0/action.run.after#1,action.run.before#1,action.run.after#1", "relay/relay.run.after#1,log.rewrite.written#1,log.rewrite.renamed#1",
}

// links are deaths while a relay that dials in is let in: at its start, again in the life after, and after the one side or
// the other died around an action. A short form plays all of them.
var links = []string{
	"relay/relay.epoch.before#1", "relay/relay.epoch.after#1", "relay/relay.kept.before#1", "relay/relay.kept.after#1",
	"bridge0/hub.epoch.offered#1", "bridge0/hub.epoch.acknowledged#1",
	"relay/relay.epoch.after#1,relay.kept.before#1,relay.kept.after#1", "bridge0/hub.epoch.acknowledged#1,hub.epoch.offered#1,hub.epoch.acknowledged#1",
	"relay/relay.run.after#1,relay.epoch.after#1,relay.kept.before#1", "bridge0/action.run.after#1,hub.epoch.offered#1,hub.epoch.acknowledged#1",
}

// letsIn are points at which no action is under way yet. A bridge may die anywhere: it asks the relay what came of an action.
var letsIn = regexp.MustCompile(`^(((relay\.(epoch|kept)|hub\.epoch)\.\w+#\d+),?)+$`)

// linked returns links, and in the long form what else an undisturbed story came by. It fails the test when that did not
// come by each point of a link's epoch, because then the deaths there show nothing.
func linked(t *testing.T, met []string) []string {
	t.Helper()
	for _, d := range links[:6] {
		if !slices.Contains(met, d) {
			t.Errorf("the story with a relay that dials in does not pass %s", d)
		}
	}
	if *long == 0 {
		return slices.Clone(links)
	}
	return append(slices.Clone(links), slices.DeleteFunc(met, func(d string) bool { return slices.Contains(links, d) })...)
}

// occurrences reads what a program noted: "<program>/<point>#<n>" for each time that a point was met.
func occurrences(t *testing.T, p *program) (out []string) {
	t.Helper()
	text, err := os.ReadFile(p.notes)
	if err != nil {
		t.Fatal(err)
	}
	met := map[string]int{}
	for name := range strings.Lines(string(text)) {
		name = strings.TrimSpace(name)
		met[name]++
		out = append(out, fmt.Sprintf("%s/%s#%d", p.name, name, met[name]))
	}
	return out
}

// choose takes all in the long form, in random order; otherwise a sample that holds each kind of point at least once
// where there is room.
func choose(deaths []string, sample int) []string {
	r := rand.New(rand.NewPCG(uint64(*seed), 0))
	r.Shuffle(len(deaths), func(i, j int) { deaths[i], deaths[j] = deaths[j], deaths[i] })
	if *long > 0 {
		return deaths
	}
	seen := map[string]bool{}
	var first, rest []string
	for _, d := range deaths {
		kind, _, _ := strings.Cut(d, "#")
		if seen[kind] {
			rest = append(rest, d)
			continue
		}
		seen[kind] = true
		first = append(first, d)
	}
	return append(first, rest...)[:min(sample, len(deaths))]
}

// dieAt plays the story with "<program>/<point>#<n>,…": one death for each life.
func dieAt(t *testing.T, db, death string) {
	name, points, _ := strings.Cut(death, "/")
	set := worldOn(t, db)
	set.strayed = strings.Contains(points, "runtime.cancel") // only then is anything cancelled
	set.certain = set.joined && (name != "relay" || letsIn.MatchString(points))
	w := newWorld(t, set)
	var victim *program
	for _, p := range w.programs() {
		if p.name == name {
			victim = p
		}
	}
	victim.deaths = strings.Split(points, ",")
	w.raise()
	check(t, w.play(undisturbed), fmt.Sprintf("go test -tags deep ./proof/soak -run TestPoints -soak.only='%s/%s'", db, death))
	if victim.killed == 0 { // the story took another course this time
		totals.add("occurrences of points that did not come again", 1)
	} else {
		totals.add("occurrences of points at which a process died on "+db, 1)
		if letsIn.MatchString(points) && victim.killed != len(victim.deaths) {
			t.Errorf("%s died %d times, and the plan was %s", name, victim.killed, points)
		}
	}
}

// check fails the test over what an oracle found.
func check(t *testing.T, problems []string, again string) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
		totals.add("PROBLEMS", 1)
	}
	if len(problems) > 0 && again != "" {
		t.Log("repeat with: " + again)
	}
}
