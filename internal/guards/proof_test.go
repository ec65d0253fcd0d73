package guards_test

import (
	"go/ast"
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
