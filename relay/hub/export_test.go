package hub

import "time"

// Patient gives strangers an hour for their handshake, for tests that count strangers on a busy machine. Call it before the first one.
func (h *Hub) Patient() { h.handshake = time.Hour }

// Looks counts the questions about turns to which no relay has answered.
func (h *Hub) Looks() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		c.mu.Lock()
		n += len(c.turnLooks)
		c.mu.Unlock()
	}
	return n
}
