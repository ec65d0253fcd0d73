package echo

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/parser"
)

// Kept is words of an agent's own that it will read again: a memory block, a passage or
// a reminder.
type Kept struct {
	Agent bridge.AgentID
	// Key tells these words from others that the agent keeps. What is kept later under
	// the same key replaces them.
	Key string
	// Text is empty when the words are deleted.
	Text string
	// Place says for people where the words stand.
	Place string
	// Until is when the agent reads them last, zero for as long as they stand there.
	Until time.Time
}

// lasting is how long words without an end are watched.
const lasting = 100 * 365 * 24 * time.Hour

// Keep records in tx what an agent's own words carry of those that others wrote. It
// stays watched as long as the words stand there, and after their last reading as long as
// any words. Else an agent could carry a command past its expiry in words of its own.
func Keep(tx *bridge.Scene, k Kept, now time.Time) error {
	seq, err := latest(tx, k.Agent)
	if err != nil {
		return err
	}
	all, err := tx.Echoes(k.Agent, bridge.ExpiredEchoes(seq, now), maxEchoes+1)
	if err != nil {
		return fmt.Errorf("load what %q heard: %w", k.Agent, err)
	}
	sum := sha256.Sum256([]byte(k.Key))
	e := bridge.Echo{Agent: k.Agent, Key: "k" + hex.EncodeToString(sum[:16]), Source: bridge.EchoTree, Place: k.Place, Seq: seq, At: now}
	before := false
	var d Digest
	own := takeApart(k.Text)
	for _, heard := range all {
		before = before || heard.Key == e.Key
		if heard.Source == bridge.EchoOperator || len(heard.Digest) == 0 || k.Text == "" {
			continue
		}
		if more := own.carries(Decode(heard.Digest)); !more.Empty() {
			if d.Empty() {
				e.Place, e.Author = k.Place+", which repeats "+origin(heard.Place), heard.Author
			}
			d = d.with(more)
		}
	}
	if d.Empty() && !before {
		return nil
	}
	if !d.Empty() {
		if e.At = k.Until; e.At.IsZero() {
			e.At = now.Add(lasting)
		}
	}
	e.Digest = d.Encode()
	if err := tx.PutEcho(e); err != nil {
		return fmt.Errorf("remember what %q keeps: %w", k.Agent, err)
	}
	return nil
}

// origin is the place that the words of a place come from.
func origin(place string) string {
	if i := strings.LastIndex(place, ", which repeats "); i >= 0 {
		return place[i+len(", which repeats "):]
	}
	return place
}

// latest is the number of an agent's latest turn, 0 for none.
func latest(tx *bridge.Scene, agent bridge.AgentID) (int64, error) {
	turns, err := tx.Turns(bridge.TurnFilter{Agent: agent, Limit: 1})
	if err != nil {
		return 0, fmt.Errorf("load the latest turn of %q: %w", agent, err)
	}
	if len(turns) == 0 {
		return 0, nil
	}
	return turns[0].Seq, nil
}

// ownWords is a text that is compared with what its author heard.
type ownWords struct {
	// names are the hashes of what may be ids, each with its line.
	names map[uint32]int
	// grams are the runs of its letters, and words those that say something.
	grams map[string]bool
	words map[string]bool
	all   Digest
}

// takeApart prepares a text. Ids of several words count wherever they stand, others
// where they are watched in others' words.
func takeApart(text string) ownWords {
	o := ownWords{names: map[uint32]int{}, grams: map[string]bool{}, words: map[string]bool{}, all: Of(text, Named)}
	readings, _ := views(text)
	c := collector{names: o.names}
	for _, view := range readings {
		r := read(view)
		for i := range r.words {
			c.namesAt(r, i)
			o.names = c.compounds(r, i)
			o.words[string(r.text(i))] = true
		}
		for i := 0; i+gram <= len(r.letters); i++ {
			o.grams[string(r.letters[i:i+gram])] = true
		}
	}
	return o
}

// compounds adds the ids of several words that may begin at word i.
func (c *collector) compounds(r reading, i int) map[uint32]int {
	for j := i + 1; j < min(len(r.words), i+maxParts); j++ {
		if !isGlued(r.words[j]) && j >= i+maxSpaced {
			break
		}
		c.name(r.letters[r.words[i].from:r.words[j].to], r.words[i].line)
	}
	return c.names
}

// carries returns what of a digest the words repeat.
func (o ownWords) carries(heard Digest) Digest {
	if heard.All > 0 {
		return o.all
	}
	var d Digest
	for i := 0; i+8 <= len(heard.Names); i += 8 {
		if at := o.names[beginning(heard.Names[i:])]; at > 0 {
			d.Names = appendName(d.Names, beginning(heard.Names[i:]), at)
		}
	}
	found := map[uint32]int{}
	for _, w := range heard.Windows {
		if w.Verb != parser.LocalAction {
			if o.repeats(w) {
				d.Windows = append(d.Windows, w)
			}
			continue
		}
		for _, text := range []string{w.Text, w.Before} {
			runs(text, len(text), 2*64, func(run []byte) bool {
				if at := o.names[nameHash(run)]; at > 0 {
					found[nameHash(run)] = at
				}
				return false
			})
		}
	}
	return d.with(Digest{Names: sortedNames(found)})
}

// repeats reports whether enough of a launch or a reminder stands in the words.
func (o ownWords) repeats(w Window) bool {
	text, own := w.prompt()
	if len(own) < 2*gram {
		own = text[:min(len(text), actionSpan)]
	}
	letters, hits := squeeze(own), 0
	for i := 0; i+gram <= len(letters); i++ {
		if o.grams[string(letters[i:i+gram])] {
			hits++
		}
	}
	if n := len(letters) - gram + 1; n > 0 && float64(hits) >= closely*float64(n) {
		return true
	}
	said, there := telling(own), 0
	for _, word := range said {
		if o.words[word] {
			there++
		}
	}
	return len(said) >= minWords && float64(there) >= strongly*float64(len(said)) // words anywhere in a long text mean less
}
