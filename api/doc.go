// Package api is the bridge's HTTP door for people and their programs: the
// operator's API under /v1, the seed's /chat surface, health and metrics, and
// the client that the command line uses. It is not where anything is decided:
// every handler reads a request, calls the engine once and shows what came of
// it. Rule of thumb: one table says which error becomes which status, nouns
// never leave as they are, and what is not known to be open needs the token.
package api
