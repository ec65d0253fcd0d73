// Package openai is the third door: an OpenAI-compatible HTTP endpoint with
// agents and models behind it. It records each turn before it asks a backend,
// meets repeats with the first answer, and passes nothing that its token does not
// allow. Backends stand behind package upstream.
package openai
