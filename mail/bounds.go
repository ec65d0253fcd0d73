package mail

import (
	"drawbridge/bridge"
)

// maxReactions bounds the emojis of one agent on one message.
const maxReactions = 20

// fileRoom returns a Conflict error when one more file of size bytes is too much
// for the sender.
func (p *post) fileRoom(size int64) error {
	count, bytes, err := p.FilesFrom(p.from.ID)
	if err != nil {
		return err
	}
	const remedy = "ask the operator to delete old ones (`drawbridge message delete fil_…`), or send the text in a message"
	switch {
	case count >= p.o.FilesPer:
		return bridge.Errorf(bridge.Conflict, "the bridge keeps %d files that you sent, which is the limit; "+remedy, count)
	case bytes+size > p.o.FileBytes:
		return bridge.Errorf(bridge.Conflict, "your files hold %d bytes, and this one would exceed the limit of %d; "+remedy, bytes, p.o.FileBytes)
	}
	return nil
}

// threadRoom returns a Conflict error when the sender has made as many open
// threads as it may.
func (p *post) threadRoom() error {
	if p.byUser() {
		return nil
	}
	n, err := p.CountThreads(p.from.ID, p.o.ThreadsPer)
	if err != nil || n < p.o.ThreadsPer {
		return err
	}
	return bridge.Errorf(bridge.Conflict, "%d threads that you made are open, which is the limit. Write into one of them, or ask the operator to close one (`drawbridge channels close thr_…`)", n)
}

// memberRoom returns a Conflict error when an agent is in as many open threads as
// it may be.
func (p *post) memberRoom(a bridge.Agent) error {
	n, err := p.CountThreadsOf(a.ID, p.o.ThreadsOf)
	switch {
	case err != nil || n < p.o.ThreadsOf:
		return err
	case a.ID == p.from.ID:
		return bridge.Errorf(bridge.Conflict, "you are in %d open threads, which is the limit; leave one first", n)
	}
	return bridge.Errorf(bridge.Conflict, "%s is in %d open threads, which is the limit; it must leave one first", a.Name, n)
}

// reactionRoom returns a Conflict error when the sender has put too many emojis
// on a message.
func (p *post) reactionRoom(id bridge.MessageID) error {
	all, err := p.Reactions(id)
	if err != nil {
		return err
	}
	n := 0
	for _, r := range all {
		if r.Agent == p.from.ID {
			n++
		}
	}
	if n > maxReactions {
		return bridge.Errorf(bridge.Conflict, "you have %d reactions on message %s, which is the limit; take one away first", maxReactions, id)
	}
	return nil
}
