package turns

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drawbridge/relay/runner/settings"
)

// TestRepo: an agent works on a clone from the moment in which relay.yaml lists it, and no longer than that. Where relay.yaml has a change that waits
// for a new start of the relay, a refusal says it.
func TestRepo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "relay.yaml")
	put := func(repos, rest string) {
		text := "listen: none\nagents: { one: { kind: acp, argv: [/bin/cat], i_know: true" + rest + " }, two: { kind: acp, argv: [/bin/cat], i_know: true } }\nrepos: { " + repos + " }\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(filepath.Dir(file), ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	put("", "")
	config, err := settings.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &Host{o: Options{Config: config, Live: settings.Follow(config, nil, nil)}}
	listed := "local/r: { clone: " + filepath.Dir(file) + ", agents: [one] }"
	for _, step := range []struct{ repos, rest, refused string }{
		{"", "", `repository "local/r" is not listed in ` + file + "; add it: repos: { local/r: { clone: /path/to/your/clone, agents: [one] } }"},
		{listed, "", ""},
		{strings.Replace(listed, "[one]", "[two]", 1), "", `agent "one" may not work on local/r; add it to repos: local/r: agents: in ` + file},
		{"", "", `repository "local/r" is not listed in ` + file + "; add it: repos: { local/r: { clone: /path/to/your/clone, agents: [one] } }"},
		{listed, ", slots: 2", `repository "local/r" is not listed in ` + file + "; add it: repos: { local/r: { clone: /path/to/your/clone, agents: [one] } }, and restart the relay, because another change of relay.yaml needs a restart"},
	} {
		put(step.repos, step.rest)
		repo, why := h.repo(h.o.Live.Now().Repos, "one", "local/r")
		if (why == nil) != (step.refused == "") || why != nil && why.Error != step.refused || why == nil && repo.Clone != filepath.Dir(file) {
			t.Errorf("repos: { %s }%s: %+v, %+v", step.repos, step.rest, repo, why)
		}
	}
}
