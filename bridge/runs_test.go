package bridge_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"drawbridge/bridge"
)

func TestRunPayload(t *testing.T) {
	t.Parallel()
	exact := `"` + strings.Repeat("x", bridge.MaxRunPayload-2) + `"`
	for name, raw := range map[string]string{"an object": `{"a": 1}`, "the longest": exact, "null": "null"} {
		if got := bridge.RunPayload([]byte(raw)); got != raw {
			t.Errorf("%s: became %.60q", name, got)
		}
	}
}

func FuzzRunPayload(f *testing.F) {
	for _, seed := range []string{"", "no json", `{"a":`, "\xff", "ß", `"`, "\x00", "<", "\u2028"} {
		f.Add(seed, 1)
		f.Add(seed, 100_000)
	}
	f.Fuzz(func(t *testing.T, text string, times int) {
		raw := []byte(strings.Repeat(text, min(max(times, 0), 1_000_000/(len(text)+1))))
		got := bridge.RunPayload(raw)
		if len(got) > bridge.MaxRunPayload || !utf8.ValidString(got) {
			t.Fatalf("%d bytes became %d", len(raw), len(got))
		}
		if utf8.Valid(raw) && json.Valid(raw) && len(raw) <= bridge.MaxRunPayload {
			if got != string(raw) {
				t.Fatal("what needed no clipping was changed")
			}
			return
		}
		if json.Valid(raw) && len(raw)*3 <= bridge.MaxRunPayload {
			return // only its bytes were mended
		}
		var clipped struct {
			Clipped *string
			Bytes   int
		}
		if err := json.Unmarshal([]byte(got), &clipped); err != nil || clipped.Clipped == nil || clipped.Bytes != len(raw) {
			t.Fatalf("%d bytes became %.80q, %v", len(raw), got, err)
		}
		if utf8.Valid(raw) && len(raw) > bridge.MaxRunPayload && len(*clipped.Clipped) < bridge.MaxRunPayload/8 {
			t.Fatalf("only %d bytes of %d were kept", len(*clipped.Clipped), len(raw))
		}
	})
}
