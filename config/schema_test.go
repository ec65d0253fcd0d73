package config

import (
	"os"
	"strings"
	"testing"

	"drawbridge/proof/pages"
)

// TestSchemas: the schemas that init writes are those of the structs, with the words of the reference, which has a row for each key. They take
// the samples and find mistakes.
//
//go:generate go test . -run TestSchemas -update
func TestSchemas(t *testing.T) {
	t.Parallel()
	for _, file := range []struct {
		name    string
		of      any
		samples []string
		wrong   []string
	}{
		{"bridge", Bridge{}, []string{
			SampleBridge(SampleValues{}), SampleBridge(SampleValues{PublicURL: "https://a.example", RelayURL: "https://b.example"}),
			"poll: { min: 2s }\nmail:\n  per_minute: '5'\n  max_file: ${SIZE}\nparser:\ncursor:\n  api: ${API:-v1}\n",
		}, []string{"listn: x\n", "cursor: { api: v2 }\n", "key: secret\n", "tools: { remind: maybe }\n", "runtimes: { a: { kind: cli } }\n", "poll: { min: 2 }\n"}},
		{"allowlist", allowlist{}, []string{
			SampleAllowlist(SampleValues{}), SampleAllowlist(SampleValues{Repos: []string{}, Actions: []string{}}),
			"repos: [ github.com/a/b, { repo: github.com/c/d, approval: each, api: v0 } ]\nactions: { a: }\nagents: { b: { repos: [] } }\n",
		}, []string{"repos: { a: b }\n", "repos: [ { repo: a, api: v3 } ]\n", "limits: { depth: deep }\n", "actions: { a: { arg: 1 } }\n"}},
	} {
		page, err := os.ReadFile("../docs/reference/" + file.name + "-yaml.md")
		if err != nil {
			t.Fatal(err)
		}
		text := pages.Schema(t, file.of, pages.Keys(string(page)), func(path string) string {
			return strings.Replace(strings.Replace(path, "actions.<name>", "actions.<id>", 1), "models.<name>", "models.<model>", 1)
		})
		pages.Same(t, "schema/"+file.name+".json", text)
		for _, sample := range file.samples {
			if err := pages.Against(t, text, sample); err != nil {
				t.Errorf("%v:\n%s", err, sample)
			}
		}
		for _, sample := range file.wrong {
			if pages.Against(t, text, sample) == nil {
				t.Errorf("the schema takes %s", sample)
			}
		}
	}
}
