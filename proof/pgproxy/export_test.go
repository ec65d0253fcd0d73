package pgproxy

import (
	"io"
	"sync/atomic"
	"time"
)

// Carry is one direction of a proxy with the clock of the caller.
func Carry(dst io.WriteCloser, src io.ReadCloser, delay time.Duration) {
	var d atomic.Int64
	d.Store(int64(delay))
	line{delay: &d, wait: func(t time.Time) { <-time.After(time.Until(t)) }}.carry(dst, src)
}
