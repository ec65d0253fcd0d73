// Package agents puts agents of Drawbridge and launches on allowed repositories behind the OpenAI-compatible door: the newest words of a
// caller become a turn, and the end of the turn becomes the answer. It decides nothing that the engine decides. Rule of thumb: what a caller wrote
// stands behind a bar, and who leaves stops his waiting and never the agent.
package agents
