//go:build !race

package turns_test

const raced = false
