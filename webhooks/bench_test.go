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
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/proof/pg"
	"drawbridge/store"
	"drawbridge/webhooks"
)

// BenchmarkIntake measures durable intake: verify, record, acknowledge, over
// real connections on loopback, client and server on the same processors. Every
// delivery is a new one. The file database commits with synchronous=FULL. Beside
// it runs the same without the record (read, verify, acknowledge): "durable/bare"
// is how much of that rate is left. The cases below postgres record in PostgreSQL.
func BenchmarkIntake(b *testing.B) {
	for _, connections := range []int{1, 16, 64} {
		name := fmt.Sprintf("connections=%d", connections)
		b.Run(name, func(b *testing.B) { intake(b, b.TempDir()+"/bench.db", connections) })
		b.Run("postgres/"+name, func(b *testing.B) { intake(b, pg.Database(b), connections) })
	}
}

func TestMain(m *testing.M) { os.Exit(pg.Main(m)) }

const benchAgents = 1000

func intake(b *testing.B, database string, connections int) {
	ctx := context.Background()
	s, err := store.Open(ctx, database)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	err = s.Update(ctx, func(tx *bridge.Scene) error {
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
	b.ResetTimer()
	durable := load(b, connections, receiver.Handler(), keys.Current)
	b.StopTimer()
	bare := load(b, connections, verifyOnly(keys.Current), keys.Current)
	b.ReportMetric(durable.rate, "deliveries/s")
	b.ReportMetric(bare.rate, "bare/s")
	b.ReportMetric(durable.rate/bare.rate, "durable/bare")
	b.ReportMetric(durable.p50, "p50-ms")
	b.ReportMetric(durable.p99, "p99-ms")
}

// verifyOnly acknowledges what is signed and records nothing.
func verifyOnly(key bridge.Key) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil || r.Header.Get("X-Webhook-Signature") != signature(body, key, path.Base(r.URL.Path)) {
			http.Error(w, "no", http.StatusUnauthorized)
		}
	})
}

func signature(body []byte, key bridge.Key, op string) string {
	mac := hmac.New(sha256.New, []byte(key.WebhookSecret(bridge.AgentID(op))))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// pace is a rate in deliveries a second and latencies in milliseconds.
type pace struct{ rate, p50, p99 float64 }

// load sends b.N deliveries over so many connections to a server of its own.
func load(b *testing.B, connections int, h http.Handler, key bridge.Key) pace {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	took := make([][]time.Duration, connections)
	var senders sync.WaitGroup
	start := time.Now()
	for c := range connections {
		senders.Go(func() {
			for {
				n := next.Add(1)
				if n > int64(b.N) {
					return
				}
				begin := time.Now()
				if err := deliver(client, "http://"+l.Addr().String(), key, n); err != nil {
					b.Error(err)
					return
				}
				took[c] = append(took[c], time.Since(begin))
			}
		})
	}
	senders.Wait()
	all := time.Since(start)
	sorted := slices.Sorted(slices.Values(slices.Concat(took...)))
	if len(sorted) == 0 {
		b.Fatal("nothing was delivered")
	}
	ms := func(i int) float64 { return float64(sorted[i].Microseconds()) / 1000 }
	return pace{float64(len(sorted)) / all.Seconds(), ms(len(sorted) / 2), ms(len(sorted) * 99 / 100)}
}

func deliver(client *http.Client, base string, key bridge.Key, n int64) error {
	op := fmt.Sprintf("agt_%04d", n%benchAgents)
	body := []byte(fmt.Sprintf(`{"event":"statusChange","timestamp":"2026-11-21T10:00:00.%09dZ","id":"bc-%04d","status":"FINISHED","source":{"repository":"https://github.com/me/my-app"},"target":{"url":"https://cursor.com/agents?id=x"},"summary":"done"}`, n, n%benchAgents))
	req, err := http.NewRequest(http.MethodPost, base+"/hooks/cursor/"+key.ID+"/"+op, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-Webhook-Signature", signature(body, key, op))
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
