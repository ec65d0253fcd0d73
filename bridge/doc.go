// Package bridge is the core: the nouns, their state machines, the ports and
// the engine that takes a turn's output through the gate to recorded work and
// brings what came of it back as the agent's next turn. It is not an adapter:
// it knows no database, no HTTP and no vendor. Rule of thumb: whatever must
// not be lost or done twice is decided here, inside one store transaction.
package bridge
