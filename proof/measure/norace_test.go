//go:build !race

package measure_test

const raced = false
