package script_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/cloudagents/cloudsim/script"
)

func TestFullScript(t *testing.T) {
	t.Parallel()
	s, err := script.Load("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	book, err := script.Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	used := map[*script.Rule]bool{}
	first := book.Choose("github.com/Me/Agent-Env", "please ship it now", used)
	if !strings.Contains(first.Reply, "\nSUBAGENT: repo=") || !first.Once {
		t.Errorf("rule %+v", first.Turn)
	}
	used[first] = true
	if r := book.Choose("github.com/me/agent-env", "please ship it now", used); r.Reply != "Nothing more to do." {
		t.Errorf("rule %+v", r.Turn)
	}
	text, err := book.Choose("github.com/me/agent-env", "STATUS of {{.Repo}}", used).
		Text(script.ReplyData{Prompt: "STATUS of {{.Repo}}", Repo: "r", AgentID: "bc-1", Turn: 3})
	if want := "Turn 3 for bc-1 on r: STATUS of {{.Repo}}"; err != nil || text != want {
		t.Errorf("text %q, %v; want %q", text, err, want)
	}
	if r := book.Choose("github.com/me/other", "x", used); r.Status != script.StatusError || r.Error.Code != "upstream_error" {
		t.Errorf("rule %+v", r.Turn)
	}
	if r := book.Choose("", "x", used); r.Reply != "Done." || time.Duration(*r.After) != 100*time.Millisecond {
		t.Errorf("rule %+v", r.Turn)
	}
	if !book.MayAccess("github.com/ME/x") || book.MayAccess("github.com/me2/x") || book.MayAccess("github.com/me/x/y") {
		t.Error("access")
	}
}

func TestMistakesNameTheirLine(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, yaml, want string }{
		{"unknown key", "latency: 1s\nlatancy: 2s", "line 2: field latancy not found"},
		{"unknown key in a turn", "agents:\n - turns:\n   - repyl: x", "line 3: field repyl not found"},
		{"unknown fault field", "faults:\n - { fault: hang, kind: x }", "line 2: field kind not found"},
		{"number as duration", "latency: 200", `line 1: "200" is not a duration`},
		{"negative duration", "default:\n  after: -1s", `line 2: "-1s" is not a duration`},
		{"both matchers", "agents:\n- repo: x\n  turns:\n  - match: a\n    regexp: b", "line 5: agents[0].turns[0].regexp: give match or regexp"},
		{"bad expression", "agents:\n- turns:\n  - regexp: '('", "line 3: agents[0].turns[0].regexp: error parsing regexp"},
		{"bad template", "default:\n  reply: '{{.Promt}}'", "line 2: default.reply: template"},
		{"open template", "default:\n  reply: '{{'", "line 2: default.reply: template"},
		{"status", "default: { status: DONE }", "line 1: default.status: must be FINISHED, ERROR or EXPIRED"},
		{"error without ERROR", "default:\n  reply: x\n  error: { message: m }", "line 3: default.error: needs status: ERROR"},
		{"pr without branch", "default: { pr: x }", "line 1: default.pr: needs a branch"},
		{"artifact outside", "default:\n  artifacts:\n  - path: ../x", "line 3: default.artifacts[0].path: must be a path within"},
		{"negative tokens", "default:\n  reply: x\n  usage: { input: -1 }", "line 3: default.usage: tokens and cents must be 0 to 1e9"},
		{"endless cost", "default: { usage: { cents: .inf } }", "default.usage: tokens and cents"},
		{"cost that is no number", "default: { usage: { charged: .nan } }", "default.usage: tokens and cents"},
		{"nameless tool", "default:\n  tools:\n  - { result: 1 }", "line 3: default.tools[0]: name is required"},
		{"unknown fault", "faults:\n- fault: lost\n", `line 2: faults[0]: fault "lost" is not known; known: cancel_500,`},
		{"fault that does not fit", "faults:\n- fault: hang\n- fault: cancel_500\n  op: get", `line 3: faults[1]: op "get" does not go with fault "cancel_500"`},
		{"setting", "settings:\n  v0_errors: wild", "line 2: settings.v0_errors: must be one of documented, observed"},
		{"attempts", "settings: { webhook_attempts: 99 }", "line 1: settings.webhook_attempts: must be 1 to 20"},
		{"access status", "settings: { access_status: 404 }", "must be 400 or 403"},
		{"repository", "repositories:\n- me/x", "line 2: repositories[0]: must be github.com/owner/name"},
		{"pattern", "access: ['[']", "access[0]: is not a pattern"},
		{"model", "models:\n- { id: m }", "line 2: models[0]: id and name are required"},
		{"empty key", "keys: ['']", "keys[0]: an empty key"},
		{"second document", "latency: 1s\n---\nlatency: 2s", "more than one YAML document"},
		{"no YAML", "a: [", "line 1"},
		{"too large", strings.Repeat("#", 5<<20), "larger than"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := script.Parse([]byte(tc.yaml))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
	if _, err := script.Load("testdata/none.yaml"); err == nil {
		t.Error("a missing file must be an error")
	}
	if _, err := script.Parse(nil); err != nil {
		t.Errorf("an empty script is fine: %v", err)
	}
}

func TestRepoPath(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"https://github.com/Me/App": "github.com/Me/App", "github.com/me/app": "github.com/me/app",
		"HTTPS://github.com/me/app.git": "github.com/me/app", "https://github.com/me/app/": "github.com/me/app",
		"http://evil.example/me/app": "evil.example/me/app",
		"":                           "", "me/app": "", "github.com/me": "", "github.com/me/app/tree": "", "https://github.com//app": "",
		"git@github.com:me/app": "", "https://u:p@github.com/me/app": "", "github.com/me/a b": "", "github.com/me/app?x": "", "github.com/me/a\n": "",
	} {
		got, ok := script.RepoPath(raw)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q %v, want %q", raw, got, ok, want)
		}
	}
}

func TestBookCountsStrikes(t *testing.T) {
	t.Parallel()
	var b script.Book
	b.Add(script.Fault{Kind: script.RateLimit, Op: script.OpGet, Times: 2})
	b.Add(script.Fault{Kind: script.RateLimit, Repo: "none"})
	at := script.Place{API: script.V1, Op: script.OpGet, Repo: "github.com/me/x"}
	for i, want := range []bool{true, true, false} {
		if _, got := b.TakeAnswer(script.Before, at); got != want {
			t.Errorf("strike %d: %v, want %v", i, got, want)
		}
	}
	if _, ok := b.Take(script.RateLimit, script.Place{API: script.V0, Op: script.OpMe}); !ok {
		t.Error("the second fault strikes where there is no repository")
	}
	want := []script.Fault{{Kind: script.RateLimit, Repo: "none", When: script.Before, Delay: script.Duration(time.Second)}}
	if diff := cmp.Diff(want, b.Active()); diff != "" {
		t.Errorf("active (-want +got):\n%s", diff)
	}
	b.Clear()
	if len(b.Active()) != 0 {
		t.Error("cleared")
	}
}

// FuzzParse holds that whatever loads can be compiled again and can answer.
func FuzzParse(f *testing.F) {
	f.Add("latency: 1s", "prompt")
	f.Add("agents: [ { repo: 'a*', turns: [ { regexp: x, reply: '{{.Turn}}' } ] } ]", "x")
	f.Add("default: &a { reply: x }\nfaults: [ { fault: hang } ]", "")
	f.Fuzz(func(t *testing.T, yaml, prompt string) {
		s, err := script.Parse([]byte(yaml))
		if err != nil {
			return
		}
		book, err := script.Compile(s)
		if err != nil {
			t.Fatalf("parsed, but does not compile: %v", err)
		}
		if r := book.Choose("github.com/me/x", prompt, nil); r == nil {
			t.Fatal("no answer")
		}
	})
}
