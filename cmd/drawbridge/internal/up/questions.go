package up

import (
	"context"
	"fmt"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/relay/runner/approval"
	"drawbridge/relay/runner/control"
)

// question waits for a person's yes or no.
type question struct {
	id string
	// key names it at every desk: the bridge's id of what asks.
	key string
	// agent names who asks.
	agent string
	// text shows it whole; hash is what the bridge wants to hear of it, "" at the machine.
	text, hash string
	desk       desk
	// rule would allow the like from now on, and entry is the agent's in relay.yaml. rule is nil where no rule is looked for.
	rule  *approval.Rule
	entry string
	// elsewhere is what a person does in place of an answer here, for a question of up itself.
	elsewhere string
}

// desk is where questions are answered. Its errors count as "nobody can tell now": the program behind it may be about to start.
type desk interface {
	open(ctx context.Context) ([]question, error)
	// decide takes an answer.
	decide(ctx context.Context, q question, yes bool) error
	// by is the command that answers a question.
	by(q question) string
}

// machineDesk answers at the relay. It shows what a person at either place may answer, too.
type machineDesk struct {
	relay *control.Client
	names *names
	// name is what the bridge calls the relay.
	name, config string
}

func (d machineDesk) open(ctx context.Context) (all []question, err error) {
	open, err := d.relay.Pending(ctx)
	for _, p := range open {
		entry := p.Agent
		if p.Session != "" {
			p.Agent = d.names.of(ctx, p.Session, p.Agent)
		}
		all = append(all, question{id: p.ID, key: string(bridge.PermissionCommand(d.name, p.ID)), agent: p.Agent, text: p.Text(time.Now()), desk: d, rule: p.Rule, entry: entry})
	}
	return all, err
}

func (d machineDesk) decide(ctx context.Context, q question, yes bool) error {
	return d.relay.Decide(ctx, q.id, yes)
}

func (d machineDesk) by(q question) string {
	return fmt.Sprintf("drawbridge-relay approve %s --config %s (or deny %s)", q.id, d.config, q.id)
}

// bridgeDesk answers at the bridge, also where relay.yaml lets nobody at the machine answer.
type bridgeDesk struct {
	client *api.Client
	// where is what a command needs so that it finds the bridge.
	where string
}

func (d bridgeDesk) open(ctx context.Context) (all []question, err error) {
	held, err := d.client.Commands(ctx, api.ListOptions{State: string(bridge.CommandHeld), Limit: 500})
	if err != nil {
		return nil, err
	}
	for _, m := range held.Commands {
		name := m.AgentName
		if m.Held == nil { // a list leaves out what is long
			if m, err = d.client.Command(ctx, string(m.ID)); err != nil {
				return nil, err
			}
			if m.Held == nil { // it was answered meanwhile
				continue
			}
		}
		all = append(all, question{id: string(m.ID), key: string(m.ID), agent: name, text: m.Held.Shown, hash: m.Held.Hash, desk: d, rule: atBridge})
	}
	return all, nil
}

// atBridge says why a question at the bridge has no rule.
var atBridge = &approval.Rule{None: "the bridge asks this question; edit allowlist.yaml or relay.yaml yourself to always allow it"}

func (d bridgeDesk) decide(ctx context.Context, q question, yes bool) error {
	if yes {
		_, err := d.client.Approve(ctx, q.id, q.hash)
		return err
	}
	_, err := d.client.Deny(ctx, q.id, "")
	return err
}

func (d bridgeDesk) by(q question) string {
	return fmt.Sprintf("drawbridge approve %s@%s%s (or deny %s)", q.id, q.hash, d.where, q.id)
}

// names are the bridge's names of agents by their sessions.
type names struct {
	client *api.Client
	known  map[string]string
}

// of is the name of an agent and its entry of relay.yaml, or the entry alone.
func (n *names) of(ctx context.Context, session, entry string) string {
	if n.known[session] == "" {
		n.known = map[string]string{}
		for page := (api.ListOptions{Limit: 500}); ; {
			list, err := n.client.Agents(ctx, page)
			if err != nil {
				return entry
			}
			for _, a := range list.Agents {
				n.known[a.External] = a.Name
			}
			if page.Before = list.Next; page.Before == "" {
				break
			}
		}
	}
	if name := n.known[session]; name != "" {
		return fmt.Sprintf("%s (%s)", name, entry)
	}
	return entry
}
