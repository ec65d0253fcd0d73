package guards_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// unshown lists the rows of docs/claims.md that have no test, by their first cell, each with its reason.
var unshown = map[string]string{}

// TestClaimsNameTests: docs/claims.md names tests and scripts that exist, its first part has the chapters of README.md, and a row
// without a test has a reason here.
func TestClaimsNameTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/claims.md")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, chapters := claimRows(string(text))
	if len(rows) < 100 {
		t.Fatalf("only %d rows found in docs/claims.md: the guard does not read its tables", len(rows))
	}
	if diff := cmp.Diff(readmeChapters(string(readme)), chapters); diff != "" {
		t.Errorf("chapters of README.md (-) and of docs/claims.md (+):\n%s", diff)
	}
	for _, problem := range claimProblems(rows, existingTests(t), unshown) {
		t.Errorf("docs/claims.md:%s", problem)
	}
}

// TestClaimsGuardFindsFaults: each fault that the guard is for is found.
func TestClaimsGuardFindsFaults(t *testing.T) {
	t.Parallel()
	exists := func(ref string) bool { return ref == "a/b TestX" || ref == "script story" }
	for row, want := range map[string]string{
		"| 1.1 | a | `a/b TestX`, `script story` |": "",
		"| 1.1 | a | `a/b TestY` |":                 "does not exist",
		"| 1.1 | a | `a/c TestX` |":                 "does not exist",
		"| 1.1 | a | a/b TestX |":                   "is not written as",
		"| 1.1 | a | `a/b TestX`, and more |":       "is not written as",
		"| 1.1 | a | |":                             "is not written as",
		"| 1.1 | a | none |":                        "has no test",
		"| 1.2 | a | none |":                        "",
		"| 1.2 | a | `a/b TestX` |":                 "has a test now",
	} {
		rows, _ := claimRows("| number | demand | tests |\n|---|---|---|\n" + row + "\n")
		if len(rows) != 1 {
			t.Fatalf("%s: %d rows", row, len(rows))
		}
		reasons := map[string]string{}
		if rows[0].key == "1.2" {
			reasons["1.2"] = "a reason"
		}
		got := claimProblems(rows, exists, reasons)
		if (len(got) == 0) != (want == "") || len(got) > 0 && !strings.Contains(got[0], want) {
			t.Errorf("%s: %q, want %q", row, got, want)
		}
	}
	twice, _ := claimRows("| n | t |\n|---|---|\n| 1.1 | `a/b TestX` |\n| 1.1 | `a/b TestX` |\n")
	if got := claimProblems(twice, exists, nil); len(got) != 1 || !strings.Contains(got[0], "twice") {
		t.Errorf("a key that stands twice: %q", got)
	}
}

// readmeChapters returns the chapters of the README, but for the one that only points elsewhere.
func readmeChapters(readme string) (chapters []string) {
	for _, m := range regexp.MustCompile(`(?m)^###? (.+)$`).FindAllStringSubmatch(readme, -1) {
		if m[1] != "More" {
			chapters = append(chapters, m[1])
		}
	}
	return chapters
}

// claimRow is a row of a table: its first cell, its last cell and its line.
type claimRow struct {
	key, tests string
	line       int
}

// claimRows returns the rows of all tables without their heads, and the chapters of the first part.
func claimRows(text string) (rows []claimRow, chapters []string) {
	lines := strings.Split(text, "\n")
	demands := false
	for i, line := range lines {
		demands = demands || line == "## Demands on the bridge"
		if chapter, ok := strings.CutPrefix(line, "### "); ok && !demands {
			chapters = append(chapters, chapter)
		}
		head := i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|---")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || head {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		rows = append(rows, claimRow{key: strings.TrimSpace(cells[0]), tests: strings.TrimSpace(cells[len(cells)-1]), line: i + 1})
	}
	return rows, chapters
}

var testReference = regexp.MustCompile("^`((?:relay )?script [a-z0-9_]+|[a-z0-9/-]+ (?:Test|Benchmark|Fuzz)[A-Za-z0-9]+(?:/[A-Za-z0-9]+)?)`$")

// claimProblems returns what is wrong with rows. exists reports whether a reference leads to a test.
func claimProblems(rows []claimRow, exists func(ref string) bool, reasons map[string]string) (problems []string) {
	seen := map[string]bool{}
	for _, r := range rows {
		say := func(format string, args ...any) {
			problems = append(problems, strconv.Itoa(r.line)+": "+r.key+": "+fmt.Sprintf(format, args...))
		}
		if seen[r.key] {
			say("stands there twice")
		}
		seen[r.key] = true
		switch _, known := reasons[r.key]; {
		case r.tests == "none" && !known:
			say("has no test; write one, or give the reason in unshown (internal/guards)")
			continue
		case r.tests == "none":
			continue
		case known:
			say("has a test now; remove it from unshown (internal/guards)")
		}
		for _, ref := range strings.Split(r.tests, ", ") {
			m := testReference.FindStringSubmatch(ref)
			if m == nil {
				say("%q is not written as `package TestName`, `script name` or `relay script name`, with a comma and a blank between two", ref)
			} else if !exists(m[1]) {
				say("%s does not exist", m[1])
			}
		}
	}
	for key := range reasons {
		if !seen[key] {
			problems = append(problems, "0: "+key+" stands in unshown (internal/guards) and in no table")
		}
	}
	return problems
}

// existingTests finds the test functions of all packages, the names of their subtests, and the scripts of both programs.
func existingTests(t *testing.T) func(ref string) bool {
	t.Helper()
	found := map[string]bool{}
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				found[s.pkg+" "+n.Name.Name] = n.Recv == nil
			case *ast.BasicLit:
				if name, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					found[s.pkg+" /"+name] = true
				}
			}
			return true
		})
	}
	return func(ref string) bool {
		from, name, _ := strings.Cut(ref, " ")
		switch {
		case from == "script":
			return isFile("../../cmd/drawbridge/testdata/script/" + name + ".txtar")
		case from == "relay":
			return isFile("../../cmd/drawbridge-relay/testdata/script/" + strings.TrimPrefix(name, "script ") + ".txtar")
		}
		function, part, sub := strings.Cut(name, "/")
		return found[from+" "+function] && (!sub || found[from+" /"+part])
	}
}

func isFile(path string) bool {
	info, err := os.Stat(filepath.FromSlash(path))
	return err == nil && info.Mode().IsRegular()
}
