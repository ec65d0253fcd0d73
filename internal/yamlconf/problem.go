package yamlconf

import (
	"strconv"
	"strings"

	"drawbridge/internal/clip"
)

// Problem is one thing wrong with a configuration, for the person who wrote it.
type Problem struct {
	// At is the place, as file:line.
	At string
	// Key is the path of the key, such as cursor.api.
	Key string
	// Value is the value as written; always empty for a secret.
	Value string
	// Reason completes a sentence about the value or the key; Remedy says what to do.
	Reason, Remedy string
}

// String returns one line: bridge.yaml:12: cursor.api: "v2" is not known; use v1 or v0.
func (p Problem) String() string {
	var b strings.Builder
	for _, part := range []string{p.At, p.Key} {
		if part != "" {
			b.WriteString(oneLine(part))
			b.WriteString(": ")
		}
	}
	if p.Value != "" {
		b.WriteString(strconv.QuoteToASCII(clip.Text(p.Value, maxShown)))
		b.WriteString(" ")
	}
	b.WriteString(p.Reason)
	if p.Remedy != "" {
		b.WriteString("; ")
		b.WriteString(p.Remedy)
	}
	return b.String()
}

// oneLine escapes what would break the line or hide in it, such as a key with
// a line break in it.
func oneLine(s string) string {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return strings.Trim(strconv.QuoteToASCII(s), `"`)
		}
	}
	return s
}

const maxShown = 120

// keyText makes a key of the file safe to stand in a path.
func keyText(key string) string {
	key = clip.Text(key, maxShown)
	for i := range len(key) {
		if c := key[i]; c <= ' ' || c > '~' {
			return strconv.QuoteToASCII(key)
		}
	}
	return key
}

// nearest returns the known key that a misspelt one most likely means, or "".
func nearest(key string, known []string) string {
	best, bestDistance := "", 3
	if len(key) > 64 {
		return ""
	}
	for _, k := range known {
		if d := distance(strings.ToLower(key), k); d < bestDistance && d < max(len(k), 2) {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance is the number of bytes to insert, remove or change between a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
