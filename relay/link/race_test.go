//go:build race

package link_test

// The race detector makes a signature twenty times slower, and finds in the first thousand what it will ever find.
const hostileRequests = 2_000
