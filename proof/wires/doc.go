// Package wires holds what real programs wrote on a wire, for tests that play it
// again with cuts, delays and noise.
//
// acp has the output of agents that speak the Agent Client Protocol, one file for
// each: a session with three turns, in the second of which a person allows a
// command, and in the third refuses it. DRAWBRIDGE_RECORD=FOLDER scripts/agents.sh
// records such output again. The agents' models are scripts of ours. In the files
// names, paths and ids are others; texts of the makers are cut to a word, lists to
// four entries, and the models' answers hold characters of several bytes.
//
// chat has the bodies of requests that clients send to the OpenAI-compatible door,
// one file for each client, as DRAWBRIDGE_RECORD=FOLDER scripts/clients.sh records
// them. The model is m in all, and the makers' texts are one text.
//
// mcp has the requests of agents at the MCP door, as scripts/agents.sh records them:
// the list of tools, and from Codex a call of every tool. The session is SESSION.
package wires
