//go:build race

package sim_test

// Under the race detector a play takes ten times as long, and its one goroutine
// at a time has little to race; make test plays all seeds without it.
const defaultSeeds = 1_000
