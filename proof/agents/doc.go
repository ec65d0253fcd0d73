// Package agents proves that real CLI agents from npm work with the bridge: they
// read what mcp-config writes, call the door's tools, and run at the relay. It holds tests only, and
// no program links it. Rule of thumb: an agent here has a home of its own, no account,
// and a model that is a script on loopback (scripts/agents.sh).
package agents
