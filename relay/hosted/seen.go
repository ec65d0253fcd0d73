package hosted

import (
	"encoding/json"
	"fmt"
	"strings"
)

// seen is what a relay reads from git at the end of a turn, as it writes it: the parts that are told in words.
type seen struct {
	Branch    string `json:"branch"`
	Total     int    `json:"total"`
	Changed   int    `json:"changed"`
	Additions int    `json:"additions"`
	Deletions int    `json:"deletions"`
	Clean     bool   `json:"clean"`
	Commits   []struct {
		ID      string `json:"id"`
		Subject string `json:"subject"`
	} `json:"commits"`
	Changes struct {
		Staged    int `json:"staged"`
		Modified  int `json:"modified"`
		Deleted   int `json:"deleted"`
		Untracked int `json:"untracked"`
	} `json:"changes"`
	Problems []string `json:"problems"`
	Failed   []string `json:"failed"`
	Noticed  []string `json:"noticed"`
}

// maxToldCommits bounds the commits that are named one by one.
const maxToldCommits = 5

// seenLines words a relay's evidence line by line. What cannot be read is passed on as it is.
func seenLines(evidence string) string {
	var s seen
	if err := json.Unmarshal([]byte(evidence), &s); err != nil {
		return evidence
	}
	var lines []string
	if s.Branch != "" {
		lines = append(lines, fmt.Sprintf("branch %s: commits of this turn: %d; files changed: %d (+%d -%d)", s.Branch, s.Total, s.Changed, s.Additions, s.Deletions))
	}
	for _, c := range s.Commits[:min(len(s.Commits), maxToldCommits)] {
		lines = append(lines, fmt.Sprintf("commit %.10s %s", c.ID, c.Subject))
	}
	if more := s.Total - maxToldCommits; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d older commits of this turn", more))
	}
	c := s.Changes
	switch {
	case s.Clean:
		lines = append(lines, "the tree is clean")
	case s.Branch != "":
		lines = append(lines, fmt.Sprintf("not committed: staged %d, modified %d, deleted %d, untracked %d", c.Staged, c.Modified, c.Deleted, c.Untracked))
	}
	for _, why := range append(s.Problems, s.Failed...) {
		lines = append(lines, "could not be read: "+why)
	}
	lines = append(lines, s.Noticed...)
	return oneEach(lines)
}

// oneEach keeps every line one line: commits and files have the names that an agent gave them.
func oneEach(lines []string) string {
	for i, line := range lines {
		lines[i] = strings.Join(strings.FieldsFunc(line, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
	}
	return strings.Join(lines, "\n")
}
