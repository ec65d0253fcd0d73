package words

import "strconv"

// Count writes a number with its noun: 1 outcome, 2 outcomes. The noun takes an s.
func Count[N int | int64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.FormatInt(int64(n), 10) + " " + noun
}

// verb returns one after the number 1, and many after any other: 1 agent waits, 2 agents wait.
func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
