// Package cloudsim is a local stand-in for the Cloud Agents API, v0 and v1: the same paths, bodies, error codes, event stream
// and webhooks, answered from a script instead of by a model.
//
// It is not a client, it runs no model and touches no repository, and it keeps nothing on disk. It listens on loopback only and
// sends webhooks to loopback only.
//
// Rule of thumb: what the vendor documents is the default; what the vendor leaves open is a field of script.Settings; what the
// vendor does wrong is a [Fault]. Every effect that really happened is in [Sim.Log], so that a test asks the simulator what
// was done, never the program that is being tested.
package cloudsim
