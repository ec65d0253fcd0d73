//go:build race

package measure_test

// raced: under the race detector tests take a sample of what costs most. `make tables` runs all of it without the detector.
const raced = true
