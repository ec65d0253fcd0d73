// Package reading takes the commands and near misses out of a reply of any size
// with bounded memory. It judges nothing. Rule of thumb: a reply is read to its
// end, and what is over the bounds is counted and not kept.
package reading

import "drawbridge/parser"

// MaxCommands and MaxNearMisses bound what one reply leaves behind.
const (
	MaxCommands   = 100
	MaxNearMisses = 20
)

// Findings are the commands and near misses of a reply, bounded. Total and
// Misses count all that there were.
type Findings struct {
	Commands   []parser.Command
	Total      int
	NearMisses []parser.NearMiss
	Misses     int
}

// Read parses a reply.
func Read(reply string, opts parser.Options) Findings {
	var f Findings
	p := parser.New(opts, parser.Handler{
		Command: func(c parser.Command) {
			if f.Total++; f.Total <= MaxCommands {
				f.Commands = append(f.Commands, c)
			}
		},
		NearMiss: func(n parser.NearMiss) {
			if f.Misses++; f.Misses <= MaxNearMisses {
				f.NearMisses = append(f.NearMisses, n)
			}
		},
	})
	for len(reply) > 0 {
		n := min(len(reply), 64<<10)
		// Write and Close never fail; their errors exist for io.Writer's sake.
		_, _ = p.Write([]byte(reply[:n]))
		reply = reply[n:]
	}
	_ = p.Close()
	return f
}
