//go:build !race

package cli_test

// raced: see race_test.go.
const raced = false
