package webhooks

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"regexp"
	"unicode"

	"drawbridge/internal/strictjson"
)

// payload is the part of a delivery's body that is read. The rest is kept raw.
type payload struct {
	Event     string    `json:"event"`
	Timestamp timestamp `json:"timestamp"`
	ID        string    `json:"id"`
	Status    string    `json:"status"`
}

// timestamp tells deliveries apart, and no form of it refuses one. It stays as it is written where that is a word; else it is a digest.
type timestamp string

// UnmarshalJSON implements json.Unmarshaler.
func (t *timestamp) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw) // a number or another form
	}
	if !isWord(text) {
		sum := sha256.Sum256(raw)
		text = "sha256:" + hex.EncodeToString(sum[:8])
	}
	*t = timestamp(text)
	return nil
}

// externalID is wider than any id seen in the wild; a bound operation's id is
// compared as a whole, and an unbound one must not hold path or control characters.
var externalID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)

// maxWord bounds event, status and timestamp, in bytes.
const maxWord = 64

// parse reads a signed body. Duplicate and case-variant keys are refused at any
// depth; unknown keys, events and statuses are not (rule 5).
func parse(body []byte) (payload, error) {
	var p payload
	if err := strictjson.Decode(body, &p); err != nil {
		return payload{}, err
	}
	switch {
	case !externalID.MatchString(p.ID):
		return payload{}, errors.New("id is missing or not an agent's id")
	case p.Event == "":
		return payload{}, errors.New("event is missing")
	case p.Event == "statusChange" && p.Status == "":
		return payload{}, errors.New("status is missing")
	}
	for _, word := range []string{p.Event, p.Status} {
		if !isWord(word) {
			return payload{}, errors.New("event or status is not a short word of printable ASCII")
		}
	}
	return p, nil
}

// isWord reports short printable text: it goes into log lines and the timeline.
func isWord(s string) bool {
	for _, r := range s {
		if r > unicode.MaxASCII || !unicode.IsPrint(r) {
			return false
		}
	}
	return len(s) <= maxWord
}
