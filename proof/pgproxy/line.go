package pgproxy

import (
	"io"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// line carries the bytes of one direction. Reading never waits for the delay, so
// that bytes are late by the delay once, however many messages they are.
type line struct {
	// delay is in nanoseconds and may change at any time.
	delay *atomic.Int64
	// wait returns at a time.
	wait func(time.Time)
	// sent sees the bytes when they leave their sender, arrived before they reach the receiver; either may be nil.
	sent, arrived func([]byte)
	// lost, asked after sent or arrived, says that the connection ends here, before these bytes; nil says no.
	lost func() bool
}

// chunk is what one read returned, and when it is due at the other side.
type chunk struct {
	due  time.Time
	data []byte
}

// mostChunks bounds what is on its way in one direction; then the sender waits, as at a full socket.
const mostChunks = 4096

// carry copies until src ends, then tells dst that nothing more comes.
func (l line) carry(dst io.WriteCloser, src io.ReadCloser) {
	way := make(chan chunk, mostChunks)
	go func() {
		defer close(way)
		l.read(way, src)
	}()
	broken := false
	for c := range way {
		l.wait(c.due)
		if l.arrived != nil {
			l.arrived(c.data)
		}
		if broken {
			continue
		}
		if l.arrived != nil && l.ends() {
			broken = true
			_ = src.Close()
			_ = dst.Close()
			continue
		}
		if _, err := dst.Write(c.data); err != nil {
			broken = true
			_ = src.Close()
		}
	}
	if half, ok := dst.(*net.TCPConn); ok {
		_ = half.CloseWrite()
		return
	}
	_ = dst.Close()
}

func (l line) ends() bool { return l.lost != nil && l.lost() }

func (l line) read(way chan<- chunk, src io.ReadCloser) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := src.Read(buffer)
		if n > 0 {
			c := chunk{due: time.Now().Add(time.Duration(l.delay.Load())), data: append([]byte(nil), buffer[:n]...)}
			if l.sent != nil {
				l.sent(c.data)
				if l.ends() {
					_ = src.Close()
					return
				}
			}
			way <- c
		}
		if err != nil {
			return
		}
	}
}

// coarse is what a Go timer may be late by: its poller counts in milliseconds.
const coarse = 2 * time.Millisecond

// waitUntil returns at a time, to some 0.1 ms. The end of the wait is a system
// call, because a Go timer for 0.5 ms fires after 1 ms in a process that is idle.
func waitUntil(t time.Time) {
	if d := time.Until(t); d > 2*coarse {
		<-time.After(d - coarse)
	}
	for {
		d := time.Until(t)
		if d <= 0 {
			return
		}
		v := unix.NsecToTimeval(int64(d) + int64(time.Microsecond) - 1)
		_, _ = unix.Select(0, nil, nil, nil, &v) // a signal only makes the loop go round
	}
}
