// Package bridge is the core's vocabulary: the nouns, their state machines, the
// errors that someone can act on, and the ports behind which databases, vendors
// and relays stand. It does nothing itself; package engine does. Rule of thumb:
// if two adapters have to agree on it, its word is here.
package bridge
