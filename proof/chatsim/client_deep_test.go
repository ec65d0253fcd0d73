//go:build deep

package chatsim_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestOfficialClient lets the official client from npm drive the stand-in, so that a program which knows nothing of ours says that
// its answers are right, and that it refuses what it must. scripts/agents.sh installs it and names its folder in DRAWBRIDGE_OPENAI.
func TestOfficialClient(t *testing.T) {
	t.Parallel()
	home := os.Getenv("DRAWBRIDGE_OPENAI")
	if home == "" {
		t.Skip("SKIPPED: the official openai client is not installed; run scripts/agents.sh, or make agents")
	}
	script, err := os.ReadFile("npm/client.mjs")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(home, "drawbridge-client.mjs") // node looks for packages beside the program
	if err := os.WriteFile(program, script, 0o600); err != nil {
		t.Fatal(err)
	}
	s, url := serve(t)
	out, err := exec.CommandContext(t.Context(), "node", program, url+"/v1", key).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("all right")) {
		t.Errorf("%v: %s", err, out)
	}
	if n := len(s.Refused()); n != 10 {
		t.Errorf("%d requests were refused, want 10: %q", n, s.Refused())
	}
}
