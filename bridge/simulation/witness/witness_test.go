package witness_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"drawbridge/bridge"
	"drawbridge/bridge/simulation/witness"
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
	got := witness.Statements(text)
	if len(got) != 2 {
		t.Fatalf("%d statements: %+v", len(got), got)
	}
	if before := witness.Tokens(got[0].Before); !cmp.Equal(before, []string{"<r1>"}) {
		t.Errorf("before the first: %q", before)
	}
	got[0].Before, got[1].Before = "", ""
	want := []witness.Statement{{Seq: 3, Ended: 1, Launched: 2, Late: true, Missing: []int{7}}, {Seq: 4, Ended: 1, Launched: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	if got := witness.Tokens("a <r1> <b> <x2>|<m3> <r"); !cmp.Equal(got, []string{"<r1>", "<x2>", "<m3>"}) {
		t.Errorf("tokens %q", got)
	}
}
