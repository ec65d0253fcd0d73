package pgproxy

import (
	"net"
	"time"
)

// Between carries what two connections say to each other, with a delay in each direction and the clock of the caller.
func Between(client, server net.Conn, wait func(time.Time), toServer, toClient time.Duration) {
	p := &Proxy{open: map[net.Conn]bool{}, wait: wait}
	p.Delay(toServer, toClient)
	p.between(client, server)
}
