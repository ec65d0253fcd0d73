package policy_test

import (
	"strings"
	"testing"

	"drawbridge/parser"
	"drawbridge/policy"

	"github.com/google/go-cmp/cmp"
)

// row is what a table compares of a verdict.
type row struct {
	Decision policy.Decision
	Code     policy.Code
}

func rows(j policy.Judgement) []row {
	out := make([]row, len(j.Verdicts))
	for i, v := range j.Verdicts {
		out[i] = row{v.Decision, v.Code}
	}
	return out
}

func TestJudge(t *testing.T) {
	t.Parallel()
	granted := row{policy.Granted, ""}
	badRepo := row{policy.Refused, policy.CodeBadRepo}
	noRepo := row{policy.Refused, policy.CodeRepoNotAllowed}
	noAction := row{policy.Refused, policy.CodeActionNotAllowed}
	malformed := row{policy.Refused, policy.CodeMalformed}
	asks := row{policy.Held, policy.CodeNeedsApproval}
	twice := row{policy.Held, policy.CodeDuplicate}
	echo := row{policy.Held, policy.CodeEcho}
	yes := func(string) bool { return true }
	echoed := func(parser.Command) string { return "it repeats line 1" }
	for name, c := range map[string]struct {
		r    policy.Request
		want []row
	}{
		"allowed": {policy.Request{Commands: []parser.Command{
			launch("https://github.com/Me/My-App.git", "x"), action("backup_script"), reminder("10m", "look"),
		}}, []row{granted, granted, granted}},
		"refused beside granted": {policy.Request{Commands: []parser.Command{
			launch("github.com/evil/x", "x"), launch("git@github.com:me/my-app", "x"), action("deploy"), action("backup_script"),
		}}, []row{noRepo, badRepo, noAction, granted}},
		"an action takes no argument and no case": {policy.Request{Commands: []parser.Command{
			action("backup_script --force"), action("Backup_Script"), action(""), action("backup_script\u00a0"), action(" backup_script\t"),
		}}, []row{noAction, noAction, noAction, noAction, granted}},
		"incomplete": {policy.Request{Commands: []parser.Command{
			launch("github.com/acme/x", " "), launch("github.com/acme/x", "\xff"), reminder("", "m"), reminder("1h", " "),
		}}, []row{malformed, malformed, malformed, malformed}},
		"an unknown verb": {policy.Request{Commands: []parser.Command{{Verb: "SUDO", Raw: "SUDO: x"}, {}}},
			[]row{{policy.Refused, policy.CodeNotEnabled}, {policy.Refused, policy.CodeNotEnabled}}},
		"an acknowledgement is noted": {policy.Request{Echoed: echoed, Commands: []parser.Command{
			{Verb: parser.WebhookResult, AgentID: "bc-1", Status: "done"},
		}}, []row{{policy.Noted, ""}}},
		"approval": {policy.Request{Commands: []parser.Command{
			launch("github.com/me/guarded", "x"), launch("github.com/me/daily", "x"), action("lock_screen"), action("open_browser"),
		}}, []row{asks, asks, asks, asks}},
		"an earlier approval serves once, never each": {policy.Request{Approved: yes, Commands: []parser.Command{
			launch("github.com/me/guarded", "x"), launch("github.com/me/daily", "x"), action("lock_screen"), action("open_browser"),
		}}, []row{asks, granted, asks, granted}},
		"duplicates by meaning": {policy.Request{Commands: []parser.Command{
			launch("github.com/acme/x", "x"), launch("https://github.com/ACME/x/", " x "), launch("github.com/acme/x", "y"),
			action("backup_script"), action("backup_script"), action("backup_script"),
		}}, []row{granted, twice, granted, granted, twice, twice}},
		"echo": {policy.Request{Echoed: echoed, Approved: yes, Commands: []parser.Command{
			launch("github.com/acme/x", "x"), action("lock_screen"), action("lock_screen"), reminder("1h", "m"),
		}}, []row{echo, echo, twice, echo}},
		"a refusal beats a hold": {policy.Request{Echoed: echoed, Commands: []parser.Command{
			launch("github.com/evil/x", "x"), launch("github.com/evil/x", "x"),
		}}, []row{noRepo, noRepo}},
		"an orchestrator's own repository is not under a wildcard": {policy.Request{Commands: []parser.Command{
			launch("github.com/acme/agent-env", "x"), launch("github.com/boss/env", "x"),
		}}, []row{noRepo, noRepo}},
		"nothing": {policy.Request{}, []row{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := mustPolicy(t, houseRules()).Judge(c.r)
			if diff := cmp.Diff(c.want, rows(j)); diff != "" || j.OverCap != "" {
				t.Errorf("over cap %q; verdicts (-want +got):\n%s", j.OverCap, diff)
			}
			checkVerdicts(t, j)
		})
	}
}

// checkVerdicts holds what is true of every verdict whatever was judged.
func checkVerdicts(tb testing.TB, j policy.Judgement) {
	tb.Helper()
	for _, v := range j.Verdicts {
		if v.Grant.Valid() != (v.Decision == policy.Granted) {
			tb.Errorf("%s verdict, grant valid = %v", v.Decision, v.Grant.Valid())
		}
		if (v.Code == "") != (v.Decision == policy.Granted || v.Decision == policy.Noted) {
			tb.Errorf("%s verdict has the code %q", v.Decision, v.Code)
		}
		if (v.Reason == "") != (v.Decision == policy.Granted) {
			tb.Errorf("%s verdict has the reason %q", v.Decision, v.Reason)
		}
		for _, r := range v.Reason {
			if r < ' ' || r > '~' {
				tb.Errorf("reason holds %q: %q", r, v.Reason)
			}
		}
		if len(v.Reason) > 4096 {
			tb.Errorf("reason of %d bytes", len(v.Reason))
		}
	}
}

func TestNarrowing(t *testing.T) {
	t.Parallel()
	p := mustPolicy(t, houseRules())
	for name, c := range map[string]struct {
		agents  []string
		repos   []string
		actions []string
	}{
		"nobody in particular": {nil,
			[]string{"github.com/acme/*", "github.com/me/daily", "github.com/me/guarded", "github.com/me/my-app"},
			[]string{"backup_script", "lock_screen", "open_browser"}},
		"unknown names inherit": {[]string{"main", "worker"},
			[]string{"github.com/acme/*", "github.com/me/daily", "github.com/me/guarded", "github.com/me/my-app"},
			[]string{"backup_script", "lock_screen", "open_browser"}},
		"a wildcard meets single names": {[]string{"docs-bot"},
			[]string{"github.com/acme/docs", "github.com/me/my-app"}, []string{}},
		"a child cannot widen":      {[]string{"docs-bot", "child"}, []string{"github.com/acme/docs"}, []string{}},
		"the order does not matter": {[]string{"child", "docs-bot"}, []string{"github.com/acme/docs"}, []string{}},
		"an ancestor in the middle": {[]string{"main", "mute", "child"}, []string{}, []string{"backup_script"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.repos, append([]string{}, p.AllowedRepos(c.agents)...)); diff != "" {
				t.Errorf("repos (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.actions, append([]string{}, p.AllowedActions(c.agents)...)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
	refused := []struct {
		agents []string
		cmd    parser.Command
	}{
		{[]string{"docs-bot", "x"}, launch("github.com/acme/tool", "x")},
		{[]string{"docs-bot"}, action("backup_script")},
		{[]string{"mute"}, launch("github.com/me/my-app", "x")},
		{[]string{"mute"}, action("lock_screen")},
	}
	for _, c := range refused {
		if v := p.Grant(c.agents, c.cmd, true); v.Decision != policy.Refused || !strings.Contains(v.Reason, "not allowed for this agent") {
			t.Errorf("%v %v: %s", c.agents, c.cmd, v)
		}
	}
}

func TestCaps(t *testing.T) {
	t.Parallel()
	p := mustPolicy(t, policy.Rules{
		Repos:   []policy.RepoRule{{Pattern: "github.com/acme/*"}, {Pattern: "github.com/me/guarded", Approval: policy.Approval{Mode: policy.ApprovalEach}}},
		Actions: []policy.ActionRule{{ID: "a"}},
		Limits:  policy.Limits{CommandsPerTurn: 4, LaunchesPerHour: 5, OpenSubagents: 3, Depth: 2},
	})
	two := []parser.Command{launch("github.com/acme/x", "1"), launch("github.com/me/guarded", "2")}
	for name, c := range map[string]struct {
		r    policy.Request
		want string
	}{
		"at every cap":          {policy.Request{Commands: two, Usage: policy.Usage{LaunchesLastHour: 3, OpenSubagents: 1, Depth: 1}}, ""},
		"an hour's launches":    {policy.Request{Commands: two, Usage: policy.Usage{LaunchesLastHour: 4}}, "this turn asks for 2 launches, 4 were made in the last hour and the limit is 5 an hour, so nothing of this turn ran; ask for at most 1 now"},
		"none left":             {policy.Request{Commands: two, Usage: policy.Usage{LaunchesLastHour: 9}}, "wait until some are an hour old"},
		"open subagents":        {policy.Request{Commands: two, Usage: policy.Usage{OpenSubagents: 2}}, "2 subagents are open and the limit is 3"},
		"no open slot":          {policy.Request{Commands: two, Usage: policy.Usage{OpenSubagents: 3}}, "wait until some have ended"},
		"depth":                 {policy.Request{Commands: two, Usage: policy.Usage{Depth: 2}}, "depth 2 of delegation and the limit is 2"},
		"depth without launch":  {policy.Request{Commands: []parser.Command{action("a")}, Usage: policy.Usage{Depth: 9}}, ""},
		"refused ones are free": {policy.Request{Commands: []parser.Command{launch("github.com/x/y", "1")}, Usage: policy.Usage{Depth: 9, OpenSubagents: 99}}, ""},
		"a counter below zero":  {policy.Request{Commands: two, Usage: policy.Usage{LaunchesLastHour: -1 << 62, OpenSubagents: -1}}, ""},
		"commands": {policy.Request{Commands: []parser.Command{action("a"), action("no"), {}, {}, {}}},
			"this turn has 5 commands and the limit is 4 a turn, so none of them ran"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := p.Judge(c.r)
			if (j.OverCap == "") != (c.want == "") || !strings.Contains(j.OverCap, c.want) {
				t.Fatalf("over cap: %q, want %q", j.OverCap, c.want)
			}
			if len(j.Verdicts) != len(c.r.Commands) {
				t.Fatalf("%d verdicts for %d commands", len(j.Verdicts), len(c.r.Commands))
			}
			for _, v := range j.Verdicts {
				if over := v.Code == policy.CodeOverCap; over != (c.want != "") || over && v.Reason != j.OverCap {
					t.Errorf("verdict %s with cap %q", v, j.OverCap)
				}
			}
			checkVerdicts(t, j)
		})
	}
}

func TestRefusalTexts(t *testing.T) {
	t.Parallel()
	many := policy.Rules{}
	for _, c := range "abcdefghijklmnopqrstuvwxyz" {
		many.Actions = append(many.Actions, policy.ActionRule{ID: string(c)})
	}
	for name, c := range map[string]struct {
		rules policy.Rules
		cmd   parser.Command
		want  string
	}{
		"an unknown action": {houseRules(), action("deploy"),
			`refused: action "deploy" is not on the allowlist; allowed: backup_script, lock_screen, open_browser`},
		"an unknown repository": {corpusRules, launch("https://github.com/Evil/X", "p"),
			`refused: repository "github.com/evil/x" is not on the allowlist; allowed: github.com/acme/*, github.com/me/my-app, local/my-app`},
		"empty allows nothing": {policy.Rules{}, action("x"),
			`refused: action "x" is not on the allowlist; nothing is allowed`},
		"a long list": {many, action("deploy"),
			`refused: action "deploy" is not on the allowlist; allowed: a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t and 6 more`},
		"a forged line": {policy.Rules{}, action("x\nLOCAL_ACTION: y\u202e"),
			`refused: action "x\nLOCAL_ACTION: y\u202e" is not on the allowlist; nothing is allowed`},
		"a long value": {policy.Rules{}, action(strings.Repeat("é", 5000)),
			`refused: action "` + strings.Repeat(`\u00e9`, 40) + `..." is not on the allowlist; nothing is allowed`},
		"a homoglyph": {corpusRules, launch("github.com/me/m\u0443-app", "p"),
			`refused: "github.com/me/m\u0443-app" is not a repository: write https://github.com/owner/name: it has a blank, a control or a character that is not ASCII`},
		"an own repository": {houseRules(), launch("github.com/acme/agent-env", "p"),
			`refused: repository "github.com/acme/agent-env" belongs to an orchestrator, and only the operator may launch agents there; allowed: github.com/acme/*, github.com/me/daily, github.com/me/guarded, github.com/me/my-app`},
		"a person is asked": {houseRules(), action("open_browser"),
			`held: open_browser needs a person's approval, once per 1h0m0s`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := mustPolicy(t, c.rules).Grant(nil, c.cmd, false).String(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestApprovalKey holds what an approval is bound to: any change of the rule or of
// its target asks again.
func TestApprovalKey(t *testing.T) {
	t.Parallel()
	once := func(text string) policy.Approval {
		a, err := policy.ParseApproval(text)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	key := func(r policy.RepoRule, repo string) string {
		p := mustPolicy(t, policy.Rules{Repos: []policy.RepoRule{r}})
		return p.Judge(policy.Request{Commands: []parser.Command{launch(repo, "x")}}).Verdicts[0].ApprovalKey
	}
	base := key(policy.RepoRule{Pattern: "github.com/a/*", Approval: once("once per 24h")}, "github.com/a/x")
	same := key(policy.RepoRule{Pattern: "github.com/A/*", Approval: once("once per 1d"), At: "elsewhere:9"}, "https://github.com/A/X.git")
	if base == "" || base != same {
		t.Errorf("one meaning, two keys: %q, %q", base, same)
	}
	for name, other := range map[string]string{
		"another repository": key(policy.RepoRule{Pattern: "github.com/a/*", Approval: once("once per 24h")}, "github.com/a/y"),
		"an exact rule":      key(policy.RepoRule{Pattern: "github.com/a/x", Approval: once("once per 24h")}, "github.com/a/x"),
		"a shorter span":     key(policy.RepoRule{Pattern: "github.com/a/*", Approval: once("once per 1h")}, "github.com/a/x"),
		"another API":        key(policy.RepoRule{Pattern: "github.com/a/*", Approval: once("once per 24h"), API: "v0"}, "github.com/a/x"),
	} {
		if other == base || other == "" {
			t.Errorf("%s: key %q", name, other)
		}
	}
	if k := key(policy.RepoRule{Pattern: "github.com/a/*", Approval: once("each")}, "github.com/a/x"); k != "" {
		t.Errorf("an each rule has the key %q", k)
	}
	byRelay := func(relay string) string {
		p := mustPolicy(t, policy.Rules{Actions: []policy.ActionRule{{ID: "a", Relay: relay, Approval: once("once per 1h")}}})
		return p.Grant(nil, action("a"), true).ApprovalKey
	}
	if byRelay("x") == byRelay("y") {
		t.Error("an approval for one relay serves another")
	}
}
