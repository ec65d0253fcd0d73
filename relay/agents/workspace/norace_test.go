//go:build !race

package workspace_test

const raced = false
