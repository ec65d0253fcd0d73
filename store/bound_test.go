package store_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"drawbridge/store"
)

// TestSilentServer: a server that vanished without a word is waited for longer than its own limits allow, and not without end.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		c, err := store.Bound(func(context.Context, string, string) (net.Conn, error) { return near, nil })(t.Context(), "tcp", "db:5432")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		buf := make([]byte, 1)
		ask := func() error {
			if _, err := c.Write([]byte("?")); err != nil {
				return err
			}
			_, err := io.ReadFull(c, buf)
			return err
		}
		go func() {
			for range 2 {
				_, _ = far.Read(make([]byte, 1))
				time.Sleep(time.Minute) // as long as a statement may take
				_, _ = far.Write([]byte("!"))
				time.Sleep(time.Hour) // nobody asks
			}
			_, _ = far.Read(make([]byte, 1))
		}()
		for range 2 {
			if err := ask(); err != nil {
				t.Fatalf("an answer after a minute: %v", err)
			}
			time.Sleep(2 * time.Hour)
		}
		start := time.Now()
		if err := ask(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) > 2*time.Minute {
			t.Errorf("no answer: %v after %s", err, time.Since(start))
		}
	})
}
