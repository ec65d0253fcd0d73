package webhooks_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/store"
	"drawbridge/webhooks"
)

// BenchmarkIntake measures durable intake: verify, record, acknowledge, over
// real connections on loopback, client and server on the same processors. Every
// delivery is a new one. The file database commits with synchronous=FULL.
func BenchmarkIntake(b *testing.B) {
	for _, connections := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("connections=%d", connections), func(b *testing.B) { intake(b, connections) })
	}
}

const benchAgents = 1000

func intake(b *testing.B, connections int) {
	ctx := context.Background()
	s, err := store.Open(ctx, b.TempDir()+"/bench.db")
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	err = s.Update(ctx, func(tx bridge.Tx) error {
		for i := range benchAgents {
			id := bridge.AgentID(fmt.Sprintf("agt_%04d", i))
			if err := tx.InsertAgent(bridge.Agent{ID: id, Name: string(id), Root: id, External: fmt.Sprintf("bc-%04d", i), State: bridge.AgentBusy}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	keys := bridge.Keys{Current: bridge.Key{ID: "k1", Secret: []byte(strings.Repeat("k", 32))}}
	recorder, err := engine.NewRecorder(engine.Options{Store: s, Keys: keys, Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	receiver, err := webhooks.New(webhooks.Options{Bridge: recorder, Keys: keys, Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: receiver.Handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	load(b, connections, "http://"+l.Addr().String(), keys.Current)
}

// load sends b.N deliveries over so many connections and reports the rate and the latencies.
func load(b *testing.B, connections int, base string, key bridge.Key) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	took := make([][]time.Duration, connections)
	var senders sync.WaitGroup
	b.ResetTimer()
	start := time.Now()
	for c := range connections {
		senders.Go(func() {
			for {
				n := next.Add(1)
				if n > int64(b.N) {
					return
				}
				begin := time.Now()
				if err := deliver(client, base, key, n); err != nil {
					b.Error(err)
					return
				}
				took[c] = append(took[c], time.Since(begin))
			}
		})
	}
	senders.Wait()
	all := time.Since(start)
	b.StopTimer()
	sorted := slices.Sorted(slices.Values(slices.Concat(took...)))
	b.ReportMetric(float64(len(sorted))/all.Seconds(), "deliveries/s")
	b.ReportMetric(float64(sorted[len(sorted)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(sorted[len(sorted)*99/100].Microseconds())/1000, "p99-ms")
}

func deliver(client *http.Client, base string, key bridge.Key, n int64) error {
	op := fmt.Sprintf("agt_%04d", n%benchAgents)
	body := []byte(fmt.Sprintf(`{"event":"statusChange","timestamp":"2026-11-21T10:00:00.%09dZ","id":"bc-%04d","status":"FINISHED","source":{"repository":"https://github.com/me/my-app"},"target":{"url":"https://cursor.com/agents?id=x"},"summary":"done"}`, n, n%benchAgents))
	mac := hmac.New(sha256.New, []byte(key.WebhookSecret(bridge.AgentID(op))))
	mac.Write(body)
	req, err := http.NewRequest(http.MethodPost, base+"/hooks/cursor/"+key.ID+"/"+op, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-Webhook-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body) // or the connection is not used again
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("delivery %d: HTTP %d", n, resp.StatusCode)
	}
	return nil
}
