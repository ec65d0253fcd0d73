// Package agents proves that real CLI agents from npm work with the bridge: they
// read what mcp-config writes, and call the door's tools. It holds tests only, and
// no program links it. Rule of thumb: an agent here has a home of its own, no account,
// and a model that is a script on loopback (scripts/agents.sh).
package agents
