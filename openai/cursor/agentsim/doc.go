// Package agentsim is a stand-in for Cursor's agent service: for tests and
// demonstrations of the backend "cursor", on this machine, without an account.
// It is no service: what its models say comes from a script.
//
// It is as strict as the real one is believed to be, and says more. It puts the
// client's messages in order by their numbers and drops a repeated one in
// silence. It waits for ever for a request that has no result of the right kind,
// or no close. It compares each blob and each state that comes back with what it
// handed out. What a client does wrong stands in the log, and with Strict it ends
// the run.
//
// The log has each message in both directions as hex and as JSON.
package agentsim
