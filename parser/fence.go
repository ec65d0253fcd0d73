package parser

import "bytes"

// fence is the state of Markdown code fences, after CommonMark 0.31, section
// 4.5. It is the zero value outside of any fence.
type fence struct {
	mark byte // '`' or '~', or 0 outside
	size int  // length of the opening run
	from int  // line number of the opening run
	// item is the content column of the list item whose marker line opened the
	// fence, or 0 for a top-level fence. Only columns 2 and 3 are tracked: from
	// column 4 on, a closing line cannot be mistaken for a top-level fence.
	item int
	// unsure marks a backtick fence whose opening line is longer than maxLine: a
	// backtick further on in that line means that it was inline code.
	unsure bool
}

// place says where a line stands.
type place int

const (
	outside place = iota
	inFence
	fenceMarker // the line opens or closes a fence
)

// step moves over one line and says where it stands. A cut line never closes a
// fence, because its rest is not known to be blank.
func (f *fence) step(line []byte, number int, cut bool) place {
	f.unsure = false
	if f.item > 0 && f.leavesItem(line) {
		*f = fence{}
	}
	if f.mark != 0 {
		if !cut && f.closes(line) {
			*f = fence{}
			return fenceMarker
		}
		return inFence
	}
	return f.open(line, number, cut)
}

// overflow looks at the part of a line beyond maxLine.
func (f *fence) overflow(part []byte) {
	if f.unsure && bytes.IndexByte(part, '`') >= 0 {
		*f = fence{}
	}
}

// open enters a fence if the line opens one.
func (f *fence) open(line []byte, number int, cut bool) place {
	width, n := indent(line)
	if width > 3 {
		return outside
	}
	item := 0
	mark, size := opening(line[n:])
	if size == 0 {
		if item = itemColumn(line, n); item == 0 {
			return outside
		}
		if mark, size = opening(line[item:]); size == 0 {
			return outside
		}
	}
	*f = fence{mark: mark, size: size, from: number, item: item, unsure: cut && mark == '`'}
	return fenceMarker
}

// closes reports whether the line is a closing fence: at most three columns of
// indent, a run of the same mark that is long enough, and only blanks behind.
func (f *fence) closes(line []byte) bool {
	width, n := indent(line)
	if width-f.item > 3 {
		return false
	}
	rest := line[n:]
	size := run(rest, f.mark)
	return size >= f.size && blank(rest[size:])
}

// leavesItem reports whether the line ends the list item that holds the fence.
func (f *fence) leavesItem(line []byte) bool {
	width, n := indent(line)
	return width < f.item && n < len(line)
}

// opening returns the mark and length of an opening fence at the start of s. A
// backtick fence has no backtick in its info string; otherwise it is inline
// code that opens nothing.
func opening(s []byte) (mark byte, size int) {
	if len(s) < 3 || s[0] != '`' && s[0] != '~' {
		return 0, 0
	}
	size = run(s, s[0])
	if size < 3 || s[0] == '`' && bytes.IndexByte(s[size:], '`') >= 0 {
		return 0, 0
	}
	return s[0], size
}

// fenceLike reports whether the line may be a fence in any reading.
func fenceLike(line []byte) bool {
	_, n := indent(line)
	rest := line[n:]
	return run(rest, '`') >= 3 || run(rest, '~') >= 3
}

// itemColumn returns the column where the content of a list item begins whose
// marker stands at n, if that column is below 4, or else 0. All bytes up to
// there are single columns, so that it is an index as well.
func itemColumn(line []byte, n int) int {
	col := n + listMarker(line[n:])
	if col == n {
		return 0
	}
	for col < len(line) && line[col] == ' ' {
		col++
	}
	if col > 3 || col == len(line) || line[col] == '\t' {
		return 0
	}
	return col
}

// listMarker returns the length of a list marker at the start of s without the
// blank that must follow it, or 0.
func listMarker(s []byte) int {
	n := 0
	for n < len(s) && n < 9 && isDigit(s[n]) {
		n++
	}
	switch {
	case n == len(s):
		return 0
	case n > 0 && s[n] != '.' && s[n] != ')':
		return 0
	case n == 0 && s[n] != '-' && s[n] != '*' && s[n] != '+':
		return 0
	}
	n++
	if n == len(s) || !isBlank(s[n]) {
		return 0
	}
	return n
}

// indent returns the width of the leading blanks in columns, with tab stops of
// four, and their number of bytes.
func indent(line []byte) (width, n int) {
	for n < len(line) {
		switch line[n] {
		case ' ':
			width++
		case '\t':
			width += 4 - width%4
		default:
			return width, n
		}
		n++
	}
	return width, n
}

// run returns how often mark is repeated at the start of s.
func run(s []byte, mark byte) int {
	n := 0
	for n < len(s) && s[n] == mark {
		n++
	}
	return n
}

func blank(s []byte) bool {
	_, n := indent(s)
	return n == len(s)
}
