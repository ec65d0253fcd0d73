//go:build deep && !race

package acp_test

const sampled = false
