package guards_test

import (
	"go/build/constraint"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDeepFilesHaveAShard: a package with tests of the deep tier is run by a shard, which the Makefile lists in a variable …PACKAGES or
// a command with -tags deep runs.
func TestDeepFilesHaveAShard(t *testing.T) {
	t.Parallel()
	commands, err := filepath.Glob("../../scripts/*.sh")
	if err != nil {
		t.Fatal(err)
	}
	var patterns []string
	for _, file := range append(commands, "../../Makefile") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "PACKAGES :=") || strings.Contains(line, "-tags deep") && !strings.Contains(line, "-bench") {
				for _, p := range regexp.MustCompile(`\./[a-z0-9/.-]+`).FindAllString(line, -1) {
					patterns = append(patterns, strings.TrimPrefix(p, "./"))
				}
			}
		}
	}
	deep := 0
	for _, s := range sources(t) {
		if !s.test || !isDeep(s) {
			continue
		}
		deep++
		found := false
		for _, p := range patterns {
			folder, whole := strings.CutSuffix(p, "/...")
			found = found || p == s.pkg || whole && folder != "." && strings.HasPrefix(s.pkg+"/", folder+"/")
		}
		if !found {
			t.Errorf("%s is run by no deep shard; add its package to a variable of the Makefile", s.path)
		}
	}
	if deep < 20 {
		t.Errorf("only %d files of the deep tier found: the guard looks in the wrong place", deep)
	}
}

// TestEachShardRunsAtNight: the workflow lists the shards of the Makefile.
func TestEachShardRunsAtNight(t *testing.T) {
	t.Parallel()
	var lists [2][]string
	for i, in := range []struct{ file, list string }{{"../../Makefile", `(?m)^SHARDS := (.*)$`}, {"../../.github/workflows/check.yml", `shard: \[(.*)\]`}} {
		text, err := os.ReadFile(in.file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(in.list).FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s has no list of shards", in.file)
		}
		lists[i] = strings.Fields(strings.ReplaceAll(string(found[1]), ",", " "))
	}
	if !slices.Equal(lists[0], lists[1]) {
		t.Errorf("the Makefile has the shards %v, the workflow %v", lists[0], lists[1])
	}
}

// isDeep reports whether a file is left out without the tag deep.
func isDeep(s source) bool {
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			if x, err := constraint.Parse(c.Text); err == nil {
				return !x.Eval(func(tag string) bool { return tag != "deep" }) && x.Eval(func(tag string) bool { return tag != "race" })
			}
		}
	}
	return false
}
