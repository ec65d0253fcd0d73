package words

import "strconv"

// Count writes a number with its noun: 1 outcome, 2 outcomes. The noun takes an s.
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
