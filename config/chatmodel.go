package config

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// kindChat is the kind of a runtime whose agents are chat models behind an OpenAI-compatible endpoint.
const kindChat = "chat"

// The defaults of a chat model; package chatmodel has the same.
const (
	chatSteps    = 50
	chatTimeout  = 5 * time.Minute
	chatParallel = 4
)

// chatModel checks a runtime of kind chat and fills in what it leaves out.
func (c *checker) chatModel(at string, r *Runtime) {
	c.onlyFor(at, r.Kind, "script", "dir", "relay", "agent", "tool_cap")
	m := r
	if m.URL == "" {
		c.problem(at+".url", "", "is required", "write the endpoint's address up to /v1, such as http://127.0.0.1:11434/v1")
	}
	if m.URL = c.url(at+".url", m.URL); strings.HasSuffix(m.URL, "/chat/completions") {
		c.problem(at+".url", m.URL, "ends with /chat/completions, which the bridge adds", "leave that out")
	}
	switch {
	case m.Model == "":
		c.problem(at+".model", "", "is required", "name a model that the endpoint has")
	case !visible.MatchString(m.Model) || len(m.Model) > 200:
		c.problem(at+".model", m.Model, "is not the name of a model", "use a name that the endpoint's /models lists")
	}
	if m.Key.Len() > 0 && !visible.MatchString(m.Key.Reveal()) {
		c.problem(at+".key", "", "holds a blank, a line end or a character that is not ASCII", "copy the key again")
	}
	if m.Key.Len() == 0 && c.file.Has(at+".key") {
		c.problem(at+".key", "", "is empty", "set it, or remove it for an endpoint that asks for none")
	}
	for _, n := range []struct {
		key         string
		value       *int
		usual, most int
	}{{"steps", &m.Steps, chatSteps, 1000}, {"max_tokens", &m.MaxTokens, 0, 1_000_000}, {"parallel", &m.Parallel, chatParallel, 256}} {
		if !c.file.Has(at + "." + n.key) {
			*n.value = n.usual
		} else if *n.value < 1 || *n.value > n.most {
			c.problem(at+"."+n.key, fmt.Sprint(*n.value), "is out of range", fmt.Sprintf("use 1 to %d", n.most))
		}
	}
	if !c.file.Has(at + ".turn_timeout") {
		m.TurnTimeout = chatTimeout
	}
	c.span(at+".turn_timeout", m.TurnTimeout, time.Second, 24*time.Hour)
}

// chatKeys are the keys of a runtime that only the kind chat has.
var chatKeys = []string{"url", "model", "key", "steps", "turn_timeout", "max_tokens", "parallel"}

// onlyFor reports keys of a runtime that its kind does not have.
func (c *checker) onlyFor(at, kind string, others ...string) {
	for _, key := range others {
		if c.file.Has(at + "." + key) {
			c.problem(at+"."+key, "", "is not a setting of kind "+kind, "remove it, or correct the kind")
		}
	}
}

// The bounds of first blocks; package memory has the same for each block. Together they fit into a turn.
const (
	maxBlock      = 16 << 10
	maxBlockLabel = 200
	maxBlocks     = 64 << 10
)

// blocks checks an agent's first memory blocks.
func (c *checker) blocks(at string, blocks map[string]string) {
	total := 0
	for _, label := range sortedKeys(blocks) {
		content, key := blocks[label], at+"."+label
		total += len(content) + len(label)
		switch {
		case label == "" || utf8.RuneCountInString(label) > maxBlockLabel || strings.ContainsFunc(label, func(r rune) bool { return !unicode.IsGraphic(r) }):
			c.problem(at, label, "is not a label", "use one line of 1 to 200 visible characters")
		case len(content) > maxBlock:
			c.problem(key, "", fmt.Sprintf("has %d bytes; at most %d are allowed", len(content), maxBlock), "write less, or make two blocks of it")
		case !utf8.ValidString(content) || strings.ContainsRune(content, 0):
			c.problem(key, "", "is not text", "write UTF-8 without NUL characters")
		}
	}
	if total > maxBlocks {
		c.problem(at, "", fmt.Sprintf("has %d bytes; at most %d fit into a turn", total, maxBlocks), "write less")
	}
}
