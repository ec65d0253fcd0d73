package cloudagents_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"drawbridge/bridge"
	"drawbridge/cloudagents"

	"github.com/google/go-cmp/cmp"
)

var run1 = bridge.RunRef{API: bridge.APIv1, Agent: agentID, Run: "run-1"}

const streamRoute = "GET /v1/agents/" + agentID + "/runs/run-1/stream"

func TestReadEvents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   string
		want []cloudagents.Event
	}{
		"as the API writes it": {"event: status\ndata: {\"runId\":\"r\"}\n\nid: 1-0\nevent: assistant\ndata: {\"text\":\"a\"}\n\n",
			[]cloudagents.Event{{Name: "status", Data: []byte(`{"runId":"r"}`)}, {ID: "1-0", Name: "assistant", Data: []byte(`{"text":"a"}`)}}},
		"CRLF":                     {"id: 1\r\nevent: a\r\ndata: x\r\n\r\n", []cloudagents.Event{{ID: "1", Name: "a", Data: []byte("x")}}},
		"no blank":                 {"id:1\nevent:a\ndata:x\n\n", []cloudagents.Event{{ID: "1", Name: "a", Data: []byte("x")}}},
		"one blank only":           {"data:  x \n\n", []cloudagents.Event{{Data: []byte(" x ")}}},
		"data in lines":            {"data: a\ndata\ndata: b\n\n", []cloudagents.Event{{Data: []byte("a\n\nb")}}},
		"empty data":               {"event: a\ndata:\n\n", []cloudagents.Event{{Name: "a", Data: nil}}},
		"no data is no event":      {"event: a\nid: 1\n\nevent: b\ndata: x\n\n", []cloudagents.Event{{Name: "b", Data: []byte("x")}}},
		"comments and retry":       {": hello\nretry: 5\nfoo: bar\ndata: x\n\n: bye\n\n", []cloudagents.Event{{Data: []byte("x")}}},
		"cut off at the end":       {"data: x\n\ndata: half\n", []cloudagents.Event{{Data: []byte("x")}}},
		"many blank lines":         {"\n\n\ndata: x\n\n\n", []cloudagents.Event{{Data: []byte("x")}}},
		"an id does not last":      {"id: 1\ndata: x\n\ndata: y\n\n", []cloudagents.Event{{ID: "1", Data: []byte("x")}, {Data: []byte("y")}}},
		"hostile ids":              {"id: a\x00b\ndata: x\n\nid: " + strings.Repeat("i", 300) + "\ndata: y\n\n", []cloudagents.Event{{Data: []byte("x")}, {Data: []byte("y")}}},
		"oversize, then one event": {"id: 7\nevent: tool_call\ndata: " + strings.Repeat("x", 3<<20) + "\n\ndata: y\n\n", []cloudagents.Event{{ID: "7", Name: "tool_call", Oversize: true}, {Data: []byte("y")}}},
		"oversize by many lines":   {strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n", 1100) + "event: a\n\ndata: y\n\n", []cloudagents.Event{{Name: "a", Oversize: true}, {Data: []byte("y")}}},
		"oversize comment":         {": " + strings.Repeat("x", 2<<20) + "\n\ndata: y\n\n", []cloudagents.Event{{Data: []byte("y")}}},
	} {
		for reader, wrap := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "in bits": iotest.HalfReader} {
			t.Run(name+" "+reader, func(t *testing.T) {
				t.Parallel()
				var got []cloudagents.Event
				err := cloudagents.ReadEvents(wrap(strings.NewReader(c.in)), 16<<20, func(e cloudagents.Event) error {
					if len(e.Data) == 0 {
						e.Data = nil
					}
					got = append(got, e)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func TestReadEventsStops(t *testing.T) {
	t.Parallel()
	endless := io.MultiReader(strings.NewReader("data: x\n\n"), zeros{})
	n := 0
	err := cloudagents.ReadEvents(endless, 1<<20, func(cloudagents.Event) error { n++; return nil })
	if err == nil || n != 1 {
		t.Errorf("err %v after %d events", err, n)
	}
	if err = cloudagents.ReadEvents(iotest.ErrReader(io.ErrClosedPipe), 1<<20, nil); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestStreamPassesEventsOn(t *testing.T) {
	t.Parallel()
	f := newFake(t, map[string][]reply{streamRoute: {sseReply("thinking {}", `assistant {"text":"a"}`, "done {}", "assistant {}")}})
	var names []string
	err := newClient(t, f.URL).Stream(t.Context(), run1, "17-0", func(e cloudagents.Event) error {
		names = append(names, e.ID+" "+e.Name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1-0 thinking", "2-0 assistant", "3-0 done"}, names); diff != "" {
		t.Error(diff)
	}
	h := f.requests()[0].Header
	if h.Get("Last-Event-Id") != "17-0" || h.Get("Accept") != "text/event-stream" || h.Get("Authorization") != "Bearer "+testKey {
		t.Errorf("headers: %v", h)
	}
}

func TestStreamErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer reply
		kind   bridge.ErrorKind
		text   string
	}{
		"expired":          {reply{status: 410, body: `{"error":{"code":"stream_expired","message":"Stream has expired"}}`}, bridge.NotFound, `"Stream has expired" (stream_expired); the API no longer keeps it`},
		"bad last id":      {reply{status: 400, body: `{"error":{"code":"invalid_last_event_id","message":"m"}}`}, bridge.Invalid, "invalid_last_event_id"},
		"rate limited":     {reply{status: 429, header: map[string]string{"Retry-After": "7"}}, bridge.RateLimited, ""},
		"5xx":              {reply{status: 502, body: "<html>"}, bridge.Unavailable, "502"},
		"redirect":         {reply{status: 307, header: map[string]string{"Location": "http://127.0.0.1:1/"}}, bridge.Unavailable, "does not follow redirects"},
		"not a stream":     {reply{body: "{}"}, bridge.Unavailable, "does not understand"},
		"no end":           {sseReply("assistant {}"), bridge.Unavailable, "broke off"},
		"unavailable":      {sseReply(`error {"code":"stream_unavailable","message":"m"}`, "done {}"), bridge.Unavailable, "stream_unavailable"},
		"unauthorized":     {sseReply(`error {"code":"unauthorized","message":"m"}`), bridge.Unauthenticated, ""},
		"forbidden":        {sseReply(`error {"code":"forbidden","message":"m"}`), bridge.Denied, ""},
		"not found":        {sseReply(`error {"code":"not_found","message":"m"}`), bridge.NotFound, ""},
		"error of no form": {sseReply(`error [`), bridge.Unavailable, ""},
		"cut":              {reply{do: cut}, bridge.Unavailable, ""},
		"endless":          {reply{do: floodStream}, bridge.TooLarge, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, map[string][]reply{streamRoute: {c.answer}})
			client := newClient(t, f.URL, func(o *cloudagents.Options) { o.MaxReply = 64 << 10 })
			err := client.Stream(t.Context(), run1, "", func(cloudagents.Event) error { return nil })
			check(t, err, c.kind, false)
			if !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %q", err)
			}
		})
	}
}

func floodStream(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for block := []byte("data: " + strings.Repeat("x", 1<<16) + "\n"); ; {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

func TestStreamRefusesWhatItCannotAsk(t *testing.T) {
	t.Parallel()
	c := newClient(t, "http://127.0.0.1:1")
	for _, id := range []string{"a\r\nX-Evil: 1", "a b", strings.Repeat("x", 257), "ü"} {
		check(t, c.Stream(t.Context(), run1, id, nil), bridge.Invalid, false)
	}
	check(t, c.Stream(t.Context(), bridge.RunRef{API: bridge.APIv0, Agent: "bc_1"}, "", nil), bridge.Invalid, false)
}

func TestStreamEndsWithTheReceiver(t *testing.T) {
	t.Parallel()
	f := newFake(t, map[string][]reply{streamRoute: {sseReply("assistant {}", "done {}")}})
	mine := errors.New("enough")
	if err := newClient(t, f.URL).Stream(t.Context(), run1, "", func(cloudagents.Event) error { return mine }); err != mine {
		t.Errorf("got %v", err)
	}
}

func TestStreamEndsWithItsContext(t *testing.T) {
	t.Parallel()
	f := newFake(t, map[string][]reply{streamRoute: {{do: hang}}})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := newClient(t, f.URL).Stream(ctx, run1, "", func(cloudagents.Event) error { return nil })
	check(t, err, bridge.Unavailable, false)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// over sends requests over no network: it answers by a function.
type over func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (o over) RoundTrip(r *http.Request) (*http.Response, error) { return o(r) }

// A silent connection is given up; one that talks is not, however long it takes.
func TestStreamSilence(t *testing.T) {
	t.Parallel()
	never := func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	// talks is an answer that says so many heartbeats, one within each bound of silence, and then done or nothing more.
	talks := func(beats int, done bool) over {
		return func(r *http.Request) (*http.Response, error) {
			body, out := io.Pipe()
			go func() {
				for range beats {
					_, _ = io.WriteString(out, "event: heartbeat\ndata: {}\n\n")
					time.Sleep(119 * time.Second)
				}
				if done {
					_, _ = io.WriteString(out, "event: done\ndata: {}\n\n")
				}
				<-r.Context().Done()
				_ = out.CloseWithError(r.Context().Err())
			}()
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body, Request: r}, nil
		}
	}
	for name, c := range map[string]struct {
		answer over
		kind   bridge.ErrorKind
		took   time.Duration
	}{
		"never answers": {never, bridge.Unavailable, 2 * time.Minute},
		"silent":        {talks(1, false), bridge.Unavailable, 2 * time.Minute},
		"chatty":        {talks(100, true), "", 100 * 119 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := newClient(t, "http://127.0.0.1:1", func(o *cloudagents.Options) {
					o.Around = func(http.RoundTripper) http.RoundTripper { return c.answer }
				})
				began := time.Now()
				err := client.Stream(t.Context(), run1, "", func(cloudagents.Event) error { return nil })
				check(t, err, c.kind, false)
				if err != nil && !strings.Contains(err.Error(), "silent") || time.Since(began) != c.took {
					t.Errorf("after %s: %v", time.Since(began), err)
				}
			})
		})
	}
}
