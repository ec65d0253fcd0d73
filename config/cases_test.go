package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSentTextsReferToNothing: neither an allowlist that somebody sent nor a file of tests brings a file of this machine to light, in
// whatever way the reference is spelled.
func TestSentTextsReferToNothing(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(secret, []byte("the-secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, reference := range []string{"${file:" + secret + "}", `\x24{file:` + secret + `}`, `\ue000file:` + secret + `\ue001`, "$\\\n  {file:" + secret + "}"} {
		_, problems := EditedAllowlist("repos: [ \"" + reference + "\" ]\n")
		if len(problems) != 1 || strings.Contains(problems[0].String(), "the-secret") || !strings.Contains(problems[0].String(), "edited allowlist:1: repos[0]") {
			t.Errorf("%s: %v", reference, problems)
		}
		path := filepath.Join(t.TempDir(), "allowlist_test.yaml")
		if err := os.WriteFile(path, []byte("tests: [ { name: \""+reference+"\", says: \""+reference+"\", want: [] } ]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cases, problems := LoadCases(path)
		if len(problems) > 0 || strings.Contains(cases[0].Name+cases[0].Says, "the-secret") {
			t.Errorf("%s: %v, %v", reference, cases, problems)
		}
	}
}
