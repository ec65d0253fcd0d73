package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/config"
)

// connection says which bridge to talk to. Without flags the address and the token
// come from the environment, or from the configuration that find returns.
type connection struct {
	URL    string `help:"Call the bridge at this address. It is operator.listen of its bridge.yaml; without that, listen." env:"DRAWBRIDGE_URL" placeholder:"URL"`
	Token  string `help:"Use this operator token. Prefer the environment variable." env:"DRAWBRIDGE_TOKEN" placeholder:"TOKEN"`
	Config string `help:"Read the bridge's address and token from this bridge.yaml. The default is the bridge.yaml here, that of a running drawbridge up, or one in a folder above." env:"DRAWBRIDGE_CONFIG" placeholder:"FILE" type:"path"`
}

// target is a connection, for a command that prints an answer.
type target struct {
	connection
	JSON bool `help:"Print JSON."`
}

func (t connection) client(a app) (*api.Client, error) {
	at, err := t.resolve(a)
	if err != nil {
		return nil, err
	}
	return at.client()
}

func (p place) client() (*api.Client, error) {
	return api.NewClient(api.ClientOptions{URL: p.url, Token: p.token, Start: p.start})
}

// place is where a bridge is found: url serves the operator, door serves agents; token is the operator's, and start is the command that starts it. file is
// the configuration that says so, "" where flags or variables do.
type place struct{ url, door, token, start, file string }

// resolve returns the bridge's addresses and the operator's token. door is "" when the address was given: then only that
// bridge knows its door. With an error, what was given by flag or variable is there all the same.
func (t connection) resolve(a app) (place, error) {
	at := place{url: t.URL, token: t.Token}
	if at.url != "" && at.token != "" {
		return at, nil
	}
	path, start := t.Config, ""
	if at.url == "" {
		path, start = t.find(a)
	} else if path == "" { // the token of another bridge must not go to this address
		path = bridgeFile
	}
	if !isFile(path) {
		switch {
		case at.url != "":
			return at, usageError{fmt.Errorf("no token for %s: set DRAWBRIDGE_TOKEN, or name the bridge.yaml of that bridge with --config", at.url)}
		case t.Config != "":
			return at, usageError{fmt.Errorf("%s does not exist; correct the path, or create it with: drawbridge init", path)}
		}
		return at, usageError{errors.New("no bridge was found: start drawbridge up, name a bridge.yaml with --config, or set DRAWBRIDGE_URL and DRAWBRIDGE_TOKEN")}
	}
	cfg, problems := config.LoadToTalk(path, a.getenv)
	if cfg == nil {
		return at, a.problems(path, problems)
	}
	if at.url == "" {
		at.url, at.door, at.start = cfg.OperatorURL(), cfg.DoorURL(), start
	}
	at.token, at.file = cmp.Or(at.token, cfg.Token.Reveal()), path
	return at, nil
}

// agents returns where agents reach the bridge. Unless the configuration says it, the bridge is asked: the address is one of
// this machine when the bridge is called here, else its public_url.
func (p place) agents(ctx context.Context, client *api.Client) (string, error) {
	if p.door != "" {
		return p.door, nil
	}
	s, err := client.Status(ctx)
	if err != nil {
		return "", err
	}
	u, wrong := url.Parse(client.URL())
	switch {
	case s.DoorURL == "": // one address serves all
		return client.URL(), nil
	case wrong == nil && s.PublicURL != "" && !onLoopback(u.Hostname()):
		return s.PublicURL, nil
	}
	return s.DoorURL, nil
}

// onLoopback reports whether a host is this machine.
func onLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// withClient runs fn with a client of the target.
func (t connection) withClient(a app, fn func(*api.Client) error) error {
	client, err := t.client(a)
	if err != nil {
		return err
	}
	defer client.Close()
	return fn(client)
}

// ask calls the bridge once.
func ask[T any](t target, a app, call func(*api.Client) (T, error)) (answer T, err error) {
	err = t.withClient(a, func(client *api.Client) (err error) {
		answer, err = call(client)
		return err
	})
	return answer, err
}

// tell calls the bridge once and prints the answer: as JSON when that was asked
// for, and otherwise as show does.
func tell[T any](t target, a app, call func(*api.Client) (T, error), show func(T) error) error {
	answer, err := ask(t, a, call)
	if err != nil {
		return err
	}
	if t.JSON {
		return printJSON(a.stdout, answer)
	}
	return show(answer)
}

// short keeps a text on one line and harmless to a terminal.
func short(s string, n int) string {
	s = shown(strings.NewReplacer("\n", " ", "\t", " ").Replace(s))
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// shown makes text that others may have written fit for a terminal: it keeps its
// lines, and nothing of it moves the cursor or turns the writing around.
func shown(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < 0x20 || (r >= 0x7f && r < 0xa0) || (r >= 0x202a && r <= 0x202e) || (r >= 0x2066 && r <= 0x2069):
			return '?'
		}
		return r
	}, s)
}

type launchCmd struct {
	Repo         string  `arg:"" help:"Launch the agent on this repository: an orchestrator's own, or one of the allowlist."`
	Prompt       textArg `arg:"" help:"Give the agent this text as its first turn; write - to read standard input."`
	Name         string  `help:"The agent's name." default:"main"`
	Ref          string  `help:"Start from this branch, tag or commit." placeholder:"REF"`
	API          string  `help:"Use this version of the Cloud Agents API, v1 or v0. By default the rule or the configuration decides." enum:",v0,v1" default:"" placeholder:"VERSION"`
	Runtime      string  `help:"Where the agent and all below it live: a name below runtimes in bridge.yaml. Without it the configuration decides." placeholder:"NAME"`
	Join         string  `help:"Return the results of several subagents by this policy: each, all, any or a number. By default the configuration decides." placeholder:"POLICY"`
	JoinDeadline string  `help:"Wait at most this long for the results of subagents. The default is 1h." placeholder:"SPAN"`
	waits
}

// Help shows an example.
func (launchCmd) Help() string {
	return "Example:\n  drawbridge launch github.com/me/agent-env \"Ship the health check\" --name main"
}

// Run launches.
func (c launchCmd) Run(ctx context.Context, a app) error {
	launch := func(client *api.Client) (api.Launched, error) {
		return client.Launch(ctx, api.LaunchRequest{Name: c.Name, Repo: c.Repo, Ref: c.Ref, Prompt: string(c.Prompt), API: c.API, Runtime: c.Runtime, JoinRequest: api.JoinRequest{Join: c.Join, JoinDeadline: c.JoinDeadline}})
	}
	if c.Wait {
		return c.see(ctx, a, c.Name, func(client *api.Client) (api.Turn, error) {
			l, err := launch(client)
			return l.Turn, err
		})
	}
	return tell(c.target, a, launch, func(l api.Launched) error {
		_, err := fmt.Fprintf(a.stdout, "%s is %s on %s; its first turn is %s\nSee what comes of it: drawbridge turns %s\n", l.Agent.Name, l.Agent.ID, l.Agent.Repo, l.Turn.ID, l.Agent.Name)
		return err
	})
}

type sayCmd struct {
	Agent string  `arg:"" help:"The agent's name or id."`
	Text  textArg `arg:"" help:"Say this text to the agent; write - to read standard input."`
	waits
}

// Help shows an example.
func (sayCmd) Help() string {
	return "A busy agent gets the text when its current turn is over.\n\nExample:\n  drawbridge say main \"Please also update the changelog\"\n  git diff | drawbridge say main -\n  drawbridge say main \"Are the tests green?\" --wait"
}

// Run says.
func (c sayCmd) Run(ctx context.Context, a app) error {
	say := func(client *api.Client) (api.Turn, error) { return client.Say(ctx, c.Agent, string(c.Text)) }
	if c.Wait {
		g, err := ask(c.target, a, func(client *api.Client) (api.Agent, error) { return client.Agent(ctx, c.Agent) })
		if err != nil {
			return err
		}
		return c.see(ctx, a, g.Name, say)
	}
	return tell(c.target, a, say, func(t api.Turn) error {
		_, err := fmt.Fprintf(a.stdout, "turn %d of %s is %s (%s)\n", t.Seq, c.Agent, t.State, t.ID)
		return err
	})
}

// page selects rows of a list.
type page struct {
	State  string `help:"List only entries in this state." placeholder:"STATE"`
	Limit  int    `help:"List at most this many entries, newest first." default:"50"`
	Before string `help:"Continue a list before this entry; the previous list prints the value." placeholder:"NEXT"`
	Wide   bool   `help:"Show ids, what turns took, and up to 2000 characters of each text, even if lines become long."`
}

func (p page) options() api.ListOptions {
	return api.ListOptions{State: p.State, Limit: p.Limit, Before: p.Before}
}

func more(a app, next string) error {
	if next == "" {
		return nil
	}
	_, err := fmt.Fprintf(a.stdout, "more: --before %s\n", next)
	return err
}

type agentsCmd struct {
	Forgotten bool `help:"List forgotten agents too."`
	page
	target
}

// Help shows an example.
func (agentsCmd) Help() string { return "Example:\n  drawbridge agents --state busy" }

// Run lists agents.
func (c agentsCmd) Run(ctx context.Context, a app) error {
	o := c.options()
	o.Forgotten = c.Forgotten
	return tell(c.target, a, func(client *api.Client) (api.AgentList, error) { return client.Agents(ctx, o) }, func(list api.AgentList) error {
		l := rows{head: []string{"NAME", "STATE", "AGE", "REPOSITORY", "TASK", "API", "ID", "EXTERNAL"}, ids: 3, wide: c.Wide, none: c.none("no agents; drawbridge launch makes one")}
		for _, g := range list.Agents {
			l.rows = append(l.rows, row{[]string{short(g.Name, maxCell), g.State, age(g.CreatedAt, time.Now()), repoShown(short(g.Repo, maxCell)), short(g.Task, maxCell), g.API, g.ID, g.External}, agentNotes(g)})
		}
		if err := l.print(a.stdout); err != nil {
			return err
		}
		return more(a, list.Next)
	})
}

// none is what an empty list says: text, or that nothing is left of a selection.
func (p page) none(text string) string {
	if p.State != "" || p.Before != "" {
		return "none"
	}
	return text
}

// agentNotes says what an agent on a person's machine does, what is wrong with an agent, and which of its actions people at machines are asked about.
func agentNotes(g api.Agent) (notes []string) {
	if g.Doing != "" && g.DoingSince != nil {
		notes = append(notes, g.Doing+" since "+g.DoingSince.UTC().Format("2006-01-02 15:04:05 MST"))
	}
	if g.Trouble != "" {
		notes = append(notes, short(g.Trouble, maxNote))
	}
	for _, q := range g.Asked {
		notes = append(notes, short(q.Action+": "+q.Text, maxNote))
	}
	return notes
}

// maxNote is how much of a sentence stands below a line of a list, in characters.
const maxNote = 600

type turnsCmd struct {
	Agent string `arg:"" help:"The agent's name or id."`
	page
	target
}

// Help shows an example.
func (turnsCmd) Help() string { return "Example:\n  drawbridge turns main --json" }

// Run lists turns.
func (c turnsCmd) Run(ctx context.Context, a app) error {
	return tell(c.target, a, func(client *api.Client) (api.TurnList, error) { return client.Turns(ctx, c.Agent, c.options()) }, func(list api.TurnList) error {
		l := rows{head: []string{"TURN", "STATE", "AGE", "CAUSE", "HEARD", "REPLIED", "ID"}, ids: 1, wide: c.Wide, none: c.none("no turns")}
		for _, t := range list.Turns {
			heard := strings.TrimSpace(strings.TrimPrefix(words.ForPerson(cmp.Or(t.Sent, t.Text)), words.Happened))
			r := row{cells: []string{fmt.Sprint(t.Seq), turnState(t), age(t.CreatedAt, time.Now()), t.Cause, short(heard, c.room(maxHeard)), short(t.Reply, maxWide), t.ID}}
			if t.Trouble != "" {
				r.notes = []string{short(t.Trouble, maxNote)}
			}
			if spent := t.Spent.String(); c.Wide && spent != "" {
				r.notes = append(r.notes, short("took "+spent, maxNote))
			}
			l.rows = append(l.rows, r)
		}
		if err := l.print(a.stdout); err != nil {
			return err
		}
		return more(a, list.Next)
	})
}

type commandsCmd struct {
	Agent string `help:"List only commands of this agent (name or id)." placeholder:"AGENT"`
	Turn  string `help:"List only commands of this turn." placeholder:"ID"`
	page
	target
}

// Help shows an example.
func (commandsCmd) Help() string {
	return "A command has one of these states: parsed, refused, held, granted, sending, confirmed, failed, uncertain, finished, reported. While the relay asks a person at its machine, the list shows asked instead of sending. --state sending lists these commands, too.\n\n--state held shows each held command in full: everything that your approval would do, who wrote it, and what caused it. It also shows what changed since your last approval. The list escapes all characters outside printable ASCII. Identical commands of one agent share one entry with a count.\n\nExample:\n  drawbridge commands --state held"
}

// Run lists commands.
func (c commandsCmd) Run(ctx context.Context, a app) error {
	o := c.options()
	o.Agent, o.Turn = c.Agent, c.Turn
	return tell(c.target, a, func(client *api.Client) (api.CommandList, error) { return client.Commands(ctx, o) }, func(list api.CommandList) error {
		if c.State == "held" && c.Turn == "" && len(list.Commands) > 0 {
			return showHeld(a, list)
		}
		l := rows{head: []string{"AGENT", "AGE", "OUTCOME", "WHAT", "TEXT", "STATE", "ID"}, ids: 2, wide: c.Wide, none: c.none("no commands")}
		for _, m := range list.Commands {
			what := m.Verb + " " + short(repoShown(m.Repo)+m.Action+m.When, c.room(40))
			l.rows = append(l.rows, row{[]string{cmp.Or(m.AgentName, m.Agent), age(m.CreatedAt, time.Now()), outcomeShown(m), what, short(m.Prompt+m.Message, maxWide), m.State, m.ID}, commandNotes(m)})
		}
		if err := l.print(a.stdout); err != nil {
			return err
		}
		return more(a, list.Next)
	})
}

// outcomeShown is what came of a command, in a word or two; its state while nothing did.
func outcomeShown(m api.Command) string {
	switch {
	case m.Asked != nil && m.State == "sending":
		return "asked"
	case m.Outcome == nil:
		return cmp.Or(m.Ended, m.State)
	case m.Outcome.Status == string(bridge.ActionExecuted) && m.Outcome.ExitCode != bridge.NoExitCode:
		return fmt.Sprintf("exit %d", m.Outcome.ExitCode)
	}
	return strings.ReplaceAll(strings.ToLower(short(m.Outcome.Status, 20)), "_", " ")
}

// commandNotes say why a command is where it is, and what a person can do.
func commandNotes(m api.Command) (notes []string) {
	if m.Reason != "" {
		notes = append(notes, short(m.Reason, maxNote))
	}
	if m.Outcome != nil && m.Outcome.Error != "" {
		notes = append(notes, short(m.Outcome.Error, maxNote))
	}
	switch m.State {
	case "held":
		notes = append(notes, "to see what an approval does: drawbridge commands --state held")
	case "uncertain":
		notes = append(notes, "say what really happened: drawbridge resolve "+m.ID)
	}
	return notes
}

// How much of a text stands in a cell, in characters: of any, of what an agent heard, and in a wide list.
const (
	maxCell  = 200
	maxHeard = 36
	maxWide  = 2000
)

// room is how many characters a cell in front of the last one may have.
func (p page) room(n int) int {
	if p.Wide {
		return maxWide
	}
	return n
}

type denyCmd struct {
	Command string `arg:"" help:"The held command's id; see drawbridge commands --state held."`
	Reason  string `help:"Tell the agent this reason." placeholder:"TEXT"`
	target
}

// Help shows an example.
func (denyCmd) Help() string {
	return "Example:\n  drawbridge deny cmd_0123 --reason \"not before the release\""
}

// Run denies.
func (c denyCmd) Run(ctx context.Context, a app) error {
	m, err := ask(c.target, a, func(client *api.Client) (api.Command, error) { return client.Deny(ctx, c.Command, c.Reason) })
	if err != nil {
		return err
	}
	return printDecision(a, c.JSON, "denied", m)
}

// cancelled is what a person did to a reminder.
const cancelled = "cancelled"

func printDecision(a app, asJSON bool, word string, m api.Command) error {
	if asJSON {
		return printJSON(a.stdout, m)
	}
	about := m.Repo + m.Action
	if m.When != "" {
		about = m.When + ", " + m.Message
	}
	state := " is now " + m.State
	if word == cancelled { // its state says failed, which a reminder that a person took back did not
		state = ""
	}
	_, err := fmt.Fprintf(a.stdout, "%s %s: %s %s%s\n", word, m.ID, m.Verb, short(about, 80), state)
	return err
}
