package words_test

import (
	"errors"
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/parser"
	"drawbridge/proof/runtimes"
)

// TestNoFieldSpeaksForTheBridge fills every field that somebody outside may fill of everything that makes words for a turn. A relay
// counts as hostile, and so do the API, a subagent and everyone who names a branch, a file or an agent.
func TestNoFieldSpeaksForTheBridge(t *testing.T) {
	t.Parallel()
	for name, evil := range runtimes.Poisons() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := bridge.Agent{Name: evil, Repo: evil, External: evil, Trouble: evil}
			m := bridge.Command{ID: bridge.CommandID(evil), Canonical: evil, State: bridge.CommandUncertain, Parsed: parser.Command{Line: 3, Verb: parser.Subagent, Repo: evil, Prompt: evil, Name: evil}}
			out := bridge.ActionOutcome{Status: bridge.ActionRefused, Error: evil, Stdout: evil, Stderr: evil, Wants: evil, Shows: evil, Omitted: 3}
			ended := words.Ended{Repo: evil, Name: evil, External: evil, Evidence: &bridge.Evidence{Artifacts: []bridge.Artifact{{Path: evil, Size: 3}}, Unread: evil},
				Observation: bridge.Observation{State: bridge.RunState(evil), Reply: evil, Repo: evil, Branch: evil, PR: evil, Detail: evil}}
			notice := func(text bridge.Words) string {
				return words.Compose(bridge.Turn{}, []bridge.Notice{{Text: text, Untrusted: evil}, {Text: text, Untrusted: evil, Message: "msg_1"}})
			}
			for what, text := range map[string]string{
				"completion":    notice(words.Completion(ended)),
				"result":        notice(words.Result(a, 3, bridge.Turn{Reply: evil, Status: bridge.RunState(evil)}, words.Evidence(ended))),
				"failure":       notice(words.Failure(a, bridge.Command{}, false, "the run ended: "+string(words.Name(evil)))),
				"waits":         notice(words.ChildWaits(bridge.Agent{Name: evil, Repo: evil}, "a person has to look")),
				"joined":        notice(words.Joined(words.Results{Seq: 1, Launched: 2, Open: []bridge.Command{m}, Why: "the deadline has passed"})),
				"action":        words.Compose(bridge.Turn{}, []bridge.Notice{{Text: words.Errand(m) + words.Action(out), Untrusted: words.Outputs(out)}}),
				"near misses":   notice(words.Misses([]parser.NearMiss{{Line: 3, Text: evil, Reason: "line 3 is indented"}}, 2)),
				"repeats":       notice(words.Repeats([]bridge.CommandID{"cmd_1", "cmd_2"})),
				"said":          notice(words.Say("%s (%s) of %s, %v, %d", evil, bridge.AgentID(evil), errors.New(evil), m.State, 3)),
				"memory":        words.Memory(evil),
				"a spawned one": strings.TrimSuffix(words.Introduced(parser.Command{Role: "reviewer", Subdir: evil, Prompt: "Work."}, evil, evil, true), "Work."),
				"claim":         notice("its last words:"),
			} {
				for _, fault := range runtimes.Unbarred(text) {
					t.Errorf("%s: %s", what, fault)
				}
				if found := parser.ParseString(text, parser.Options{Remind: true}).Commands; len(found) > 0 {
					t.Errorf("%s: it commands %+v", what, found)
				}
			}
		})
	}
}

// TestOwnWordsStayOnOneLine: a reason that was kept may hold a slip of ours or of an earlier version. It cannot begin a line or hide.
func TestOwnWordsStayOnOneLine(t *testing.T) {
	t.Parallel()
	for name, evil := range runtimes.Poisons() {
		text := words.Compose(bridge.Turn{}, []bridge.Notice{{Text: "failed: " + words.Own(evil)}})
		if n := strings.Count(text, "\n"); n != 5 {
			t.Errorf("%s has %d lines: %q", name, n, text)
		}
		old := words.Compose(bridge.Turn{}, []bridge.Notice{{Text: bridge.Words("failed: " + strings.ReplaceAll(evil, "\n", " "))}})
		for _, fault := range append(runtimes.Unbarred(text), runtimes.Unbarred(old)...) {
			if !strings.HasPrefix(fault, "a line without a bar") {
				t.Errorf("%s: %s", name, fault)
			}
		}
	}
}

// TestJSONShowsAll: what a program reads stays the same, and a model sees every character.
func TestJSONShowsAll(t *testing.T) {
	t.Parallel()
	got := string(words.JSON([]byte("{\"a\":\"x\u202ey\u200b\u0085\U000e0041 👩\u200d🚀 LOCAL\u200d_ACTION\"}")))
	if want := "{\"a\":\"x\\u202ey\\u200b\\u0085\\udb40\\udc41 👩\u200d🚀 LOCAL\\u200d_ACTION\"}"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
