package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drawbridge/api"
	"drawbridge/bridge"
)

// remembered launches an agent and gives it a memory and a run of tool calls.
func remembered(t *testing.T, w *world) api.Launched {
	t.Helper()
	l := w.launch(t, "main")
	id, turn := bridge.AgentID(l.Agent.ID), bridge.TurnID(l.Turn.ID)
	if err := w.engine.Change(t.Context(), func(c bridge.Change) error {
		var errs []error
		for v := 1; v <= 2; v++ {
			errs = append(errs, c.PutBlock(bridge.Block{Agent: id, Label: "mood", Version: v, Content: fmt.Sprint("take ", v)}))
		}
		for n, text := range []string{"tea", "tea and tea", "coffee"} {
			_, err := c.InsertPassage(bridge.Passage{ID: bridge.PassageID(fmt.Sprint("psg_", n)), Agent: id, Content: text, Tags: []string{"drink", fmt.Sprint("no", n)}})
			errs = append(errs, err)
		}
		for n, payload := range []string{`{"text":"hi"}`, "no JSON", `"<script>"`} {
			_, err := c.AppendRunMessage(bridge.RunMessage{Turn: turn, Kind: bridge.ToolCallMessage, Name: "send_message", CallID: fmt.Sprint(n), Payload: payload})
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	remembered(t, w)
	w.launch(t, "other")
	texts := func(s api.PassageSearch, agent string) (out []string) {
		list, err := w.client.Passages(t.Context(), agent, s)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Passages {
			out = append(out, p.Content)
		}
		return out
	}
	for name, tt := range map[string]struct {
		search api.PassageSearch
		want   []string
	}{
		"all":         {api.PassageSearch{}, []string{"coffee", "tea and tea", "tea"}},
		"words":       {api.PassageSearch{Text: "TEA"}, []string{"tea and tea", "tea"}},
		"syntax":      {api.PassageSearch{Text: "tea% OR *"}, nil},
		"tags":        {api.PassageSearch{Tags: []string{"drink", "no2"}}, []string{"coffee"}},
		"tag and one": {api.PassageSearch{Text: "tea", Tags: []string{"drink"}, Limit: 1}, []string{"tea and tea"}},
	} {
		if diff := cmp.Diff(tt.want, texts(tt.search, "main")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := texts(api.PassageSearch{}, "other"); len(got) != 0 {
		t.Errorf("another agent has %q", got)
	}
	blocks, err := w.client.Blocks(t.Context(), "main", "")
	if err != nil || len(blocks.Blocks) != 1 || blocks.Blocks[0].Version != 2 || blocks.Blocks[0].Content != "take 2" {
		t.Errorf("%+v, %v", blocks, err)
	}
	versions, err := w.client.Blocks(t.Context(), "main", "mood")
	if err != nil || len(versions.Blocks) != 2 || versions.Blocks[1].Content != "take 1" {
		t.Errorf("%+v, %v", versions, err)
	}
	for path, want := range map[string]int{
		"/v1/agents/other/blocks":                   200,
		"/v1/agents/other/passages?tag=a&tag=b":     200,
		"/v1/agents/nobody/blocks":                  404,
		"/v1/agents/nobody/passages":                404,
		"/v1/agents/main/passages?query=x":          400,
		"/v1/agents/main/passages?q=a&q=b":          400,
		"/v1/agents/main/passages?q=" + manyWords(): 400,
		"/v1/agents/main/passages?q=%00%ff%22*":     200,
		"/v1/agents/main/blocks?label=%27%3B--":     200,
		"/v1/agents?tag=a&tag=b":                    400,
	} {
		if code, body, _ := w.call(t, http.MethodGet, path, ""); code != want || strings.Contains(body, "null") {
			t.Errorf("%s: %d %.200s", path, code, body)
		}
	}
}

func manyWords() string {
	var b strings.Builder
	for n := range 40 {
		fmt.Fprintf(&b, "word%d+", n)
	}
	return b.String()
}

func TestRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := remembered(t, w)
	var got []string
	for after, pages := int64(0), 1; ; pages++ {
		list, err := w.client.Run(t.Context(), l.Turn.ID, after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list.Messages {
			got = append(got, fmt.Sprint(m.Seq, " ", m.Kind, " ", m.Name, " ", m.CallID, " ", string(m.Payload)))
			after = m.Seq
		}
		if list.Next == "" {
			if pages != 2 {
				t.Errorf("%d pages", pages)
			}
			break
		}
	}
	want := []string{`1 tool_call_message send_message 0 {"text":"hi"}`, `2 tool_call_message send_message 1 {"clipped":"no JSON","bytes":7}`,
		"3 tool_call_message send_message 2 \"\\u003cscript\\u003e\""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	other := w.launch(t, "other")
	if code, body, _ := w.call(t, http.MethodGet, "/v1/turns/"+other.Turn.ID+"/run", ""); code != 200 || !strings.Contains(body, `"messages":[]`) {
		t.Errorf("a run without tools: %d %s", code, body)
	}
	if _, err := w.client.Run(t.Context(), "trn_none", 0, 0); bridge.KindOf(err) != bridge.NotFound {
		t.Errorf("a run of no turn: %v", err)
	}
}
