// Package echo finds commands that an agent repeats out of words that others wrote.
// Digest reduces a text to what may be repeated out of it; Match compares a command
// with digests, by what a reader takes both for and not by their spelling. It decides
// nothing and keeps nothing: the gate holds what matches. Rule of thumb: what a model
// is likely to clean up must not matter, and above a bound everything matches.
package echo
