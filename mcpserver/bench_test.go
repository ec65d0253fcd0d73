package mcpserver_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"drawbridge/mcpserver"
	"drawbridge/store"
)

// BenchmarkCalls compares do_nothing at the whole door (token of the store, record of
// the run, checks) with a no-op on a bare server of the same SDK, over 16 connections
// each, in one run. Its figures are calls a second and the ratio of the two.
func BenchmarkCalls(b *testing.B) {
	for _, era := range []string{newEra, oldEra} {
		b.Run(era, func(b *testing.B) {
			db, err := store.Open(b.Context(), b.TempDir()+"/bridge.db")
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = db.Close() })
			w := newWorldOn(b, db)
			w.sets = []string{mcpserver.SetChannels}
			w.launch("main")
			door := measure(b, func() *mcp.ClientSession { return w.connect("main", era, "") })
			bare := bareServer(b, era)
			plain := measure(b, func() *mcp.ClientSession {
				client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
				s, err := client.Connect(b.Context(), &mcp.StreamableClientTransport{Endpoint: bare, MaxRetries: -1}, &mcp.ClientSessionOptions{ProtocolVersion: era})
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { s.Close() })
				return s
			})
			b.ReportMetric(door, "door-calls/s")
			b.ReportMetric(plain, "bare-calls/s")
			b.ReportMetric(door/plain, "door/bare")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func bareServer(b *testing.B, era string) string {
	server := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "do_nothing"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, map[string]string, error) {
		return nil, map[string]string{"action": "none"}, nil
	})
	h := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: era == newEra}))
	b.Cleanup(h.Close)
	return h.URL
}

// measure makes b.N calls over 16 connections and returns how many there were a second.
func measure(b *testing.B, connect func() *mcp.ClientSession) float64 {
	const connections = 16
	sessions := make([]*mcp.ClientSession, connections)
	for i := range sessions {
		sessions[i] = connect()
	}
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 4 * connections
	var left atomic.Int64
	left.Store(int64(b.N))
	ended := make(chan error, connections)
	begun := time.Now()
	for _, s := range sessions {
		go func() {
			for left.Add(-1) >= 0 {
				if r, err := s.CallTool(b.Context(), &mcp.CallToolParams{Name: "do_nothing"}); err != nil || r.IsError {
					ended <- err
					return
				}
			}
			ended <- nil
		}()
	}
	for range sessions {
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
	}
	return float64(b.N) / time.Since(begun).Seconds()
}
