// Package measure plays a whole bridge in one process, engine and store real and
// the agents a stand-in, and measures what it takes: turns a second, statements
// and round trips a step, bytes a turn. It holds tests and benchmarks alone and
// knows no row of the store, so that its figures compare one design with the
// next. Rule of thumb: trust the ratios of one run more than its figures.
package measure
