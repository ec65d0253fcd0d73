package runner

// Tail gives tests the bounded stream.
type Tail = tail

var (
	NewTail       = newTail
	DecodeRequest = decodeRequest
)

// Text returns what the stream shows.
func (t *tail) Text() (string, int64) { return t.text() }
