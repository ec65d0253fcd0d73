//go:build deep && !race

package cli_test

const sampled = false
