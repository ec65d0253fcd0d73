//go:build !deep || race

package permits_test

// sampled: the fast tier and the race detector take a sample of the costly rows. `make deep-kills` runs all of them.
const sampled = true
