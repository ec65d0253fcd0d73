// Package chatsim is a stand-in for an OpenAI-compatible chat completions endpoint. It is as strict as endpoints are that check
// what they get: roles, content, unique ids of tool calls, one answer for each of them in their order, schemas of tools. It is
// not a model: a script says what it answers, and the place in a turn is read off the request, so that it keeps nothing and a
// request that is made again gets the same answer. Rule of thumb: what it refuses, some real endpoint refuses.
package chatsim
