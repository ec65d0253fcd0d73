package guards_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// proofTags are the build tags of programs that are built for a proof alone and never released.
var proofTags = map[string]bool{"conformance": true, "failpoint": true}

// TestNoProductImportsAProof: outside of the wing only tests import proof/…, and files of a program that a released build leaves out.
func TestNoProductImportsAProof(t *testing.T) {
	t.Parallel()
	wing := 0
	for _, s := range sources(t) {
		if isProof(s.pkg) {
			wing++
		}
		for _, problem := range proofImports(s) {
			t.Error(problem)
		}
	}
	if wing < 40 {
		t.Errorf("only %d Go files found below proof: the guard looks in the wrong place", wing)
	}
}

// TestProofGuardFindsFaults: the guard refuses each way in which a released program could link a proof.
func TestProofGuardFindsFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path, tag, imports string
		refused            bool
	}{
		{"bridge/engine/x.go", "", "drawbridge/proof/sim", true},
		{"bridge/engine/x.go", "failpoint", "drawbridge/proof/sim", true},
		{"bridge/engine/x_test.go", "", "drawbridge/proof/runtimes", false},
		{"internal/httpx/x.go", "", "drawbridge/proof/pg", true},
		{"cmd/drawbridge/x.go", "", "drawbridge/proof/mcp", true},
		{"cmd/drawbridge/x.go", "!conformance", "drawbridge/proof/mcp", true},
		{"cmd/drawbridge/x.go", "linux", "drawbridge/proof/mcp", true},
		{"cmd/drawbridge/x.go", "conformance || linux", "drawbridge/proof/mcp", true},
		{"cmd/drawbridge/x.go", "conformance", "drawbridge/proof/mcp", false},
		{"cmd/drawbridge/internal/demo/x.go", "conformance", "drawbridge/proof/mcp", true},
		{"cmd/drawbridge/x.go", "", "drawbridge/proofs", false},
		{"cmd/drawbridge/x.go", "", "drawbridge/proof", true},
		{"proof/sim/x.go", "", "drawbridge/proof/runtimes", false},
	} {
		text := "package x\n\nimport _ " + strconv.Quote(c.imports) + "\n"
		if c.tag != "" {
			text = "//go:build " + c.tag + "\n\n" + text
		}
		f, err := parser.ParseFile(token.NewFileSet(), c.path, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		got := proofImports(source{path: c.path, pkg: c.path[:strings.LastIndexByte(c.path, '/')], test: strings.HasSuffix(c.path, "_test.go"), file: f})
		if (len(got) > 0) != c.refused {
			t.Errorf("%s with the tag %q imports %s: %q, want refused: %v", c.path, c.tag, c.imports, got, c.refused)
		}
	}
}

func isProof(pkg string) bool { return pkg == "proof" || strings.HasPrefix(pkg, "proof/") }

// proofImports returns, in words, the imports of proofs that a file must not have.
func proofImports(s source) (problems []string) {
	if s.test || isProof(s.pkg) || isProgram(s.pkg) && proofTags[buildTag(s.file)] {
		return nil
	}
	for _, spec := range s.file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		if ours, ok := strings.CutPrefix(path, module+"/"); ok && isProof(ours) {
			problems = append(problems, s.path+" imports "+ours+"; only tests and files of cmd with the build tag conformance or failpoint may import proofs")
		}
	}
	return problems
}

// buildTag returns the constraint of a file, "" for none.
func buildTag(f *ast.File) string {
	for _, group := range f.Comments {
		for _, c := range group.List {
			if tag, ok := strings.CutPrefix(c.Text, "//go:build "); ok && c.Pos() < f.Package {
				return strings.TrimSpace(tag)
			}
		}
	}
	return ""
}
