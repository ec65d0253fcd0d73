package guards_test

import (
	"go/ast"
	"testing"
)

// maxDoor bounds the exported functions and interfaces of a package; methods come with their type. A room may be large if its door is small.
const maxDoor = 40

// wideDoors lists the packages with a wider door, each with its reason.
var wideDoors = map[string]string{
	"bridge":       "the nouns and the ports: every other room speaks in them, and none of them does anything",
	"bridge/words": "one function for each kind of sentence that an agent reads, so that a single room escapes what comes from outside",
}

// TestDoorsAreSmall: packages keep their bound, and each exception is needed.
func TestDoorsAreSmall(t *testing.T) {
	t.Parallel()
	doors := map[string]int{}
	for _, s := range sources(t) {
		if !s.test {
			doors[s.pkg] += doorOf(s.file)
		}
	}
	for pkg, n := range doors {
		if (n > maxDoor) != (wideDoors[pkg] != "") {
			t.Errorf("package %s has %d exported functions and interfaces; at most %d, or a reason in wideDoors, which holds no others", pkg, n, maxDoor)
		}
	}
}

// doorOf counts the exported functions and interfaces of a file. An alias counts as an interface: it may be one.
func doorOf(f *ast.File) (n int) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.IsExported() {
				n++
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				ts, ok := spec.(*ast.TypeSpec)
				if !ok || !ts.Name.IsExported() {
					continue
				}
				if _, ok := ts.Type.(*ast.InterfaceType); ok || ts.Assign.IsValid() {
					n++
				}
			}
		}
	}
	return n
}
