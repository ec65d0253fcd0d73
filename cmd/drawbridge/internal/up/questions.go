package up

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/relay/runner/control"
	"drawbridge/relay/runner/settings"
)

// question waits for a person's yes or no.
type question struct {
	id string
	// text shows it whole; hash is what the bridge wants to hear of it, "" at the machine.
	text, hash string
}

// desk is where the questions of an agent are answered. Its errors count as "nobody can tell now": the program behind it may be about
// to start.
type desk interface {
	open(ctx context.Context) ([]question, error)
	decide(ctx context.Context, q question, yes bool) error
	// by is the command that answers a question.
	by(q question) string
}

// machineDesk answers at the relay. It shows what a person at either place may answer, too.
type machineDesk struct {
	relay  *control.Client
	config string
}

func (d machineDesk) open(ctx context.Context) (all []question, err error) {
	open, err := d.relay.Pending(ctx)
	for _, p := range open {
		all = append(all, question{id: p.ID, text: p.Text(time.Now())})
	}
	return all, err
}

func (d machineDesk) decide(ctx context.Context, q question, yes bool) error {
	return d.relay.Decide(ctx, q.id, yes)
}

func (d machineDesk) by(q question) string {
	return fmt.Sprintf("drawbridge-relay approve %s --config %s (or deny %s)", q.id, d.config, q.id)
}

// bridgeDesk answers at the bridge, where relay.yaml lets nobody at the machine answer.
type bridgeDesk struct {
	client        *api.Client
	agent, config string
}

func (d bridgeDesk) open(ctx context.Context) (all []question, err error) {
	held, err := d.client.Commands(ctx, api.ListOptions{State: string(bridge.CommandHeld), Agent: d.agent, Verb: string(bridge.VerbPermission)})
	if err != nil {
		return nil, err
	}
	for _, m := range held.Commands {
		if m.Held == nil { // a list leaves out what is long
			if m, err = d.client.Command(ctx, string(m.ID)); err != nil || m.Held == nil {
				continue
			}
		}
		all = append(all, question{id: string(m.ID), text: m.Held.Shown, hash: m.Held.Hash})
	}
	return all, nil
}

func (d bridgeDesk) decide(ctx context.Context, q question, yes bool) error {
	if yes {
		_, err := d.client.Approve(ctx, q.id, q.hash)
		return err
	}
	_, err := d.client.Deny(ctx, q.id, "")
	return err
}

func (d bridgeDesk) by(q question) string {
	return fmt.Sprintf("drawbridge approve %s@%s --config %s (or deny %s)", q.id, q.hash, d.config, q.id)
}

// questions shows what waits for a person and takes the answers of a terminal.
type questions struct {
	u    *upping
	desk desk
	keys *keyboard
	seen map[string]bool
}

// questions are those of the agent that the bridge calls name.
func (u *upping) questions(name string) *questions {
	q := &questions{u: u, keys: &keyboard{in: u.Stdin, over: !u.Person}, seen: map[string]bool{}, desk: machineDesk{control.NewClient(u.relay.State), u.file("relay.yaml")}}
	if u.relay.Agents[u.Agent].ApproveBy == settings.AtBridge {
		q.desk = bridgeDesk{u.client, name, u.file("bridge.yaml")}
	}
	return q
}

// show shows each question once. Without a person at the terminal it stays open, and the command that answers it is printed.
func (q *questions) show(ctx context.Context) error {
	open, err := q.desk.open(ctx)
	if err != nil {
		return nil
	}
	for _, one := range open {
		if q.seen[one.id] {
			continue
		}
		q.seen[one.id] = true
		fmt.Fprint(q.u.Stderr, q.u.Shown(one.text))
		yes, answered, err := q.ask(ctx, one.id)
		if errors.Is(err, errAnswered) {
			continue
		}
		if err != nil {
			return err
		}
		if !answered {
			q.u.say("answer it with: %s", q.desk.by(one))
			continue
		}
		if err := q.desk.decide(ctx, one, yes); err != nil {
			q.u.say("%s: %v", one.id, err)
		}
	}
	return nil
}

// ask takes a word of the person. What was typed before the question was shown is not an answer to it.
func (q *questions) ask(ctx context.Context, id string) (yes, answered bool, err error) {
	if q.keys.over {
		return false, false, nil
	}
	lines := q.keys.line(func() { fmt.Fprintf(q.u.Stderr, "Approve %s? [y/N] ", id) })
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, false, context.Cause(ctx)
		case text := <-lines:
			yes, answered = q.keys.took(text)
			return yes, answered, nil
		case <-tick.C:
		}
		if open, err := q.desk.open(ctx); err == nil && !slices.ContainsFunc(open, func(one question) bool { return one.id == id }) {
			fmt.Fprintf(q.u.Stderr, "\n%s is not open any more\n", id)
			return false, false, errAnswered
		}
	}
}

// errAnswered means that a question ended while it was shown.
var errAnswered = errors.New("the question is not open any more")
