//go:build !race

package sim_test

const defaultSeeds = 10_000
