package guards_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// What a package and an interface may show: a room may be large if its door is small.
const (
	maxDoor    = 40 // exported functions and interfaces of a package; methods come with their type
	maxMethods = 20 // of an interface, with those of the interfaces that it embeds
)

// wideDoors lists the packages with a wider door, each with its reason. A number bounds the door and only falls; 0 does not bound it.
var wideDoors = map[string]struct {
	most   int
	reason string
}{
	"bridge":       {0, "the nouns and the ports: every other room speaks in them, and none of them does anything"},
	"bridge/words": {53, "one function for each kind of sentence that an agent reads, so that a single room escapes what comes from outside"},
}

// wideInterfaces lists the interfaces with more methods, each with its reason.
var wideInterfaces = map[string]string{}

// TestDoorsAreSmall: packages and interfaces keep their bounds, and each exception is needed.
func TestDoorsAreSmall(t *testing.T) {
	t.Parallel()
	doors, methods := map[string]int{}, interfaceMethods{}
	for _, s := range sources(t) {
		if !s.test {
			doors[s.pkg] += doorOf(s.file)
			methods.add(s.pkg, s.file)
		}
	}
	for pkg, n := range doors {
		wide, excepted := wideDoors[pkg]
		switch {
		case excepted && n <= maxDoor:
			t.Errorf("package %s has %d exported functions and interfaces; remove it from wideDoors", pkg, n)
		case excepted && (wide.most == 0 || n <= wide.most):
			t.Logf("package %s has %d exported functions and interfaces: %s", pkg, n, wide.reason)
		case n > max(maxDoor, wide.most):
			t.Errorf("package %s has %d exported functions and interfaces; at most %d", pkg, n, max(maxDoor, wide.most))
		}
	}
	for name := range methods {
		n, reason := len(methods.of(name, nil)), wideInterfaces[name]
		switch {
		case n > maxMethods && reason == "":
			t.Errorf("interface %s has %d methods; at most %d, or give the reason in wideInterfaces", name, n, maxMethods)
		case n <= maxMethods && reason != "":
			t.Errorf("interface %s has %d methods; remove it from wideInterfaces", name, n)
		}
	}
	for name := range wideInterfaces {
		if methods[name] == nil {
			t.Errorf("interface %s does not exist; remove it from wideInterfaces", name)
		}
	}
}

// TestDoorGuardCounts: the guard counts what it says that it counts.
func TestDoorGuardCounts(t *testing.T) {
	t.Parallel()
	const text = `package x
import other "drawbridge/a/k"
func A() {}
func b() {}
func (T) C() {}
func D[S any](S) {}
type T struct{}
type I interface{ J; M(); N() }
type J interface{ M(); O(); other.K }
type l interface{ P() }
type F func()
type (
	G interface{ ~int }
	H = J
)
`
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := doorOf(f); n != 6 {
		t.Errorf("the door has %d, want A, D, I, J, G and H", n)
	}
	other, err := parser.ParseFile(token.NewFileSet(), "other.go", "package k\ntype K interface{ Q(); R() }\n", 0)
	if err != nil {
		t.Fatal(err)
	}
	methods := interfaceMethods{}
	methods.add("x", f)
	methods.add("a/k", other)
	for name, want := range map[string]int{"x.I": 5, "x.J": 4, "x.l": 1, "x.G": 0, "a/k.K": 2} {
		if got := len(methods.of(name, nil)); got != want {
			t.Errorf("%s has %d methods, want %d", name, got, want)
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

// interfaceMethods holds the interfaces of all packages by the package's path, a dot and the name.
type interfaceMethods map[string]*declaredInterface

type declaredInterface struct {
	pkg     string
	imports map[string]string // paths of our packages, by the name in the file
	*ast.InterfaceType
}

func (m interfaceMethods) add(pkg string, f *ast.File) {
	imports := map[string]string{}
	for _, spec := range f.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		ours, ok := strings.CutPrefix(path, module+"/")
		name := ours[strings.LastIndexByte(ours, '/')+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if ok {
			imports[name] = ours
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if ts, ok := n.(*ast.TypeSpec); ok {
			if i, ok := ts.Type.(*ast.InterfaceType); ok {
				m[pkg+"."+ts.Name.Name] = &declaredInterface{pkg, imports, i}
			}
		}
		return true
	})
}

// of returns the names of an interface's methods, those of embedded interfaces of ours among them.
func (m interfaceMethods) of(name string, names map[string]bool) map[string]bool {
	if names == nil {
		names = map[string]bool{}
	}
	i := m[name]
	if i == nil {
		return names
	}
	for _, field := range i.Methods.List {
		for _, id := range field.Names {
			names[id.Name] = true
		}
		switch x := field.Type.(type) {
		case *ast.Ident:
			m.of(i.pkg+"."+x.Name, names)
		case *ast.SelectorExpr:
			if p, ok := x.X.(*ast.Ident); ok {
				m.of(i.imports[p.Name]+"."+x.Sel.Name, names)
			}
		}
	}
	return names
}
