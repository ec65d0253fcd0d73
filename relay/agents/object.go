package agents

import (
	"bytes"
	"encoding/json"
)

// maxOpenings bounds how many braces of a line are tried.
const maxOpenings = 16

// Object returns the first JSON object in a line, whatever stands before and behind it: a terminal's title, colors, a byte order mark, the
// prefix of a log. It is nil where the line has none.
func Object(line []byte) []byte {
	if json.Valid(line) && bytes.TrimSpace(line)[0] != '{' {
		return nil // an object within a list or a text is no message
	}
	for range maxOpenings {
		at := bytes.IndexByte(line, '{')
		if at < 0 {
			return nil
		}
		line = line[at:]
		var object json.RawMessage
		if json.NewDecoder(bytes.NewReader(line)).Decode(&object) == nil {
			return object
		}
		line = line[1:]
	}
	return nil
}
