package words

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"drawbridge/bridge"
)

// Bounds of what stands outside of a bar, in characters.
const (
	maxName = 200
	maxLine = 300
	maxOwn  = 4000
)

// Say makes the bridge's own words, as fmt.Sprintf makes text. Every argument that
// is text goes through Name, so that what others wrote can neither end a line nor
// go on in the bridge's name; only bridge.Words stand as they are.
func Say(format string, args ...any) bridge.Words {
	safe := make([]any, len(args))
	for i, arg := range args {
		safe[i] = sayable(arg)
	}
	return bridge.Words(fmt.Sprintf(format, safe...))
}

func sayable(arg any) any {
	switch v := arg.(type) {
	case bridge.Words:
		return string(v)
	case error:
		return string(Name(v.Error()))
	case fmt.Stringer:
		return string(Name(v.String()))
	}
	if v := reflect.ValueOf(arg); v.Kind() == reflect.String {
		return string(Name(v.String()))
	}
	return arg
}

// plainName is what needs no quotes: one word, in which a colon stands before a
// digit or a slash only, as in a time or an address.
var plainName = regexp.MustCompile(`^([A-Za-z0-9._/#@+=~%&?-]|:[0-9/])*$`)

// Name shows a word that an agent, a relay or the API chose. One that could be
// taken for more than a word, and any that is long, stands in quotes, escaped, on one line and cut.
func Name(s string) bridge.Words {
	if r := []rune(s); len(r) > maxName {
		return quoted(string(r[:maxName])) + "…"
	}
	if plainName.MatchString(s) {
		return bridge.Words(s)
	}
	return quoted(s)
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\t", `\t`)

// quoted is s in quotes that it cannot close, on one line.
func quoted(s string) bridge.Words {
	return bridge.Words(`"` + reveal(escapes.Replace(s), escaped, escaped) + `"`)
}

// line shows a line that an agent wrote, in quotes however plain it is.
func line(s string) bridge.Words {
	if r := []rune(s); len(r) > maxLine {
		s = string(r[:maxLine]) + "…"
	}
	return quoted(s)
}

// Own takes a sentence that the bridge made and kept, such as a verdict's reason.
// It stays on one line, and what does not show is escaped: a slip elsewhere must not become a line of a turn.
func Own(s string) bridge.Words {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n++; n > maxOwn {
			b.WriteString("…")
			break
		}
		if r == utf8.RuneError || r == '\t' || isBreak(r) || hidden(r) || joiner(r) {
			b.WriteString(escaped(r))
			continue
		}
		b.WriteRune(r)
	}
	return bridge.Words(b.String())
}

// JSON escapes what does not show in a JSON document. Such characters stand in its
// strings alone, so that a program reads the same from it and a model sees all of it.
func JSON(document []byte) []byte {
	text := string(document)
	return []byte(reveal(text, inJSON, inJSON))
}

// inJSON writes a character as JSON escapes it: one beyond 16 bits as a pair.
func inJSON(r rune) string {
	switch {
	case r == '\n':
		return "\n" // between the parts of a document; a string holds none
	case r > 0xffff:
		high, low := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// Person is what the operator says. It keeps its lines; what does not show is
// escaped when the turn is composed.
func Person(text string) bridge.Words { return bridge.Words(text) }

// escaped writes one character that does not show.
func escaped(r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r > 0xffff:
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

func isBreak(r rune) bool {
	switch r {
	case '\n', '\r', '\v', '\f', '\u0085', '\u2028', '\u2029':
		return true
	}
	return false
}

// hidden reports characters that change how others are shown, or show nothing at
// all. Joiners are not among them: see joiner.
func hidden(r rune) bool {
	switch {
	case r == '\u200c', r == '\u200d':
		return false
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp):
		return true
	case r == '\u034f', r == '\u115f', r == '\u1160', r == '\u17b4', r == '\u17b5', r == '\u3164', r == '\uffa0', r == '\u2800':
		return true // shown as nothing, although they count as letters or marks
	}
	return (r >= 0x180b && r <= 0x180f) || (r >= 0xfe00 && r <= 0xfe0d) || (r >= 0xe0000 && r <= 0xe0fff)
}

// joiner reports the two invisible characters that emoji and some scripts need.
// They have no business beside ASCII, where they split a word that looks whole.
func joiner(r rune) bool { return r == '\u200c' || r == '\u200d' }
