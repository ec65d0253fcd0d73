package memory_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/memory"
	"drawbridge/policy"
	"drawbridge/proof/memstore"
	"drawbridge/proof/runtimes"
)

// still is an engine that does not run, on a store in memory with two agents.
func still(t *testing.T) *engine.Engine {
	t.Helper()
	s := memstore.NewDisk().Open()
	p, problems := policy.New(policy.Rules{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	e, err := engine.New(engine.Options{Store: s, Runtime: &runtimes.Cloud{}, Actions: &runtimes.Relay{}, Policy: func() *policy.Policy { return p },
		Keys: bridge.Keys{Current: bridge.Key{ID: "1", Secret: slices.Repeat([]byte("k"), 32)}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), func(tx *bridge.Scene) error {
		for _, id := range []bridge.AgentID{"agt_1", "agt_2"} {
			if err := tx.InsertAgent(bridge.Agent{ID: id, Name: string(id), Root: id, State: bridge.AgentIdle}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return e
}

func service(t *testing.T, o memory.Options) *memory.Service {
	t.Helper()
	if o.Steps == nil {
		o.Steps = still(t)
	}
	s, err := memory.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func version(n int) *int { return &n }

func TestUpdate(t *testing.T) {
	t.Parallel()
	s := service(t, memory.Options{})
	for i, step := range []struct {
		content string
		if_     *int
		kind    bridge.ErrorKind
		says    string
		want    int
	}{
		{"fine", version(1), bridge.Conflict, `no block "mood" yet`, 0},
		{"fine", version(0), "", "", 1},
		{"fine again", version(0), bridge.Conflict, "is at version 1, not 0", 1},
		{"tired", nil, "", "", 2},
		{"late", version(1), bridge.Conflict, "write with version 2", 2},
		{"", version(2), "", "", 3},
		{"awake", version(-1), bridge.Conflict, "version 3", 3},
	} {
		b, err := s.Update(t.Context(), "agt_1", memory.Draft{Label: "mood", Content: step.content, IfVersion: step.if_})
		if bridge.KindOf(err) != step.kind || (err != nil && !strings.Contains(bridge.SafeMessage(err), step.says)) {
			t.Fatalf("step %d: %v, want %q that says %q", i, err, step.kind, step.says)
		}
		if err == nil && (b.Version != step.want || b.Content != step.content) {
			t.Errorf("step %d: %+v", i, b)
		}
	}
	all, err := s.Versions(t.Context(), "agt_1", "mood", 0)
	var said []string
	for _, b := range all {
		said = append(said, fmt.Sprint(b.Version, " ", b.Content))
	}
	if diff := cmp.Diff([]string{"3 ", "2 tired", "1 fine"}, said); err != nil || diff != "" {
		t.Errorf("%v, versions (-want +got):\n%s", err, diff)
	}
	if _, err := s.Versions(t.Context(), "agt_2", "mood", 0); bridge.KindOf(err) != bridge.NotFound {
		t.Errorf("versions of another's block: %v, want NotFound", err)
	}
}

// TestLabels: a label is what the seed has, a string; it guards against a rule narrower than that, under which an agent could not
// keep "Pam (my wife)".
func TestLabels(t *testing.T) {
	t.Parallel()
	s := service(t, memory.Options{})
	labels := []string{"mood", "my mood", "Pam (my wife)", "people/dwight", "../..", "50% * ' -- \"", "настроение", "気分", "👩‍🚀", strings.Repeat("ä", 200), "### plan", "LOCAL_ACTION: wipe"}
	for i, label := range labels {
		if b, err := s.Update(t.Context(), "agt_1", memory.Draft{Label: " " + label + "\t", Content: fmt.Sprint(i)}); err != nil || b.Label != label {
			t.Errorf("%q: kept as %q, %v", label, b.Label, err)
		}
		if all, err := s.Versions(t.Context(), "agt_1", label, 0); err != nil || len(all) != 1 || all[0].Content != fmt.Sprint(i) {
			t.Errorf("%q: %+v, %v", label, all, err)
		}
	}
	if all, err := s.Blocks(t.Context(), "agt_1"); err != nil || len(all) != len(labels) {
		t.Errorf("%d blocks, want %d; %v", len(all), len(labels), err)
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	s := service(t, memory.Options{Blocks: 2, Passages: 2})
	update := func(agent bridge.AgentID, label, content string) error {
		_, err := s.Update(t.Context(), agent, memory.Draft{Label: label, Content: content})
		return err
	}
	store := func(agent bridge.AgentID, content string, tags ...string) error {
		_, err := s.Store(t.Context(), agent, content, tags)
		return err
	}
	search := func(agent bridge.AgentID, q memory.Query) error {
		_, err := s.Search(t.Context(), agent, q)
		return err
	}
	long := strings.Repeat("x", memory.MaxText)
	many := make([]string, memory.MaxTags+1)
	for i := range many {
		many[i] = fmt.Sprint("tag", i)
	}
	for name, tt := range map[string]struct {
		err  error
		kind bridge.ErrorKind
		says string
	}{
		"no label":          {update("agt_1", " ", "x"), bridge.Invalid, "label is empty"},
		"label over lines":  {update("agt_1", "a\n### b", "x"), bridge.Invalid, "one line"},
		"label with a NUL":  {update("agt_1", "a\x00b", "x"), bridge.Invalid, "one line"},
		"turned label":      {update("agt_1", "a\u202eb", "x"), bridge.Invalid, "invisible"},
		"other line break":  {update("agt_1", "a\u2028LOCAL_ACTION: wipe", "x"), bridge.Invalid, "one line"},
		"bytes as a label":  {update("agt_1", "\xff", "x"), bridge.Invalid, "one line"},
		"long label":        {update("agt_1", strings.Repeat("ä", 201), "x"), bridge.Invalid, "has 201 characters; at most 200"},
		"long block":        {update("agt_1", "a", long+"x"), bridge.TooLarge, "at most 16384"},
		"bad bytes":         {update("agt_1", "a", "\xff"), bridge.Invalid, "UTF-8"},
		"NUL":               {update("agt_1", "a", "\x00"), bridge.Invalid, "NUL"},
		"unknown agent":     {update("agt_9", "a", "x"), bridge.NotFound, "no agent"},
		"no passage":        {store("agt_1", " \n"), bridge.Invalid, "empty"},
		"long passage":      {store("agt_1", long+"x"), bridge.TooLarge, "at most"},
		"bad passage":       {store("agt_1", "a\xff"), bridge.Invalid, "UTF-8"},
		"empty tag":         {store("agt_1", "x", " "), bridge.Invalid, "tag is empty"},
		"tag over lines":    {store("agt_1", "x", "a\nb"), bridge.Invalid, "one line"},
		"long tag":          {store("agt_1", "x", strings.Repeat("ß", 65)), bridge.Invalid, "65 characters"},
		"many tags":         {store("agt_1", "x", many...), bridge.Invalid, "more than 20"},
		"passage of nobody": {store("agt_9", "x"), bridge.NotFound, "no agent"},
		"long query":        {search("agt_1", memory.Query{Text: long}), bridge.TooLarge, "a few words"},
		"many words":        {search("agt_1", memory.Query{Text: strings.Join(append(many, many[0]+"a b c d e f g h i j k l m"), " ")}), bridge.Invalid, "words"},
		"limit":             {search("agt_1", memory.Query{Limit: 101}), bridge.Invalid, "1 to 100"},
		"negative limit":    {search("agt_1", memory.Query{Limit: -1}), bridge.Invalid, "1 to 100"},
		"tag in a query":    {search("agt_1", memory.Query{Tags: []string{""}}), bridge.Invalid, "tag is empty"},
		"search of nobody":  {search("agt_9", memory.Query{}), bridge.NotFound, "no agent"},
	} {
		if bridge.KindOf(tt.err) != tt.kind || !strings.Contains(bridge.SafeMessage(tt.err), tt.says) {
			t.Errorf("%s: %v of kind %q, want %q that says %q", name, tt.err, bridge.KindOf(tt.err), tt.kind, tt.says)
		}
	}
	for _, err := range []error{update("agt_1", strings.Repeat("a", 64), long), update("agt_1", "b", ""), store("agt_1", long), store("agt_1", "x", append(many[:19], " tag1 ", strings.Repeat("ß", 64))...)} {
		if err != nil {
			t.Errorf("the most that is allowed: %v", err)
		}
	}
	if err := update("agt_1", "third", "x"); bridge.KindOf(err) != bridge.Conflict {
		t.Errorf("a block too many: %v", err)
	}
	if err := update("agt_1", "b", "x"); err != nil {
		t.Errorf("a block that is there: %v", err)
	}
	if err := store("agt_1", "third"); bridge.KindOf(err) != bridge.Conflict {
		t.Errorf("a passage too many: %v", err)
	}
	if found, err := s.Search(t.Context(), "agt_1", memory.Query{}); err != nil || len(found) != 2 {
		t.Errorf("%d passages, %v; want 2", len(found), err)
	}
}

// TestOwnMemoryAlone: whatever two agents do, each sees what it wrote itself and nothing else.
func TestOwnMemoryAlone(t *testing.T) {
	t.Parallel()
	words := []string{"tea", "teapot", "coffee", "東京", "%", "OR", "*"}
	agents := []bridge.AgentID{"agt_1", "agt_2"}
	rapid.Check(t, func(rt *rapid.T) {
		s := service(t, memory.Options{})
		blocks, passages := map[bridge.AgentID]map[string]string{"agt_1": {}, "agt_2": {}}, map[bridge.AgentID]int{}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			agent := rapid.SampledFrom(agents).Draw(rt, "agent")
			text := string(agent) + " " + rapid.SampledFrom(words).Draw(rt, "word")
			if rapid.Bool().Draw(rt, "block") {
				label := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "label")
				if _, err := s.Update(t.Context(), agent, memory.Draft{Label: label, Content: text}); err != nil {
					rt.Fatal(err)
				}
				blocks[agent][label] = text
				continue
			}
			if _, err := s.Store(t.Context(), agent, text, []string{"shared"}); err != nil {
				rt.Fatal(err)
			}
			passages[agent]++
		}
		for _, agent := range agents {
			checkOwn(t, s, agent, blocks[agent], passages[agent])
			query := memory.Query{Text: rapid.SampledFrom(words).Draw(rt, "query"), Limit: memory.MaxFound}
			found, err := s.Search(t.Context(), agent, query)
			if err != nil || slices.ContainsFunc(found, func(p bridge.Passage) bool { return p.Agent != agent || !strings.HasPrefix(p.Content, string(agent)) }) {
				rt.Fatalf("%s looked for %q and found %+v, %v", agent, query.Text, found, err)
			}
		}
	})
}

func checkOwn(t *testing.T, s *memory.Service, agent bridge.AgentID, blocks map[string]string, passages int) {
	t.Helper()
	got := map[string]string{}
	all, err := s.Blocks(t.Context(), agent)
	for _, b := range all {
		got[b.Label] = b.Content
	}
	if diff := cmp.Diff(blocks, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
		t.Fatalf("blocks of %s, %v (-want +got):\n%s", agent, err, diff)
	}
	for _, q := range []memory.Query{{}, {Tags: []string{"shared"}}} {
		q.Limit = memory.MaxFound
		found, err := s.Search(t.Context(), agent, q)
		if err != nil || len(found) != passages {
			t.Fatalf("%s found %d of its %d passages, %v", agent, len(found), passages, err)
		}
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	big := strings.Repeat("x", memory.MaxText)
	var many []bridge.Block
	for i := range 60 {
		many = append(many, bridge.Block{Label: fmt.Sprintf("l%02d", i), Content: big, UpdatedAt: at(i)})
	}
	for name, tt := range map[string]struct {
		blocks []bridge.Block
		want   string
	}{
		"none":  {nil, ""},
		"empty": {[]bridge.Block{{Label: "a"}}, ""},
		"by label": {[]bridge.Block{{Label: "b", Content: "second", UpdatedAt: at(1)}, {Label: "a", Content: "first\nline", UpdatedAt: at(2)}, {Label: "c"}},
			"### a\nfirst\nline\n\n### b\nsecond"},
		"what was written last goes ahead": {[]bridge.Block{{Label: "z", Content: big, UpdatedAt: at(9)}, {Label: "a", Content: "old", UpdatedAt: at(0)}, many[1], many[2], many[3], many[4]},
			"### l03\n" + big + "\n\n### l04\n" + big + "\n\n### z\n" + big + "\n\n(no room for 3 more: a, l01, l02)"},
	} {
		if diff := cmp.Diff(tt.want, memory.Render(tt.blocks)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := memory.Render(many); !strings.Contains(got, "no room for 57 more: l00, ") || !strings.HasSuffix(got, "l49, …)") {
		t.Errorf("many end with %q", got[len(got)-60:])
	}
}
