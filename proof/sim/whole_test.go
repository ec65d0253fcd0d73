//go:build deep && !race

package sim_test

const defaultSeeds = 10_000
