package policy_test

import (
	"bufio"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"drawbridge/policy"

	"github.com/google/go-cmp/cmp"
)

// corpusRules is the allowlist that testdata/repo-cases.tsv is written against.
var corpusRules = policy.Rules{Repos: []policy.RepoRule{
	{Pattern: "github.com/me/my-app"},
	{Pattern: "github.com/acme/*"},
	{Pattern: "local/my-app", Runtime: "laptop"},
}}

type repoCase struct{ value, want, why string }

// repoCases reads the corpus: the body of a JSON string, the canonical form or
// DENY, and the reason for the case.
func repoCases(tb testing.TB) []repoCase {
	tb.Helper()
	f, err := os.Open("testdata/repo-cases.tsv")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	var cases []repoCase
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		cols := strings.Split(lines.Text(), "\t")
		if len(cols) != 3 {
			tb.Fatalf("corpus line has %d columns: %q", len(cols), lines.Text())
		}
		c := repoCase{want: cols[1], why: cols[2]}
		if err := json.Unmarshal([]byte(`"`+cols[0]+`"`), &c.value); err != nil {
			tb.Fatalf("corpus line %q: %v", lines.Text(), err)
		}
		cases = append(cases, c)
	}
	if err := lines.Err(); err != nil || len(cases) < 90 {
		tb.Fatalf("read %d cases: %v", len(cases), err)
	}
	return cases
}

func TestRepoCorpus(t *testing.T) {
	t.Parallel()
	p := mustPolicy(t, corpusRules)
	for _, c := range repoCases(t) {
		v := p.Grant(nil, launch(c.value, "work"), false)
		got := "DENY"
		if v.Decision == policy.Granted {
			got = string(v.Grant.Repo())
		}
		if got != c.want {
			t.Errorf("%q: got %s, want %s (%s)", c.value, got, c.want, c.why)
		}
		if v.Decision != policy.Granted && v.Grant.Valid() {
			t.Errorf("%q: %s verdict carries a grant", c.value, v.Decision)
		}
	}
}

// TestRepoHardCases are spellings beyond the corpus, each with the reason that
// the agent gets to read.
func TestRepoHardCases(t *testing.T) {
	t.Parallel()
	name100 := strings.Repeat("n", 100)
	for _, c := range []struct{ value, want, reason string }{
		{"\tgithub.com/a/b \t", "github.com/a/b", ""},
		{"github.com/a/b.git/", "github.com/a/b", ""},
		{"github.com/a/...", "github.com/a/...", ""},
		{"github.com/a/_", "github.com/a/_", ""},
		{"github.com/a/.gitignore", "github.com/a/.gitignore", ""},
		{"github.com/a/wiki", "github.com/a/wiki", ""},
		{"github.com/a-_/b", "github.com/a-_/b", ""},
		{"https://github.com/" + strings.Repeat("o", 39) + "/" + name100 + ".git/", "github.com/" + strings.Repeat("o", 39) + "/" + name100, ""},
		{"github.com/" + strings.Repeat("o", 40) + "/b", "", "owner is longer"},
		{"github.com/a/" + name100 + "n", "", "name is longer"},
		{"github.com/_a/b", "", "does not begin with a letter"},
		{"github.com/-a/b", "", "does not begin with a letter"},
		{"github.com/a.b/c", "", "owner has a character"},
		{"github.com/a/-b", "", "begins with -"},
		{"github.com/a/..git", "", "name is missing"},
		{"github.com/a/...git", "", "name is missing"},
		{"github.com/a/b.wiki.git", "", "wikis"},
		{"github.com/a/b.WIKI", "", "wikis"},
		{"github.com/a/.wiki", "", "wikis"},
		{"github.com/a/b.git.GIT", "", "more than once"},
		{"github.com/a/b//", "", "more than an owner"},
		{"github.com/a//", "", "missing"},
		{"github.com//b", "", "missing"},
		{"github.com/a/b/.git", "", "more than an owner"},
		{"\u2028github.com/a/b", "", "not ASCII"},
		{"github.com/a/b\r", "", "control"},
		{"github.com/a/b\xff", "", "not ASCII"},
		{"http://github.com/a/b", "", "http:// is not accepted"},
		{"HTTP://github.com/a/b", "", "http:// is not accepted"},
		{"https://www.github.com/a/b", "", "www."},
		{"git@github.com:a/b.git", "", "ssh"},
		{"ssh://git@github.com/a/b", "", "ssh"},
		{"https://x@github.com/a/b", "", "user name"},
		{"https://github.com:443/a/b", "", "port"},
		{"a/b", "", "host github.com/ is missing"},
		{"", "", "empty"},
		{strings.Repeat("x", 1<<20), "", "too long"},
	} {
		got, err := policy.CanonicalRepo(c.value)
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("CanonicalRepo(%.60q) = %q, %v; want %q", c.value, got, err, c.want)
			continue
		}
		if err != nil && (!strings.Contains(err.Error(), c.reason) || !strings.Contains(err.Error(), "https://github.com/owner/name")) {
			t.Errorf("CanonicalRepo(%.60q): error %q misses %q or the accepted form", c.value, err, c.reason)
		}
	}
}

func TestRepoOwner(t *testing.T) {
	t.Parallel()
	if got := policy.Repo("github.com/acme/tool").Owner(); got != "acme" {
		t.Errorf("owner = %q", got)
	}
	for _, r := range []policy.Repo{"", "acme/tool", "github.com/acme"} {
		if got := r.Owner(); got != "" {
			t.Errorf("Owner of %q = %q", r, got)
		}
	}
}

// grammar is the rule as the safety rules state it, kept out of the product: the
// fuzz target compares the two.
var grammar = regexp.MustCompile(`^(?:[hH][tT][tT][pP][sS]://)?[gG][iI][tT][hH][uU][bB]\.[cC][oO][mM]/([A-Za-z0-9][A-Za-z0-9_-]{0,38})/([A-Za-z0-9._-]+?)(?:\.[gG][iI][tT])?/?$`)

// localGrammar is the same for a clone on a machine.
var localGrammar = regexp.MustCompile(`^[lL][oO][cC][aA][lL]/([A-Za-z0-9_][A-Za-z0-9._-]{0,99})$`)

// oracle canonicalises by the regular expressions.
func oracle(value string) (string, bool) {
	if m := localGrammar.FindStringSubmatch(strings.Trim(value, " \t")); m != nil {
		name := strings.ToLower(m[1])
		return "local/" + name, !strings.Contains(name, "..") && !strings.HasSuffix(name, ".") && !strings.HasSuffix(name, ".git") && !strings.HasSuffix(value, "\n")
	}
	m := grammar.FindStringSubmatch(strings.Trim(value, " \t"))
	if m == nil || strings.HasSuffix(strings.Trim(value, " \t"), "\n") {
		return "", false
	}
	owner, name := strings.ToLower(m[1]), strings.ToLower(m[2])
	bad := name == "." || name == ".." || name[0] == '-' || len(name) > 100 ||
		strings.HasSuffix(name, ".wiki") || strings.HasSuffix(name, ".git")
	return "github.com/" + owner + "/" + name, !bad
}

func FuzzCanonicalRepo(f *testing.F) {
	for _, c := range repoCases(f) {
		f.Add(c.value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		got, err := policy.CanonicalRepo(value)
		want, ok := oracle(value)
		if ok != (err == nil) {
			t.Fatalf("%q: got %q, %v; the grammar says %v", value, got, err, ok)
		}
		if err != nil {
			if got != "" {
				t.Fatalf("%q: refused with the value %q", value, got)
			}
			return
		}
		if string(got) != want {
			t.Fatalf("%q: got %q, the grammar says %q", value, got, want)
		}
		if again, err := policy.CanonicalRepo(string(got)); err != nil || again != got {
			t.Fatalf("%q: canonical twice: %q, %v", got, again, err)
		}
		for i := range len(got) {
			if c := got[i]; c <= ' ' || c > '~' || 'A' <= c && c <= 'Z' {
				t.Fatalf("%q holds byte %#x", got, c)
			}
		}
	})
}

// TestLocalSaysWhatIsWrong: each refusal names the form of a clone, and the reason.
func TestLocalSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for value, reason := range map[string]string{
		"local/": "the name is missing", "LOCAL/": "the name is missing", "local/a/b": "more than a name", "local//a": "more than a name", "local/a/": "more than a name",
		"local/../x": "more than a name", "local/..": "begins with - or .", "local/.git": "begins with - or .", "local/-x": "begins with - or .", "local/a.": "ends in .",
		"local/a..b": "has .. in it", "local/a.git": "ends in .git", "local/a.GiT": "ends in .git", "local/a b": "a character other than", "local/\u0430": "a character other than",
		"local/a\x00": "a character other than", "local/" + strings.Repeat("a", 101): "longer than 100", "local/" + strings.Repeat("/", 1<<20): "longer than 100",
	} {
		got, err := policy.CanonicalRepo(value)
		if err == nil || got != "" || !strings.HasPrefix(err.Error(), "write local/name: ") || !strings.Contains(err.Error(), reason) {
			t.Errorf("CanonicalRepo(%.60q) = %q, %v; want %q", value, got, err, reason)
		}
	}
	for _, value := range []string{"local", "locals/x", "local\\x", "local:x", "https://local/x", "x/local/y", "l\u043ecal/x"} {
		if got, err := policy.CanonicalRepo(value); err == nil || !strings.Contains(err.Error(), "https://github.com/owner/name") {
			t.Errorf("CanonicalRepo(%q) = %q, %v", value, got, err)
		}
	}
}

// TestRulesOfClones: a clone is listed by its name, with a runtime; its agents live there, and an approval under one runtime does
// not count for another.
func TestRulesOfClones(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{"local/*": "each clone of a machine is listed by its own name", "LOCAL/*": "listed by its own name", "*/x": "*", "local/x*": "*", "local/x/*": "more than a name", "local*": "*"} {
		if p, problems := policy.New(policy.Rules{Repos: []policy.RepoRule{{Pattern: pattern, Runtime: "laptop"}}}); p != nil || len(problems) != 1 || !strings.Contains(problems[0].Reason, want) {
			t.Errorf("%s: %v", pattern, problems)
		}
	}
	for name, tt := range map[string]struct {
		rule policy.RepoRule
		key  string
	}{
		"without a runtime": {policy.RepoRule{Pattern: "Local/My-App"}, "repos[0].runtime"}, "with a version": {policy.RepoRule{Pattern: "local/x", Runtime: "laptop", API: "v1"}, "repos[0].api"},
		"elsewhere with both": {policy.RepoRule{Pattern: "github.com/me/x", Runtime: "laptop", API: "v0"}, "repos[0].api"},
	} {
		if p, problems := policy.New(policy.Rules{Repos: []policy.RepoRule{tt.rule}}); p != nil || len(problems) != 1 || problems[0].Key != tt.key {
			t.Errorf("%s: %+v", name, problems)
		}
	}
	once := policy.Approval{Mode: policy.ApprovalOnce, For: time.Hour}
	verdict := func(runtime string) policy.Verdict {
		p := mustPolicy(t, policy.Rules{Repos: []policy.RepoRule{{Pattern: "Local/My-App", Runtime: runtime, Approval: once}, {Pattern: "github.com/me/*"}},
			Agents: map[string]policy.Narrowing{"narrow": {Repos: []string{"local/my-app"}}, "other": {Repos: []string{"github.com/me/x"}}}})
		if v := p.Grant([]string{"other"}, launch("local/my-app", "x"), true); v.Decision != policy.Refused {
			t.Errorf("not in the agent's list: %s", v)
		}
		if v := p.Grant([]string{"narrow"}, launch("github.com/me/x", "x"), true); v.Decision != policy.Refused {
			t.Errorf("narrowed to the clone: %s", v)
		}
		return p.Grant([]string{"narrow"}, launch("LOCAL/my-APP", "x"), true)
	}
	v, w := verdict("laptop"), verdict("desk")
	if v.Decision != policy.Granted || v.Canonical != "local/my-app" || v.Runtime != "laptop" || !v.Grant.Repo().Local() || v.API != "" || v.Grant.API() != "" || v.ApprovalKey == "" || v.ApprovalKey == w.ApprovalKey {
		t.Errorf("%+v and %+v", v, w)
	}
	if policy.Repo("github.com/local/x").Local() || policy.Repo("local/x").Owner() != "" {
		t.Error("a clone and an owner of that name are mixed up")
	}
	if policy.RepoText(" LOCAL/X ") != "local/x" {
		t.Error("two spellings of a clone are two commands")
	}
}

// TestWildcardIsOneSegment lists the ways in which a wildcard once matched too much.
func TestWildcardIsOneSegment(t *testing.T) {
	t.Parallel()
	p := mustPolicy(t, policy.Rules{Repos: []policy.RepoRule{{Pattern: " HTTPS://GitHub.com/Acme/* "}}})
	if diff := cmp.Diff([]string{"github.com/acme/*"}, p.AllowedRepos(nil)); diff != "" {
		t.Error(diff)
	}
	for value, want := range map[string]policy.Decision{
		"github.com/acme/x":      policy.Granted,
		"github.com/ACME/x.git":  policy.Granted,
		"github.com/acme/*":      policy.Refused,
		"github.com/acme/x/y":    policy.Refused,
		"github.com/acme-evil/x": policy.Refused,
		"github.com/acm/x":       policy.Refused,
		"github.com/x/acme":      policy.Refused,
		"github.com/acme":        policy.Refused,
	} {
		if got := p.Grant(nil, launch(value, "x"), false).Decision; got != want {
			t.Errorf("%s: %s, want %s", value, got, want)
		}
	}
}
