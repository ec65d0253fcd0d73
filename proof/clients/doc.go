// Package clients lets programs that nobody here wrote call the
// OpenAI-compatible door: the official clients from npm, the libraries that
// people build on, and coding agents. What stands behind the door is a script,
// whose own log says what was asked. It has tests alone; scripts/clients.sh
// installs the clients. Rule of thumb: a client's own words count, not ours.
package clients
