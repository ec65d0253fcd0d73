// Package chatmodel is a bridge.Runtime whose agents are chat models behind an OpenAI-compatible endpoint. It runs no program:
// a turn is a loop in this process that asks the model, runs the tools that the model calls, and asks again. It is not a gate
// and has no tools of its own: every call goes through the MCP door as the agent.
//
// The record of the turn is the loop's only state. Each call of the model and of a tool is recorded before it is made and its
// answer behind it, so that after a crash this process or another replica goes on where the record ends. The model may be asked
// again; a tool runs once.
//
// Rule of thumb: what the loop knows stands in the record, and what the model says reaches nobody but through a tool.
package chatmodel
