package settings_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"drawbridge/relay/runner/settings"
)

// TestReferenceNamesEveryKey: docs/reference/relay-yaml.md names each key that the file may hold. The reader lists the keys of a place when it
// meets one that it does not know.
func TestReferenceNamesEveryKey(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/reference/relay-yaml.md")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "relay.yaml")
	text := `nonsense: 1
limits: { nonsense: 1 }
redact: [ { nonsense: 1 } ]
actions:
  a: { nonsense: 1, sandbox: { nonsense: 1 }, files: [ { nonsense: 1 } ] }
agents:
  a: { nonsense: 1, permissions: { nonsense: 1, execute: [ { nonsense: 1 } ] } }
repos:
  local/a: { nonsense: 1 }
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = settings.Load(file, nil)
	var wrong *settings.Error
	if !errors.As(err, &wrong) {
		t.Fatal(err)
	}
	places := 0
	for _, p := range wrong.Problems {
		list, ok := strings.CutPrefix(p.Remedy, "use one of ")
		if !ok || p.Reason != "is not a known key" {
			continue
		}
		places++
		for key := range strings.SplitSeq(list, ", ") {
			if p.Key == "limits.nonsense" {
				key = "limits." + key
			}
			if !regexp.MustCompile("`[^`\n]*\\b" + regexp.QuoteMeta(key) + "\\b[^`\n]*`").Match(page) {
				t.Errorf("the page does not name %s (as in %s)", key, p.Key)
			}
		}
	}
	if places != 10 {
		t.Errorf("the reader listed the keys of %d places: %v", places, err)
	}
}
