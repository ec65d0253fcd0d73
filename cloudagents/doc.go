// Package cloudagents is the client of the Cloud Agents API, v1 and v0, as a
// bridge.Runtime. It is not a queue and it never repeats a request that has an
// effect: it sends once, says whether what came back is clear, and can look for
// what an unclear request left behind. Rule of thumb: build requests from fixed
// fields only, believe no answer before it is checked, and when in doubt say
// Unclear and nothing else.
//
// What it relies on: a v1 launch carries an id derived from the operation, so
// that a repetition meets 409 and adopts its earlier self; a v0 launch is found
// again by its branch, a v0 follow-up by its marker line, a v1 follow-up by
// being the only new run or by the marker in its stream.
//
// No request goes through a proxy of the environment unless Options.Proxy says
// so, no redirect is followed (the key would travel with it), and no
// Idempotency-Key header is sent: its meaning at the server is not known, and
// net/http takes it as leave to repeat a POST by itself.
package cloudagents
