package config_test

import (
	"strings"
	"testing"

	"drawbridge/config"
	"drawbridge/internal/yamlconf"

	"github.com/google/go-cmp/cmp"
)

func TestOperatorAddress(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, addr, operator, door string }{
		{"", "127.0.0.1:7410", "http://127.0.0.1:7410", "http://127.0.0.1:7410"},
		{"operator: {}", "127.0.0.1:7410", "http://127.0.0.1:7410", "http://127.0.0.1:7410"},
		{"operator: { listen: 127.0.0.1:7400 }", "127.0.0.1:7400", "http://127.0.0.1:7400", "http://127.0.0.1:7410"},
		// Without a host it is for this machine alone, unlike listen.
		{"operator: { listen: ':7400' }", "127.0.0.1:7400", "http://127.0.0.1:7400", "http://127.0.0.1:7410"},
		{"listen: ':80'\noperator: { listen: ':7400' }", "127.0.0.1:7400", "http://127.0.0.1:7400", "http://127.0.0.1:80"},
		{"listen: 0.0.0.0:80\noperator: { listen: '[::1]:80' }", "[::1]:80", "http://[::1]:80", "http://127.0.0.1:80"},
		{"listen: '[::]:80'\noperator: { listen: 10.0.0.7:81 }", "10.0.0.7:81", "http://10.0.0.7:81", "http://127.0.0.1:80"},
		{"listen: 10.0.0.7:80\noperator: { listen: 127.0.0.1:80 }", "127.0.0.1:80", "http://127.0.0.1:80", "http://10.0.0.7:80"},
		{"listen: 0.0.0.0:80", "0.0.0.0:80", "http://127.0.0.1:80", "http://127.0.0.1:80"},
		{"operator: { listen: 0.0.0.0:7400, url: 'https://ops.example.com/' }", "0.0.0.0:7400", "http://127.0.0.1:7400", "http://127.0.0.1:7410"},
	} {
		b, problems := parseBridge(least + tt.text)
		if len(problems) > 0 {
			t.Errorf("%s: %v", tt.text, problems)
			continue
		}
		if b.OperatorAddr() != tt.addr || b.OperatorURL() != tt.operator || b.DoorURL() != tt.door || b.Split() != strings.Contains(tt.text, "operator: { ") {
			t.Errorf("%s: %s %s %s, split %v", tt.text, b.OperatorAddr(), b.OperatorURL(), b.DoorURL(), b.Split())
		}
	}
	b, problems := parseBridge(least + "operator: { listen: 127.0.0.1:7400, url: 'https://ops.example.com/' }")
	if len(problems) > 0 || cmp.Diff(config.Operator{Listen: "127.0.0.1:7400", URL: "https://ops.example.com"}, b.Operator) != "" {
		t.Errorf("%v %v", problems, b)
	}
}

func TestOperatorAddressRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"operator: { listen: 127.0.0.1:7410 }":                               `bridge.yaml:3: operator.listen: "127.0.0.1:7410" has the same port as listen (127.0.0.1:7410); choose another port`,
		"operator: { listen: ':7410' }":                                      `bridge.yaml:3: operator.listen: "127.0.0.1:7410" has the same port as listen (127.0.0.1:7410); choose another port`,
		"operator: { listen: localhost:07410 }":                              `bridge.yaml:3: operator.listen: "localhost:07410" has the same port as listen (127.0.0.1:7410); choose another port`,
		"operator: { listen: 'LocalHost:7410' }":                             `has the same port as listen`,
		"operator: { listen: '[::ffff:127.0.0.1]:7410' }":                    `has the same port as listen`,
		"operator: { listen: 0.0.0.0:7410 }":                                 `has the same port as listen`,
		"operator: { listen: '[::]:7410' }":                                  `has the same port as listen`,
		"listen: ':7410'\noperator: { listen: ':7410' }":                     `has the same port as listen (:7410)`,
		"listen: 0.0.0.0:7410\noperator: { listen: 10.1.2.3:7410 }":          `has the same port as listen`,
		"listen: '[::]:7410'\noperator: { listen: name.example:7410 }":       `has the same port as listen`,
		"listen: Name.example:7410\noperator: { listen: name.example:7410 }": `has the same port as listen`,
		"operator: { listen: 127.0.0.1:0 }":                                  `operator.listen: "127.0.0.1:0" has port 0, which is a new port at each start, and your commands must find it; choose a port from 1 to 65535`,
		"listen: 127.0.0.1:0\noperator: { listen: ':7400' }":                 `listen: "127.0.0.1:0" has port 0, which is a new port at each start, and relays and agents on this machine must find it`,
		"operator: { listen: 7400 }":                                         `operator.listen: "7400" is not an address; write host:port`,
		"operator: { listen: 'unix:operator.sock' }":                         `operator.listen: "unix:operator.sock" is not an address`,
		"operator: { listen: 'unix:/run/drawbridge.sock' }":                  `is not an address`,
		"operator: { listen: '/run/drawbridge.sock' }":                       `is not an address`,
		"operator: { listen: 'http://127.0.0.1:7400' }":                      `is not an address`,
		"operator: { listen: '127.0.0.1:65536' }":                            `is not an address`,
		"operator: { listen: '127.0.0.1:http' }":                             `is not an address`,
		"operator: { listen: '127.0.0.1:-1' }":                               `is not an address`,
		// A variable that is not set must not put the operator's API back on listen.
		"operator: { listen: '' }":                                       `operator.listen: is empty; write host:port`,
		"operator: { listen: }":                                          `operator.listen: has no value`,
		"operator: { listen: '${EMPTY}' }":                               `operator.listen: "${EMPTY}" is empty; write host:port`,
		"operator: { listen: '${NOPE}' }":                                `NOPE`,
		"operator: { url: 'https://ops' }":                               `operator.url: "https://ops" needs operator.listen; write operator.listen`,
		"operator: { lisen: ':7400' }":                                   `operator.lisen`,
		"operator: 127.0.0.1:7400":                                       `operator`,
		"operator: [ ':7400' ]":                                          `operator`,
		"operator.listen: 127.0.0.1:7400":                                `operator.listen`,
		"operator: { listen: ':7400', url: 'http://ops.example.com' }":   `operator.url: "http://ops.example.com" would send secrets in the clear`,
		"operator: { listen: ':7400', url: 'https://u:p@example.com' }":  `operator.url: holds a user name or password`,
		"operator: { listen: ':7400', url: 'ops.example.com' }":          `operator.url: "ops.example.com" is not an http or https address`,
		"operator: { listen: ':7400', url: 'https://example.com/?a=b' }": `operator.url`,
	} {
		b, problems := parseBridge(least + text)
		if b != nil || len(problems) != 1 || !strings.Contains(problems[0], want) {
			t.Errorf("%s: %q, want one problem with %q", text, problems, want)
		}
	}
}

// An overlap is judged as the kernel sees it: these do not overlap.
func TestAddressesSideBySide(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"listen: 0.0.0.0:7410\noperator: { listen: '[::1]:7410' }",
		"listen: 10.1.2.3:7410\noperator: { listen: 127.0.0.1:7410 }",
		"listen: one.example:7410\noperator: { listen: two.example:7410 }",
		"listen: '[::1]:7410'\noperator: { listen: 127.0.0.1:7410 }",
		"listen: 0.0.0.0:7410\noperator: { listen: 0.0.0.0:7411 }",
	} {
		if _, problems := parseBridge(least + text); len(problems) > 0 {
			t.Errorf("%s: %v", text, problems)
		}
	}
}

func TestWarningsOfAddresses(t *testing.T) {
	t.Parallel()
	const clear = `takes your token from other machines without TLS; use 127.0.0.1, or put a proxy with TLS in front and name it in operator.url`
	for text, want := range map[string][]string{
		"":                                     {"bridge.yaml:1: operator.listen: is missing, so listen (127.0.0.1:7410) serves your API (/v1, /chat, /metrics) together with agents' tools, webhooks and relays; write `operator: { listen: 127.0.0.1:7400 }` into the file, and give your own clients that address"},
		"operator: { listen: 127.0.0.1:7400 }": nil,
		"operator: { listen: ':7400' }":        nil,
		"operator: { listen: '[::1]:7400' }":   nil,
		"operator: { listen: localhost:7400 }": nil,
		"listen: 0.0.0.0:7410\noperator: { listen: ':7400' }":              nil,
		"operator: { listen: 0.0.0.0:7400 }":                               {`bridge.yaml:3: operator.listen: "0.0.0.0:7400" ` + clear},
		"operator: { listen: 10.0.0.7:7400 }":                              {`bridge.yaml:3: operator.listen: "10.0.0.7:7400" ` + clear},
		"operator: { listen: ops.internal:7400 }":                          {`bridge.yaml:3: operator.listen: "ops.internal:7400" ` + clear},
		"operator: { listen: 0.0.0.0:7400, url: https://ops.example.com }": nil,
		"operator: { listen: 0.0.0.0:7400, url: http://127.0.0.1:1 }":      {clear},
		"listen: 0.0.0.0:7400":                                             {"`operator: { listen: 127.0.0.1:7401 }`", `bridge.yaml:3: listen: "0.0.0.0:7400" ` + clear},
	} {
		b, problems := parseBridge(least + text)
		if len(problems) > 0 {
			t.Errorf("%s: %v", text, problems)
			continue
		}
		got := texts(b.Warnings())
		if len(got) != len(want) {
			t.Errorf("%s: %q, want %q", text, got, want)
			continue
		}
		for i := range want {
			if !strings.Contains(got[i], want[i]) {
				t.Errorf("%s: %q, want %q", text, got[i], want[i])
			}
		}
	}
}

// What the warning says to write, written, is right and ends the warning.
func TestWarningSaysExactlyWhatToWrite(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"", "listen: 127.0.0.1:7400\n", "listen: ':7400'\n", "listen: 0.0.0.0:443\n"} {
		b, problems := parseBridge(least + listen)
		if len(problems) > 0 || len(b.Warnings()) == 0 {
			t.Fatal(listen, problems)
		}
		_, rest, _ := strings.Cut(b.Warnings()[0].Remedy, "`")
		line, _, found := strings.Cut(rest, "`")
		after, problems := parseBridge(least + listen + line + "\n")
		if !found || len(problems) > 0 || !after.Split() || len(after.Warnings()) > 0 {
			t.Errorf("%q and %q: %v", listen, line, problems)
		}
	}
}

// Commands find the operator's address, and a fault of it is not passed over.
func TestLoadToTalkFindsTheOperatorsAddress(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/bridge.yaml"
	write(t, path, "token: ${TOKEN}\noperator: { listen: ':7400' }\ncursor: { key: \"${NOT_SET}\" }\n")
	b, problems := config.LoadToTalk(path, env)
	if len(problems) > 0 || b.OperatorURL() != "http://127.0.0.1:7400" || b.DoorURL() != "http://127.0.0.1:7410" || !b.Token.Equal(yamlconf.NewSecret(token)) {
		t.Errorf("%v %v", b, texts(problems))
	}
	for text, want := range map[string]string{
		"operator: { listen: here }": "operator.listen", "operator: { listen: '' }": "operator.listen: is empty", "operator: yes": "operator",
		"operator: { listen: ':7400', url: nowhere }": "operator.url", "operator: { lisen: ':7400' }": "operator.lisen",
	} {
		write(t, path, "token: ${TOKEN}\n"+text+"\n")
		if b, problems := config.LoadToTalk(path, env); b != nil || !strings.Contains(strings.Join(texts(problems), "\n"), want) {
			t.Errorf("%s: %v %q", text, b, texts(problems))
		}
	}
}
