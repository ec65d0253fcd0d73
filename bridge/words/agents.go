package words

import (
	"regexp"
	"slices"
	"strings"
)

var (
	operatorCommand = regexp.MustCompile("`drawbridge[^`]*`|drawbridge-relay")
	operatorAside   = regexp.MustCompile("[ ]*\\([^()]*(`drawbridge|drawbridge-relay)[^()]*\\)")
)

// ForAgent leaves out of the bridge's own words what only the operator can do: the
// clauses that name a command of the drawbridge programs. An agent has no shell on
// the operator's machine, and would look for one.
func ForAgent[T ~string](text T) T {
	if !operatorCommand.MatchString(string(text)) {
		return text
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		line = operatorAside.ReplaceAllString(line, "")
		if operatorCommand.MatchString(line) {
			clauses := slices.DeleteFunc(strings.Split(line, "; "), operatorCommand.MatchString)
			line = strings.Join(append(clauses, "ask the operator"), "; ")
		}
		lines[i] = line
	}
	return T(strings.Join(lines, "\n"))
}
