package oracle_test

import (
	"slices"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/simulation/oracle"
	"drawbridge/bridge/simulation/stage"
	"drawbridge/bridge/simulation/witness"
)

// scene is a play in which an orchestrator wrote one SUBAGENT line.
type scene struct {
	*stage.Stage
	*oracle.Oracle
	truth oracle.Truth
}

func newScene(t *testing.T, class oracle.Class) *scene {
	t.Helper()
	s := &scene{Stage: stage.New(t.Context(), 1, false, true)}
	s.Oracle = oracle.New(s.Stage, &s.truth, &oracle.Deeds{})
	s.Wrote(&oracle.Line{Tag: root, Class: oracle.Granted})
	s.Wrote(&oracle.Line{Tag: task, Class: class, Run: s.launch(root)})
	return s
}

const root, task = "root main1", "task 1"

// launch adds an agent to the orchestrator's tree.
func (s *scene) launch(prompt string) *oracle.Run {
	a := &oracle.Agent{ID: prompt, API: bridge.APIv1, Root: root, Op: prompt}
	s.Launched(a, prompt, s.Commits)
	a.Runs = []*oracle.Run{{Agent: a, State: bridge.RunFinished, Ends: s.Now.Add(time.Hour)}}
	s.truth.Agents = append(s.truth.Agents, a)
	return a.Runs[0]
}

// TestPromises: the oracle sees each way to break a promise, and none where none is broken.
func TestPromises(t *testing.T) {
	t.Parallel()
	child := func(s *scene) { s.launch(task) }
	for name, c := range map[string]struct {
		class oracle.Class
		play  func(*scene)
		want  []string
	}{
		"granted":     {oracle.Granted, child, nil},
		"twice":       {oracle.Granted, func(s *scene) { child(s); child(s) }, []string{`"task 1" had 2 effects and may have 1`}},
		"refused":     {oracle.Refused, child, []string{`"task 1" had 1 effects and may have 0`}},
		"a turn once": {oracle.Granted, func(s *scene) { s.Sent(s.truth.Agents[0], bridge.FollowUp{Marker: "[t1]"}, 1) }, nil},
		"a turn twice": {oracle.Granted, func(s *scene) {
			s.Sent(s.truth.Agents[0], bridge.FollowUp{Marker: "[t1]"}, 1)
			s.Sent(s.truth.Agents[0], bridge.FollowUp{Marker: "[t1]"}, 1)
		}, []string{"agent root main1 got the turn [t1] 2 times"}},
		"told twice": {oracle.Granted, func(s *scene) {
			for range 2 {
				s.Committed(&witness.Tx{Notices: []bridge.Notice{{Agent: "agt_1", Untrusted: "<r1> is done"}}}, nil)
			}
		}, []string{"agent agt_1 is to hear of <r1> twice"}},
		"an old fence": {oracle.Granted, func(s *scene) {
			s.Committed(&witness.Tx{Claimed: []bridge.Work{{ID: 1, Lane: "agent/1", Fence: 2}}}, nil)
			s.Committed(&witness.Tx{Given: []bridge.Work{{ID: 1, Lane: "agent/1", Fence: 1}}}, nil)
		}, []string{"work in lane agent/1 was given back by one who had lost it"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, c.class)
			c.play(s)
			if !slices.Equal(s.Failures, c.want) {
				t.Errorf("failures %q, want %q", s.Failures, c.want)
			}
		})
	}
}
