package mcpserver_test

import (
	"slices"
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/mcpserver"
	"drawbridge/parser"
)

// approve lets a held spawn pass and returns its agent.
func (w *world) approve(command string) (child bridge.Agent) {
	w.Helper()
	q, err := w.engine.Question(w.Context(), bridge.CommandID(command))
	if err != nil {
		w.Fatal(err)
	}
	m, err := w.engine.Approve(w.Context(), bridge.CommandID(command), q.Hash)
	if err != nil {
		w.Fatal(err)
	}
	if err := w.engine.View(w.Context(), func(tx *bridge.Scene) (err error) { child, err = tx.Agent(m.Child); return err }); err != nil {
		w.Fatal(err)
	}
	return child
}

// A name that a parent chose outlives the wait for a person. It guards against
// the child of an approved spawn_agent getting a made-up name, under which nobody
// writes to it, while its prompt calls it by the other.
func TestHeldSpawnKeepsItsName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = []string{mcpserver.SetTeam}
	w.launch("main")
	boss := w.connect("main", newEra, "")
	spawn := args{"name": "careful-1", "instructions": "Work.", "repo": "github.com/me/careful"}
	held := good[mcpserver.Spawned](w, boss, "spawn_agent", spawn)
	if held.Status != "held" || held.Name != "careful-1" || held.AgentID != "" || held.Reason == "" {
		t.Fatalf("spawn_agent: %+v", held)
	}
	// The same call again would be the one that waits.
	spawn["instructions"], spawn["role"], spawn["workspace_subdir"] = "Work, too.", "reviewer", "services/api"
	rival := good[mcpserver.Spawned](w, boss, "spawn_agent", spawn)
	if got := w.approve(held.CommandID).Name; got != "careful-1" {
		t.Errorf("the approved agent is called %q", got)
	}
	// The first to be approved has the name; the other must not fail for it, and hears its own.
	other := w.approve(rival.CommandID)
	if !strings.HasPrefix(other.Name, "careful-") || other.Name == "careful-1" {
		t.Errorf("the rival is called %q", other.Name)
	}
	told := "You are " + other.Name + ", a reviewer; the agent main spawned you.\nWork in the subdirectory services/api.\n\nWork, too."
	w.until("the rival was told its name", func(tx *bridge.Scene) bool {
		turns, err := tx.Turns(bridge.TurnFilter{Agent: other.ID, Limit: 1})
		return err == nil && len(turns) == 1 && turns[0].Sent == told && turns[0].State == bridge.TurnReplied
	})
	if w.cloud.Effects("launch github.com/me/careful "+told) != 1 {
		t.Errorf("the rival was not launched with those words: %q", w.cloud.Log())
	}
	w.until("the timeline says what the rival is for", func(tx *bridge.Scene) bool {
		events, err := tx.Events(0, 1000)
		return err == nil && slices.ContainsFunc(events, func(e bridge.Event) bool {
			return e.Kind == bridge.EventAgent && e.Agent == other.ID && e.Fields["role"] == "reviewer" && e.Fields["workspace_subdir"] == "services/api"
		})
	})
	good[any](w, boss, "send_message", args{"recipient": "careful-1", "text": "Hello."})
}

// While a spawn waits for a person its name may go to a channel, or in another case to a relative. It guards against an approval
// that gives it to the child all the same, so that nobody can tell the two apart, and against a parent that is not
// told of the other name.
func TestApprovalLooksAtTheNameAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = []string{mcpserver.SetTeam}
	main := w.launch("main")
	boss := w.connect("main", newEra, "")
	var held []string
	for _, name := range []string{"general", "News", "zoe"} {
		held = append(held, good[mcpserver.Spawned](w, boss, "spawn_agent", args{"name": name, "instructions": "Work as " + name, "repo": "github.com/me/careful"}).CommandID)
	}
	for _, name := range []string{"general", "news"} {
		if _, err := w.mail.CreateChannel(t.Context(), name, "main"); err != nil {
			t.Fatal(err)
		}
	}
	good[mcpserver.Spawned](w, boss, "spawn_agent", args{"name": "ZOE", "instructions": "Work.", "repo": "github.com/me/my-app"})
	for i, id := range held {
		child := w.approve(id)
		if !strings.HasPrefix(child.Name, "careful-") {
			t.Errorf("approved agent %d is called %q", i, child.Name)
		}
		w.until("the parent was told of "+child.Name, func(tx *bridge.Scene) bool {
			turns, err := tx.Turns(bridge.TurnFilter{Agent: main.ID, Limit: 100})
			return err == nil && slices.ContainsFunc(turns, func(t bridge.Turn) bool {
				return strings.Contains(t.Sent, "was taken meanwhile: your subagent is called "+child.Name)
			})
		})
	}
}

// Without a repo the child works in its parent's repository, if the policy lets it.
func TestSpawnWithoutARepo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = []string{mcpserver.SetTeam}
	w.launch("main")
	boss := w.connect("main", newEra, "")
	r := w.call(boss, "spawn_agent", args{"name": "helper", "instructions": "Work."})
	for _, want := range []string{"denied: ", "github.com/me/agent-env", "allowed: github.com/acme/*, github.com/me/careful, github.com/me/my-app", "you named no repo"} {
		if !r.IsError || !strings.Contains(words(r), want) {
			t.Errorf("on an orchestrator's repository: %s, without %q", words(r), want)
		}
	}
	if r := w.call(boss, "spawn_agent", args{"name": "helper", "instructions": "Work.", "repo": "github.com/evil/x"}); !r.IsError || strings.Contains(words(r), "you named no repo") {
		t.Errorf("on a repository that was named: %s", words(r))
	}
	worker := good[mcpserver.Spawned](w, boss, "spawn_agent", args{"name": "worker", "instructions": "Work.", "repo": "github.com/me/my-app", "workspace_subdir": nil})
	w.mint(bridge.Agent{ID: bridge.AgentID(worker.AgentID), Name: "worker"})
	w.until("the worker had a turn", func(tx *bridge.Scene) bool {
		turns, err := tx.Turns(bridge.TurnFilter{Agent: bridge.AgentID(worker.AgentID)})
		return err == nil && len(turns) > 0 && turns[0].State == bridge.TurnReplied
	})
	below := good[mcpserver.Spawned](w, w.connect("worker", newEra, ""), "spawn_agent", args{"name": "below", "instructions": "Work.", "workspace_subdir": "api"})
	if below.Status != "created" || below.Name != "below" {
		t.Errorf("below a subagent: %+v", below)
	}
}

// TestSpawnAgain: an agent whose answer was lost spawns once more. It gets the one that is there, also where the bridge
// died before it answered; nothing is held and no second one is made.
func TestSpawnAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = []string{mcpserver.SetTeam}
	w.slow.Store(true) // what ends would begin another turn
	main := w.launch("main")
	boss := w.connect("main", newEra, "")
	ask := args{"name": "worker", "instructions": "Work.", "repo": "github.com/me/my-app"}
	first := good[mcpserver.Spawned](w, boss, "spawn_agent", ask)
	if again := good[mcpserver.Spawned](w, boss, "spawn_agent", ask); again != first || again.Status != "created" {
		t.Errorf("spawned again: %+v, the first was %+v", again, first)
	}
	asked, err := w.engine.Ask(t.Context(), main.ID, bridge.Once{}, parser.Command{Verb: parser.Subagent, Repo: "github.com/me/my-app",
		Name: "nameless", Role: "worker", Prompt: "Work."})
	if err != nil || asked.Child == "" {
		t.Fatalf("%+v %v", asked, err)
	}
	ask["name"] = "nameless"
	if got := good[mcpserver.Spawned](w, boss, "spawn_agent", ask); got.AgentID != string(asked.Child) || got.Name != "nameless" || got.CommandID != string(asked.ID) {
		t.Errorf("spawned %+v, there was %+v", got, asked)
	}
	if children := good[struct{ Children []mcpserver.AgentView }](w, boss, "list_children", nil); len(children.Children) != 2 {
		t.Errorf("list_children: %+v", children)
	}
	held := args{"name": "careful", "instructions": "Work.", "repo": "github.com/me/careful"}
	waits := good[mcpserver.Spawned](w, boss, "spawn_agent", held)
	if again := good[mcpserver.Spawned](w, boss, "spawn_agent", held); again != waits || again.Status != "held" {
		t.Errorf("spawned again: %+v, the first was %+v", again, waits)
	}
}

// TestDepthIsNoMatterOfRepositories: an agent that stands as deep as agents may is not sent to look for another repository.
func TestDepthIsNoMatterOfRepositories(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = []string{mcpserver.SetBridge, mcpserver.SetTeam}
	a := w.launch("main")
	w.deepen(a, 99)
	s := w.connect("main", newEra, "")
	for tool, in := range map[string]args{
		"spawn_agent":  {"name": "one", "instructions": "Work."},
		"launch_agent": {"repo": "github.com/me/elsewhere", "prompt": "Work."},
	} {
		r := w.call(s, tool, in)
		if !r.IsError || !strings.Contains(words(r), "depth 99 of delegation") || strings.Contains(words(r), "repository") || strings.Contains(words(r), "named no repo") || strings.Contains(words(r), "allowed:") {
			t.Errorf("%s: %s", tool, words(r))
		}
	}
}

// deepen sets how deep an agent stands.
func (w *world) deepen(a bridge.Agent, depth int) {
	w.Helper()
	err := w.engine.Change(w.Context(), func(tx bridge.Change) error {
		now, err := tx.Agent(a.ID)
		now.Depth = depth
		if err != nil {
			return err
		}
		return tx.UpdateAgent(now)
	})
	if err != nil {
		w.Fatal(err)
	}
}

// TestNoReminders: the operator may leave the tools for reminders out.
func TestNoReminders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.launch("main")
	w.serve(func(o *mcpserver.Options) { o.NoReminders = true })
	listed, err := w.connect("main", newEra, "").ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range listed.Tools {
		if strings.Contains(tool.Name, "remind") {
			t.Errorf("it is offered %s", tool.Name)
		}
	}
	if len(listed.Tools) == 0 {
		t.Error("it is offered nothing")
	}
}

// TestStoppedAgentsReadNoOperatorCommands: an agent whose tree was stopped reads so, and no command of the operator's.
func TestStoppedAgentsReadNoOperatorCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = []string{mcpserver.SetBridge, mcpserver.SetTeam}
	a := w.launch("main")
	if _, err := w.engine.Stop(t.Context(), a.ID, "enough"); err != nil {
		t.Fatal(err)
	}
	s := w.connect("main", newEra, "")
	for tool, in := range map[string]args{
		"run_local_action": {"action": "backup_script"},
		"launch_agent":     {"repo": "github.com/me/my-app", "prompt": "Work."},
		"spawn_agent":      {"name": "one", "instructions": "Work.", "repo": "github.com/me/my-app"},
		"remind":           {"when": "10m", "message": "x"},
		"complete":         {"result": "done"},
	} {
		if r := w.call(s, tool, in); !r.IsError || !strings.Contains(words(r), "stopped") || strings.Contains(words(r), "`drawbridge") {
			t.Errorf("%s: %s", tool, words(r))
		}
	}
}
