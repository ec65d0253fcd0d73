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
	// parts are the heads of the tables in which the keys of each place stand; those of nested places stand in the row of their key.
	parts := map[string]string{
		"nonsense": "| key | default | |", "limits": "| key | default | |", "redact[0]": "| key | default | |",
		"actions.a": "| key of an action | default | |", "actions.a.sandbox": "\n| `sandbox` |", "actions.a.files[0]": "\n| `files` |",
		"agents.a": "| key of an agent | default | |", "agents.a.permissions": "\n| `permissions` |", "agents.a.permissions.execute[0]": "\n| `permissions` |",
		"repos.local/a": "| key of `repos.<name>` | |",
	}
	places := 0
	for _, p := range wrong.Problems {
		list, ok := strings.CutPrefix(p.Remedy, "use one of ")
		if !ok || p.Reason != "is not a known key" {
			continue
		}
		places++
		where, ok := parts[strings.TrimSuffix(p.Key, ".nonsense")]
		if !ok {
			t.Errorf("no part of the page is for %s", p.Key)
		}
		_, part, _ := strings.Cut(string(page), where)
		part, _, _ = strings.Cut(part, "\n\n")
		for key := range strings.SplitSeq(list, ", ") {
			if !regexp.MustCompile("`(limits\\.)?" + regexp.QuoteMeta(key) + "[`.]").MatchString(part) {
				t.Errorf("the page does not name %s below %q (as in %s)", key, where, p.Key)
			}
		}
	}
	if places != 10 {
		t.Errorf("the reader listed the keys of %d places: %v", places, err)
	}
}
