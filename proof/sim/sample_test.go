//go:build !deep || race

package sim_test

// The fast tier plays a sample of the seeds. `make deep-proofs` plays ten thousand.
const defaultSeeds = 500
