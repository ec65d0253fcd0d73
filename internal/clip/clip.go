// Package clip shortens what others wrote, for logs, errors and reports. It escapes nothing and knows nothing of the bridge's own words.
// Rule of thumb: cut before you quote, so that a long text costs nothing.
package clip

import "unicode/utf8"

// Text returns s, or its first bytes, at most n, and "..." behind them where s is longer. It cuts no character in two. Bytes that are not
// UTF-8 stay as they are.
func Text(s string, n int) string {
	if len(s) <= n {
		return s
	}
	cut := n
	for cut > max(0, n-utf8.UTFMax) && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}

// Whole returns how many bytes of data are whole characters: what comes behind them begins a character whose rest is not there.
func Whole(data []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(data); back++ {
		if utf8.RuneStart(data[len(data)-back]) {
			if !utf8.FullRune(data[len(data)-back:]) {
				return len(data) - back
			}
			break
		}
	}
	return len(data)
}
