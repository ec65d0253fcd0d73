//go:build deep && !race

package workspace_test

const sampled = false
