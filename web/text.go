package web

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"drawbridge/internal/lookalike"
)

// piece is a part of a text that others wrote. Code is shown apart: it names a character that cannot be seen, or that hides or turns others.
type piece struct {
	Text string
	Code bool
}

// brailleBlank is shown as nothing, though it counts as a symbol.
const brailleBlank = '\u2800'

// visible splits a text so that nothing of it hides. Line breaks and tabs stay.
func visible(text string) (all []piece) {
	from := 0
	flush := func(to int) {
		if to > from {
			all = append(all, piece{Text: text[from:to]})
		}
	}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		code := ""
		switch {
		case r == utf8.RuneError && size == 1:
			code = fmt.Sprintf("0x%02X", text[i])
		case r == '\n' || r == '\t' || r == ' ':
		case r == brailleBlank || !unicode.IsGraphic(r) || unicode.In(r, unicode.Zs, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
			code = fmt.Sprintf("U+%04X", r)
		}
		if code != "" {
			flush(i)
			all = append(all, piece{Text: code, Code: true})
			from = i + size
		}
		i += size
	}
	flush(len(text))
	return all
}

// oneLine is visible for a place where a line break has no room.
func oneLine(text string) []piece {
	return visible(strings.Join(strings.Fields(text), " "))
}

// isAccented reports whether a letter is one of those that languages write with Latin letters, most of them with marks.
func isAccented(r rune) bool { return r >= 0xc0 && r <= 0x24f && r != 'ı' && r != 'ȷ' }

// maxPretenders bounds how many characters pretenders names.
const maxPretenders = 8

// pretenders names the characters in words of Latin letters that look like an ASCII letter and are none, "" without any.
func pretenders(text string) string {
	var found []string
	seen := map[rune]bool{}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if !strings.ContainsFunc(word, func(r rune) bool { return unicode.Is(unicode.Latin, r) }) {
			continue
		}
		for _, r := range word {
			if r < utf8.RuneSelf || isAccented(r) || seen[r] {
				continue
			}
			if plain, class := lookalike.Append(nil, r); class == lookalike.Letter && len(plain) > 0 && len(found) < maxPretenders {
				found = append(found, fmt.Sprintf("%c (U+%04X)", r, r))
			}
			seen[r] = true
		}
	}
	return strings.Join(found, ", ")
}

// span says how long something takes or is ago, in one number.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d d", int(d.Hours()/24))
}
