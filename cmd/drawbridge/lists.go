package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/width"
)

// maxLine is how many columns of a terminal a list takes.
const maxLine = 100

// rows is a list as a person reads it. The last column is clipped so that a line fits a terminal.
type rows struct {
	head []string
	rows []row
	// none is what an empty list says.
	none string
	// wide shows the ids, too, which are the last columns, and clips nothing.
	wide bool
	ids  int
}

// row is one line of a list, and below it what needs a sentence.
type row struct {
	cells []string
	notes []string
}

// table prints a list that clips nothing; the columns of its head are parted by tabs. Without rows it says none.
func table(w io.Writer, head, none string, cells [][]string) error {
	l := rows{head: strings.Split(head, "\t"), none: none, wide: true}
	for _, c := range cells {
		l.rows = append(l.rows, row{cells: c})
	}
	return l.print(w)
}

// print writes the list.
func (l rows) print(w io.Writer) error {
	if len(l.rows) == 0 {
		_, err := fmt.Fprintln(w, l.none)
		return err
	}
	head := l.head
	if !l.wide {
		head = head[:len(head)-l.ids]
	}
	widths := make([]int, len(head))
	for _, r := range append([]row{{cells: l.head}}, l.rows...) {
		for i := range head {
			widths[i] = max(widths[i], columns(r.cells[i]))
		}
	}
	if last := len(head) - 1; !l.wide {
		widths[last] = maxLine
		for _, taken := range widths[:last] {
			widths[last] -= taken + 2
		}
		widths[last] = max(widths[last], 20)
	}
	var b strings.Builder
	for _, r := range append([]row{{cells: l.head}}, l.rows...) {
		line := ""
		for i := range head {
			cell := r.cells[i]
			if !l.wide {
				cell = fit(cell, widths[i])
			}
			line += cell + strings.Repeat(" ", max(widths[i]-columns(cell), 0)+2)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
		for _, note := range r.notes {
			if !l.wide {
				note = wrapped(note, maxLine-4)
			}
			b.WriteString("    " + strings.ReplaceAll(note, "\n", "\n    ") + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// columns is how many columns of a terminal a text takes.
func columns(s string) (n int) {
	for _, r := range s {
		n += wideness(r)
	}
	return n
}

func wideness(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) { // it stands on the one before, or is not seen
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// fit clips a text to n columns.
func fit(s string, n int) string {
	if columns(s) <= n {
		return s
	}
	taken := 0
	for i, r := range s {
		if taken += wideness(r); taken >= n {
			return strings.TrimRight(s[:i], " ") + "…"
		}
	}
	return s
}

// wrapped breaks a text into lines of n columns at most, where it has blanks.
func wrapped(s string, n int) string {
	var b strings.Builder
	taken := 0
	for _, word := range strings.Fields(s) {
		if taken > 0 && taken+1+columns(word) > n {
			b.WriteString("\n")
			taken = 0
		} else if taken > 0 {
			b.WriteString(" ")
			taken++
		}
		b.WriteString(word)
		taken += columns(word)
	}
	return b.String()
}

// age is how long ago a moment was, in its largest unit.
func age(then, now time.Time) string {
	switch d := now.Sub(then); {
	case then.IsZero():
		return "-"
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(int(d.Seconds()), 0))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// repoShown is a repository without the host that almost all have.
func repoShown(repo string) string { return strings.TrimPrefix(repo, "github.com/") }
