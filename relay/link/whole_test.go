//go:build deep && !race

package link_test

const hostileRequests = 100_000
