package feed_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/cloudagents/cloudsim/internal/feed"
	"drawbridge/cloudagents/cloudsim/script"
)

func TestIDsIncreaseWhateverTheClockDoes(t *testing.T) {
	t.Parallel()
	var l feed.Log
	for _, ms := range []int64{1000, 1000, 999, 1001, 5, 1002} {
		l.Add(time.UnixMilli(ms), feed.Heartbeat())
	}
	var got []string
	for _, e := range l.From(0) {
		got = append(got, e.ID)
	}
	if diff := cmp.Diff([]string{"1000-0", "1000-1", "1000-2", "1001-0", "1001-1", "1002-0"}, got); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
}

func TestFrame(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		step feed.Step
		want string
	}{
		{"status", feed.Status("run-1", "RUNNING"), "event: status\ndata: {\"runId\":\"run-1\",\"status\":\"RUNNING\"}\n\n"},
		{"heartbeat", feed.Heartbeat(), "id: 7-0\nevent: heartbeat\ndata: {}\n\n"},
		{"failure", feed.Failure("stream_unavailable", "a\r\nb"), "id: 7-0\nevent: error\ndata: {\"code\":\"stream_unavailable\",\"message\":\"a\\r\\nb\"}\n\n"},
		{"pair", feed.Step{Event: "assistant", Data: 1, Update: 2}, "id: 7-0\nevent: assistant\ndata: 1\n\nid: 7-0\nevent: interaction_update\ndata: 2\n\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := ""
			for _, e := range feed.Once(time.UnixMilli(7), tc.step) {
				got += e.Frame()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("frames (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChangedIsClosedAtTheNextAddition(t *testing.T) {
	t.Parallel()
	var l feed.Log
	changed := l.Changed()
	if changed != l.Changed() {
		t.Error("every waiter must share one channel")
	}
	l.Add(time.UnixMilli(1), feed.Heartbeat())
	select {
	case <-changed:
	default:
		t.Error("not closed")
	}
}

func TestPiecesMakeUpTheReply(t *testing.T) {
	t.Parallel()
	for _, reply := range []string{"", "x", strings.Repeat("é𝔘\n", 7), strings.Repeat("long ", 100_000)} {
		got, n := "", 0
		for _, st := range feed.Turn(script.Turn{}, reply) {
			for _, e := range feed.Once(time.UnixMilli(1), feed.Step{Event: st.Event, Data: st.Data}) {
				got, n = got+e.Data, n+1
			}
		}
		got = strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(got, `{"text":"`, ""), `"}`, ""), `\n`, "\n")
		if got != reply || n > 64 {
			t.Errorf("%d pieces, %d bytes of %d", n, len(got), len(reply))
		}
	}
}
