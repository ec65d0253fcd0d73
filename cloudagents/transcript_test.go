package cloudagents_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"drawbridge/bridge"
	"drawbridge/cloudagents"
)

// TestContractSentSince: what was sent after a run is shown as it was sent, oldest first, and nothing after the latest one.
func TestContractSentSince(t *testing.T) {
	forBoth(t, func(t *testing.T, api string) {
		w := newWorld(t, api)
		first := w.start("build it")
		w.finish(first)
		refs := []bridge.RunRef{first}
		for _, text := range []string{"go on", "and on"} {
			s, err := w.Send(t.Context(), w.followUp(refs[len(refs)-1], text))
			if err != nil {
				t.Fatal(err)
			}
			refs = append(refs, w.ref(s, marker))
			w.finish(refs[len(refs)-1])
		}
		sent, err := w.SentSince(t.Context(), first)
		if err != nil {
			t.Fatal(err)
		}
		if api == bridge.APIv0 { // all of them, without ids
			if len(sent) != 3 || !strings.Contains(sent[0].Text, "build it") {
				t.Fatalf("%+v", sent)
			}
			sent = sent[1:]
		}
		if len(sent) != 2 || !strings.HasSuffix(sent[0].Text, "go on") || !strings.HasSuffix(sent[1].Text, "and on") || !strings.HasPrefix(sent[1].Text, marker) {
			t.Fatalf("%+v", sent)
		}
		for i, s := range sent {
			if !s.Shown || (api == bridge.APIv1 && (s.Run != refs[i+1].Run || !s.Over || s.Begun.IsZero())) {
				t.Errorf("%+v, of run %s", s, refs[i+1].Run)
			}
		}
		if sent, err := w.SentSince(t.Context(), refs[2]); api == bridge.APIv1 && (err != nil || len(sent) != 0) {
			t.Errorf("after the latest run: %+v, %v", sent, err)
		}
	})
}

// TestSentSinceV1: whatever list and streams look like, a run that may have told something is either shown, said to be hidden, or
// an error that passes. It is never left out.
func TestSentSinceV1(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 30, 0, time.UTC)
	agent := func(latest string) reply { return reply{body: strings.Replace(agentV1, "run-1", latest, 1)} }
	ours, theirs := sseReply(promptEvent(marker+"\ngo on"), "done {}"), sseReply(promptEvent("I typed this"), "done {}")
	buried := sseReply(`interaction_update {"type":"user-message-appended","text":"a longer text that is not what was sent to it","userMessage":{"content":["`+marker+` go on"]}}`, "done {}")
	mute, expired, down := sseReply(`assistant {"text":"hm"}`, "done {}"), reply{status: 410, body: `{"error":{"code":"stream_expired"}}`}, reply{status: 503, body: `{"error":{"code":"x"}}`}
	shown := func(id, text string) bridge.SentRun {
		return bridge.SentRun{Run: id, Text: text, Shown: true, Over: true}
	}
	hidden := func(id string) bridge.SentRun { return bridge.SentRun{Run: id, Over: true} }
	for name, c := range map[string]struct {
		latest  string
		runs    []reply
		streams map[string]reply
		want    []bridge.SentRun
		kind    bridge.ErrorKind
	}{
		"nothing new":                  {latest: "run-1"},
		"ours":                         {latest: "run-2", runs: []reply{runsPage("", "run-2", "run-1")}, streams: map[string]reply{"run-2": ours}, want: []bridge.SentRun{shown("run-2", marker+"\ngo on")}},
		"a person's":                   {latest: "run-2", runs: []reply{runsPage("", "run-2", "run-1")}, streams: map[string]reply{"run-2": theirs}, want: []bridge.SentRun{shown("run-2", "I typed this")}},
		"the marker anywhere":          {latest: "run-2", runs: []reply{runsPage("", "run-2", "run-1")}, streams: map[string]reply{"run-2": buried}, want: []bridge.SentRun{shown("run-2", marker+" go on")}},
		"oldest first":                 {latest: "run-3", runs: []reply{runsPage("", "run-3", "run-2", "run-1")}, streams: map[string]reply{"run-3": theirs, "run-2": ours}, want: []bridge.SentRun{shown("run-2", marker+"\ngo on"), shown("run-3", "I typed this")}},
		"over two pages":               {latest: "run-3", runs: []reply{runsPage("next", "run-3"), runsPage("", "run-2", "run-1")}, streams: map[string]reply{"run-3": theirs, "run-2": ours}, want: []bridge.SentRun{shown("run-2", marker+"\ngo on"), shown("run-3", "I typed this")}},
		"the oldest three of four":     {latest: "r5", runs: []reply{runsPage("", "r5", "r4", "r3", "r2", "run-1")}, streams: map[string]reply{"r2": mute, "r3": mute, "r4": mute}, want: []bridge.SentRun{hidden("r2"), hidden("r3"), hidden("r4")}},
		"hidden":                       {latest: "run-2", runs: []reply{runsPage("", "run-2", "run-1")}, streams: map[string]reply{"run-2": mute}, want: []bridge.SentRun{hidden("run-2")}},
		"the stream is gone":           {latest: "run-2", runs: []reply{runsPage("", "run-2", "run-1")}, streams: map[string]reply{"run-2": expired}, want: []bridge.SentRun{hidden("run-2")}},
		"the stream is away":           {latest: "run-2", runs: []reply{runsPage("", "run-2@20", "run-1")}, streams: map[string]reply{"run-2": down}, kind: bridge.Unavailable},
		"the list does not know run-1": {latest: "run-3", runs: []reply{runsPage("", "run-3", "run-2")}, kind: bridge.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			routes := map[string][]reply{"GET /v1/agents/" + agentID: {agent(c.latest)}, runsPath: c.runs}
			for id, r := range c.streams {
				routes["GET /v1/agents/"+agentID+"/runs/"+id+"/stream"] = []reply{r}
			}
			f := newFake(t, routes)
			client := newClient(t, f.URL, func(o *cloudagents.Options) { o.Now = func() time.Time { return now } })
			got, err := client.SentSince(t.Context(), bridge.RunRef{API: bridge.APIv1, Agent: agentID, Run: "run-1"})
			if bridge.KindOf(err) != c.kind {
				t.Fatalf("%v, want kind %q", err, c.kind)
			}
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(bridge.SentRun{}, "Begun")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if n := slices.IndexFunc(f.requests(), func(s seen) bool { return strings.Contains(s.Query, "cursor=next") }); (n >= 0) != (len(c.runs) > 1) {
				t.Errorf("the second page was asked for: %t", n >= 0)
			}
		})
	}
}

// TestSentSinceRefuses: an agent that is gone is said to be so, and an id that is none never reaches the API.
func TestSentSinceRefuses(t *testing.T) {
	t.Parallel()
	f := newFake(t, map[string][]reply{"GET /v1/agents/" + agentID: {{status: 404, body: `{"error":{"code":"not_found"}}`}}})
	c := newClient(t, f.URL)
	_, err := c.SentSince(t.Context(), bridge.RunRef{API: bridge.APIv1, Agent: agentID, Run: "run-1"})
	check(t, err, bridge.NotFound, false)
	for _, r := range []bridge.RunRef{{API: bridge.APIv1, Agent: "../x", Run: "run-1"}, {API: bridge.APIv1, Agent: agentID, Run: "a/b"}, {API: "v7", Agent: agentID, Run: "run-1"}} {
		_, err := c.SentSince(t.Context(), r)
		check(t, err, bridge.Invalid, false)
	}
	if n := len(f.requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}
