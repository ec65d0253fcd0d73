//go:build race

package cli_test

// raced: the race detector makes programs that write very much many times slower.
const raced = true
