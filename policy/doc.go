// Package policy decides what a command may do: it turns (agent, Command) into
// a Grant, or into a refusal that says what would have been allowed. It is pure:
// it reads no clock, no file and no network, keeps nothing between two calls,
// and carries nothing out. Rule of thumb: compare canonical bytes with map
// equality, and when in doubt refuse; whatever is not listed is refused.
package policy
