package memory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"drawbridge/bridge"
)

// MaxInView bounds the blocks that stand in a turn, in bytes. What was written
// last has precedence; of the rest the labels are told.
const MaxInView = 64 << 10

// maxNamed bounds the labels of blocks that do not fit.
const maxNamed = 50

// Render writes blocks for a turn, each as "### label" and its text, by label.
// Empty ones are left out. The text is the agent's own words: whoever puts it
// into a turn must prefix its lines.
func Render(blocks []bridge.Block) string {
	shown, left := inView(blocks)
	var b strings.Builder
	for _, block := range shown {
		b.WriteString(section(block))
	}
	if len(left) > 0 {
		fmt.Fprintf(&b, "(no room for %d more: %s)\n", len(left), labels(left))
	}
	return strings.TrimRight(b.String(), "\n")
}

func section(b bridge.Block) string { return "### " + b.Label + "\n" + b.Content + "\n\n" }

// inView chooses what there is room for; both lists are by label.
func inView(blocks []bridge.Block) (shown, left []bridge.Block) {
	newest := slices.Clone(blocks)
	slices.SortStableFunc(newest, func(a, b bridge.Block) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
	room := MaxInView
	for _, b := range newest {
		switch size := len(section(b)); {
		case b.Content == "":
		case size > room:
			room = 0 // an older one that happens to fit does not go ahead
			left = append(left, b)
		default:
			room -= size
			shown = append(shown, b)
		}
	}
	for _, list := range [][]bridge.Block{shown, left} {
		slices.SortFunc(list, func(a, b bridge.Block) int { return cmp.Compare(a.Label, b.Label) })
	}
	return shown, left
}

func labels(blocks []bridge.Block) string {
	var names []string
	for _, b := range blocks[:min(len(blocks), maxNamed)] {
		names = append(names, b.Label)
	}
	if len(blocks) > maxNamed {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}

// Preamble is what of an agent's memory stands in its next turn, "" for an
// agent without blocks.
func Preamble(tx *bridge.Scene, agent bridge.AgentID) (string, error) {
	blocks, err := tx.Blocks(agent)
	if err != nil {
		return "", fmt.Errorf("read blocks: %w", err)
	}
	return Render(blocks), nil
}
