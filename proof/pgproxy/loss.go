package pgproxy

import "sync"

// loss is the COMMIT that does not arrive, or whose answer does not.
type loss struct {
	mu sync.Mutex // guards the fields below
	// left counts the COMMITs until then, 0 for none to lose.
	left     int
	answered bool
	done     int
}

// LoseCommit ends the connection of the nth COMMIT from now on. With recorded false the server never sees it, so that
// what it would have committed is undone. With recorded true the server commits, and its answer is lost. It holds for one
// COMMIT; n = 0 takes it back.
func (p *Proxy) LoseCommit(n int, recorded bool) {
	p.loss.mu.Lock()
	defer p.loss.mu.Unlock()
	p.loss.left, p.loss.answered = n, recorded
}

// Lost counts the COMMITs that LoseCommit has lost.
func (p *Proxy) Lost() int {
	p.loss.mu.Lock()
	defer p.loss.mu.Unlock()
	return p.loss.done
}

// next counts a COMMIT and says whether it is the one, and whether the server is to see it.
func (l *loss) next() (this, recorded bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left == 0 {
		return false, false
	}
	if l.left--; l.left > 0 {
		return false, false
	}
	l.done++
	return true, l.answered
}
