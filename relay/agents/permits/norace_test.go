//go:build !race

package permits_test

const raced = false
