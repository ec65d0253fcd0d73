package main

import (
	"strings"
	"testing"

	"drawbridge/cloudagents/cloudsim/script"
	"drawbridge/openai/cursor/agentsim"
)

// TestCloudsimHelpIsAScript: the format that --help shows loads as it stands there.
func TestCloudsimHelpIsAScript(t *testing.T) {
	t.Parallel()
	_, text, ok := strings.Cut(cloudsimCmd{}.Help(), "answer):\n")
	if !ok {
		t.Fatal("the help shows no script")
	}
	s, err := script.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Agents) != 2 || len(s.Faults) != 1 || s.Default == nil {
		t.Errorf("the help shows %+v", s)
	}
}

// TestAgentsimHelpIsAScript: the same of the other stand-in.
func TestAgentsimHelpIsAScript(t *testing.T) {
	t.Parallel()
	_, text, ok := strings.Cut(agentsimCmd{}.Help(), "answers):\n")
	if !ok {
		t.Fatal("the help shows no script")
	}
	s, err := agentsim.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Turns) != 4 || len(s.Faults) != 1 || len(s.Models) != 1 {
		t.Errorf("the help shows %+v", s)
	}
}
