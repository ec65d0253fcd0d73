//go:build deep && !race

package permits_test

const sampled = false
