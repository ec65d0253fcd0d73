package up

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ownDesk has the questions that up itself asks. It is safe for concurrent use.
type ownDesk struct {
	mu    sync.Mutex // guards the field below
	asked []ownQuestion
}

// ownQuestion is a question of up itself.
type ownQuestion struct {
	question
	// answer takes a yes or a no. With an error the question stays open.
	answer func(yes bool) error
}

// ask opens a question, unless one with its key is open.
func (d *ownDesk) ask(q question, answer func(yes bool) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.ContainsFunc(d.asked, func(o ownQuestion) bool { return o.key == q.key }) {
		return errors.New("that question is already open")
	}
	q.desk = d
	d.asked = append(d.asked, ownQuestion{q, answer})
	return nil
}

func (d *ownDesk) open(context.Context) (all []question, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.asked {
		all = append(all, q.question)
	}
	return all, nil
}

func (d *ownDesk) decide(_ context.Context, q question, yes bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := slices.IndexFunc(d.asked, func(o ownQuestion) bool { return o.key == q.key })
	if at < 0 {
		return errors.New("the question is not open any more")
	}
	if err := d.asked[at].answer(yes); err != nil {
		return err
	}
	d.asked = slices.Delete(d.asked, at, at+1)
	return nil
}

// drop closes questions without an answer.
func (d *ownDesk) drop(which func(question) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = slices.DeleteFunc(d.asked, func(o ownQuestion) bool { return which(o.question) })
}

func (d *ownDesk) by(q question) string { return q.elsewhere }
