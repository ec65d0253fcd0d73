package watch_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"drawbridge/api"
	"drawbridge/cmd/drawbridge/internal/watch"
)

// A watcher begins at the end of the timeline. It finds the end of a long one, with gaps, by few questions, and asks for nothing but the newest then.
func TestStart(t *testing.T) {
	t.Parallel()
	for _, events := range [][]int64{nil, {1}, {1, 2, 3}, {7, 900, 901}, upTo(100_000)} {
		asked, last := 0, int64(-1)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			last, _ = strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
			list := api.EventList{Events: []api.Event{}}
			for _, seq := range events {
				if seq > last {
					list.Events = append(list.Events, api.Event{Seq: seq})
					break
				}
			}
			_ = json.NewEncoder(w).Encode(list)
		}))
		client, err := api.NewClient(api.ClientOptions{URL: server.URL, Token: "token"})
		if err != nil {
			t.Fatal(err)
		}
		if err := watch.New(watch.Options{Client: client}).Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := int64(0)
		if len(events) > 0 {
			want = events[len(events)-1]
		}
		if last != want || asked > 60 {
			t.Errorf("%d events: the last question was for those after %d, want %d; %d questions", len(events), last, want, asked)
		}
		client.Close()
		server.Close()
	}
}

func upTo(n int64) (all []int64) {
	for i := range n {
		all = append(all, i+1)
	}
	return all
}
