package web

import (
	"strings"
	"testing"
	"time"
)

// TestVisible: nothing of a text hides or turns the rest around, and nothing is lost.
func TestVisible(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain, é, 日本, 🙂\n\tx": "plain, é, 日本, 🙂\n\tx",
		"a\u202eb":             "a[U+202E]b",
		"\u200b\u00a0\x1b[2J":  "[U+200B][U+00A0][U+001B][2J",
		"x\ufe0f\u2800\u3164":  "x[U+FE0F][U+2800][U+3164]",
		"\xff\r":               "[0xFF][U+000D]",
		"":                     "",
	} {
		var b strings.Builder
		for _, p := range visible(text) {
			if p.Code {
				b.WriteString("[" + p.Text + "]")
			} else {
				b.WriteString(p.Text)
			}
		}
		if b.String() != want {
			t.Errorf("%+q is shown as %q, not %q", text, b.String(), want)
		}
	}
}

// TestPretenders: letters that look like ASCII are named where they stand in a word of Latin letters, and other languages are left alone.
func TestPretenders(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"rm -rf /tmp":              "",
		"Füße, naïve, łódź, çırak": "ı (U+0131)",
		"Привет, мир":              "",
		"раураl":                   "р (U+0440), а (U+0430), у (U+0443)",
		"ɡit push":                 "ɡ (U+0261)",
		"ｎpm":                      "ｎ (U+FF4E)",
	} {
		if got := pretenders(text); got != want {
			t.Errorf("%s: %q, not %q", text, got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{-time.Second: "0 s", 59 * time.Second: "59 s", 90 * time.Second: "1 min", 47 * time.Hour: "47 h", 49 * time.Hour: "2 d"} {
		if got := span(d); got != want {
			t.Errorf("%v: %s, not %s", d, got, want)
		}
	}
}
