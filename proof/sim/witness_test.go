package sim

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/parser"
)

func TestStatements(t *testing.T) {
	t.Parallel()
	open := []bridge.Command{{Parsed: parser.Command{Line: 7}, Canonical: "github.com/acme/a", State: bridge.CommandConfirmed}}
	text := words.Compose(bridge.Turn{Text: "go on"}, []bridge.Notice{
		{Text: "line 1 of your turn:", Untrusted: "<r1>"},
		{Text: words.Joined(words.Results{Seq: 3, Launched: 2, Open: open, Held: 1, Why: "the deadline has passed"})},
		{Text: words.Joined(words.Results{Seq: 4, Launched: 1})},
	})
	got := joinStatements(text)
	if len(got) != 2 {
		t.Fatalf("%d statements: %+v", len(got), got)
	}
	if before := tokensIn(got[0].before); !cmp.Equal(before, []string{"<r1>"}) {
		t.Errorf("before the first: %q", before)
	}
	got[0].before, got[1].before = "", ""
	want := []joinStatement{{seq: 3, ended: 1, launched: 2, late: true, missing: []int{7}}, {seq: 4, ended: 1, launched: 1}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(joinStatement{})); diff != "" {
		t.Error(diff)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	if got := tokensIn("a <r1> <b> <x2>|<m3> <r"); !cmp.Equal(got, []string{"<r1>", "<x2>", "<m3>"}) {
		t.Errorf("tokens %q", got)
	}
}
