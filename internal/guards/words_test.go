package guards_test

import (
	"go/ast"
	"strings"
	"testing"
)

// TestOwnWordsAreMadeInOnePlace: only package words turns text into the bridge's own words. Elsewhere a conversion of anything but a
// constant would let what others wrote stand in a turn without a bar.
func TestOwnWordsAreMadeInOnePlace(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test || s.pkg == "bridge/words" || isSuite(s.pkg) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && convertsToWords(call, s.pkg) {
				t.Errorf("%s: use words.Say, words.Name or words.Own in the place of bridge.Words(…)", strings.TrimPrefix(s.fset.Position(call.Pos()).String(), "../"))
			}
			return true
		})
	}
}

func convertsToWords(call *ast.CallExpr, pkg string) bool {
	if len(call.Args) != 1 {
		return false
	}
	if _, constant := call.Args[0].(*ast.BasicLit); constant {
		return false
	}
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		x, ok := f.X.(*ast.Ident)
		return ok && x.Name == "bridge" && f.Sel.Name == "Words"
	case *ast.Ident:
		return pkg == "bridge" && f.Name == "Words"
	}
	return false
}
