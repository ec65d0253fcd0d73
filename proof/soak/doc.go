// Package soak plays stories on the real programs over real TCP, kills, stops
// and cuts off their processes, and asks the simulated cloud's own log and the
// disk, not the bridge, what happened. It is tests alone and no part of any
// program; proof/sim does the same to the core in virtual time. Rule of
// thumb: whatever is killed, the story ends the same.
package soak
