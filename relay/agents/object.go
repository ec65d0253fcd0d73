package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
)

// maxOpenings bounds how many braces of a line are tried.
const maxOpenings = 16

// controls are what terminals take and do not show: titles, colors and other sequences, and a byte order mark.
var controls = regexp.MustCompile("\x1b\\][^\x07\x1b]{0,400}(?:\x07|\x1b\\\\)|\x1b\\[[0-?]{0,40}[ -/]{0,10}[@-~]|\x1b[@-Z\\\\^_]|\ufeff")

// Objects returns the JSON objects in a line that holds something else as well: a terminal's title, colors, a byte order mark, the prefix of a
// log. bare is true when nothing that a reader sees stands around them.
func Objects(line []byte) (all []json.RawMessage, bare bool) {
	line = bytes.TrimSpace(controls.ReplaceAll(line, nil))
	if len(line) == 0 || json.Valid(line) && line[0] != '{' {
		return nil, false // an object within a list or a text is no message
	}
	bare = true
	for range maxOpenings {
		at := bytes.IndexByte(line, '{')
		if at < 0 {
			break
		}
		bare = bare && len(bytes.TrimSpace(line[:at])) == 0
		line = line[at:]
		var object json.RawMessage
		from := json.NewDecoder(bytes.NewReader(line))
		if from.Decode(&object) != nil {
			line, bare = line[1:], false
			continue
		}
		all, line = append(all, object), line[from.InputOffset():]
	}
	return all, bare && len(bytes.TrimSpace(line)) == 0
}

// Noise is what an agent wrote beside its messages.
type Noise struct {
	// Lines counts the lines that hold some of it, and First is the start of the first.
	Lines int
	First string
}

// Add counts a line that begins so.
func (n *Noise) Add(beginning string) {
	if n.Lines++; n.Lines == 1 {
		n.First = beginning
	}
}

// String says what became of it.
func (n Noise) String() string {
	return fmt.Sprintf("the relay ignored text outside of messages in %d lines of the agent's output; the first begins: %s", n.Lines, n.First)
}
