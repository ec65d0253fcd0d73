package store

import (
	"context"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// answerTimeout is how long the server may keep us waiting for the next word of an
// answer. It ends each statement by itself before that (sessionLimits), so that
// whoever is silent for longer is gone: a host that vanished sends no end of the
// connection, and the kernel waits for some 15 minutes (tcp(7), tcp_retries2).
const answerTimeout = 75 * time.Second

// boundConn is a connection on which everything that was asked is answered in time, or it ends.
type boundConn struct {
	net.Conn
}

// Write gives the request and its answer their time.
func (c boundConn) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// bound makes dial's connections bound.
func bound(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return boundConn{c}, nil
	}
}
