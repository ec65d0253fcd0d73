package echo

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/parser"
)

// Heard is what an agent was given to read.
type Heard struct {
	Agent bridge.AgentID
	Text  string
	// Mode says how much is watched. Except is the action that wrote the text, whose own
	// name it may hold; see Of.
	Mode   Mode
	Except string
	// Source, Author, Place, Turn and Seq are as in bridge.Echo. A Seq of 0 means the
	// agent's next turn.
	Source        bridge.EchoSource
	Author, Place string
	Turn          bridge.TurnID
	Seq           int64
}

// Empty reports whether there is nothing to record of what was heard.
func (h Heard) Empty() bool { return Of(h.Text, h.Mode, h.Except).Empty() }

// Hear records in tx what an agent may repeat out of a text that it reads at a time.
func Hear(tx *bridge.Scene, h Heard, now time.Time) error {
	d := Of(h.Text, h.Mode, h.Except)
	if d.Empty() {
		return nil
	}
	if h.Seq == 0 {
		seq, err := latest(tx, h.Agent)
		if err != nil {
			return err
		}
		h.Seq = seq + 1
	}
	digest := d.Encode()
	sum := sha256.Sum256(append([]byte(h.Place+"\n"), digest...))
	err := tx.PutEcho(bridge.Echo{Agent: h.Agent, Key: "e" + hex.EncodeToString(sum[:16]), Digest: digest, Source: h.Source, Author: h.Author,
		Place: h.Place, Turn: h.Turn, Seq: h.Seq, At: now})
	if err != nil {
		return fmt.Errorf("remember what %q heard: %w", h.Agent, err)
	}
	return nil
}

// maxEchoes bounds how many texts one command is compared with. An agent that
// heard more has everything held.
const maxEchoes = 5000

// Memory is what an agent heard and may repeat now.
type Memory struct {
	echoes  []bridge.Echo
	digests []Digest
	over    bool
}

// Remembered loads what an agent heard, for commands of its turn with a number.
func Remembered(tx *bridge.Scene, agent bridge.AgentID, seq int64, now time.Time) (Memory, error) {
	all, err := tx.Echoes(agent, bridge.ExpiredEchoes(seq, now), maxEchoes+1)
	if err != nil {
		return Memory{}, fmt.Errorf("load what %q heard: %w", agent, err)
	}
	slices.SortStableFunc(all, func(a, b bridge.Echo) int { return b.At.Compare(a.At) }) // the latest is named
	m := Memory{echoes: all, digests: make([]Digest, len(all)), over: len(all) > maxEchoes}
	for i, e := range all {
		if len(e.Digest) > 0 {
			m.digests[i] = Decode(e.Digest)
		}
	}
	return m, nil
}

// Repeats says whose words a command repeats and where they stand, "" when it
// repeats nothing.
func (m Memory) Repeats(cmd parser.Command) string {
	if cmd.Verb == parser.WebhookResult {
		return "" // it only asks for a summary, which has no effect outside
	}
	if m.over {
		return fmt.Sprintf("the agent got more than %d texts lately, so the bridge cannot check whether this command repeats one of them", maxEchoes)
	}
	c := CommandOf(cmd)
	for i, e := range m.echoes {
		if len(e.Digest) == 0 {
			if e.Key == c.key {
				return "it repeats a command from a text that others wrote"
			}
			continue
		}
		if line := m.digests[i].Match(c); line > 0 {
			return where(e, line, m.digests[i].All > 0)
		}
	}
	return ""
}

// where names the place of a line in words that an agent heard.
func where(e bridge.Echo, line int, all bool) string {
	text := fmt.Sprintf("it repeats line %d of %s", line, e.Place)
	if all {
		text = fmt.Sprintf("it may repeat %s; from line %d on, that text holds more command-like lines than the bridge can compare", e.Place, line)
	}
	if e.Turn != "" {
		text += fmt.Sprintf(" (turn %s)", e.Turn)
	}
	return strings.ToValidUTF8(text, "?")
}
