package yamlconf_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drawbridge/internal/yamlconf"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

// sheet has one field of every supported kind.
type sheet struct {
	Name    string              `yaml:"name"`
	Count   int                 `yaml:"count"`
	Small   int8                `yaml:"small"`
	On      bool                `yaml:"on_air"`
	Wait    time.Duration       `yaml:"wait"`
	Token   yamlconf.Secret     `yaml:"token"`
	Old     []yamlconf.Secret   `yaml:"old"`
	List    []string            `yaml:"list"`
	Cap     *int                `yaml:"cap"`
	Sub     sub                 `yaml:"sub"`
	Named   map[string]sub      `yaml:"named"`
	Items   []item              `yaml:"items"`
	Texts   map[string][]string `yaml:"texts"`
	Odd     float64             `yaml:"odd"`
	Ignored string
}

type sub struct {
	URL   string `yaml:"url"`
	Place string `yaml:",at"`
}

type item struct {
	Repo  string `yaml:"repo,short"`
	API   string `yaml:"api"`
	Place string `yaml:",at"`
}

func read(tb testing.TB, text string) (sheet, *yamlconf.File, []string) {
	tb.Helper()
	var s sheet
	f, problems := yamlconf.Read(source(tb, text), &s)
	lines := []string{}
	for _, p := range problems {
		lines = append(lines, p.String())
	}
	return s, f, lines
}

func source(tb testing.TB, text string) yamlconf.Source {
	dir := tb.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	write("key", "from file ${HOME}\r\n")
	write("two", "a\n\n")
	write("big", strings.Repeat("x", 64<<10+1))
	env := map[string]string{"HOME": "/home/me", "TOKEN": "s3cret", "EMPTY": "", "PORT": "7410"}
	return yamlconf.Source{Name: "t.yaml", Dir: dir, Data: []byte(text), Getenv: func(k string) (string, bool) {
		v, ok := env[k]
		return v, ok
	}}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	s, f, problems := read(t, `
name: a b
count: -3
on_air: true
wait: 1m30s
token: ${TOKEN}
old: ["${file:key}"]
list: &l [x, "${PORT}"]
cap: ${PORT}
sub: { url: "http://${EMPTY:-localhost}:${PORT}/$${HOME}$" }
named:
  one:
    url: u
items:
  - github.com/a/b
  - repo: github.com/c/d
    api: v0
texts: { k: *l, none: , empty: [] }
`)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	seven := 7410
	want := sheet{
		Name: "a b", Count: -3, On: true, Wait: 90 * time.Second, List: []string{"x", "7410"}, Cap: &seven,
		Token: yamlconf.NewSecret("s3cret"), Old: []yamlconf.Secret{yamlconf.NewSecret("from file ${HOME}")},
		Sub:   sub{URL: "http://localhost:7410/${HOME}$", Place: "t.yaml:10"},
		Named: map[string]sub{"one": {URL: "u", Place: "t.yaml:13"}},
		Items: []item{{Repo: "github.com/a/b", Place: "t.yaml:15"}, {Repo: "github.com/c/d", API: "v0", Place: "t.yaml:16"}},
		Texts: map[string][]string{"k": {"x", "7410"}, "none": {}, "empty": {}},
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
	for path, want := range map[string]string{
		"": "t.yaml:2", "wait": "t.yaml:5", "named.one.url": "t.yaml:13", "named.one.missing": "t.yaml:12",
		"items[1].api": "t.yaml:17", "items[7].api": "t.yaml:14", "nowhere": "t.yaml:2",
	} {
		if got := f.At(path); got != want {
			t.Errorf("At(%q) = %s, want %s", path, got, want)
		}
	}
	if !f.Has("sub.url") || f.Has("sub.place") {
		t.Error("Has is wrong about sub")
	}
	// What came from outside is shown as it was written.
	if p := f.Problem("cap", "7410", "is odd", "x").Value; p != "${PORT}" {
		t.Errorf("the problem shows %q", p)
	}
}

// TestReferencesInsideBraces: unquoted references work in flow collections, where
// YAML alone would take their braces for its own.
func TestReferencesInsideBraces(t *testing.T) {
	t.Parallel()
	s, f, problems := read(t, `
sub: { url: http://a:${PORT}/${EMPTY:-x} } # ${NOPE}
list: [${PORT}, "${PORT}", '$${PORT}', a]
named: {k: {url: ${file:two}}}
token: ${TOKEN}
`)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := sheet{
		Sub:   sub{URL: "http://a:7410/x", Place: "t.yaml:2"},
		List:  []string{"7410", "7410", "${PORT}", "a"},
		Named: map[string]sub{"k": {URL: "a\n", Place: "t.yaml:4"}},
		Token: yamlconf.NewSecret("s3cret"),
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
	if got := f.Problem("list[0]", "7410", "x", "y").Value; got != "${PORT}" {
		t.Errorf("shown as %q", got)
	}
	for text, want := range map[string]string{
		"list: [${A:-a,b}]":                  "without its }",
		"list: [${A]":                        "is not YAML",
		"name: \ue000HOME\ue001":             "",
		"sub: { url: ${NOPE} }":              "NOPE, which is not set",
		"list: [${PORT}, \ue000, '${NOPE}']": "is not YAML",
	} {
		s, _, problems := read(t, text)
		if (len(problems) == 0) != (want == "") || !strings.Contains(strings.Join(problems, "\n"), want) {
			t.Errorf("%q: %v, want %q", text, problems, want)
		}
		if want == "" && s.Name != "\ue000HOME\ue001" {
			t.Errorf("private characters became %q", s.Name)
		}
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"unknown keys":         {"nmae: x\nsub:\n  ulr: y\nzzzzzzzz: 1", []string{`t.yaml:1: nmae: is not a known key; did you mean name?`, `t.yaml:3: sub.ulr: is not a known key; did you mean url?`, `t.yaml:4: zzzzzzzz: is not a known key; known here: cap, count, items, list, name, named, odd, old, on_air, small, sub, texts, token, wait`}},
		"a key's case":         {"Name: x", []string{`t.yaml:1: Name: is not a known key; did you mean name?`}},
		"twice":                {"name: a\ncount: 1\nname: b", []string{`t.yaml:3: name: is given twice, first on line 1; keep one of the two`}},
		"twice in a map":       {"named: {a: {}, a: {}}", []string{`t.yaml:1: named.a: is given twice, first on line 1; keep one of the two`}},
		"types":                {"name: [a]\ncount: x\nsmall: 300\non_air: yes\nwait: 10\nlist: a\nsub: b\nodd: 1.5\ncap: 1.0", []string{`t.yaml:1: name: is a list, not a single value; write one value`, `t.yaml:2: count: "x" is not a whole number in range; write digits only`, `t.yaml:3: small: "300" is not a whole number in range; write digits only`, `t.yaml:4: on_air: "yes" is neither true nor false; write true or false`, `t.yaml:5: wait: "10" is not a duration; write a number with its unit, such as 500ms, 10s, 5m or 2h`, `t.yaml:6: list: "a" is a single value, not a list; write [a, b], or lines that begin with -`, `t.yaml:7: sub: "b" is a single value, not a mapping; write key: value lines below the key`, `t.yaml:8: odd: "1.5" cannot be configured; remove it`, `t.yaml:9: cap: "1.0" is not a whole number in range; write digits only`}},
		"no value":             {"name:\ncap: ~", []string{`t.yaml:1: name: has no value; write a value, "" for an empty text, or remove the key`, `t.yaml:2: cap: "~" has no value; write a value, "" for an empty text, or remove the key`}},
		"a tag":                {"name: !!str x", []string{`t.yaml:1: name: "x" has a YAML tag; remove the tag that begins with !`}},
		"keys":                 {"[a]: 1\n~: 2", []string{`t.yaml:1: is not a usable key; write a plain word before the colon`, `t.yaml:2: "~" is not a usable key; write a plain word before the colon`}},
		"a hostile key":        {"\"a\\nb: c\": 1", []string{`t.yaml:1: "a\nb: c": is not a known key; known here: cap, count, items, list, name, named, odd, old, on_air, small, sub, texts, token, wait`}},
		"not a mapping":        {"- a", []string{`t.yaml:1: is a list, not a mapping; write key: value lines below the key`}},
		"a second document":    {"name: a\n---\nname: b", []string{`t.yaml:2: a second document begins here; keep one document and remove the line ---`}},
		"no variable":          {"name: ${NOPE}\ncount: ${file:gone}\nwait: ${x y}\nlist: ['${HOME']", []string{`t.yaml:1: name: refers to the environment variable NOPE, which is not set; set NOPE or write ${file:path}`, `t.yaml:2: count: refers to the file DIR/gone, which does not exist; create the file or correct the path`, `t.yaml:3: wait: has a reference that is neither a variable nor a file; write ${VAR}, ${VAR:-default} or ${file:path}; $${ is a plain ${`, `t.yaml:4: list[0]: has a ${ without its }; write ${VAR}, ${VAR:-default} or ${file:path}; $${ is a plain ${`}},
		"files":                {"name: ${file:}\ntoken: ${file:big}\nold: ['${file:.}']", []string{`t.yaml:1: name: names no file; write ${VAR}, ${VAR:-default} or ${file:path}; $${ is a plain ${`, `t.yaml:2: token: refers to the file DIR/big, which is larger than 65536 bytes; make it smaller`, `t.yaml:3: old[0]: refers to the file DIR, which is not a regular file; name a plain file`}},
		"a secret itself":      {"token: hunter2\nold: [hunter2, '${X:-hunter2}', 'hunter2${TOKEN}', [hunter2], '${TOKEN}${TOKEN}', ~]", []string{`t.yaml:1: token: holds the secret itself; write it to a file and use ${file:path}, or use ${VAR}`, `t.yaml:2: old[0]: holds the secret itself; write it to a file and use ${file:path}, or use ${VAR}`, `t.yaml:2: old[1]: holds the secret itself; write it to a file and use ${file:path}, or use ${VAR}`, `t.yaml:2: old[2]: holds the secret itself; write it to a file and use ${file:path}, or use ${VAR}`, `t.yaml:2: old[3]: is not a reference to a secret; write it to a file and use ${file:path}, or use ${VAR}`, `t.yaml:2: old[4]: holds the secret itself; write it to a file and use ${file:path}, or use ${VAR}`, `t.yaml:2: old[5]: is not a reference to a secret; write it to a file and use ${file:path}, or use ${VAR}`}},
		"a value from outside": {"count: ${TOKEN}", []string{`t.yaml:1: count: "${TOKEN}" is not a whole number in range; write digits only`}},
		"nothing":              {"", []string{}},
		"a comment":            {"# none\n", []string{}},
		"null":                 {"~", []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s sheet
			src := source(t, c.text)
			got := []string{}
			_, problems := yamlconf.Read(src, &s)
			for _, p := range problems {
				got = append(got, strings.ReplaceAll(p.String(), src.Dir, "DIR"))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if strings.Contains(strings.Join(got, "\n"), "hunter2") {
				t.Error("a problem shows the secret")
			}
		})
	}
}

func TestSyntax(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"a tab":           {"name: a\n\tcount: 1", "t.yaml:2: has a tab in its indentation"},
		"a tab in a list": {"texts:\n  - a\n\t- b\n", "t.yaml:3: has a tab in its indentation"},
		// The library says line 2 of each of these.
		"too few blanks":          {"nested:\n  name: a\n count: 1\n", "t.yaml:3: is not YAML"},
		"too many blanks":         {"name: a\ncount: 1\n  other: 2\nlist: []\n", "t.yaml:3: is not YAML"},
		"a brace that stays open": {"name: a\ncount: 1\nnested: { name: b\nlist: []\n", "t.yaml:3: is not YAML"},
		"a quote that stays open": {"name: a\ncount: 1\nother: \"b\nlist: []\n", "t.yaml:3: is not YAML"},
		"two colons":              {"count: 1\n\n\nname: a: b\n", "t.yaml:4: is not YAML"},
		"quotes":                  {"name: \"a", "is not YAML"},
		"a lost anchor":           {"name: *x", "is not YAML: unknown anchor"},
		"too large":               {strings.Repeat("#", yamlconf.MaxSize+1), "is larger than 1048576 bytes"},
		"bad second":              {"name: a\n---\n\"", "is not YAML"},
		"not UTF-8":               {"name: \xff\xfe", "is not YAML"},
		"deep":                    {strings.Repeat("[", 20_000), "is not YAML"},
		"a second empty":          {"name: a\n---\n", "second document"},
	} {
		_, _, problems := read(t, c.text)
		if len(problems) != 1 || !strings.Contains(problems[0], c.want) {
			t.Errorf("%s: %v, want %q", name, problems, c.want)
		}
	}
}

// TestRunsOn: an item that is indented more than the one above it is a part of that one's text for YAML. The problem used to
// show two repositories as one value, at the line that was right.
func TestRunsOn(t *testing.T) {
	t.Parallel()
	_, _, problems := read(t, "name: a b # two words\ntexts:\n  k:\n    - one\n      - two\n    - ${HOME} and more\nsub: { url: \"a\n  b\" }\n")
	want := []string{`t.yaml:4: texts.k[0]: "one - two" goes on at line 5, because that line is indented more; indent both lines alike, or put one value on one line`}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Error(diff)
	}
}

// TestPlain: what the library says has Go's types in it, and lines that are off by one.
func TestPlain(t *testing.T) {
	t.Parallel()
	type file struct {
		Wait  int
		List  []string
		Known map[string]int
	}
	for text, want := range map[string]string{
		"wait: x":                 "t.yaml: line 1: `x` is not a whole number",
		"other: 1\nwait: 2":       `t.yaml: line 1: unknown key "other"; see the format in the help`,
		"wait: 1\nlist: a":        "t.yaml: line 2: `a` is not a list",
		"known: [1]":              "t.yaml: line 1: a list is written in the place of one value or a mapping",
		"known:\n  a: 1\n b: 2\n": "t.yaml:3: is not YAML: did not find expected key; check indentation, quotes and colons of this line",
	} {
		d := yaml.NewDecoder(strings.NewReader(text))
		d.KnownFields(true)
		var f file
		if got := yamlconf.Plain("t.yaml", []byte(text), d.Decode(&f)); got.Error() != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestAliasesAreBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("list: &l [" + strings.Repeat("a,", 20_000) + "]\ntexts:\n")
	for i := range 20_000 {
		fmt.Fprintf(&b, "  k%d: *l\n", i)
	}
	s, _, problems := read(t, b.String())
	if len(problems) != 1 || !strings.Contains(problems[0], "expand to too many values") {
		t.Errorf("problems %v", problems)
	}
	total := 0
	for _, list := range s.Texts {
		total += len(list)
	}
	if total > 200_000 {
		t.Errorf("%d values from aliases", total)
	}
	if _, _, problems := read(t, "named: &x {a: *x}"); len(problems) == 0 {
		t.Error("a mapping that holds itself was accepted")
	}
}

func TestManyProblemsAreCounted(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	_, _, problems := read(t, b.String())
	if len(problems) != 101 || problems[100] != "t.yaml: has more problems than these: 400; fix these first" {
		t.Errorf("%d problems, the last is %q", len(problems), problems[len(problems)-1])
	}
}

func TestSecretIsNeverShown(t *testing.T) {
	t.Parallel()
	type holder struct {
		S yamlconf.Secret
		P *yamlconf.Secret
		u yamlconf.Secret
	}
	s := yamlconf.NewSecret("hunter2")
	h := holder{s, &s, s}
	var shown []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		shown = append(shown, fmt.Sprintf(verb, s), fmt.Sprintf(verb, &s), fmt.Sprintf(verb, h), fmt.Sprintf(verb, []yamlconf.Secret{s}))
	}
	j, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	y, err := yaml.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "secret", s)
	text, err := s.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range append(shown, string(j), string(y), logged.String(), string(text)) {
		if strings.Contains(v, "hunter2") || strings.Contains(v, "68756e74657232") {
			t.Errorf("shown: %s", v)
		}
	}
	if s.Reveal() != "hunter2" || s.Len() != 7 || s.Equal(yamlconf.Secret{}) || !s.Equal(yamlconf.NewSecret("hunter2")) {
		t.Error("the value is lost")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("name: a\ntoken: ${TOKEN}\nitems: [x, {repo: y}]")
	f.Add("list: &l [a]\ntexts: {a: *l}\n---\n")
	f.Add("name: ${file:key}${EMPTY:-x}$${")
	f.Add("? [a]\n: !!binary x")
	f.Add("wait: 1h\nsmall: 300\ncap: ~")
	f.Fuzz(func(t *testing.T, text string) {
		var s sheet
		// No files: fuzzed paths must not be opened.
		src := yamlconf.Source{Name: "t.yaml", Data: []byte(strings.ReplaceAll(text, "file:", "")), Getenv: os.LookupEnv}
		_, problems := yamlconf.Read(src, &s)
		for _, p := range problems {
			if p.Reason == "" || p.At == "" || strings.ContainsAny(p.String(), "\n\r\x00") {
				t.Fatalf("problem %+v", p)
			}
		}
	})
}

func TestAFileThatIsOneScalarIsNotShown(t *testing.T) {
	t.Parallel()
	const text = "0123456789abcdef0123456789abcdef"
	var into struct {
		Name string `yaml:"name"`
	}
	_, problems := yamlconf.Read(yamlconf.Source{Name: "bridge.token", Data: []byte(text)}, &into)
	if len(problems) != 1 {
		t.Fatalf("problems: %v", problems)
	}
	if got := problems[0].String(); strings.Contains(got, text[:8]) || !strings.Contains(got, "not a mapping") {
		t.Errorf("problem %q", got)
	}
}
