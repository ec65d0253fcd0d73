//go:build !deep || race

package link_test

// The fast tier sends a sample of the hostile requests. `make deep-kills` sends all of them.
const hostileRequests = 2_000
