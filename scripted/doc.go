// Package scripted is a bridge.Runtime whose agents are no agents but follow a
// script: a stand-in for tests and demonstrations, in this process, of what runs
// agents on this machine. With each turn an agent connects to the MCP door with
// the token that it was given, calls tools, and ends its turn with a reply. It is
// not for work: nothing of what its agents say was thought.
//
// Its journal is the agents' own memory of what they did, as the transcript of a
// real one is. When the process dies its agents die with it, and at the next
// start each goes on behind the last call whose return it saw. The call that was
// cut off is made once more, because an agent cannot know whether it happened.
//
// Rule of thumb: an agent knows what its journal says and nothing that the
// bridge keeps, so that the two can be compared.
package scripted
