package loosejson_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"drawbridge/internal/loosejson"
)

// TestJoiner: a text survives every cut between two of its bytes or escapes, whether its characters are written as bytes or as escapes.
func TestJoiner(t *testing.T) {
	t.Parallel()
	const want = "a ü € 日本 😀 \\ud83d end"
	var bytes, escapes []string // what may be parted
	for _, r := range want {
		quoted, _ := json.Marshal(string(r))
		inner := string(quoted[1 : len(quoted)-1])
		if strings.HasPrefix(inner, `\`) {
			bytes, escapes = append(bytes, inner), append(escapes, inner)
			continue
		}
		for _, b := range []byte(inner) {
			bytes = append(bytes, string([]byte{b}))
		}
		for _, u := range utf16.Encode([]rune{r}) {
			escapes = append(escapes, fmt.Sprintf(`\u%04x`, u))
		}
	}
	for _, units := range [][]string{bytes, escapes} {
		for first := range len(units) + 1 {
			for second := first; second <= len(units); second++ {
				var j loosejson.Joiner
				got := ""
				for _, part := range [][]string{units[:first], units[first:second], units[second:]} {
					got += j.Add(json.RawMessage(`"` + strings.Join(part, "") + `"`))
				}
				if got += j.Rest(); got != want {
					t.Fatalf("cut before units %d and %d: %q, want %q", first, second, got, want)
				}
			}
		}
	}
}
