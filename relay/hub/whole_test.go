//go:build deep && !race

package hub_test

const sampled = false
