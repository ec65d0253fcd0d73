package sim

import (
	"slices"
	"testing"
	"time"

	"drawbridge/bridge"
)

// scene is a play in which an orchestrator wrote one SUBAGENT line.
type scene struct {
	*stage
	*oracle
	truth truth
}

func newScene(t *testing.T, class lineClass) *scene {
	t.Helper()
	s := &scene{stage: newStage(t.Context(), 1, false, true)}
	s.oracle = newOracle(s.stage, &s.truth, &deeds{})
	s.wrote(&commandLine{tag: root, class: classGranted})
	s.wrote(&commandLine{tag: task, class: class, run: s.launch(root)})
	return s
}

const root, task = "root main1", "task 1"

// launch adds an agent to the orchestrator's tree.
func (s *scene) launch(prompt string) *cloudRun {
	a := &cloudAgent{id: prompt, api: bridge.APIv1, root: root, op: prompt}
	s.launched(a, prompt, s.commits)
	a.runs = []*cloudRun{{agent: a, state: bridge.RunFinished, ends: s.now.Add(time.Hour)}}
	s.truth.agents = append(s.truth.agents, a)
	return a.runs[0]
}

// TestPromises: the oracle sees each way to break a promise, and none where none is broken.
func TestPromises(t *testing.T) {
	t.Parallel()
	child := func(s *scene) { s.launch(task) }
	for name, c := range map[string]struct {
		class lineClass
		play  func(*scene)
		want  []string
	}{
		"granted":     {classGranted, child, nil},
		"twice":       {classGranted, func(s *scene) { child(s); child(s) }, []string{`"task 1" had 2 effects and may have 1`}},
		"refused":     {classRefused, child, []string{`"task 1" had 1 effects and may have 0`}},
		"a turn once": {classGranted, func(s *scene) { s.sent(s.truth.agents[0], bridge.FollowUp{Marker: "[t1]"}, 1) }, nil},
		"a turn twice": {classGranted, func(s *scene) {
			s.sent(s.truth.agents[0], bridge.FollowUp{Marker: "[t1]"}, 1)
			s.sent(s.truth.agents[0], bridge.FollowUp{Marker: "[t1]"}, 1)
		}, []string{"agent root main1 got the turn [t1] 2 times"}},
		"told twice": {classGranted, func(s *scene) {
			for range 2 {
				s.committed(&witness{notices: []bridge.Notice{{Agent: "agt_1", Untrusted: "<r1> is done"}}}, nil)
			}
		}, []string{"agent agt_1 is to hear of <r1> twice"}},
		"an old fence": {classGranted, func(s *scene) {
			s.committed(&witness{claimed: []bridge.Work{{ID: 1, Lane: "agent/1", Fence: 2}}}, nil)
			s.committed(&witness{handedBack: []bridge.Work{{ID: 1, Lane: "agent/1", Fence: 1}}}, nil)
		}, []string{"work in lane agent/1 was given back by one who had lost it"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, c.class)
			c.play(s)
			if !slices.Equal(s.failures, c.want) {
				t.Errorf("failures %q, want %q", s.failures, c.want)
			}
		})
	}
}
