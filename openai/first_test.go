package openai_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	wait "drawbridge/internal/pause"
	"drawbridge/openai"
	"drawbridge/openai/passthrough"
	"drawbridge/store"
	"drawbridge/store/callers"
)

// BenchmarkFirstToken measures what the door adds to the first token of a chat endpoint that begins at once and writes for a while, in pairs: each
// stream asks the endpoint itself, and then through the door.
func BenchmarkFirstToken(b *testing.B) {
	for _, streams := range []int{1, 64} {
		b.Run(fmt.Sprint(streams, " streams"), func(b *testing.B) { benchFirst(b, streams) })
	}
}

func benchFirst(b *testing.B, streams int) {
	writes := 10 * time.Duration(streams) * time.Millisecond // so that the requests of many streams lie apart
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"}}]}\n\n")
		_ = http.NewResponseController(w).Flush()
		if streams > 1 && wait.For(r.Context(), writes) != nil {
			return
		}
		fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	defer endpoint.Close()
	s, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "drawbridge.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	p, err := passthrough.New(passthrough.Options{Name: "p", URL: endpoint.URL + "/v1", Models: map[string]passthrough.Model{"m": {}}})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	records := callers.New(s)
	door, err := openai.New(openai.Options{Records: records, Backends: []openai.Backend{{Name: "p", Upstream: p, Stateless: true}}, Alone: true})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- door.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}()
	front := httptest.NewServer(door.Handler())
	defer front.Close()
	token, _, err := openai.Keyring{Records: records}.Mint(b.Context(), openai.Token{Name: "all", Models: []string{"*"}})
	if err != nil {
		b.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * streams}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	direct, through := []time.Duration{}, []time.Duration{}
	var all sync.WaitGroup
	each := (b.N + streams - 1) / streams
	b.ResetTimer()
	for i := range streams {
		all.Go(func() {
			if streams > 1 && wait.For(b.Context(), 2*writes*time.Duration(i)/time.Duration(streams)) != nil {
				return
			}
			for n := range each {
				body := fmt.Sprintf(`{"model":"m","stream":true,"messages":[{"role":"user","content":"Question %d of %d"}]}`, n, i)
				one, err := firstToken(b.Context(), client, endpoint.URL+"/v1/chat/completions", token, body)
				two, err2 := firstToken(b.Context(), client, front.URL+"/v1/chat/completions", token, body)
				if err != nil || err2 != nil {
					b.Error(err, err2)
					return
				}
				mu.Lock()
				direct, through = append(direct, one), append(through, two)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	b.StopTimer()
	slices.Sort(direct)
	slices.Sort(through)
	at := func(list []time.Duration, q float64) float64 {
		return float64(list[int(q*float64(len(list)-1))]) / float64(time.Millisecond)
	}
	b.ReportMetric(at(direct, 0.5), "endpoint-p50-ms")
	b.ReportMetric(at(through, 0.5)-at(direct, 0.5), "adds-p50-ms")
	b.ReportMetric(at(through, 0.99)-at(direct, 0.99), "adds-p99-ms")
}

// firstToken is the time from a request to the first text of its answer, which is then read to its end.
func firstToken(ctx context.Context, c *http.Client, url, token, body string) (took time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	began := time.Now()
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if took == 0 && bytes.Contains(lines.Bytes(), []byte("Hello")) {
			took = time.Since(began)
		}
	}
	if took == 0 {
		return 0, fmt.Errorf("%s has no text", resp.Status)
	}
	return took, lines.Err()
}
