package config_test

import (
	"strings"
	"testing"
	"time"

	"drawbridge/config"
)

// parseOpenAI parses a bridge.yaml with an OpenAI-compatible door.
func parseOpenAI(openai string) (*config.Bridge, string) {
	const secret = "0123456789abcdef0123456789abcdef"
	values := map[string]string{"TOKEN": secret + "t", "KEY": secret + "k", "MODEL_KEY": "sk-model", "EMPTY": ""}
	b, problems := config.ParseBridge(config.Source{Name: "bridge.yaml", Data: []byte("token: ${TOKEN}\nkey: ${KEY}\nopenai: {" + openai + "}\n"), Dir: "/etc",
		Getenv: func(name string) (string, bool) { v, ok := values[name]; return v, ok }})
	var all []string
	for _, p := range problems {
		all = append(all, p.String())
	}
	return b, strings.Join(all, "\n")
}

// TestOpenAI: the door is off unless it has an address; what it needs, its defaults and its bounds; keys are secrets.
func TestOpenAI(t *testing.T) {
	t.Parallel()
	b, problems := parseOpenAI("listen: ':18741', anonymous: seed, origins: ['https://chat.example/'], upstreams: { " +
		"local: { kind: chat, url: 'http://127.0.0.1:11434/v1/', key: '${MODEL_KEY}', models: { gpt-4o: { model: 'qwen3:8b', context_length: 32768 } } }, " +
		"agents: { kind: agent }, cloud: { kind: cloud, repos: { app: 'https://github.com/Me/my-app.git' } }, " +
		"direct: { kind: cursor, i_know: true, key: '${MODEL_KEY}', agent_url: 'https://agent.example/', models: { fast: { model: composer-2, parameters: { effort: low } } } } }")
	if problems != "" {
		t.Fatal(problems)
	}
	o := b.OpenAI
	if o.Listen != "127.0.0.1:18741" || o.ParkTimeout != 15*time.Minute || o.Origins[0] != "https://chat.example" {
		t.Errorf("%+v", o)
	}
	if u := o.Upstreams["local"]; u.URL != "http://127.0.0.1:11434/v1" || u.Models["gpt-4o"].Model != "qwen3:8b" || u.Models["gpt-4o"].Context != 32768 {
		t.Errorf("%+v", u)
	}
	if u := o.Upstreams["direct"]; u.AgentURL != "https://agent.example" || u.Share || u.Models["fast"].Parameters["effort"] != "low" {
		t.Errorf("%+v", u)
	}
	if repo := o.Upstreams["cloud"].Repos["app"]; repo != "github.com/me/my-app" {
		t.Errorf("the repository of cloud/app is %q", repo)
	}
	if !strings.Contains(strings.Join(b.Secrets(), " "), "sk-model") {
		t.Error("the key is not among the secrets")
	}
	const listen, agents = "listen: '127.0.0.1:18741', ", "upstreams: { a: { kind: agent } }"
	for name, tt := range map[string]struct{ openai, want string }{
		"no address":         {agents, "openai.listen: is required"},
		"no port":            {"listen: 'here', " + agents, "openai.listen: \"here\" is not an address"},
		"port of the bridge": {"listen: '127.0.0.1:7410', " + agents, "has the same port as listen"},
		"open to all":        {"listen: '0.0.0.0:18741', anonymous: seed, " + agents, "would let other machines in without a token"},
		"nothing behind it":  {listen + "anonymous: seed", "openai.upstreams: is required"},
		"unknown kind":       {listen + "upstreams: { a: { kind: gpt } }", "use chat, agent, cloud or cursor"},
		"unknown key":        {listen + "upstream: {}", "upstream"},
		"no endpoint":        {listen + "upstreams: { a: { kind: chat } }", "openai.upstreams.a.url: is required"},
		"whole address":      {listen + "upstreams: { a: { kind: chat, url: 'https://x.example/v1/chat/completions' } }", "ends with /chat/completions"},
		"key in the file":    {listen + "upstreams: { a: { kind: chat, url: 'https://x.example/v1', key: sk-model } }", "openai.upstreams.a.key"},
		"empty key":          {listen + "upstreams: { a: { kind: chat, url: 'https://x.example/v1', key: '${EMPTY}' } }", "openai.upstreams.a.key"},
		"of another kind":    {listen + "upstreams: { a: { kind: agent, url: 'https://x.example' } }", "openai.upstreams.a.url: is not a setting of kind agent"},
		"name of an agent":   {listen + "upstreams: { a: { kind: chat, url: 'https://x.example/v1', models: { agent/x: {} } } }", "begins with agent/ or cloud/, as only names of agents do"},
		"no repositories":    {listen + "upstreams: { a: { kind: cloud } }", "openai.upstreams.a.repos: is required"},
		"not a repository":   {listen + "upstreams: { a: { kind: cloud, repos: { app: x } } }", "is not a repository"},
		"unpublished":        {listen + "upstreams: { a: { kind: cursor, key: '${MODEL_KEY}' } }", "openai.upstreams.a.i_know: is required: this kind speaks a protocol"},
		"without a key":      {listen + "upstreams: { a: { kind: cursor, i_know: true } }", "openai.upstreams.a.key: is required"},
		"wishes of another":  {listen + "upstreams: { a: { kind: chat, url: 'https://x.example/v1', models: { m: { max_mode: true } } } }", "which are for kind cursor"},
		"parked too long":    {listen + "park_timeout: 48h, " + agents, "openai.park_timeout"},
		"origin":             {listen + "origins: ['*'], " + agents, "openai.origins[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := parseOpenAI(tt.openai)
			if !strings.Contains(problems, tt.want) || strings.Contains(problems, "sk-model") {
				t.Errorf("%s\nwant %s", problems, tt.want)
			}
		})
	}
	if _, problems := parseOpenAI(""); !strings.Contains(problems, "openai.listen: is required") {
		t.Errorf("an empty block: %q", problems)
	}
}
