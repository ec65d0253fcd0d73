// Package request reads the bodies of the Cloud Agents API and refuses them as the vendor does, field by field.
//
// It knows nothing of agents that exist: conflicts and states are the simulator's.
//
// Rule of thumb: a rule that can be checked with only the body, the script and the settings in hand is here.
package request
