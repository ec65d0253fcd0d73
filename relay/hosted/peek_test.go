package hosted_test

import (
	"context"
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/relay/hosted"
	"drawbridge/relay/hub"
	"drawbridge/relay/wire"
)

// peeks is a relay that answers each question about workspaces with the same text.
type peeks struct {
	hosted.Turns
	text string
}

func (p peeks) PeekTurn(context.Context, hub.TurnCall) (string, error) { return p.text, nil }

func setOf(text string) hosted.Set {
	return hosted.Set{"laptop-acp": hosted.New(hosted.Options{Turns: peeks{text: text}, Relay: "laptop", Agent: "acp"})}
}

// TestUncommitted: a tree counts as committed only if the relay says that it is clean.
func TestUncommitted(t *testing.T) {
	t.Parallel()
	const unsaid = "the relay reports uncommitted work without details"
	for text, want := range map[string]string{
		`{"clean":true}`:  "",
		`{"clean":false}`: unsaid,
		`{}`:              unsaid,
		`{"clean":false,"state":{"names":[""]},"unsaved":["", " "]}`:                        unsaid,
		`{"clean":false,"unsaved":["a merge in progress","1 linked worktree"]}`:             "a merge in progress, 1 linked worktree",
		`{"clean":false,"state":{"names":["a","b"]},"unsaved":["2 untracked files"]}`:       "a, b",
		`{"clean":false,"state":{"names":["1","2","3","4","5","6","7","8","9","10","11"]}}`: "1, 2, 3, 4, 5, 6, 7, 8, 9, 10",
	} {
		got, err := setOf(text).Uncommitted(t.Context(), bridge.Agent{Runtime: "laptop-acp", External: "s"})
		if err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{`{"error":"no index"}`, `clean`, ``} {
		if got, err := setOf(text).Uncommitted(t.Context(), bridge.Agent{Runtime: "laptop-acp", External: "s"}); bridge.KindOf(err) != bridge.Unavailable {
			t.Errorf("%s: %q %v", text, got, err)
		}
	}
}

// TestAllSaysThatThereIsMore: the entry without a name is not a workspace.
func TestAllSaysThatThereIsMore(t *testing.T) {
	t.Parallel()
	all := setOf(`[{"agent":"ada","clean":true},{"agent":"","error":"30 more of its 530 workspaces"}]`).All(t.Context())
	if len(all) != 1 || len(all[0].Workspaces) != 1 || all[0].Workspaces[0].Agent != "ada" || all[0].More != "30 more of its 530 workspaces" {
		t.Errorf("%+v", all)
	}
	all = setOf(`[{"agent":"ada","clean":false,"error":"no index"}]`).All(t.Context())
	if len(all) != 1 || len(all[0].Workspaces) != 1 || all[0].More != "" {
		t.Errorf("%+v", all)
	}
}

// TestLive: what a relay says of an agent's steps is bounded, whatever a hostile relay writes.
func TestLive(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5000)
	set := setOf(`{"turn":"r","steps":[{"seq":7,"at":1,"turn":"r","kind":"says","text":"one"},{"seq":3,"turn":"r","kind":"uses","tool":"` + long + `","text":"` + long + `"}]}`)
	live, err := set.Live(t.Context(), bridge.Agent{Runtime: "laptop-acp", External: "s"}, 5)
	if err != nil || live.Turn != "r" || len(live.Steps) != 2 || live.Steps[0].Seq != 7 || live.Steps[0].Text != "one" {
		t.Fatalf("%+v %v", live, err)
	}
	if s := live.Steps[1]; len(s.Tool) > wire.MaxLine+3 || len(s.Text) > wire.MaxLine+3 {
		t.Errorf("%d and %d bytes", len(s.Tool), len(s.Text))
	}
	if live, err := set.Live(t.Context(), bridge.Agent{Runtime: "laptop-acp"}, 0); err != nil || len(live.Steps) > 0 {
		t.Errorf("before the launch: %+v %v", live, err)
	}
	for _, text := range []string{``, `[]`, `{"steps":[` + strings.TrimSuffix(strings.Repeat(`{},`, wire.MaxSteps+1), ",") + `]}`} {
		if _, err := setOf(text).Live(t.Context(), bridge.Agent{Runtime: "laptop-acp", External: "s"}, 0); bridge.KindOf(err) != bridge.Unavailable {
			t.Errorf("%.20s: %v", text, err)
		}
	}
}
