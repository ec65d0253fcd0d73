package loosejson

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Joiner reads a text that comes in pieces. A character whose other half comes with the next piece waits: the first of two escapes
// \uD83D\uDE00, or the first bytes of UTF-8. The zero Joiner is ready. It is for one goroutine.
type Joiner struct{ held string }

// Add returns what a piece adds. A piece that is no string adds nothing.
func (j *Joiner) Add(raw json.RawMessage) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	inner := j.held + string(raw[1:len(raw)-1])
	whole := len(inner) - half(inner)
	j.held = inner[whole:]
	return Text(json.RawMessage(`"` + inner[:whole] + `"`))
}

// Rest ends the text: it returns the sign for a broken character where one waits, else "".
func (j *Joiner) Rest() string {
	held := j.held
	j.held = ""
	if held == "" {
		return ""
	}
	return string(utf8.RuneError)
}

var firstOfTwo = regexp.MustCompile(`\\u[dD][89abAB][0-9a-fA-F]{2}$`)

// half is the length of the half character at the end of the inside of a JSON string, 0 for none.
func half(inner string) int {
	if at := firstOfTwo.FindStringIndex(inner); at != nil {
		before := inner[:at[0]]
		if (len(before)-len(strings.TrimRight(before, `\`)))%2 == 0 {
			return at[1] - at[0]
		}
	}
	for n := 1; n < utf8.UTFMax && n <= len(inner); n++ {
		if end := inner[len(inner)-n:]; utf8.RuneStart(end[0]) {
			if !utf8.FullRuneInString(end) {
				return n
			}
			return 0
		}
	}
	return 0
}
