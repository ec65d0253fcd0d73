package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drawbridge/relay/agents/turns"
	"drawbridge/relay/runner/settings"
)

const (
	sessionID = "7cc2adb1-0230-4998-9bb7-ff57aaeca257"
	// What Claude Code 2.1.330 and codex-cli 0.169.0 were seen to write, shortened.
	claudeFile = `{"type":"queue-operation","operation":"enqueue","sessionId":"7cc2adb1","content":"[m1] Hello"}
{"parentUuid":null,"isSidechain":false,"type":"user","message":{"role":"user","content":"[m1] Hello"},"uuid":"5"}
{"type":"attachment","attachment":{"type":"model","text":"[m1]"}}
{"type":"api-request-blob","message":{"role":"user","content":[{"type":"text","text":"[m1] blob"}]}}
{"isSidechain":false,"message":{"role":"assistant","content":[{"type":"thinking","thinking":"[m1]"},{"type":"tool_use","id":"toolu_1","name":"Bash","input":{}}]},"type":"assistant"}
{"isSidechain":false,"type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_1","type":"tool_result","content":"[m1] out"}]}}
{"isSidechain":true,"type":"user","message":{"role":"user","content":"[m1] to a subagent"}}
{"isMeta":true,"type":"user","message":{"role":"user","content":"[m1] meta"}}
{"isSidechain":false,"message":{"role":"assistant","content":[{"type":"text","text":"All done."}]},"type":"assistant"}
{"isSidechain":false,"type":"user","message":{"role":"user","content":"[m2] More"}}
{"isApiErrorMessage":true,"message":{"model":"<synthetic>","role":"assistant","content":[{"type":"text","text":"You've hit your limit"}]},"type":"assistant"}
{"isSidechain":false,"type":"user","message":{"role":"us`
	codexFile = `{"type":"session_meta","payload":{"id":"x"}}
{"type":"response_item","payload":{"type":"message","role":"developer","content":[{"type":"input_text","text":"[m1]"}]}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"[m1] Hello"}]}}
{"type":"event_msg","payload":{"type":"user_message","message":"[m1] Hello"}}
{"type":"response_item","payload":{"type":"reasoning","summary":[{"type":"summary_text","text":"[m1]"}]}}
{"type":"response_item","payload":{"type":"function_call","name":"exec_command"}}
{"type":"response_item","payload":{"type":"function_call_output","output":"[m1]"}}
{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"All done."}]}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"[m2] More"}]}}
`
)

// replayed is what the driver reads of a session, in short.
func (w *world) replayed(session string) (short string, known bool) {
	w.Helper()
	c, err := w.Open(w.Context(), turns.Opening{Work: turns.Work{Agent: "fake", Dir: w.work}, Resume: session, Replay: true})
	w.must(err)
	defer c.Close()
	said, known := c.Replay()
	for _, m := range said {
		short += fmt.Sprintf("%s|", map[bool]string{true: "tool", false: map[bool]string{true: "> ", false: ""}[m.User] + m.Text}[m.Tool])
	}
	return short, known
}

func (w *world) write(name, text string) string {
	w.Helper()
	path := filepath.Join(w.Host.Config.AgentHome("fake"), name)
	w.must(os.MkdirAll(filepath.Dir(path), 0o700))
	w.must(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// What Claude Code and Codex keep of a session is read, and nothing that is not a message.
func TestReplay(t *testing.T) {
	t.Parallel()
	for name, file := range map[string][2]string{
		"claude stdin": {".claude/projects/-work/" + sessionID + ".jsonl", claudeFile}, "codex stdin": {".codex/sessions/2026/11/23/rollout-2026-11-23T00-03-06-" + sessionID + ".jsonl", codexFile},
	} {
		w := newWorld(t, name)
		if short, known := w.replayed(sessionID); known || short != "" {
			t.Errorf("%s: without a home: %q %t", name, short, known)
		}
		w.write(file[0], file[1])
		w.write(filepath.Join(filepath.Dir(file[0]), "other.jsonl"), file[1])
		if short, known := w.replayed(sessionID); !known || short != "> [m1] Hello|tool|All done.|> [m2] More|" {
			t.Errorf("%s: %q %t", name, short, known)
		}
		for _, session := range []string{"99999999-0230-4998-9bb7-ff57aaeca257", "a/../" + sessionID, "other"} {
			if short, known := w.replayed(session); known {
				t.Errorf("%s: session %s: %q", name, session, short)
			}
		}
	}
}

// Files in an agent's home are the agent's: what leads elsewhere, blocks, is not whole or is ambiguous is not known.
func TestReplayOfHostileFiles(t *testing.T) {
	t.Parallel()
	place := ".claude/projects/-work/" + sessionID + ".jsonl"
	for name, make := range map[string]func(w *world){
		"a link out": func(w *world) {
			secret := filepath.Join(w.work, "secret")
			w.must(os.WriteFile(secret, []byte(claudeFile), 0o600))
			w.must(os.MkdirAll(filepath.Dir(w.write("x", "")+"/../"+place), 0o700))
			w.must(os.Symlink(secret, filepath.Join(w.Host.Config.AgentHome("fake"), place)))
		},
		"a link of the folder": func(w *world) {
			w.must(os.MkdirAll(filepath.Join(w.work, "projects", "-work"), 0o700))
			w.must(os.WriteFile(filepath.Join(w.work, "projects", "-work", sessionID+".jsonl"), []byte(claudeFile), 0o600))
			w.write(".claude/x", "")
			w.must(os.Symlink(filepath.Join(w.work, "projects"), filepath.Join(w.Host.Config.AgentHome("fake"), ".claude", "projects")))
		},
		"a pipe": func(w *world) {
			path := w.write(place, "")
			w.must(os.Remove(path))
			w.must(syscall.Mkfifo(path, 0o600))
		},
		"a folder":    func(w *world) { w.write(place+"/x", "") },
		"a long line": func(w *world) { w.write(place, claudeFile+strings.Repeat("x", 9<<20)+"\n") },
		"no message":  func(w *world) { w.write(place, "{}\n") },
		"two files": func(w *world) {
			w.write(place, claudeFile)
			w.write(".claude/projects/-b/"+sessionID+".jsonl", claudeFile)
		},
		"somewhere else": func(w *world) {
			w.write(place, claudeFile)
			entry := w.Host.Config.Agents["fake"]
			entry.Env = append(entry.Env, settings.EnvVar{Name: "CLAUDE_CONFIG_DIR", Value: "/elsewhere"})
			w.Host.Config.Agents["fake"] = entry
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "claude stdin")
			make(w)
			if short, known := w.replayed(sessionID); known {
				t.Errorf("read %.200q", short)
			}
		})
	}
	w := newWorld(t, "claude stdin")
	w.write(place, strings.Repeat(`{"type":"user","message":{"content":"`+strings.Repeat("y", 1<<20)+`"}}`+"\n", 20)+claudeFile)
	if short, known := w.replayed(sessionID); !known || len(short) > 9<<20 || !strings.HasSuffix(short, "> [m2] More|") {
		t.Errorf("of a long session %d bytes are kept, known: %t", len(short), known)
	}
}
