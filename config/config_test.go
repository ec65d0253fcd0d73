package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drawbridge/config"
	"drawbridge/internal/yamlconf"
	"drawbridge/policy"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	token = strings.Repeat("t", 32)
	key   = strings.Repeat("k", 32)
)

func env(name string) (string, bool) {
	v, ok := map[string]string{
		"TOKEN": token, "KEY": key, "OLD": strings.Repeat("o", 40), "CURSOR_API_KEY": "cursor-key",
		"SHORT": "short-secret", "BLANK": strings.Repeat("a b ", 10), "EMPTY": "", "RELAY": strings.Repeat("r", 32), "BASE64": "whsec_" + strings.Repeat("A", 32), "WEAK64": "whsec_QUFBQQ==",
	}[name]
	return v, ok
}

const least = "token: ${TOKEN}\nkey: ${KEY}\n"

func parseBridge(text string) (*config.Bridge, []string) {
	b, problems := config.ParseBridge(config.Source{Name: "bridge.yaml", Dir: "/etc/drawbridge", Data: []byte(text), Getenv: env})
	return b, texts(problems)
}

func texts(problems []config.Problem) []string {
	out := []string{}
	for _, p := range problems {
		out = append(out, p.String())
	}
	return out
}

func TestBridgeDefaults(t *testing.T) {
	t.Parallel()
	b, problems := parseBridge(least)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := &config.Bridge{
		Listen: "127.0.0.1:7410", Token: yamlconf.NewSecret(token), Key: yamlconf.NewSecret(key),
		Database: "/etc/drawbridge/drawbridge.db", Allowlist: "/etc/drawbridge/allowlist.yaml", Files: "/etc/drawbridge/files",
		Cursor: config.Cursor{API: "v1", URL: "https://api.cursor.com", Timeout: 150 * time.Second},
		Poll:   config.Poll{Min: 10 * time.Second, Max: time.Minute},
		Mail:   config.Mail{PerMinute: 10, MaxFile: 32 << 20, ChainDepth: 3},
		Tools:  config.Tools{PerMinute: 6000, Remind: true},
		Chat:   config.Chat{PerMinute: 20, Wait: 5 * time.Minute},
		OpenAI: config.OpenAI{ParkTimeout: 15 * time.Minute},
		Parser: config.Parser{Fenced: "ignore"},
		Log:    config.Log{Level: "info", Format: "auto"},
	}
	if diff := cmp.Diff(want, b, cmpopts.IgnoreUnexported(config.Bridge{})); diff != "" {
		t.Error(diff)
	}
	if serve := b.ServeProblems(); len(serve) > 0 {
		t.Error(serve)
	}
}

// A bridge does without a key for the Cloud Agents API and says what is off. A key that was meant and cannot be had is a problem all
// the same: a variable that is not set must not turn agents off.
func TestWithoutCloudKey(t *testing.T) {
	t.Parallel()
	const (
		main   = "operator: { listen: ':7400' }\norchestrators: [{ name: main, repo: github.com/me/env%s }]\n"
		script = "runtimes: { team: { kind: scripted, script: x.yaml } }\n"
		off    = "agents of the Cloud Agents API are off: the bridge refuses to launch them, and turns of existing ones wait"
	)
	for text, wanted := range map[string]bool{
		fmt.Sprintf(main, ""):                                     true,
		fmt.Sprintf(main, "") + "cursor: { api: v0 }\n":           true,
		fmt.Sprintf(main, ", runtime: cursor"):                    true,
		fmt.Sprintf(main, ", runtime: team") + script:             false,
		"operator: { listen: ':7400' }\norchestrators: []\n":      false,
		"operator: { listen: ':7400' }\ncursor: { model: m-1 }\n": false,
	} {
		b, problems := parseBridge(least + text)
		if len(problems) > 0 {
			t.Errorf("%s: %v", text, problems)
			continue
		}
		notice, got := b.CloudNotice()
		warnings := strings.Join(texts(b.Warnings()), "\n")
		if !b.CloudOff() || notice != "cursor.key is not set, so "+off || got != wanted || strings.Contains(warnings, off) != wanted || wanted != strings.Contains(warnings, "write key: ${CURSOR_API_KEY} below cursor, or give") {
			t.Errorf("%s: off %v, wanted %v, notice %q, warnings %q", text, b.CloudOff(), got, notice, warnings)
		}
	}
	b, problems := parseBridge(least + fmt.Sprintf(main, "") + "cursor: { key: \"${CURSOR_API_KEY}\" }\n")
	if notice, wanted := b.CloudNotice(); len(problems) > 0 || b.CloudOff() || notice != "" || wanted || len(b.Warnings()) > 0 {
		t.Errorf("with a key: %v %q %v", problems, notice, b.Warnings())
	}
	for value, want := range map[string]string{
		"${NOT_SET}": "refers to the environment variable NOT_SET, which is not set; set NOT_SET or write ${file:path}", "${EMPTY}": "is empty; set it",
		"${NOT_SET:-}": "holds the secret itself", "${file:gone}": "gone", "${BLANK}": "holds a blank", "''": "holds the secret itself",
	} {
		b, problems := parseBridge(least + "cursor: { key: " + value + " }\n")
		if value[0] == '$' {
			b, problems = parseBridge(least + "cursor: { key: \"" + value + "\" }\n")
		}
		if b != nil || len(problems) != 1 || !strings.Contains(problems[0], want) || !strings.HasSuffix(problems[0], ", or remove cursor.key to do without agents of the cloud") {
			t.Errorf("%s: %q", value, problems)
		}
	}
}

func TestBridgeWhole(t *testing.T) {
	t.Parallel()
	b, problems := parseBridge(`
listen: "[::1]:0"
public_url: https://bridge.example.com/base/
token: ${TOKEN}
key: ${KEY}
old_keys: [ "${OLD}" ]
database: /var/lib/d.db
allowlist: lists/a.yaml
cursor: { key: "${CURSOR_API_KEY}", api: v0, url: http://127.0.0.1:9/, model: m-1, timeout: 2s }
poll: { min: 1s, max: 1s }
orchestrators:
  - { name: main, repo: https://github.com/Me/Env.git, ref: feature/x }
  - { name: two, repo: github.com/me/two, workspace: two }
mail: { per_minute: 30, max_file: 1000, chain_depth: 5 }
tools: { per_minute: 60, remind: false }
chat: { orchestrator: two, per_minute: 5, wait: 1m }
relays:
  laptop: { url: http://localhost:7420/, token: ${RELAY} }
parser: { fenced: run, remind: true, webhook_result: true }
log: { level: debug, format: console }
`)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := &config.Bridge{
		Listen: "[::1]:0", PublicURL: "https://bridge.example.com/base",
		Token: yamlconf.NewSecret(token), Key: yamlconf.NewSecret(key), OldKeys: []config.Secret{yamlconf.NewSecret(strings.Repeat("o", 40))},
		Database: "/var/lib/d.db", Allowlist: "/etc/drawbridge/lists/a.yaml", Files: "/etc/drawbridge/files",
		Cursor: config.Cursor{Key: yamlconf.NewSecret("cursor-key"), API: "v0", URL: "http://127.0.0.1:9", Model: "m-1", Timeout: 2 * time.Second},
		Poll:   config.Poll{Min: time.Second, Max: time.Second},
		Orchestrators: []config.Orchestrator{
			{Name: "main", Repo: "github.com/me/env", Ref: "feature/x"}, {Name: "two", Repo: "github.com/me/two", Workspace: "/etc/drawbridge/two"},
		},
		Mail:   config.Mail{PerMinute: 30, MaxFile: 1000, ChainDepth: 5},
		Tools:  config.Tools{PerMinute: 60},
		Chat:   config.Chat{Orchestrator: "two", PerMinute: 5, Wait: time.Minute},
		OpenAI: config.OpenAI{ParkTimeout: 15 * time.Minute},
		Relays: map[string]config.Relay{"laptop": {URL: "http://localhost:7420", Token: yamlconf.NewSecret(strings.Repeat("r", 32))}},
		Parser: config.Parser{Fenced: "run", Remind: true, WebhookResult: true},
		Log:    config.Log{Level: "debug", Format: "console"},
	}
	if diff := cmp.Diff(want, b, cmpopts.IgnoreUnexported(config.Bridge{})); diff != "" {
		t.Error(diff)
	}
	if problems := b.ServeProblems(); len(problems) > 0 {
		t.Error(problems)
	}
}

func TestChatTakesTheOnlyOrchestrator(t *testing.T) {
	t.Parallel()
	b, problems := parseBridge(least + "orchestrators: [{name: solo, repo: github.com/me/env}]")
	if len(problems) > 0 || b.Chat.Orchestrator != "solo" {
		t.Errorf("%v %v", b, problems)
	}
}

func TestBridgeProblems(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"an empty file": {"", []string{"bridge.yaml: token: is required", "bridge.yaml: key: is required"}},
		"everything at once": {least + "lisen: x\ncursor:\n  api: v2\n  timeout: 10\npoll: {min: 2m}\n", []string{
			"bridge.yaml:3: lisen: is not a known key; did you mean listen?",
			`bridge.yaml:6: cursor.timeout: "10" is not a duration; write a number with its unit`,
			`bridge.yaml:5: cursor.api: "v2" is not known; use v1 or v0`,
			`bridge.yaml:7: poll.max: "1m0s" is out of range; use 2m0s to 1h0m0s`,
		}},
		"secrets in the file": {"token: my-own-secret\nkey: my-own-secret\nrelays: {a: {url: https://x, token: my-own-secret}}", []string{
			"bridge.yaml:1: token: holds the secret itself; write it to a file and use ${file:path}, or use ${VAR}",
			"bridge.yaml:2: key: holds the secret itself", "bridge.yaml:3: relays.a.token: holds the secret itself",
		}},
		"weak secrets": {"token: ${SHORT}\nkey: ${SHORT}\nold_keys: ['${SHORT}', '${EMPTY}', '${NOPE}']\ncursor: {key: '${EMPTY}'}", []string{
			"bridge.yaml:3: old_keys[2]: refers to the environment variable NOPE, which is not set",
			"bridge.yaml:1: token: is shorter than 32 characters", "bridge.yaml:2: key: is shorter than 32 bytes",
			"bridge.yaml:2: key: is the same as token", "bridge.yaml:3: old_keys[0]: is shorter than 32 bytes",
			"bridge.yaml:3: old_keys[0]: is the same as key", "bridge.yaml:3: old_keys[1]: is required", "bridge.yaml:4: cursor.key: is empty",
		}},
		"a token with blanks": {"token: ${BLANK}\nkey: ${KEY}\ncursor: {key: ${BLANK}}", []string{"bridge.yaml:1: token: holds a blank", "bridge.yaml:3: cursor.key: holds a blank"}},
		"too many old keys":   {least + "old_keys: [${OLD},${OLD},${OLD},${OLD},${OLD},${OLD},${OLD},${OLD},${OLD}]", []string{"bridge.yaml:3: old_keys: has more than 8 keys"}},
		"metrics: weak token": {least + "metrics: {token: '${SHORT}'}", []string{"bridge.yaml:3: metrics.token: is shorter than 32 characters"}},
		"metrics: same token": {least + "metrics: {token: '${TOKEN}'}", []string{"bridge.yaml:3: metrics.token: is the same as token or key"}},
		"people": {least + "operators: {ann: {token: '${SHORT}', role: boss}, bob: {token: '${RELAY}', role: viewer}, cyd: {token: '${RELAY}', role: admin}, dan: {token: '${TOKEN}'}, operator: {token: '${OLD}', role: admin}, 'E f': {}}", []string{
			`operators.ann.token: is shorter than 32 characters`, `operators.ann.role: "boss" is not known; use viewer, approver or admin`, `operators.cyd.token: is the same as another secret of this file`,
			`operators.dan.token: is the same as another secret`, `operators.dan.role: is required; write viewer, approver or admin`, `operators.operator: looks like operator, which the bridge keeps`, `operators.bob.token: is the same as another secret of this file`,
			`operators.E f: "E f" is not a name`, `operators.E f.token: is required`, `operators.E f.role: is required`,
		}},
		"a person's token in the file": {least + "operators: {ann: {token: my-own-secret, role: viewer}}", []string{"operators.ann.token: holds the secret itself"}},
		"alerts":                       {least + "alerts: {url: 'https://me:secret@hook.example.com', secret: '${SHORT}', old_secret: '${EMPTY}'}", []string{"alerts.url: holds a user name or password", "alerts.secret: is not whsec_ followed by base64; make one with: echo", "alerts.old_secret: is empty; write the earlier secret"}},
		"alerts: no TLS":               {least + "alerts: {url: 'http://hook.example.com/my-own-secret', secret: '${BASE64}'}", []string{"bridge.yaml:3: alerts.url: is not an https address; write https://host/path, or http:// for this machine only"}},
		"alerts: here":                 {least + "alerts: {url: 'http://127.0.0.1:9/my-own-secret', secret: '${BASE64}'}", []string{"bridge.yaml:3: alerts.url: leads to this machine; to allow that, write private: true below alerts"}},
		"alerts: no URL":               {least + "alerts: {contents: true}", []string{"bridge.yaml:3: alerts.url: is required; write the https address that takes the alerts, or remove alerts"}},
		"alerts: in the file":          {least + "alerts: {url: 'https://hook.example.com?x=y', secret: my-own-secret}", []string{"bridge.yaml:3: alerts.secret: holds the secret itself"}},
		"alerts: no prefix":            {least + "alerts: {url: 'https://hook.example.com?x=y', secret: '${RELAY}'}", []string{"bridge.yaml:3: alerts.secret: is not whsec_ followed by base64"}},
		"alerts: weak":                 {least + "alerts: {url: 'https://hook.example.com?x=y', secret: '${WEAK64}'}", []string{"bridge.yaml:3: alerts.secret: does not have 24 to 64 bytes"}},
		"metrics: in the file":         {least + "metrics: {token: my-own-secret}", []string{"bridge.yaml:3: metrics.token: holds the secret itself"}},
		"postgres password":            {least + "database: postgres://me:my-own-secret@host/db", []string{"bridge.yaml:3: database: holds a password in the file itself; put the address into the environment"}},
		"postgres without db":          {least + "database: postgres://me@host", []string{"bridge.yaml:3: database: is not a PostgreSQL address, because it names no database; write postgres://user@host:5432/database"}},
		"no plain file":                {least + "database: 'file:x.db?mode=memory'", []string{"bridge.yaml:3: database: is neither a plain file name nor a PostgreSQL address"}},
		"in memory":                    {least + "database: ':memory:'", []string{"database: is neither a plain file name nor a PostgreSQL address"}},
		"no database":                  {least + "database: ''\nallowlist: ''", []string{"bridge.yaml:3: database: is required", "bridge.yaml:4: allowlist: is required"}},
		"addresses": {least + "listen: localhost\npublic_url: http://bridge.example.com\ncursor: {url: http://api.cursor.com}\nrelays: {a: {url: http://10.0.0.1:7420, token: ${RELAY}}, b: {token: ${RELAY}}}", []string{
			`bridge.yaml:3: listen: "localhost" is not an address; write host:port`,
			`bridge.yaml:4: public_url: "http://bridge.example.com" would send secrets in the clear; write https://host, or http:// for this machine only`,
			`bridge.yaml:5: cursor.url: "http://api.cursor.com" would send secrets in the clear`,
			`bridge.yaml:6: relays.a.url: "http://10.0.0.1:7420" would send secrets in the clear`,
			`bridge.yaml:6: relays.b.url: is required`,
		}},
		"more addresses": {least + "listen: ':99999'\npublic_url: https://me:my-own-secret@x\ncursor: {url: 'https://x/?k=v'}\nrelays: {a: {url: 'ftp://x', token: ${RELAY}}, b: {url: 'https://', token: ${RELAY}}}", []string{
			`listen: ":99999" is not an address`, "public_url: holds a user name or password; remove everything before the @",
			`cursor.url: "https://x/?k=v" has a ?`, `relays.a.url: "ftp://x" is not an http or https address`, `relays.b.url: "https://" is not an http or https address`,
		}},
		"loopback look-alikes": {least + "public_url: http://127.0.0.1.evil.com\ncursor: {url: 'http://localhost.evil.com'}", []string{"in the clear", "in the clear"}},
		"orchestrators": {least + "orchestrators:\n- {name: Main, repo: me/env}\n- {name: a, repo: github.com/a/b, ref: -x}\n- {name: a, repo: github.com/a/*, ref: a..b}\n- {join: some, join_deadline: 10ms, toolsets: [tools, team, team]}\nchat: {orchestrator: b, per_minute: 0, wait: 2h}", []string{
			`bridge.yaml:4: orchestrators[0].name: "Main" is not a name`,
			`bridge.yaml:4: orchestrators[0].repo: "me/env" is not a repository; write https://github.com/owner/name: the host github.com/ is missing`,
			`bridge.yaml:5: orchestrators[1].ref: "-x" is not a branch`,
			`bridge.yaml:6: orchestrators[2].name: "a" is given twice`,
			`bridge.yaml:7: orchestrators[3].join: "some" is not known; use each, all, any or a number from 1 to 100`, `bridge.yaml:7: orchestrators[3].join_deadline: "10ms" is out of range; use 1s to 720h0m0s`,
			`bridge.yaml:6: orchestrators[2].repo: "github.com/a/*" is not a repository`,
			`bridge.yaml:7: orchestrators[3].toolsets: "tools" is not a toolset; use bridge, team, threads, channels or memory`, `bridge.yaml:7: orchestrators[3].toolsets: "team" is given twice`,
			`bridge.yaml:6: orchestrators[2].ref: "a..b" is not a branch`,
			`bridge.yaml:7: orchestrators[3].name: is not a name`, `bridge.yaml:7: orchestrators[3].repo: is not a repository`,
			`bridge.yaml:8: chat.per_minute: "0" is out of range; use 1 to 1000`, `bridge.yaml:8: chat.wait: "2h0m0s" is out of range; use 1s to 1h0m0s`,
			`bridge.yaml:8: chat.orchestrator: "b" is not an orchestrator`,
		}},
		"runtimes": {least + "listen: 127.0.0.1:0\nruntimes:\n  v1: {kind: scripted, script: s.yaml}\n  local: {kind: cli}\norchestrators: [{name: a, repo: github.com/a/b, runtime: locl}]", []string{
			`runtimes.v1: is a name of the Cloud Agents API; choose another`, `runtimes.local.kind: "cli" is not known; use relay, chat or scripted`,
			`orchestrators[0].runtime: "locl" is not a runtime; use cursor, local or v1`, `listen: "127.0.0.1:0" has port 0, which is a new port at each start`,
		}},
		"tools":                        {least + "tools: {per_minute: 0}", []string{`bridge.yaml:3: tools.per_minute: "0" is out of range; use 1 to 1000000`}},
		"mail":                         {least + "mail: {per_minute: 0, max_file: -1}", []string{`bridge.yaml:3: mail.per_minute: "0" is out of range; use 1 to 100000`, `bridge.yaml:3: mail.max_file: "-1" is out of range`}},
		"a chat without orchestrators": {least + "chat: {orchestrator: main}", []string{`"main" is not an orchestrator; use none, as none is configured`}},
		"a relay's name":               {least + "relays: {My Laptop: {url: https://x, token: ${RELAY}}}", []string{`"My Laptop" is not a name`}},
		"choices": {least + "parser: {fenced: maybe, remind: yes}\nlog: {level: loud, format: xml}\ncursor: {model: 'a b'}", []string{
			`bridge.yaml:3: parser.remind: "yes" is neither true nor false`, `parser.fenced: "maybe" is not known; use ignore or run`,
			`log.level: "loud" is not known; use trace, debug, info, warn or error`, `log.format: "xml" is not known; use auto, json or console`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, got := parseBridge(c.text)
			if b != nil {
				t.Error("a bridge in spite of problems")
			}
			all := strings.Join(got, "\n")
			for _, want := range c.want {
				if !strings.Contains(all, want) {
					t.Errorf("missing %q in\n%s", want, all)
				}
			}
			if name != "choices" && len(got) != len(c.want) {
				t.Errorf("%d problems, want %d:\n%s", len(got), len(c.want), all)
			}
			for _, secret := range []string{"my-own-secret", "short-secret", "a b a"} {
				if strings.Contains(all, secret) {
					t.Errorf("a secret is shown:\n%s", all)
				}
			}
		})
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "bridge.yaml")
	_, problems := config.Load(path, env)
	if len(problems) != 1 || problems[0].String() != path+": does not exist; create it with: drawbridge init" {
		t.Errorf("problems %v", problems)
	}
	if _, problems := config.Load(dir, env); len(problems) != 1 || !strings.Contains(problems[0].String(), "is not a regular file") {
		t.Errorf("problems %v", problems)
	}
	write(t, filepath.Join(dir, "secret"), key+"\n")
	write(t, path, "token: ${TOKEN}\nkey: ${file:secret}\n")
	b, problems := config.Load(path, env)
	if len(problems) > 0 || b.Key.Reveal() != key || b.Database != filepath.Join(dir, "drawbridge.db") {
		t.Errorf("bridge %v, problems %v", b, problems)
	}
	write(t, path, least+strings.Repeat("#", 1<<20))
	if _, problems := config.Load(path, env); len(problems) != 1 || !strings.Contains(problems[0].Reason, "larger than") {
		t.Errorf("problems %v", problems)
	}
}

// Whoever only talks to a bridge needs its address and the operator's token, and not what else the bridge was started with.
func TestLoadToTalk(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bridge.yaml")
	const good = "listen: 127.0.0.1:7\ntoken: ${TOKEN}\ncursor: { key: \"${NOT_SET}\" }\nkey: ${file:gone}\n"
	write(t, path, good)
	if b, problems := config.LoadToTalk(path, env); len(problems) > 0 || b.Listen != "127.0.0.1:7" || b.Token.Reveal() != token {
		t.Errorf("bridge %v, problems %v", b, problems)
	}
	if b, problems := config.Load(path, env); b != nil || len(problems) < 2 {
		t.Errorf("to serve: bridge %v, problems %v", b, problems)
	}
	for want, text := range map[string]string{
		"token: is required":      strings.Replace(good, "token:", "tokn:", 1),
		"NOT_SET":                 strings.Replace(good, "${TOKEN}", "${NOT_SET}", 1),
		"listen":                  strings.Replace(good, "127.0.0.1:7", "here", 1),
		"YAML":                    "token: [",
		"token: is":               "",
		"holds the secret itself": strings.Replace(good, "${TOKEN}", token, 1),
	} {
		write(t, path, text)
		b, problems := config.LoadToTalk(path, env)
		if b != nil || len(problems) == 0 || !strings.Contains(strings.Join(texts(problems), "\n"), want) {
			t.Errorf("%q: bridge %v, problems %q", want, b, texts(problems))
		}
	}
}

// The receiver alone reads the bridge's own file and holds no API key, whether there is one or not.
func TestLoadKeyless(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bridge.yaml")
	for text, want := range map[string]string{
		least + "cursor: { key: \"${NOT_SET}\" }\n":                 "",
		least + "cursor: { key: \"${CURSOR_API_KEY}\" }\n":          "",
		least + "cursor: { key: \"${NOT_SET}\", timeout: never }\n": "cursor.timeout",
		"cursor: { key: \"${NOT_SET}\" }\n":                         "token: is required",
	} {
		write(t, path, text)
		b, problems := config.LoadKeyless(path, env)
		if all := strings.Join(texts(problems), "\n"); (b == nil) != (want != "") || !strings.Contains(all, want) || strings.Contains(all, "NOT_SET") {
			t.Errorf("%q: bridge %v, problems %q", text, b, all)
		}
		if b != nil && b.Cursor.Key.Len() > 0 {
			t.Errorf("%q: the key is there", text)
		}
	}
}

func write(tb testing.TB, path, text string) {
	tb.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

func parseAllowlist(text string) (policy.Rules, []string) {
	r, problems := config.ParseAllowlist(config.Source{Name: "allowlist.yaml", Data: []byte(text)})
	return r, texts(problems)
}

func TestAllowlist(t *testing.T) {
	t.Parallel()
	got, problems := parseAllowlist(`
repos:
  - github.com/me/my-app
  - https://github.com/Acme/*
  - repo: github.com/me/prod
    approval: each
    api: v0
  - { repo: github.com/me/daily, approval: once per 24h, api: v1 }
actions:
  backup_script: { relay: laptop }
  lock_screen:   { relay: laptop, approval: each }
  open_browser:
limits: { commands_per_turn: 5, depth: 2, turns_per_chain: 9, reminders: 3, tree: { launches: 7, tokens: 1000000, cost_usd: 2 } }
agents:
  docs-bot: { repos: [github.com/acme/docs], actions: [], tree: { turns: 4 } }
  emptied:
    repos:
`)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	never, each := policy.Approval{Mode: policy.ApprovalNever}, policy.Approval{Mode: policy.ApprovalEach}
	want := policy.Rules{
		Repos: []policy.RepoRule{
			{Pattern: "github.com/me/my-app", Approval: never, At: "allowlist.yaml:3"},
			{Pattern: "https://github.com/Acme/*", Approval: never, At: "allowlist.yaml:4"},
			{Pattern: "github.com/me/prod", Approval: each, API: "v0", At: "allowlist.yaml:5"},
			{Pattern: "github.com/me/daily", Approval: policy.Approval{Mode: policy.ApprovalOnce, For: 24 * time.Hour}, API: "v1", At: "allowlist.yaml:8"},
		},
		Actions: []policy.ActionRule{
			{ID: "backup_script", Relay: "laptop", Approval: never, At: "allowlist.yaml:10"},
			{ID: "lock_screen", Relay: "laptop", Approval: each, At: "allowlist.yaml:11"},
			{ID: "open_browser", Approval: never, At: "allowlist.yaml:12"},
		},
		Limits: policy.Limits{CommandsPerTurn: 5, Depth: 2, TurnsPerChain: 9, Reminders: 3, Tree: policy.Budget{Launches: 7, Tokens: 1_000_000, CostUSD: 2}},
		Agents: map[string]policy.Narrowing{
			"docs-bot": {Repos: []string{"github.com/acme/docs"}, Actions: []string{}, Tree: policy.Budget{Turns: 4}, At: "allowlist.yaml:15"},
			// A list whose entries were all removed allows nothing; it does not inherit.
			"emptied": {Repos: []string{}, At: "allowlist.yaml:17"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAllowlistProblems(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"wildcards": {"repos:\n- '*'\n- github.com/*/*\n- '*/acme/*'\n- github.com/acme/to*\n- me/x", []string{
			`allowlist.yaml:2: repos[0]: "*" is not a repository pattern`, `allowlist.yaml:3: repos[1]: "github.com/*/*"`,
			`allowlist.yaml:4: repos[2]: "*/acme/*"`, `allowlist.yaml:5: repos[3]`,
			`allowlist.yaml:6: repos[4]: "me/x" is not a repository pattern (write https://github.com/owner/name: the host github.com/ is missing in front of the owner); write github.com/owner/name, or github.com/owner/* for all of one owner`,
		}},
		"an unquoted star": {"repos: [*]", []string{"is not YAML"}},
		"values": {"repos:\n- {repo: github.com/a/b, approval: always, api: v2}\n- {repo: [x]}\n- 5\n- \nactions: {A: {}, b: {relay: My Relay, approval: ''}}", []string{
			"allowlist.yaml:3: repos[1].repo: is a list, not a single value", `allowlist.yaml:2: repos[0].approval: "always" is not an approval; write never, each or once per 24h`,
			`allowlist.yaml:2: repos[0].api: "v2" is not known; use v1 or v0`, `allowlist.yaml:4: repos[2]: "5" is not a repository pattern`, `allowlist.yaml:5: repos[3]: is not a repository pattern`,
			`allowlist.yaml:6: actions: "A" is not an action id`, `allowlist.yaml:6: actions.b.relay: "My Relay" is not a name`, `allowlist.yaml:6: actions.b.approval: is not an approval`,
		}},
		"limits": {"limits:\n  commands_per_turn: 0\n  launches_per_hour: -1\n  depth: 101\n  open_subagents:\n  turns: 5", []string{
			`allowlist.yaml:2: limits.commands_per_turn: "0" is out of range; use 1 to 1000000`, `allowlist.yaml:3: limits.launches_per_hour: "-1" is out of range`,
			`allowlist.yaml:4: limits.depth: "101" is out of range; use 1 to 100`, "allowlist.yaml:5: limits.open_subagents: has no value", "allowlist.yaml:6: limits.turns: is not a known key",
		}},
		"budgets": {"limits:\n  reminders: 0\n  tree:\n    turns: -1\n    cost: 5\n    tokens: 2000000000000\nagents:\n  x: {tree: {open: 0}}", []string{
			`allowlist.yaml:2: limits.reminders: "0" is out of range; use 1 to 1000000`, `allowlist.yaml:4: limits.tree.turns: "-1" is out of range`,
			"allowlist.yaml:5: limits.tree.cost: is not a known key", `allowlist.yaml:6: limits.tree.tokens: "2000000000000" is out of range; use 1 to 1000000000000`,
			`allowlist.yaml:8: agents.x.tree.open: "0" is out of range`,
		}},
		"agents": {"repos: [github.com/a/b]\nagents:\n  x: {}\n  y: {repos: 5}\n  z: {repos: ['*'], action: []}\n  '': {repos: []}", []string{
			`agents: is not an agent's name`, "allowlist.yaml:3: agents.x: has no repos, actions or tree, so it limits nothing; write repos, actions or tree below it; [] allows nothing", `allowlist.yaml:4: agents.y.repos: "5" is a single value, not a list`,
			"allowlist.yaml:5: agents.z.action: is not a known key; did you mean actions?", `allowlist.yaml:5: agents.z.repos[0]: "*" is not a repository pattern`,
		}},
		"twice":             {"repos:\n- github.com/a/b\n- https://github.com/A/B.git", []string{`allowlist.yaml:3: repos[1]: "https://github.com/A/B.git" is listed already at allowlist.yaml:2; keep one of the two`}},
		"a second document": {"repos: []\n---\nrepos: [github.com/a/b]", []string{"second document"}},
		"a key twice":       {"repos: []\nrepos: [github.com/a/b]", []string{"allowlist.yaml:2: repos: is given twice, first on line 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules, got := parseAllowlist(c.text)
			if diff := cmp.Diff(policy.Rules{}, rules); diff != "" {
				t.Errorf("rules in spite of problems: %s", diff)
			}
			all := strings.Join(got, "\n")
			for _, want := range c.want {
				if !strings.Contains(all, want) {
					t.Errorf("missing %q in\n%s", want, all)
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("%d problems, want %d:\n%s", len(got), len(c.want), all)
			}
		})
	}
}

func TestEmptyAllowlistAllowsNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# nothing\n", "repos: []\nactions: {}", "repos:\nactions:\nlimits:\nagents:", "~"} {
		rules, problems := parseAllowlist(text)
		if len(problems) > 0 {
			t.Errorf("%q: %v", text, problems)
		}
		p, found := policy.New(rules)
		if len(found) > 0 || len(p.AllowedRepos(nil))+len(p.AllowedActions(nil)) != 0 {
			t.Errorf("%q allows %v %v, %v", text, p.AllowedRepos(nil), p.AllowedActions(nil), found)
		}
	}
}

func TestRulesMeetTheBridge(t *testing.T) {
	t.Parallel()
	bridge := func(relays string) *config.Bridge {
		b, problems := parseBridge(least + "orchestrators: [{name: main, repo: github.com/me/env}]\nrelays: " + relays)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return b
	}
	rules, problems := parseAllowlist("repos: [github.com/me/*]\nactions: {a: {}, b: {relay: laptop}}")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	const laptop, desk = "laptop: {url: https://x, token: ${RELAY}}", "desk: {url: https://y, token: ${RELAY}}"
	p, found := bridge("{" + laptop + "}").Policy(rules)
	if len(found) > 0 {
		t.Fatal(found)
	}
	for _, rule := range p.ActionRules() {
		if rule.Relay != "laptop" {
			t.Errorf("action %s runs on %q", rule.ID, rule.Relay)
		}
	}
	if diff := cmp.Diff([]policy.Repo{"github.com/me/env"}, p.OperatorRepos()); diff != "" {
		t.Error(diff)
	}
	if rules.OperatorRepos != nil || rules.Actions[0].Relay != "" {
		t.Error("the caller's rules were changed")
	}
	for relays, want := range map[string][2]string{
		"{}":             {"", "laptop"}, // whoever dials in and offers it
		"{" + desk + "}": {"desk", "laptop"},
	} {
		p, found := bridge(relays).Policy(rules)
		if len(found) > 0 {
			t.Fatal(found)
		}
		for i, rule := range p.ActionRules() {
			if rule.Relay != want[i] {
				t.Errorf("relays %s: action %s runs on %q, want %q", relays, rule.ID, rule.Relay, want[i])
			}
		}
	}
	p, found = bridge("{" + laptop + ", " + desk + "}").Policy(rules)
	want := []string{"allowlist.yaml:2: actions.a.relay: is required, because several relays are configured; use desk or laptop, or the name of a relay that dials in"}
	if diff := cmp.Diff(want, texts(found)); diff != "" || p != nil {
		t.Errorf("policy %v\n%s", p, diff)
	}
}

// TestSamples: what init writes must be right as it is, and must say what it was given.
func TestSamples(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"bridge.token", "bridge.key", "relay.token", "odd name"} {
		write(t, filepath.Join(dir, name), strings.Repeat(name, 8)[:32][:31]+"x\n")
	}
	write(t, filepath.Join(dir, "bridge.token"), token)
	write(t, filepath.Join(dir, "relay.token"), strings.Repeat("r", 32))
	for name, v := range map[string]config.SampleValues{
		"plain": {},
		"all": {Listen: "127.0.0.1:8", Operator: "[::1]:9", PublicURL: "https://bridge.example.com", CursorURL: "http://127.0.0.1:99", API: "v0",
			Repo: "github.com/on/off", Relay: "on", RelayURL: "http://127.0.0.1:1", Key: "${file:odd name}",
			Repos: []string{"github.com/a/*"}, Actions: []string{"no", "1e3", "true"}},
		"none": {Repos: []string{}, Actions: []string{}},
	} {
		text := config.SampleBridge(v)
		b, problems := config.ParseBridge(config.Source{Name: "bridge.yaml", Dir: dir, Data: []byte(text), Getenv: env})
		if len(problems) > 0 {
			t.Errorf("%s: %v\n%s", name, texts(problems), text)
			continue
		}
		list := config.SampleAllowlist(v)
		rules, problems := config.ParseAllowlist(config.Source{Name: "allowlist.yaml", Data: []byte(list)})
		if len(problems) > 0 {
			t.Errorf("%s: %v\n%s", name, texts(problems), list)
			continue
		}
		p, problems := b.Policy(rules)
		if len(problems) > 0 || len(p.Warnings()) > 0 || len(b.ServeProblems()) > 0 || len(b.Warnings()) > 0 {
			t.Errorf("%s: %v", name, texts(problems))
			continue
		}
		if name == "all" && (b.Listen != v.Listen || b.Operator.Listen != v.Operator || b.PublicURL != v.PublicURL || b.Cursor.API != "v0" || b.Orchestrators[0].Repo != v.Repo ||
			len(p.AllowedActions(nil)) != 3 || p.AllowedRepos(nil)[0] != "github.com/a/*" || p.ActionRules()[0].Relay != "on") {
			t.Errorf("the sample says something else:\n%s\n%s", text, list)
		}
		if name == "none" && len(p.AllowedRepos(nil))+len(p.AllowedActions(nil)) > 0 {
			t.Errorf("the sample allows something:\n%s", list)
		}
	}
}

func TestRepositorySample(t *testing.T) {
	t.Parallel()
	rules, problems := config.LoadAllowlist("../allowlist.yaml")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	p, found := policy.New(rules)
	if len(found)+len(p.Warnings()) > 0 {
		t.Fatal(found, p.Warnings())
	}
	if diff := cmp.Diff([]string{"github.com/acme/*", "github.com/me/my-app"}, p.AllowedRepos(nil)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"backup_script", "lock_screen", "open_browser"}, p.AllowedActions(nil)); diff != "" {
		t.Error(diff)
	}
}

func TestBridgeNeverPrintsSecrets(t *testing.T) {
	t.Parallel()
	b, problems := parseBridge(least + "cursor: {key: ${CURSOR_API_KEY}}")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, text := range printed(t, b) {
		for _, secret := range []string{token, key, "cursor-key"} {
			if strings.Contains(text, secret) {
				t.Errorf("a secret is shown: %s", text)
			}
		}
	}
}

func FuzzBridgeConfig(f *testing.F) {
	f.Add(least)
	f.Add(config.SampleBridge(config.SampleValues{Token: "${TOKEN}", Key: "${KEY}", RelayToken: "${RELAY}"}))
	f.Add(least + "orchestrators: [{name: a, repo: github.com/a/b}]\nold_keys: [${OLD}]\ndatabase: postgres://x")
	f.Fuzz(func(t *testing.T, text string) {
		b, problems := parseBridge(strings.ReplaceAll(text, "file:", ""))
		if (b == nil) != (len(problems) > 0) {
			t.Fatalf("bridge %v with problems %v", b, problems)
		}
		checkProblems(t, text, problems)
		if b != nil && (b.Token.Len() < 32 || b.Key.Len() < 32 || b.Poll.Max < b.Poll.Min || b.Cursor.URL == "") {
			t.Fatalf("accepted %v", b)
		}
	})
}

func FuzzAllowlist(f *testing.F) {
	f.Add("repos: [github.com/a/b, {repo: github.com/c/*, approval: once per 1d, api: v0}]\nactions: {a: {approval: each}}")
	f.Add(config.SampleAllowlist(config.SampleValues{}))
	f.Add("repos: &r [github.com/a/b]\nagents: {x: {repos: *r, actions: []}}\nlimits: {depth: 1}")
	f.Fuzz(func(t *testing.T, text string) {
		rules, problems := parseAllowlist(strings.ReplaceAll(text, "file:", ""))
		checkProblems(t, text, problems)
		p, found := policy.New(rules)
		if len(found) > 0 {
			t.Fatalf("accepted rules that the policy refuses: %v", found)
		}
		if len(problems) > 0 && len(p.AllowedRepos(nil))+len(p.AllowedActions(nil)) > 0 {
			t.Fatal("a broken file allows something")
		}
		for _, pattern := range p.AllowedRepos(nil) {
			if !strings.HasPrefix(pattern, "github.com/") || strings.Count(pattern, "/") != 2 {
				t.Fatalf("allowed: %q", pattern)
			}
		}
	})
}

// A secret that the text itself holds at some other key is a value like any other there.
func checkProblems(t *testing.T, text string, problems []string) {
	if strings.Contains(text, token) || strings.Contains(text, key) {
		return
	}
	for _, p := range problems {
		if strings.ContainsAny(p, "\n\r\x00") || strings.Contains(p, token) || strings.Contains(p, key) {
			t.Fatalf("problem %q", p)
		}
	}
}

// TestRuntimes: an orchestrator's agents live in the cloud unless its entry names another runtime.
func TestRuntimes(t *testing.T) {
	t.Parallel()
	b, problems := parseBridge(least + "runtimes: {local: {kind: scripted, script: team.yaml}}\norchestrators:\n- {name: a, repo: github.com/a/a}\n- {name: b, repo: github.com/a/b, runtime: cursor}\n- {name: c, repo: github.com/a/c, runtime: local}\n")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if b.Orchestrators[0].Runtime != "" || b.Orchestrators[1].Runtime != "" || b.Orchestrators[2].Runtime != "local" {
		t.Errorf("%+v", b.Orchestrators)
	}
	if r := b.Runtimes["local"]; filepath.Base(r.Dir) != "local.agents" || !filepath.IsAbs(r.Script) || !filepath.IsAbs(r.Dir) {
		t.Errorf("%+v", r)
	}
}

// TestFilesThatOthersCanChangeOrRead: configuration that others can change, and
// keys that others can change or read, are problems of every use of the file.
func TestFilesThatOthersCanChangeOrRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file string
		mode os.FileMode
		want string
	}{
		"the configuration is writable":   {"bridge.yaml", 0o620, "bridge.yaml can be written by others (mode 0620); run: chmod go-w"},
		"the configuration is readable":   {"bridge.yaml", 0o644, ""},
		"the key is readable":             {"key", 0o640, "bridge.yaml:2: key: refers to the file DIR/key, but DIR/key can be read by others (mode 0640); run: chmod go-r DIR/key"},
		"the key is writable":             {"key", 0o602, "bridge.yaml:2: key: refers to the file DIR/key, but DIR/key can be written by others"},
		"a reference outside of a secret": {"address", 0o604, "bridge.yaml:3: database: refers to the file DIR/address, but DIR/address can be read by others"},
		"the folder is writable":          {".", 0o770, "bridge.yaml: DIR can be written by others (mode 0770); run: chmod go-w DIR"},
		"the folder is readable":          {".", 0o755, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, text := range map[string]string{"key": key, "address": "some.db", "bridge.yaml": "token: ${TOKEN}\nkey: ${file:key}\ndatabase: ${file:address}\n"} {
				write(t, filepath.Join(dir, file), text)
			}
			if err := os.Chmod(filepath.Join(dir, c.file), c.mode); err != nil {
				t.Fatal(err)
			}
			for what, load := range map[string]func(string, func(string) (string, bool)) (*config.Bridge, []config.Problem){"load": config.Load, "talk": config.LoadToTalk, "keyless": config.LoadKeyless} {
				if what == "talk" && c.file != "bridge.yaml" && c.file != "." {
					continue // it needs neither key nor database
				}
				_, problems := load(filepath.Join(dir, "bridge.yaml"), env)
				got := strings.ReplaceAll(strings.Join(texts(problems), "\n"), dir, "DIR")
				if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
					t.Errorf("%s: %q, want %q", what, got, c.want)
				}
			}
		})
	}
}

// TestAllowlistThatOthersCanChange: it is refused where it decides, and shown where it only explains.
func TestAllowlistThatOthersCanChange(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "allowlist.yaml")
	write(t, path, repos("github.com/a/a"))
	if err := os.Chmod(path, 0o664); err != nil {
		t.Fatal(err)
	}
	rules, problems := config.LoadAllowlist(path)
	if len(rules.Repos) != 0 || len(problems) != 1 || !strings.Contains(problems[0].String(), "can be written by others") {
		t.Errorf("loaded %v, problems %v", rules.Repos, problems)
	}
	if rules, problems := config.PreviewAllowlist(path); len(rules.Repos) != 1 || len(problems) != 0 {
		t.Errorf("previewed %v, problems %v", rules.Repos, problems)
	}
}

func TestV0Settle(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"30m": "", "0s": "", "10s": "cursor.v0_settle: \"10s\" is out of range; use 5m0s to 168h0m0s", "200h": "is out of range", "soon": "is not a duration"} {
		_, problems := config.ParseBridge(config.Source{Name: "bridge.yaml", Getenv: env, Data: []byte("token: ${TOKEN}\nkey: ${KEY}\ncursor: { v0_settle: " + text + " }\n")})
		if got := strings.Join(texts(problems), "\n"); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestOrchestratorsSpeakForThemselves: no orchestrator is called like a person or the bridge. Names that were allowed before
// still load, because agents and rules may have them already.
func TestOrchestratorsSpeakForThemselves(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"operator", "0perat0r", "the-operator", "user", "system", "bridge", "assistant", "everyone"} {
		_, problems := parseBridge(least + "orchestrators: [{name: " + name + ", repo: github.com/me/env}]")
		if len(problems) != 1 || !strings.Contains(fmt.Sprint(problems), "which the bridge keeps for people and itself; name the orchestrator after its task") {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

func TestOlderOrchestratorNamesLoad(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"operator-kim", "mr-operator", "drawbridge-v2", "bridge-system", "operator-docs-bot"} {
		if _, problems := parseBridge(least + "orchestrators: [{name: " + name + ", repo: github.com/me/env}]"); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

// An action waits for a relay that is away as long as its rule says, and an hour where it says nothing.
func TestWaitOfAnAction(t *testing.T) {
	t.Parallel()
	got, problems := parseAllowlist("actions:\n  a: { wait: 90s }\n  b: { wait: 0s }\n  c:\n  d: { wait: 168h }\n")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	waits := map[string]time.Duration{}
	for _, rule := range got.Actions {
		waits[rule.ID] = rule.Waits()
	}
	if diff := cmp.Diff(map[string]time.Duration{"a": 90 * time.Second, "b": 0, "c": time.Hour, "d": 168 * time.Hour}, waits); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for text, want := range map[string]string{"169h": "is out of range", "-1s": "is out of range", "10": "is not a duration", "soon": "is not a duration"} {
		if _, problems := parseAllowlist("actions:\n  a: { wait: " + text + " }\n"); len(problems) != 1 || !strings.Contains(fmt.Sprint(problems[0]), want) {
			t.Errorf("wait: %s: %v", text, problems)
		}
	}
}
