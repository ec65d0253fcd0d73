package main

import (
	"strings"
	"testing"
)

// A patch on a terminal shows an agent's control characters as question marks, whole lines at once, and colors no more than what is its own.
func TestPainter(t *testing.T) {
	t.Parallel()
	for plain, want := range map[bool]string{
		true:  "@@ -1 +1 @@\n-a\n+b?[8mhidden?\n c\n+no end\n",
		false: "\x1b[36m@@ -1 +1 @@\x1b[m\n\x1b[31m-a\x1b[m\n\x1b[32m+b?[8mhidden?\x1b[m\n c\n\x1b[32m+no end\x1b[m\n",
	} {
		var out strings.Builder
		p := &painter{to: &out, plain: plain}
		patch := "@@ -1 +1 @@\n-a\n+b\x1b[8mhidden\u202e\n c\n+no end"
		for i := range len(patch) { // a character over two writes stays one
			if n, err := p.Write([]byte(patch[i : i+1])); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		p.end()
		p.end()
		if out.String() != want {
			t.Errorf("plain %v: %q", plain, out.String())
		}
	}
}
