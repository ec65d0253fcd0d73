package parser

// MaxCommands and MaxNearMisses bound what one reply leaves behind.
const (
	MaxCommands   = 100
	MaxNearMisses = 20
)

// Findings are the commands and near misses of a reply, bounded. Total and
// Misses count all that there were.
type Findings struct {
	Commands   []Command
	Total      int
	NearMisses []NearMiss
	Misses     int
}

// Read takes the commands and near misses out of a reply of any size with bounded
// memory. It reads the reply to its end; what is over the bounds is counted and not kept.
func Read(reply string, opts Options) Findings {
	var f Findings
	p := New(opts, Handler{
		Command: func(c Command) {
			if f.Total++; f.Total <= MaxCommands {
				f.Commands = append(f.Commands, c)
			}
		},
		NearMiss: func(n NearMiss) {
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
