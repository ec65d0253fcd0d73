package bridge_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drawbridge/bridge"
)

// TestEventKinds: EventKinds names each kind that the code has, and docs/reference/events.md tells of each, in the same order.
func TestEventKinds(t *testing.T) {
	t.Parallel()
	var declared []string
	for _, name := range []string{"events.go", "mail.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Event") && len(spec.Values) == 1 {
				if value, ok := spec.Values[0].(*ast.BasicLit); ok {
					kind, err := strconv.Unquote(value.Value)
					if err != nil {
						t.Fatal(err)
					}
					declared = append(declared, kind)
				}
			}
			return true
		})
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(declared)), slices.Sorted(slices.Values(bridge.EventKinds))); diff != "" {
		t.Errorf("EventKinds (-declared +listed):\n%s", diff)
	}
	page, err := os.ReadFile("../docs/reference/events.md")
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		told = append(told, row[1])
	}
	if diff := cmp.Diff(bridge.EventKinds, told); diff != "" {
		t.Errorf("the page (-kinds +rows):\n%s", diff)
	}
}
