package parser

import "bytes"

const (
	// maxLine is the longest line, in bytes without its line end, that is read
	// as a command. Longer ones are reported and never truncated.
	maxLine = 64 << 10
	// maxHeld leaves room for the CR of a CRLF after a line of maxLine bytes.
	maxHeld = maxLine + 1
)

// Parser reads a turn as it streams in. What it finds does not depend on how
// the text is cut into chunks. It holds at most one line of 64 KiB, whatever is
// written to it, and is not for concurrent use. A cut-off turn must not be
// closed: without Close its unfinished last line never becomes a command.
type Parser struct {
	opts Options
	h    Handler

	line  int // number of the line that was seen last, also when it is not finished
	after int // number of the SUBAGENT line directly above, or 0
	fence fence

	held   []byte // unfinished line, as far as it was written
	drop   bool   // the rest of the unfinished line is of no interest
	closed bool
}

// New returns a Parser at the start of a turn. Every turn needs its own: line
// numbers, fences and the byte order mark are counted from here.
func New(opts Options, h Handler) *Parser {
	return &Parser{opts: opts, h: h}
}

// Write takes the next bytes of the turn and reports the lines that they
// complete. It keeps no reference to b and never fails. After Close it does
// nothing.
func (p *Parser) Write(b []byte) (int, error) {
	n := len(b)
	if p.closed || n == 0 {
		return n, nil
	}
	if p.drop || len(p.held) > 0 {
		var ended bool
		if b, ended = p.resume(b); !ended {
			return n, nil
		}
	}
	if tail := p.scan(b); len(tail) > 0 {
		p.begin(tail)
	}
	return n, nil
}

// Close says that the turn ended normally and reports a last line that has no
// line end. It always returns nil, and a second call does nothing.
func (p *Parser) Close() error {
	if !p.closed && len(p.held) > 0 {
		p.whole(p.held, true)
	}
	p.closed = true
	p.held = nil
	return nil
}

// scan reports the complete lines of b and returns what follows the last LF.
func (p *Parser) scan(b []byte) []byte {
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			return b
		}
		if p.hangs() || mayMatter(b) {
			p.whole(b[:i], false)
		} else {
			p.line++
		}
		b = b[i+1:]
	}
}

// hangs reports whether the meaning of the next line hangs on the ones above,
// so that it must be looked at whatever it is. A top-level fence is no such
// case: only what would matter outside of it can matter in it.
func (p *Parser) hangs() bool { return p.after != 0 || p.fence.item != 0 }

// begin starts an unfinished line.
func (p *Parser) begin(tail []byte) {
	if p.hangs() || mayMatter(tail) {
		p.hold(tail)
		return
	}
	p.line++
	p.drop = true
}

// resume continues the unfinished line up to its LF and returns what follows.
func (p *Parser) resume(b []byte) (rest []byte, ended bool) {
	part := b
	i := bytes.IndexByte(b, '\n')
	if i >= 0 {
		part = b[:i]
	}
	if p.drop {
		p.fence.overflow(part)
	} else {
		p.hold(part)
	}
	if i < 0 {
		return nil, false
	}
	if !p.drop {
		p.whole(p.held, false)
	}
	p.drop = false
	p.held = p.held[:0]
	return b[i+1:], true
}

// hold appends to the unfinished line, or gives the line up as too long.
func (p *Parser) hold(part []byte) {
	room := maxHeld - len(p.held)
	if len(part) <= room {
		p.grow(len(p.held) + len(part))
		p.held = append(p.held, part...)
		return
	}
	p.grow(maxHeld)
	p.held = append(p.held, part[:room]...)
	p.handle(p.held[:maxLine], true)
	p.fence.overflow(p.held[maxLine:])
	p.fence.overflow(part[room:])
	p.held = p.held[:0]
	p.drop = true
}

// grow makes room for n bytes in all. It doubles like append does, but never
// beyond maxHeld, which append would.
func (p *Parser) grow(n int) {
	if n <= cap(p.held) {
		return
	}
	next := make([]byte, len(p.held), min(max(n, 2*cap(p.held), 512), maxHeld))
	copy(next, p.held)
	p.held = next
}

// whole takes a line without its LF. At the end of the text there was no LF,
// so that a CR there is part of the line.
func (p *Parser) whole(line []byte, atEnd bool) {
	if n := len(line); n > 0 && line[n-1] == '\r' && !atEnd {
		line = line[:n-1]
	}
	if len(line) <= maxLine {
		p.handle(line, false)
		return
	}
	p.handle(line[:maxLine], true)
	p.fence.overflow(line[maxLine:])
}

// handle decides about one line. When cut is set, line is the first maxLine
// bytes of a longer one.
func (p *Parser) handle(line []byte, cut bool) {
	p.line++
	after := p.after
	p.after = 0
	if p.line == 1 {
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	if p.opts.Fenced != FencedRun {
		switch p.fence.step(line, p.line, cut) {
		case inFence:
			p.inside(line)
			return
		case fenceMarker:
			return
		}
	}
	if verb := keyword(line); verb != "" {
		p.command(verb, line, cut)
		return
	}
	if p.decorated(line) || after == 0 {
		return
	}
	if readable(line) && !fenceLike(line) {
		p.miss(line, continuedAfter(after))
	}
}

// enabled reports whether the options know the verb.
func (p *Parser) enabled(v Verb) bool {
	switch v {
	case Remind:
		return p.opts.Remind
	case WebhookResult:
		return p.opts.WebhookResult
	}
	return true
}

// readable reports whether a line holds a letter, a digit or anything beyond
// ASCII: a rule or a lone bracket under a command continues nothing.
func readable(line []byte) bool {
	for _, c := range line {
		if c >= 0x80 || isAlnum(c) {
			return true
		}
	}
	return false
}
