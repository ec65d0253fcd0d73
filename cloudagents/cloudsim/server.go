package cloudsim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"drawbridge/internal/httpx"
)

// Server puts a [Sim] on a loopback port. Start and Stop are each called once.
type Server struct {
	sim     *Sim
	addr    string
	http    *http.Server
	url     string
	serving sync.WaitGroup
}

// NewServer prepares to serve sim on addr, "127.0.0.1:0" for a free port. It opens nothing.
func NewServer(sim *Sim, addr string) *Server {
	return &Server{sim: sim, addr: addr, http: &http.Server{Handler: sim.Handler(), ReadHeaderTimeout: 10 * time.Second}}
}

// Start opens the port and serves in the background. A taken port, or an address that is not loopback, is an error here.
func (s *Server) Start() error {
	host, _, err := net.SplitHostPort(s.addr)
	if err != nil {
		return fmt.Errorf("listen on %q: %w", s.addr, err)
	}
	if !httpx.Loopback(host) {
		return fmt.Errorf("listen on %q: the simulator serves loopback only; use 127.0.0.1", s.addr)
	}
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		return httpx.ListenError(s.addr, "--listen", err)
	}
	s.url = "http://" + l.Addr().String()
	s.serving.Go(func() { _ = s.http.Serve(l) })
	return nil
}

// URL is the base URL without a trailing slash; empty before Start.
func (s *Server) URL() string { return s.url }

// Stop closes the Sim, which ends its streams, then waits for the other requests until ctx ends, then cuts them.
func (s *Server) Stop(ctx context.Context) error {
	s.sim.Close()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("stop the simulator: %w", err), s.http.Close())
	}
	s.serving.Wait()
	return err
}
