package mcpserver_test

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"drawbridge/mcpserver"
	"drawbridge/store"
)

// BenchmarkCalls compares do_nothing at the whole door (token of the store, record of
// the run, checks) with a no-op on a bare server of the same SDK, over 16 connections
// each, by turns in one run, so that other work on the machine slows both. Its
// figures are calls a second, processor time for a call (client and server), and the
// ratios of the two.
func BenchmarkCalls(b *testing.B) {
	for _, era := range []string{newEra, oldEra} {
		b.Run(era, func(b *testing.B) {
			db, err := store.Open(b.Context(), b.TempDir()+"/bridge.db")
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = db.Close() })
			w := newWorldOn(b, db)
			w.serve(func(o *mcpserver.Options) { o.PerMinute = 1_000_000 })
			w.sets = []string{mcpserver.SetChannels}
			w.launch("main")
			url := bareServer(b, era)
			door, bare := &side{connect: func() *mcp.ClientSession { return w.connect("main", era, "") }}, &side{connect: func() *mcp.ClientSession {
				client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
				s, err := client.Connect(b.Context(), &mcp.StreamableClientTransport{Endpoint: url, MaxRetries: -1}, &mcp.ClientSessionOptions{ProtocolVersion: era})
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { s.Close() })
				return s
			}}
			http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 64
			const slice = 500
			for left := b.N; left > 0; left -= slice {
				door.call(b, min(left, slice))
				bare.call(b, min(left, slice))
			}
			calls := float64(b.N)
			b.ReportMetric(calls/door.took.Seconds(), "door-calls/s")
			b.ReportMetric(calls/bare.took.Seconds(), "bare-calls/s")
			b.ReportMetric(bare.took.Seconds()/door.took.Seconds(), "door/bare")
			b.ReportMetric(float64(door.used.Microseconds())/calls, "door-cpu-µs")
			b.ReportMetric(float64(bare.used.Microseconds())/calls, "bare-cpu-µs")
			b.ReportMetric(bare.used.Seconds()/door.used.Seconds(), "door/bare-by-cpu")
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

// side is one of the two servers, with what calls to it have taken so far.
type side struct {
	connect    func() *mcp.ClientSession
	sessions   []*mcp.ClientSession
	took, used time.Duration
}

// call makes n calls over 16 connections.
func (d *side) call(b *testing.B, n int) {
	const connections = 16
	for len(d.sessions) < connections {
		d.sessions = append(d.sessions, d.connect())
	}
	var left atomic.Int64
	left.Store(int64(n))
	ended := make(chan error, connections)
	begun, used := time.Now(), processorTime(b)
	for _, s := range d.sessions {
		go func() {
			for left.Add(-1) >= 0 {
				if r, err := s.CallTool(b.Context(), &mcp.CallToolParams{Name: "do_nothing"}); err != nil || r.IsError {
					ended <- cmp.Or(err, errors.New("the call failed"))
					return
				}
			}
			ended <- nil
		}()
	}
	for range d.sessions {
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
	}
	d.took += time.Since(begun)
	d.used += processorTime(b) - used
}

// processorTime is what this process has used of the processors, whatever else
// runs on the machine.
func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
