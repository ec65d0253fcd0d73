// Package measure plays a whole bridge in one process, engine and store real and
// the agents a stand-in. Its benchmarks measure turns a second and bytes a turn, and
// its test loses the commits of each kind of step. It knows no row of the store, so
// that its figures compare one design with the next. Rule of thumb: trust the
// ratios of one run more than its figures.
package measure
