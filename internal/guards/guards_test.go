package guards_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "drawbridge"

// mayImport is the layer picture: what a folder may import of ours beside itself and what lies in it. The longest row that fits counts.
// Everything may import internal/…, and nothing else imports a program.
var mayImport = map[string][]string{
	"parser":               {},
	"policy":               {"parser"},
	"config":               {"policy"},
	"bridge":               {"parser", "policy"},
	"store":                {"bridge", "parser"},
	"store/callers":        {"openai", "store"},
	"store/passes":         {"store", "web"},
	"store/alerted":        {"alerts", "api", "store"},
	"cloudagents":          {"bridge", "policy"},
	"cloudagents/cloudsim": {},
	"relay":                {}, // the machine's side knows nothing of the bridge
	"relay/hub":            {"bridge", "parser", "policy", "relay"},
	"relay/hosted":         {"bridge", "relay"},
	"relay/link":           {"relay"},
	"relay/runner":         {"relay/tunnel", "relay/wire"},
	"relay/agents":         {"relay"},
	"scripted":             {"bridge"},
	"chatmodel":            {"bridge"},
	"mail":                 {"bridge"},
	"webhooks":             {"bridge"},
	"web":                  {"api", "bridge", "parser"},
	"alerts":               {"api", "bridge"},
	"memory":               {"bridge"},
	"api":                  {"bridge", "mail", "openai", "parser", "policy"},
	"mcpserver":            {"bridge", "mail", "memory", "openai/upstream", "parser", "policy"},
	"openai":               {"bridge", "parser"},
	"proof":                {"bridge", "parser", "policy", "relay"},
	"internal":             {},
	"packaging":            {},
	"cmd":                  {"api", "bridge", "cloudagents", "config", "policy", "relay", "store"},
}

// isProgram tells a program's own package from those that only it uses.
func isProgram(pkg string) bool {
	return strings.HasPrefix(pkg, "cmd/") && strings.Count(pkg, "/") == 1
}

// isSuite tells tests that are no _test files, because several packages run them.
func isSuite(pkg string) bool {
	return pkg == "proof/runtimes" || pkg == "proof/stores"
}

type source struct {
	path string // slash-separated, relative to the module
	pkg  string
	test bool
	file *ast.File
	fset *token.FileSet
}

func sources(t *testing.T) []source {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	var out []source
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		out = append(out, source{path: rel, pkg: filepath.ToSlash(filepath.Dir(rel)), test: strings.HasSuffix(path, "_test.go"), file: f, fset: fset})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 50 {
		t.Fatalf("only %d Go files found: the guards look in the wrong place", len(out))
	}
	return out
}

func covers(pattern, pkg string) bool {
	if folder, ok := strings.CutSuffix(pattern, "/…"); ok {
		return strings.HasPrefix(pkg, folder+"/")
	}
	return pattern == pkg
}

// within reports whether a package is a folder or lies in it.
func within(folder, pkg string) bool { return pkg == folder || strings.HasPrefix(pkg, folder+"/") }

func TestImportsPointInward(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test || isProgram(s.pkg) {
			continue
		}
		row := ""
		for folder := range mayImport {
			if within(folder, s.pkg) && len(folder) > len(row) {
				row = folder
			}
		}
		if row == "" {
			t.Errorf("%s: package %s is in no folder of the layer picture; add the folder to mayImport", s.path, s.pkg)
			continue
		}
		allowed := append([]string{row, "internal"}, mayImport[row]...)
		for _, spec := range s.file.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			ours, ok := strings.CutPrefix(path, module+"/")
			if ok && (isProgram(ours) || !slices.ContainsFunc(allowed, func(folder string) bool { return within(folder, ours) })) {
				t.Errorf("%s imports %s; %s may import only %v", s.path, ours, row, allowed)
			}
		}
	}
}

// only says in which packages a library or a standard package may be used.
var only = map[string][]string{
	"gopkg.in/yaml.v3":                                                {"internal/yamlconf", "config", "relay/runner/settings", "cloudagents/cloudsim/…", "openai/cursor/agentsim", "cmd/drawbridge/internal/local", "proof/pages"},
	"modernc.org/sqlite":                                              {"store"},
	"modernc.org/sqlite/lib":                                          {"store"},
	"github.com/go-resty/resty/v2":                                    {"cloudagents", "relay/hub", "api", "chatmodel", "alerts"},
	"connectrpc.com/connect":                                          {"openai/cursor", "openai/cursor/agentsim"},
	"google.golang.org/protobuf/proto":                                {"openai/cursor", "openai/cursor/…"},
	"code.dny.dev/ssrf":                                               {"alerts"},
	"github.com/alecthomas/kong":                                      {"cmd/drawbridge"},
	"github.com/spf13/cobra":                                          {"cmd/drawbridge-relay"},
	"github.com/spf13/pflag":                                          {"cmd/drawbridge-relay"},
	"github.com/pressly/goose/v3":                                     {"store"},
	"github.com/fsnotify/fsnotify":                                    {"config"},
	"os/exec":                                                         {"relay/runner", "relay/runner/…", "relay/agents/workspace", "openai/cursor/agent", "cmd/drawbridge/internal/demo", "cmd/drawbridge/internal/local", "proof/pg", "proof/gobuild", "packaging", "proof/acpagent", "proof/cliagent"},
	"github.com/jackc/pgx/v5":                                         {"store", "proof/pg"},
	"github.com/jackc/pgx/v5/pgconn":                                  {"store"},
	"github.com/stretchr/testify":                                     {},
	"github.com/rs/zerolog/log":                                       {}, // loggers are injected
	"net/http/pprof":                                                  {},
	"math/rand":                                                       {},
	"github.com/landlock-lsm/go-landlock/landlock":                    {"relay/runner/sandbox"},
	"github.com/landlock-lsm/go-landlock/landlock/syscall":            {"relay/runner/sandbox"},
	"github.com/coder/websocket":                                      {"relay/hub", "relay/link"},
	"github.com/bmatcuk/doublestar/v4":                                {"openai/cursor/agent"},
	"github.com/coder/acp-go-sdk":                                     {"relay/agents/acp", "openai/cursor/agent"},
	"golang.org/x/text/cases":                                         {"bridge/search"},
	"golang.org/x/text/unicode/norm":                                  {"bridge/search", "internal/lookalike"},
	"github.com/modelcontextprotocol/go-sdk/mcp":                      {"mcpserver", "openai/cursor/agent", "proof/mcp", "scripted"},
	"github.com/modelcontextprotocol/go-sdk/auth":                     {"mcpserver"},
	"github.com/google/jsonschema-go/jsonschema":                      {"mcpserver", "proof/pages"},
	"go.opentelemetry.io/otel/sdk/trace":                              {"internal/tracing"},
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp": {"internal/tracing"},
}

func TestLibrariesStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test || isSuite(s.pkg) {
			continue
		}
		for _, spec := range s.file.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			where, limited := only[path]
			if limited && !slices.ContainsFunc(where, func(p string) bool { return covers(p, s.pkg) }) {
				t.Errorf("%s imports %s, which may be used only in %v", s.path, path, where)
			}
		}
	}
}

func TestPureIsPure(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test || (s.pkg != "parser" && s.pkg != "policy") {
			continue
		}
		for _, spec := range s.file.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if path == "os" || path == "net" || path == "net/url" || path == "net/http" || path == "log" || strings.HasPrefix(path, "os/") {
				t.Errorf("%s imports %s: parser and policy look at nothing but their arguments", s.path, path)
			}
		}
	}
}

func TestEveryPackageHasOneComment(t *testing.T) {
	t.Parallel()
	comments := map[string]int{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		comments[s.pkg] += 0
		if s.file.Doc != nil {
			comments[s.pkg]++
			if len(s.file.Doc.Text()) < 80 {
				t.Errorf("%s: the package comment is too short to say what the package is, what it is not and its rule of thumb", s.path)
			}
		}
	}
	for pkg, n := range comments {
		if n != 1 {
			t.Errorf("package %s has %d package comments; it needs exactly one", pkg, n)
		}
	}
}

// The size limits: lines of a function and of a file, and parameters with ctx.
const (
	maxFunction = 80
	maxFile     = 600
	maxParams   = 4
)

// TestSizes checks the sizes of product code. Tests and generated code have no limits.
func TestSizes(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test || ast.IsGenerated(s.file) {
			continue
		}
		if lines := s.fset.File(s.file.Pos()).LineCount(); lines > maxFile {
			t.Errorf("%s has %d lines; at most %d", s.path, lines, maxFile)
		}
		functionSizes(t, s)
	}
}

// functionSizes checks each function of a file.
func functionSizes(t *testing.T, s source) {
	t.Helper()
	ast.Inspect(s.file, func(n ast.Node) bool {
		f, ok := n.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			return true
		}
		lines := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1
		if lines > maxFunction {
			t.Errorf("%s: %s has %d lines; at most %d", s.path, f.Name.Name, lines, maxFunction)
		}
		// A suite's helper carries *testing.T besides.
		if n := f.Type.Params.NumFields(); n > maxParams && !isSuite(s.pkg) {
			t.Errorf("%s: %s has %d parameters; at most %d, beyond that a struct", s.path, f.Name.Name, n, maxParams)
		}
		return true
	})
}

// TestNoSleepAndNoSkip: a sleep stands in a function that opens a bubble of virtual time, by itself or by helpers of its
// package; there it costs nothing and waits for nothing real. No test is left out, but loudly for what the machine cannot do.
func TestNoSleepAndNoSkip(t *testing.T) {
	t.Parallel()
	all := sources(t)
	opens := map[string]bool{} // package and function
	each := func(do func(s source, name string, calls map[string]bool)) {
		for _, s := range all {
			for _, d := range s.file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && s.test {
					do(s, f.Name.Name, calledBy(f))
				}
			}
		}
	}
	for grown := true; grown; { // a helper may open its bubble by another helper
		grown = false
		each(func(s source, name string, calls map[string]bool) {
			for call := range calls {
				if !opens[s.pkg+" "+name] && (call == "synctest.Test" || opens[s.pkg+" "+call]) {
					opens[s.pkg+" "+name], grown = true, true
				}
			}
		})
	}
	each(func(s source, name string, calls map[string]bool) {
		for call := range calls {
			if _, method, ok := strings.Cut(call, "."); ok && strings.HasPrefix(method, "Skip") && !strings.Contains(call, loudSkip) {
				t.Errorf("%s: %s leaves a test out by %s; only for what the machine cannot do, with a text that begins with %s", s.path, name, call, loudSkip)
			}
		}
		if calls["time.Sleep"] && !opens[s.pkg+" "+name] {
			t.Errorf("%s: %s sleeps outside of a bubble; wait for the event, or use testing/synctest", s.path, name)
		}
	})
}

// loudSkip begins the text of a test that is left out because the machine cannot do what it needs.
const loudSkip = "SKIPPED: "

// calledBy are the calls of the forms f and x.f in a function. A loud skip is x.f and loudSkip.
func calledBy(f *ast.FuncDecl) map[string]bool {
	found := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch fun := call.Fun.(type) {
		case *ast.Ident:
			found[fun.Name] = true
		case *ast.SelectorExpr:
			if x, ok := fun.X.(*ast.Ident); ok {
				name := x.Name + "." + fun.Sel.Name
				if len(call.Args) > 0 && strings.HasPrefix(fun.Sel.Name, "Skip") {
					if text, ok := call.Args[0].(*ast.BasicLit); ok && strings.HasPrefix(text.Value, `"`+loudSkip) {
						name += " " + loudSkip
					}
				}
				found[name] = true
			}
		}
		return true
	})
	return found
}
