//go:build !race

package simulation_test

const defaultSeeds = 10_000
