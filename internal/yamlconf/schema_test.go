package yamlconf_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drawbridge/internal/yamlconf"
)

// TestKeepSchema: the schema replaces an earlier one, follows no link, and goes into no folder that others can change.
func TestKeepSchema(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder, victim := filepath.Join(dir, ".schema"), filepath.Join(dir, "victim")
	if err := errors.Join(os.Chmod(dir, 0o700), os.Mkdir(folder, 0o700), os.WriteFile(victim, []byte("mine"), 0o600), os.Symlink(victim, filepath.Join(folder, "relay.json"))); err != nil {
		t.Fatal(err)
	}
	for _, schema := range []string{"{}", `{"a":1}`} {
		line, err := yamlconf.KeepSchema(filepath.Join(dir, "relay.yaml"), schema)
		if err != nil || line != "# yaml-language-server: $schema=.schema/relay.json\n" {
			t.Errorf("%q, %v", line, err)
		}
		kept, err := os.ReadFile(filepath.Join(folder, "relay.json"))
		if text, wrong := os.ReadFile(victim); err != nil || wrong != nil || string(kept) != schema || string(text) != "mine" {
			t.Errorf("kept %q, the file behind the link has %q: %v, %v", kept, text, err, wrong)
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := yamlconf.KeepSchema(filepath.Join(dir, "relay.yaml"), "{}"); err == nil || !strings.Contains(err.Error(), "chmod") {
		t.Errorf("a folder of everybody: %v", err)
	}
}
