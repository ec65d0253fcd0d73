package bridge

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// Fact is one named part of what a person decides on. Text may hold anything
// that an agent or a relay wrote; escape it before you show it.
type Fact struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Question is a held command as a person decides on it.
type Question struct {
	Command Command
	// Effect is everything that a yes brings about, in the order in which it is shown.
	Effect []Fact
	// Context helps to judge it: who wrote it, what caused it, what changed since the last yes.
	Context []Fact
	// Hash is EffectHash of Effect. A yes counts only together with it.
	Hash string
	// Same are the held commands of the agent that have this Hash, oldest first, and Command
	// is one of them. One yes runs one of them and ends the others.
	Same []CommandID
	// Shown is all of this in printable ASCII, whole, for a person to read.
	Shown string
	// Refused says why the gate would not let the command pass now, "" when it would.
	Refused string
	// Seq numbers the turn in which it was asked.
	Seq int64
	// Outside is true unless it is recorded that nothing but the operator's words has reached the agent. What an agent in the cloud reads
	// by itself, such as files and web pages, is not recorded.
	Outside bool
	// Again is true where the last yes to the same target in the tree was to this very Effect.
	Again bool
}

// EffectHash names an effect: 32 hex digits of a SHA-256 over every name and
// text with their lengths, so that two effects have one hash only if they are the same.
func EffectHash(effect []Fact) string {
	h := sha256.New()
	for _, f := range effect {
		for _, part := range []string{f.Name, f.Text} {
			var size [8]byte
			binary.BigEndian.PutUint64(size[:], uint64(len(part)))
			h.Write(size[:])
			h.Write([]byte(part))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Yes is the last word with which a person let something pass in a tree of agents.
type Yes struct {
	Root AgentID
	// Target is what it was about: the verb, and the repository or the action.
	Target string
	// Effect is what the person was shown.
	Effect []Fact
	At     time.Time
}

// CodeRepeat marks a held command that ended because a person approved an identical one.
const CodeRepeat = "repeat"
