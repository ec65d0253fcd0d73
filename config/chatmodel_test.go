package config_test

import (
	"strings"
	"testing"
	"time"

	"drawbridge/config"
)

// parseChat parses a bridge.yaml with a runtime and an orchestrator.
func parseChat(runtime, orchestrator string) (*config.Bridge, string) {
	const secret = "0123456789abcdef0123456789abcdef"
	values := map[string]string{"TOKEN": secret + "t", "KEY": secret + "k", "MODEL_KEY": "sk-model", "EMPTY": ""}
	text := "token: ${TOKEN}\nkey: ${KEY}\nruntimes: { local: { " + runtime + " } }\norchestrators: [{ name: main, repo: github.com/me/a, runtime: local" + orchestrator + " }]\n"
	b, problems := config.ParseBridge(config.Source{Name: "bridge.yaml", Data: []byte(text), Dir: "/etc", Getenv: func(name string) (string, bool) { v, ok := values[name]; return v, ok }})
	var all []string
	for _, p := range problems {
		all = append(all, p.String())
	}
	return b, strings.Join(all, "\n")
}

// TestChatRuntime: what a chat model needs, its defaults and its bounds; the key is a secret.
func TestChatRuntime(t *testing.T) {
	t.Parallel()
	b, problems := parseChat("kind: chat, url: http://127.0.0.1:11434/v1/, model: qwen3:8b, key: '${MODEL_KEY}'", ", blocks: { persona: 'You are Ana.' }")
	if problems != "" {
		t.Fatal(problems)
	}
	r := b.Runtimes["local"]
	if r.URL != "http://127.0.0.1:11434/v1" || r.Model != "qwen3:8b" || r.Key.Reveal() != "sk-model" || r.Steps != 50 || r.TurnTimeout != 5*time.Minute || r.Parallel != 4 || r.MaxTokens != 0 || r.Dir != "" {
		t.Errorf("%+v", r)
	}
	if b.Orchestrators[0].Blocks["persona"] != "You are Ana." {
		t.Errorf("%+v", b.Orchestrators[0])
	}
	if all := strings.Join(b.Secrets(), " "); !strings.Contains(all, "sk-model") {
		t.Error("the key is not among the secrets")
	}
	const good = "kind: chat, url: 'https://models.example/v1', model: m"
	for name, tt := range map[string]struct{ runtime, orchestrator, want string }{
		"nothing":       {"kind: chat", "", "runtimes.local.url: is required"},
		"no model":      {"kind: chat, url: 'https://models.example/v1'", "", "runtimes.local.model: is required"},
		"in the clear":  {"kind: chat, url: 'http://models.example/v1', model: m", "", "would send secrets in the clear"},
		"whole address": {"kind: chat, url: 'https://models.example/v1/chat/completions', model: m", "", "ends with /chat/completions"},
		"plain key":     {good + ", key: sk-model", "", "runtimes.local.key"},
		"empty key":     {good + ", key: '${EMPTY}'", "", "runtimes.local.key"},
		"steps":         {good + ", steps: 0", "", `"0" is out of range; use 1 to 1000`},
		"timeout":       {good + ", turn_timeout: 1ms", "", "runtimes.local.turn_timeout"},
		"parallel":      {good + ", parallel: 1000", "", "use 1 to 256"},
		"script":        {good + ", script: x.yaml", "", "is not a setting of kind chat"},
		"of a script":   {"kind: scripted, script: x.yaml, model: m", "", "runtimes.local.model: is not a setting of kind scripted"},
		"unknown":       {"kind: chats", "", "use relay, chat or scripted"},
		"label":         {good, `, blocks: { "a\nb": x }`, "is not a label"},
		"long block":    {good, ", blocks: { a: '" + strings.Repeat("x", 17<<10) + "' }", "at most 16384 are allowed"},
		"much":          {good, ", blocks: { " + strings.Repeat("", 0) + many(5, strings.Repeat("x", 14<<10)) + " }", "at most 65536 fit into a turn"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := parseChat(tt.runtime, tt.orchestrator)
			if !strings.Contains(problems, tt.want) || strings.Contains(problems, "sk-model") {
				t.Errorf("%s\nwant %s", problems, tt.want)
			}
		})
	}
}

// many are so many blocks of one text.
func many(n int, text string) string {
	var all []string
	for i := range n {
		all = append(all, string(rune('a'+i))+": '"+text+"'")
	}
	return strings.Join(all, ", ")
}
