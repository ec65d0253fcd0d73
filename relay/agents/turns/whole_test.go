//go:build deep && !race

package turns_test

const sampled = false
