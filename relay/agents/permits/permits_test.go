package permits_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drawbridge/relay/agents/acp"
	"drawbridge/relay/agents/permits"
	"drawbridge/relay/runner/settings"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// files is a workspace: a folder with files, links and a neighbor that is not to be touched.
func files(t *testing.T) (dir, outside string) {
	t.Helper()
	top := t.TempDir()
	dir, outside = filepath.Join(top, "work"), filepath.Join(top, "outside")
	for _, folder := range []string{filepath.Join(dir, "sub"), filepath.Join(dir, ".git", "hooks"), outside, dir + "-more"} {
		must(t, os.MkdirAll(folder, 0o700))
	}
	for _, file := range []string{filepath.Join(dir, "a.go"), filepath.Join(dir, "sub", "b.go"), filepath.Join(outside, "secret"), filepath.Join(dir, ".git", "config")} {
		must(t, os.WriteFile(file, []byte("x"), 0o600))
	}
	must(t, os.Symlink(outside, filepath.Join(dir, "out")))
	must(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "leak")))
	must(t, os.Symlink("sub", filepath.Join(dir, "in")))
	must(t, os.Symlink(".git", filepath.Join(dir, "git")))
	must(t, os.Symlink(filepath.Join(outside, "new"), filepath.Join(dir, "dangling")))
	must(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	must(t, os.Link(filepath.Join(outside, "secret"), filepath.Join(dir, "hard")))
	return dir, outside
}

func question(kind, arguments string, paths ...string) acp.Question {
	q := acp.Question{Kind: kind, Title: "tool", Paths: paths, Allowable: true, Refusable: true}
	if arguments != "" {
		q.Arguments = json.RawMessage(arguments)
	}
	return q
}

func all(word string) settings.Permissions {
	return settings.Permissions{Read: word, Edit: word, Execute: word, Fetch: word, Other: word}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	dir, outside := files(t)
	a := settings.Agent{Permissions: all(settings.PermitAllow), Sandbox: &settings.Sandbox{}}
	judge := func(kind, arguments string, paths ...string) permits.Verdict {
		return permits.Judge(a, permits.Subject{Agent: "a", Session: "s", Dir: dir, Question: question(kind, arguments, paths...)})
	}
	named := func(path string) string {
		text, err := json.Marshal(map[string]any{"file_path": path, "content": "text"})
		must(t, err)
		return string(text)
	}
	for _, path := range []string{"a.go", "./a.go", "sub/b.go", "new.go", "new/folder/file.go", "sub/../a.go", "in/b.go", dir + "/a.go", dir + "//sub/./b.go", ".gitignore"} {
		for _, kind := range []string{"read", "edit"} {
			if v := judge(kind, named(path)); !v.Allowed {
				t.Errorf("%s of %s waits: %s", kind, path, v.Reason)
			}
		}
	}
	for _, path := range []string{
		"", "..", "../outside/secret", "/etc/passwd", "/", outside + "/secret", dir + "-more/x", dir + "/../outside/secret", "out/secret", "out/new", "leak", "dangling", "dangling/x", "loop", "loop/x", "hard",
		"out/../a.go", "in/../../outside/secret", "new/../../x", "new/../a.go", "~/x", "~root/x", "$HOME/x", "a\x00b", "a\nb", "..\\outside", "file:///etc/passwd", "sub/../../outside/secret", "a.go/../../outside/secret",
	} {
		for _, kind := range []string{"read", "edit"} {
			if v := judge(kind, named(path)); v.Allowed {
				t.Errorf("%s of %q is allowed", kind, path)
			}
		}
	}
	for _, path := range []string{".git/config", ".git/hooks/pre-commit", "git/hooks/x", ".GIT/config", "sub/.git/config", ".git"} {
		if v := judge("edit", named(path)); v.Allowed {
			t.Errorf("edit of %q is allowed", path)
		}
	}
	held := map[string][2]string{
		"only a location":          {"edit", `{"content":"x"}`},
		"no arguments":             {"read", ""},
		"empty arguments":          {"read", `{}`},
		"null":                     {"read", `null`},
		"a list":                   {"read", `["a.go"]`},
		"no JSON":                  {"read", `{"path":`},
		"two values":               {"read", `{"path":"a.go"}{"path":"/etc/passwd"}`},
		"a path twice":             {"read", `{"path":"a.go","path":"/etc/passwd"}`},
		"a path twice in capitals": {"read", `{"path":"a.go","Path":"/etc/passwd"}`},
		"two spellings of a key":   {"read", `{"file_path":"a.go","filePath":"/etc/passwd"}`},
		"a second path":            {"edit", `{"file_path":"a.go","new_path":"/etc/passwd"}`},
		"a path in a list":         {"read", `{"paths":["a.go","/etc/passwd"]}`},
		"a path in an edit":        {"edit", `{"file_path":"a.go","edits":[{"path":"/etc/passwd","content":"x"}]}`},
		"an unknown argument":      {"edit", `{"file_path":"a.go","target":"/etc/passwd"}`},
		"an object":                {"edit", `{"file_path":"a.go","changes":{"/etc/passwd":"x"}}`},
		"a difference elsewhere":   {"edit", `{"filepath":"a.go","diff":"--- a.go\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n"}`},
		"a patch with a command":   {"edit", `{"filepath":"a.go","diff":"*** Update File: /etc/passwd\n"}`},
		"a number for a path":      {"read", `{"path":3}`},
		"half a character":         {"read", `{"path":"a\ud800.go"}`},
		"removal":                  {"delete", ``},
	}
	for name, h := range held {
		if v := judge(h[0], h[1]); v.Allowed {
			t.Errorf("%s is allowed", name)
		}
	}
	for _, location := range []string{outside, "/etc/passwd", "out/secret"} {
		if v := judge("read", `{"path":"a.go"}`, location); v.Allowed {
			t.Errorf("a call that is also about %s is allowed", location)
		}
	}
	diff := `{"filepath":"a.go","diff":"Index: a.go\n====\n--- a.go\told\n+++ a.go\n@@ -1 +1 @@\n-a\n+b\n"}`
	if v := judge("edit", diff, "a.go"); !v.Allowed {
		t.Errorf("a difference of a file of the workspace waits: %s", v.Reason)
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	dir, outside := files(t)
	rule := settings.Permissions{Commands: []settings.Command{{Program: "go", Args: []string{"test"}}}, Execute: settings.PermitAsk}
	box := &settings.Sandbox{}
	tests := []struct {
		name            string
		agent           settings.Agent
		kind, arguments string
		allowed         bool
	}{
		{"nothing is said", settings.Agent{}, "read", `{"path":"a.go"}`, false},
		{"ask", settings.Agent{Permissions: all("ask")}, "edit", `{"path":"a.go"}`, false},
		{"fetch", settings.Agent{Permissions: all("allow")}, "fetch", `{"url":"http://a"}`, true},
		{"fetch without arguments", settings.Agent{Permissions: all("allow")}, "fetch", ``, false},
		{"every command, in a sandbox", settings.Agent{Permissions: all("allow"), Sandbox: box}, "execute", `{"command":"rm -rf x"}`, true},
		{"every command, without one", settings.Agent{Permissions: all("allow")}, "execute", `{"command":"rm -rf x"}`, false},
		{"every command, without arguments", settings.Agent{Permissions: all("allow"), Sandbox: box}, "execute", ``, false},
		{"other, in a sandbox", settings.Agent{Permissions: all("allow"), Sandbox: box}, "delete", `{"path":"a.go"}`, true},
		{"other, without one", settings.Agent{Permissions: all("allow")}, "delete", `{"path":"a.go"}`, false},
		{"a kind of its own is other", settings.Agent{Permissions: settings.Permissions{Read: "allow", Edit: "allow"}, Sandbox: box}, "Read", `{"path":"a.go"}`, false},
		{"another mode", settings.Agent{Permissions: all("allow"), Sandbox: box}, "switch_mode", `{"mode":"auto"}`, false},
		{"a rule", settings.Agent{Permissions: rule}, "execute", `{"command":"go test ./...","description":"Run tests","timeout":1000}`, true},
		{"a rule, in its folder", settings.Agent{Permissions: rule}, "execute", `{"command":"go test","cwd":"sub"}`, true},
		{"a rule, elsewhere", settings.Agent{Permissions: rule}, "execute", `{"command":"go test","cwd":"` + outside + `"}`, false},
		{"a rule, by a link", settings.Agent{Permissions: rule}, "execute", `{"command":"go test","workdir":"out"}`, false},
		{"a list", settings.Agent{Permissions: rule}, "execute", `{"command":["go","test"]}`, true},
		{"a list with a shell", settings.Agent{Permissions: rule}, "execute", `{"command":["bash","-lc","go test"]}`, false},
		{"a list that a shell reads in another way", settings.Agent{Permissions: rule}, "execute", `{"command":["go","test","a;id"]}`, false},
		{"a list with a blank", settings.Agent{Permissions: rule}, "execute", `{"command":["go","test","a b"]}`, false},
		{"without the agent's sandbox", settings.Agent{Permissions: rule}, "execute", `{"command":"go test","dangerouslyDisableSandbox":true}`, false},
		{"with an environment", settings.Agent{Permissions: rule}, "execute", `{"command":"go test","env":{"GOFLAGS":"-toolexec=id"}}`, false},
		{"two commands", settings.Agent{Permissions: rule}, "execute", `{"command":"go test","cmd":"go test"}`, false},
		{"not text", settings.Agent{Permissions: rule}, "execute", `{"command":{"a":"go test"}}`, false},
		{"nothing", settings.Agent{Permissions: rule}, "execute", `{"description":"go test"}`, false},
		{"a rule does not allow an edit", settings.Agent{Permissions: rule}, "edit", `{"command":"go test"}`, false},
	}
	for _, tt := range tests {
		v := permits.Judge(tt.agent, permits.Subject{Agent: "a", Session: "s", Dir: dir, Question: question(tt.kind, tt.arguments)})
		if v.Allowed != tt.allowed || v.Unfit {
			t.Errorf("%s: allowed %t, reason %q", tt.name, v.Allowed, v.Reason)
		}
	}
}

func TestUnfit(t *testing.T) {
	t.Parallel()
	a := settings.Agent{Permissions: all("ask")}
	s := permits.Subject{Agent: "a", Session: "s", Dir: t.TempDir(), Question: question("execute", `{"command":"id"}`)}
	if v := permits.Judge(a, s); v.Unfit || v.Allowed {
		t.Fatalf("the plain question: %+v", v)
	}
	large := s
	large.Arguments = json.RawMessage(`{"command":"` + strings.Repeat("a", permits.MaxArguments) + `"}`)
	forever := s
	forever.Allowable = false
	for name, s := range map[string]permits.Subject{"too large": large, "only a yes for all later calls": forever} {
		if v := permits.Judge(a, s); !v.Unfit || v.Allowed {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestHash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	base := permits.Subject{Agent: "a", Session: "s", Dir: dir, Question: question("execute", `{"command":"id","n":1,"nested":{"b":[1,"é"],"a":null}}`, "x")}
	hash := func(change func(*permits.Subject)) string {
		s := base
		change(&s)
		return permits.Judge(settings.Agent{}, s).Hash
	}
	want := hash(func(*permits.Subject) {})
	same := map[string]func(*permits.Subject){
		"blanks and order": func(s *permits.Subject) {
			s.Arguments = json.RawMessage(`{ "nested": {"a":null, "b":[1,"\u00e9"]}, "n":1, "command":"id" }`)
		},
		"the agent's own numbers": func(s *permits.Subject) { s.Call, s.Question.Session = "call_2", "other" },
	}
	for name, change := range same {
		if got := hash(change); got != want {
			t.Errorf("%s: another hash", name)
		}
	}
	seen := map[string]string{want: "the question itself"}
	for name, change := range map[string]func(*permits.Subject){
		"entry":     func(s *permits.Subject) { s.Agent = "b" },
		"session":   func(s *permits.Subject) { s.Session = "t" },
		"workspace": func(s *permits.Subject) { s.Dir += "x" },
		"kind":      func(s *permits.Subject) { s.Kind = "other" },
		"tool":      func(s *permits.Subject) { s.Title = "tool2" },
		"argument":  func(s *permits.Subject) { s.Arguments = json.RawMessage(`{"command":"id "}`) },
		"number":    func(s *permits.Subject) { s.Arguments = json.RawMessage(`{"command":"id","n":1.0}`) },
		"text":      func(s *permits.Subject) { s.Arguments = json.RawMessage(`{"command":"id","n":"1"}`) },
		"paths":     func(s *permits.Subject) { s.Paths = []string{"y"} },
		"more":      func(s *permits.Subject) { s.Paths = []string{"x", ""} },
		"nothing":   func(s *permits.Subject) { s.Arguments = nil },
		"broken":    func(s *permits.Subject) { s.Arguments = json.RawMessage(`{`) },
		"glued":     func(s *permits.Subject) { s.Agent, s.Session = "as", "" },
	} {
		got := hash(change)
		if other, is := seen[got]; is {
			t.Errorf("%s has the hash of %s", name, other)
		}
		seen[got] = name
	}
}
