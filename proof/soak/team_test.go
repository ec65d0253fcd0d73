//go:build deep

package soak_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/scripted"
)

// The team lives in a runtime of the bridge's own process, so that each kill cuts off the bridge and five agents at once.
const (
	storyOrchestrators = "orchestrators: [{ name: main, repo: github.com/me/agent-env }]\n"
	teamOrchestrators  = `orchestrators: [{ name: lead, repo: github.com/me/agent-env, runtime: team, toolsets: [team, threads, memory] }]
runtimes: { team: { kind: scripted, script: team.yaml } }
mail: { per_minute: 1000 }
`
	teamResult = "The text has 19 words, and drawbridge is the longest."
)

// teamTexts are all the messages of the story: each text, and who must be told of it.
var teamTexts = []struct{ text, from, to string }{
	{"please count part 1", "lead", "alice"}, {"please count part 2", "lead", "bob"}, {"please count part 3", "lead", "carol"},
	{"part 1 has 6 words", "alice", "lead"}, {"part 2 has 9 words", "bob", "lead"}, {"part 3 has 4 words", "carol", "lead"},
	{"I propose writing", "alice", "bob"}, {"rather drawbridge, it is longer", "bob", "alice"}, {"agreed, drawbridge", "alice", "bob"},
	{"we agreed that drawbridge is the longest", "bob", "lead"},
	{"please check that 6 and 9 and 4 make 19", "lead", "dave"}, {"the sum 19 is right", "dave", "lead"},
}

// TestTeam: five agents solve a task by mail, and the bridge is killed at named points, those of the agents' own journal
// among them, and at random times. The agents' journal is the oracle.
func TestTeam(t *testing.T) {
	t.Parallel()
	if db, death, ok := strings.Cut(*only, "/"); ok {
		teamDiesAt(t, db, death)
		return
	}
	started := time.Now()
	play := func(name string, story func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if *long == 0 || time.Since(started) < *long { // the summary says how many were played
				story(t)
			}
		})
	}
	points, seeds := map[string][]string{}, map[string]int{"sqlite": 2, "postgres": 1}
	for db, sample := range map[string]int{"sqlite": 5, "postgres": 2} {
		if *rounds > 0 {
			seeds[db] = *rounds
			continue
		}
		points[db] = teamPoints(t, db, sample)
		if *long > 0 {
			seeds[db] = 2 * len(points[db])
		}
	}
	// In turns, so that neither database takes all the time.
	for i := range int64(max(len(points["sqlite"]), len(points["postgres"]), seeds["sqlite"], seeds["postgres"])) {
		for _, db := range []string{"sqlite", "postgres"} {
			if i < int64(len(points[db])) {
				play(db+"/"+points[db][i], func(t *testing.T) { teamDiesAt(t, db, points[db][i]) })
			}
			if i < int64(seeds[db]) {
				play(fmt.Sprintf("%s/seed%d", db, *seed+i), func(t *testing.T) { teamAtRandom(t, db, *seed+i) })
			}
		}
	}
}

// teamPoints plays a story in which every point is counted, and returns those at which the next ones die.
func teamPoints(t *testing.T, db string, sample int) []string {
	w := newTeam(t, db)
	w.bridges[0].notes = filepath.Join(w.dir, "bridge0.points")
	check(t, w.playTeam(undisturbed), "")
	points := occurrences(t, w.bridges[0])
	w.end()
	totals.add("occurrences of points counted with a team on "+db, len(points))
	return choose(points, sample)
}

func teamDiesAt(t *testing.T, db, death string) {
	w := newTeam(t, db)
	_, points, _ := strings.Cut(death, "/")
	w.bridges[0].deaths = strings.Split(points, ",")
	totals.add("stories of a team with a death at a point on "+db, 1)
	check(t, w.playTeam(undisturbed), fmt.Sprintf("go test -tags deep ./proof/soak -run TestTeam -soak.only='%s/%s'", db, death))
}

// teamAtRandom kills the bridge several times in one story.
func teamAtRandom(t *testing.T, db string, s int64) {
	r := &random{Rand: rand.New(rand.NewPCG(uint64(s), 3)), w: newTeam(t, db)}
	for range 2 + r.IntN(5) {
		r.plot("the team's bridge is killed", time.Duration(r.Int64N(int64(2*time.Second))), r.w.bridges[0].crash)
	}
	totals.add("stories of a team with random kills on "+db, 1)
	again := fmt.Sprintf("go test -tags deep ./proof/soak -run '^TestTeam$/^%s$/^seed%d$' -soak.seed=%d -soak.rounds=1", db, s, s)
	t.Logf("seed %d: %s\nrepeat with: %s", s, strings.Join(r.plan, "; "), again)
	check(t, r.w.playTeam(r.sorted().act), again)
}

func newTeam(t *testing.T, db string) *world {
	set := worldOn(t, db)
	set.team = true
	w := newWorld(t, set)
	script, err := os.ReadFile("../../cmd/drawbridge/internal/demo/team.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w.write("team.yaml", string(script))
	return w
}

// playTeam starts the bridge alone, plays until the operator has the result and everybody rests, and judges.
func (w *world) playTeam(act func() bool) (problems []string) {
	w.t.Helper()
	w.bridges[0].start()
	w.bridges[0].ready()
	var now picture
	until(w.t, patience, func() (bool, string) {
		w.supervise()
		done := act()
		ctx, cancel := context.WithTimeout(w.t.Context(), 3*time.Second)
		defer cancel()
		over, seen := w.teamStep(ctx, &now)
		return done && over, seen
	})
	totals.add("stories of a team", 1)
	return w.judgeTeam(now)
}

// teamStep launches the lead, and reports whether the story is over.
func (w *world) teamStep(ctx context.Context, now *picture) (over bool, seen string) {
	c := w.clients[0]
	found, err := look(ctx, c)
	if err == nil && len(found.agents) == 0 {
		_, err = c.Launch(ctx, api.LaunchRequest{Name: "lead", Repo: "github.com/me/agent-env", Prompt: "Lead the team: have the words counted."})
		return false, fmt.Sprintf("launch: %v", err)
	}
	if err != nil {
		return false, err.Error()
	}
	*now = found
	told, err := c.Mail(ctx, "USER", api.ListOptions{})
	if err != nil {
		return false, err.Error()
	}
	for _, a := range found.agents {
		if a.State != "idle" && a.State != "done" {
			return false, found.String()
		}
	}
	return len(told.Messages) > 0 && len(found.agents) == 5, found.String()
}

// journal reads what the agents were told and did, from the disk.
func (w *world) journal() (lines []scripted.Line) {
	text, err := os.ReadFile(filepath.Join(w.dir, "team.agents", scripted.JournalFile))
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var l struct{ Record scripted.Line }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			w.t.Fatal(err)
		}
		if l.Record.Kind != "" {
			lines = append(lines, l.Record)
		}
	}
	return lines
}

// side is what the agents' journal says of one of them.
type side struct {
	told            string
	markers         []string
	tried, accepted []string // the arguments of calls, as made and as answered
}

var teamNames = regexp.MustCompile(`You are (\w+), a|(Lead) the team`)

// sides sorts the journal by the agents' names. A launch that was made twice is a problem.
func sides(lines []scripted.Line) (by map[string]*side, problems []string) {
	by, names, calling := map[string]*side{}, map[string]string{}, map[string]string{}
	for _, l := range lines {
		if l.Kind == scripted.Launched {
			found := teamNames.FindStringSubmatch(l.Prompt)
			name := strings.ToLower(found[1] + found[2])
			if by[name] != nil {
				problems = append(problems, name+" was launched twice")
			}
			names[l.Agent], by[name] = name, &side{}
		}
		s := by[names[l.Agent]]
		switch l.Kind {
		case scripted.Told:
			s.told, s.markers = s.told+l.Prompt+"\n", append(s.markers, l.Marker)
		case scripted.Calling:
			calling[l.Agent] = string(l.Args)
			s.tried = append(s.tried, string(l.Args))
		case scripted.Returned:
			if l.Refused != "" {
				problems = append(problems, fmt.Sprintf("%s was refused %s %s: %s", names[l.Agent], l.Tool, calling[l.Agent], l.Refused))
				continue
			}
			s.accepted = append(s.accepted, calling[l.Agent])
		case scripted.Ended:
			if l.State != bridge.RunFinished {
				problems = append(problems, fmt.Sprintf("a turn of %s ended with %s %s", names[l.Agent], l.State, l.Detail))
			}
		}
	}
	return by, problems
}

func count(list []string, text string) (n int) {
	for _, s := range list {
		n += strings.Count(s, text)
	}
	return n
}

// judgeTeam: what an agent sent is told to the other, once, however often it was cut off and sent it again: each message has a
// key. Nothing else is told, no turn comes twice or out of order, and the result is the right one.
func (w *world) judgeTeam(now picture) []string {
	by, problems := sides(w.journal())
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if len(by) != 5 {
		wrong("%d agents were launched", len(by))
		return problems
	}
	for _, m := range teamTexts {
		tried, accepted, told := count(by[m.from].tried, m.text), count(by[m.from].accepted, m.text), strings.Count(by[m.to].told, m.text)
		if told < accepted || told < 1 {
			wrong("lost: %s sent %q to %s, accepted %d times, told %d times", m.from, m.text, m.to, accepted, told)
		}
		if told > 1 {
			wrong("doubled: %s sent %q to %s %d times under one key, told %d times", m.from, m.text, m.to, tried, told)
		}
		totals.add("messages of a team told once", once(told == 1))
		totals.add("messages of a team whose sender was cut off and sent them again", once(tried > 1))
		for name, s := range by {
			if name != m.to && strings.Contains(s.told, m.text) {
				wrong("%q was told to %s", m.text, name)
			}
		}
	}
	for _, a := range now.agents {
		var want []string
		for _, t := range now.turns[a.ID] {
			if t.State != "replied" {
				wrong("turn %d of %s is %s: %s", t.Seq, a.Name, t.State, t.Trouble)
			}
			if t.Seq > 1 {
				want = append(want, "[bridge "+t.ID+"]")
			}
		}
		s := by[a.Name]
		if s == nil {
			wrong("the bridge has an agent %s, which nobody launched", a.Name)
		} else if !slices.Equal(want, s.markers) {
			wrong("%s got the turns %v, the bridge sent %v", a.Name, s.markers, want)
		}
	}
	return append(problems, w.judgeResult(by["lead"])...)
}

// judgeResult looks where the lead put the result.
func (w *world) judgeResult(lead *side) (problems []string) {
	const kept = "the text had 19 words" // a passage has no key
	ctx, c := w.t.Context(), w.clients[0]
	told, err := c.Mail(ctx, "USER", api.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	stored, err := c.Passages(ctx, "lead", api.PassageSearch{Text: kept})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, m := range told.Messages {
		if m.Text != teamResult {
			problems = append(problems, fmt.Sprintf("the operator was told %q", m.Text))
		}
	}
	if n := len(told.Messages); n != 1 {
		problems = append(problems, fmt.Sprintf("the operator was told the result %d times", n))
	}
	if n, tried, accepted := len(stored.Passages), count(lead.tried, kept), count(lead.accepted, kept); n < accepted || n > tried {
		problems = append(problems, fmt.Sprintf("%q is there %d times, tried %d times, accepted %d times", kept, n, tried, accepted))
	}
	return problems
}
