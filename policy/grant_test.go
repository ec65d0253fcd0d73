package policy_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"drawbridge/parser"
	"drawbridge/policy"
)

// TestGrantCannotBeMade holds the design's one promise about Grants: outside of
// the policy there is no way to a valid one.
func TestGrantCannotBeMade(t *testing.T) {
	t.Parallel()
	if (policy.Grant{}).Valid() {
		t.Error("the zero Grant is valid")
	}
	typ := reflect.TypeFor[policy.Grant]()
	for i := range typ.NumField() {
		if f := typ.Field(i); f.IsExported() || f.Anonymous {
			t.Errorf("field %s can be set from outside", f.Name)
		}
	}
	for _, m := range []string{"UnmarshalJSON", "UnmarshalText", "UnmarshalBinary", "GobDecode", "UnmarshalYAML", "Scan"} {
		if _, ok := reflect.TypeFor[*policy.Grant]().MethodByName(m); ok {
			t.Errorf("a Grant can be decoded by %s", m)
		}
	}
}

func TestGrantCarriesCanonicalBytes(t *testing.T) {
	t.Parallel()
	p := mustPolicy(t, houseRules())
	g := p.Grant(nil, launch("HTTPS://GitHub.com/Me/My-App.git/", " fix the secret thing "), false).Grant
	if g.Verb() != parser.Subagent || g.Repo() != "github.com/me/my-app" || g.Prompt() != "fix the secret thing" || g.API() != "v0" {
		t.Errorf("grant %v: %q %q %q", g, g.Repo(), g.Prompt(), g.API())
	}
	for _, text := range []string{g.String(), fmt.Sprintf("%v", g), fmt.Sprintf("%+v", g), fmt.Sprintf("%#v", g)} {
		if strings.Contains(text, "secret") || !strings.Contains(text, "github.com/me/my-app") {
			t.Errorf("grant prints as %q", text)
		}
	}
	a := p.Grant(nil, action("backup_script"), false).Grant
	if a.Verb() != parser.LocalAction || a.Action() != "backup_script" || a.Relay() != "laptop" || a.String() != "LOCAL_ACTION backup_script" {
		t.Errorf("grant %v", a)
	}
	r := p.Grant(nil, reminder("2h", "stand up"), false).Grant
	if r.Verb() != parser.Remind || r.When() != "2h" || r.Message() != "stand up" || r.String() != "REMIND" {
		t.Errorf("grant %v", r)
	}
	if s := (policy.Grant{}).String(); s != "no grant" {
		t.Errorf("the zero Grant prints as %q", s)
	}
}

// TestApprovedOverridesNoRefusal: the allowlist may have changed while a person
// was thinking, and an approval must not bring a removed entry back.
func TestApprovedOverridesNoRefusal(t *testing.T) {
	t.Parallel()
	p := mustPolicy(t, houseRules())
	for _, c := range []struct {
		cmd      parser.Command
		approved bool
		want     policy.Decision
	}{
		{action("lock_screen"), false, policy.Held},
		{action("lock_screen"), true, policy.Granted},
		{action("open_browser"), false, policy.Held},
		{action("open_browser"), true, policy.Granted},
		{action("deploy"), true, policy.Refused},
		{launch("github.com/me/guarded", "x"), true, policy.Granted},
		{launch("github.com/evil/x", "x"), true, policy.Refused},
		{launch("github.com/acme/agent-env", "x"), true, policy.Refused},
		{parser.Command{Verb: parser.WebhookResult}, true, policy.Noted},
	} {
		if v := p.Grant([]string{"main"}, c.cmd, c.approved); v.Decision != c.want {
			t.Errorf("%+v approved=%v: %s, want %s", c.cmd, c.approved, v, c.want)
		}
	}
}

func TestOperator(t *testing.T) {
	t.Parallel()
	p := mustPolicy(t, houseRules())
	for repo, want := range map[string]row{
		"github.com/boss/env":               {policy.Granted, ""},
		"https://github.com/acme/Agent-Env": {policy.Granted, ""},
		"github.com/acme/x":                 {policy.Granted, ""},
		"github.com/me/guarded":             {policy.Granted, ""},
		"github.com/evil/x":                 {policy.Refused, policy.CodeRepoNotAllowed},
		"boss/env":                          {policy.Refused, policy.CodeBadRepo},
	} {
		v := p.OperatorGrant(repo, "go")
		if (row{v.Decision, v.Code}) != want || v.Grant.Valid() != (want.Decision == policy.Granted) {
			t.Errorf("%s: %s, want %v", repo, v, want)
		}
	}
	if v := p.OperatorGrant("github.com/boss/env", " "); v.Code != policy.CodeMalformed {
		t.Errorf("empty prompt: %s", v)
	}
	if v := p.OperatorAction("lock_screen"); v.Decision != policy.Granted || v.Grant.Relay() != "laptop" {
		t.Errorf("lock_screen: %s", v)
	}
	if v := p.OperatorAction("deploy"); v.Code != policy.CodeActionNotAllowed {
		t.Errorf("deploy: %s", v)
	}
}

func TestZeroPolicyRefusesEverything(t *testing.T) {
	t.Parallel()
	var p policy.Policy
	cmds := []parser.Command{launch("github.com/acme/x", "x"), action("a")}
	for _, v := range p.Judge(policy.Request{Commands: cmds}).Verdicts {
		if v.Decision != policy.Refused {
			t.Errorf("verdict %s", v)
		}
	}
	for _, cmd := range cmds {
		if v := p.Grant(nil, cmd, true); v.Decision != policy.Refused {
			t.Errorf("grant %s", v)
		}
	}
	if v := p.OperatorGrant("github.com/acme/x", "x"); v.Decision != policy.Refused {
		t.Errorf("operator %s", v)
	}
}
