// Package guards keeps the rules of this repository as tests: which package
// may import which, that every package says what it is, and how large things
// may get. It has no code of its own. Rule of thumb: a rule that nothing
// checks is a wish.
package guards
