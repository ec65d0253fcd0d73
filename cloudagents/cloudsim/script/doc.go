// Package script reads what a simulated agent answers and how the simulated service misbehaves, and answers questions about it.
//
// It is not the simulator: it holds no agents, and only [Book] changes after it was made.
//
// Rule of thumb: a script that loads without an error cannot fail later.
package script
