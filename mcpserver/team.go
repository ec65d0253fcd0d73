package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/echo"
	"drawbridge/bridge/words"
	"drawbridge/mail"
	"drawbridge/parser"
	"drawbridge/policy"
)

// teamTools is the set for agents in a tree (seed: Substrat).
func (d *Door) teamTools() []tool {
	return []tool{
		define("send_message", "Send a message to another agent: your parent, a child or a sibling. Without a parent you may write to USER, the operator. Use this tool to ask or tell one of your team: it wakes the recipient. The tool returns at once. With sync, your next message is the reply or a notice that none comes, so do not poll for it.",
			takes(text("recipient", "Agent name."), text("text", "Message body."),
				flag("sync", "If true, the reply is delivered as your next message.").or(true), replyTo()), d.sendMessage).keyed(),
		define("broadcast", "Send one message to all your siblings. Replies arrive as separate messages, one per respondent, or as one turn if joined.",
			takes(text("text", "Message body."), flag("joined", "If true, the replies come together as one turn, when all are there or an hour has passed.").or(false)), d.broadcast).keyed(),
		define("check_inbox", "Retrieve the messages that wait for you, oldest first and at most 50 at a time. A retrieved message does not come again as a turn. Do not call this tool in a loop: messages also reach you as turns.",
			takes(), d.checkInbox).keeps(),
		define("message_status", "Show for each recipient how far a message of yours, of any kind, has come. The state is queued, offered (a tool fetched it), in_prompt (a running turn has it) or acknowledged (that turn ended well). Do not call this tool in a loop: replies arrive as your next turn.",
			takes(text("message_id", "Id of a message that you sent, msg_….")), d.messageStatus),
		define("spawn_agent", "Create a subagent of yours. It knows only the instructions, so put everything that it needs there. The tool returns at once, and the result arrives as your next turn. status is created, or held if a person must approve the subagent first. The same call again in one turn returns the same agent.",
			takes(text("name", "Name of the new agent; letters, digits, dots, dashes and underscores."), text("instructions", "The task of the subagent, with everything that it must know."),
				text("role", "What the new agent is for. On a person's machine a reviewer can read its workspace and change nothing there.").among("worker", bridge.RoleReviewer).or("worker"), text("workspace_subdir", "Subdirectory of your workspace in which the new agent works.").maybe(),
				text("repo", "Repository for the subagent, as github.com/owner/name. list_allowed says which ones are allowed. Without repo, the subagent works on your own repository, if that one is allowed. If you run on a person's machine: without repo it works in your own workspace, with repo in one of its own.").maybe()), d.spawnAgent).keyed(),
		define("inspect_agent", "View a subordinate's state (idle, busy or waiting) and its recent messages: what it was told and what it replied, oldest first.",
			takes(text("name", "Name of an agent below you.")), d.inspectAgent),
		define("complete", "Tell your parent the result of your task and that the task is done. If you have no parent, this tells the operator. Your parent gets one result of a task. If you never call this tool, the result is your first reply that leaves no work open.",
			takes(text("result", "What you did and where it is."),
				text("why_uncommitted", "Only if you leave uncommitted work in your workspace: say why.").maybe()), d.complete).keyed(),
		define("poke", "Wake a child of yours. If its last turn failed, the bridge tries that turn again.",
			takes(text("agent", "Name or id of a child.")), d.poke).keyed(),
		define("subscribe", "Get one turn when a busy agent stops being busy: your parent, a child or a sibling. Use this tool instead of asking again and again.",
			takes(text("agent", "Name or id of the agent."), text("event", "The event to wait for.").among(becameIdle).or(becameIdle)), d.subscribe).keeps(),
		define("list_children", "List your direct children and what each is doing.", takes(), d.listChildren),
	}
}

// replyTo is for those who were asked more than once: without it an answer is
// taken for that to the oldest question.
func replyTo() prop {
	return text("reply_to", "Optional: id of the message that you answer, msg_…, if it is not the oldest one that waits for your reply.").maybe()
}

type sendArgs struct {
	Recipient string `json:"recipient"`
	Text      string `json:"text"`
	Sync      *bool  `json:"sync"`
	ReplyTo   string `json:"reply_to"`
}

// MessageSent is what send_message and broadcast answer.
type MessageSent struct {
	Status    string `json:"status"`
	MessageID string `json:"message_id"`
	// Waiting is send_message's, Recipients broadcast's.
	Waiting    *bool `json:"waiting_for_reply,omitempty"`
	Recipients *int  `json:"recipient_count,omitempty"`
	// Reason says who cannot answer, and why.
	Reason string `json:"reason,omitempty"`
}

func (d *Door) sendMessage(ctx context.Context, c *caller, in sendArgs) (answer, error) {
	sent, err := d.post(c).Send(ctx, c.agent.ID, mail.Draft{To: in.Recipient, Text: in.Text, Sync: in.Sync == nil || *in.Sync, ReplyTo: bridge.MessageID(in.ReplyTo)})
	return answer{data: MessageSent{Status: "sent", MessageID: string(sent.Message.ID), Waiting: &sent.Waiting, Reason: sent.Mute}}, err
}

type broadcastArgs struct {
	Text   string `json:"text"`
	Joined bool   `json:"joined"`
}

func (d *Door) broadcast(ctx context.Context, c *caller, in broadcastArgs) (answer, error) {
	sent, err := d.post(c).Broadcast(ctx, c.agent.ID, mail.Draft{Text: in.Text, Joined: in.Joined})
	return answer{data: MessageSent{Status: "sent", MessageID: string(sent.Message.ID), Recipients: &sent.Recipients, Reason: sent.Mute}}, err
}

// Letter is a message as check_inbox shows it.
type Letter struct {
	From      string `json:"from"`
	Text      string `json:"text"`
	MessageID string `json:"message_id"`
	// Thread is the thread or channel it was written in.
	Thread  string `json:"thread_id,omitempty"`
	ReplyTo string `json:"reply_to,omitempty"`
}

func (d *Door) checkInbox(ctx context.Context, c *caller, _ struct{}) (answer, error) {
	got, err := d.post(c).Inbox(ctx, c.agent.ID)
	letters := make([]Letter, len(got))
	for i, m := range got {
		letters[i] = Letter{From: m.FromName, Text: m.Text, MessageID: string(m.ID), Thread: string(m.Conversation), ReplyTo: string(m.ReplyTo)}
	}
	if err == nil {
		err = d.heard(ctx, c, got)
	}
	return answer{data: letterList{letters}}, err
}

// heard records what an agent may repeat out of messages that a tool shows to it, as
// a turn records it: a command that repeats them is held.
func (d *Door) heard(ctx context.Context, c *caller, messages []bridge.Message) error {
	var all []echo.Heard
	for _, m := range messages {
		if m.From == c.agent.ID {
			continue
		}
		h := echo.Heard{Text: m.Text, Mode: echo.Named, Source: bridge.EchoTree, Author: m.FromName, Place: fmt.Sprintf("the message %s of %s", m.ID, m.FromName)}
		if m.From == bridge.User {
			h.Source, h.Mode = bridge.EchoOperator, echo.Exact
		}
		all = append(all, h)
	}
	return d.hear(ctx, c, all)
}

// hear records what an agent may repeat out of what a tool shows to it.
func (d *Door) hear(ctx context.Context, c *caller, all []echo.Heard) error {
	if all = slices.DeleteFunc(all, echo.Heard.Empty); len(all) == 0 {
		return nil
	}
	return d.o.Engine.Change(ctx, func(tx bridge.Change) error {
		for _, h := range all {
			h.Agent = c.agent.ID
			if err := echo.Hear(tx.Scene, h, tx.Now()); err != nil {
				return err
			}
		}
		return nil
	})
}

type spawnArgs struct {
	Name         string  `json:"name"`
	Instructions string  `json:"instructions"`
	Role         string  `json:"role"`
	Subdir       *string `json:"workspace_subdir"`
	Repo         string  `json:"repo"`
}

// Spawned is what spawn_agent answers.
type Spawned struct {
	// Status is created, or held; then there is no agent yet, and Name is what it will be called.
	Status    string `json:"status"`
	AgentID   string `json:"agent_id"`
	Name      string `json:"name"`
	CommandID string `json:"command_id"`
	Reason    string `json:"reason,omitempty"`
}

func (d *Door) spawnAgent(ctx context.Context, c *caller, in spawnArgs) (answer, error) {
	if err := errors.Join(bridge.CheckName(in.Name), checkWords("instructions", in.Instructions)); err != nil {
		return answer{}, err
	}
	subdir := ""
	if in.Subdir != nil {
		subdir = *in.Subdir
	}
	if err := checkSubdir(subdir); err != nil {
		return answer{}, err
	}
	if in.Role == "" {
		in.Role = "worker"
	}
	cmd := parser.Command{Verb: parser.Subagent, Repo: cmpOr(in.Repo, c.agent.Repo), Prompt: in.Instructions,
		Name: in.Name, Role: in.Role, Subdir: subdir, Shared: in.Repo == ""}
	got, err := d.spawnedBefore(ctx, c, cmd)
	if err == nil && got.Status == "" {
		if err = d.freeName(ctx, c, in.Name); err == nil {
			got, err = d.launch(ctx, c, cmd)
		}
	}
	if err != nil {
		return answer{}, ownRepo(err, in.Repo)
	}
	out := Spawned{Status: got.Status, AgentID: got.AgentID, Name: cmpOr(got.Name, in.Name), CommandID: got.CommandID, Reason: got.Reason}
	if got.AgentID != "" {
		out.Status = "created"
	}
	return answer{data: out}, nil
}

// ownRepo says, of a refusal, whose repository it was when none was named. The
// child works where its parent does (seed: workspace_subdir is below the parent's
// workspace), if the policy lets it; an orchestrator's own repository it does not.
func ownRepo(err error, named string) error {
	var code refusedFor
	if named != "" || !errors.As(err, &code) || (code != refusedFor(policy.CodeRepoNotAllowed) && code != refusedFor(policy.CodeBadRepo)) {
		return err
	}
	return bridge.Errorf(bridge.Denied, "%s; you named no repo, so the subagent would work on your own repository: give an allowed one as repo", bridge.SafeMessage(err))
}

// spawnedBefore finds what was made under the same key, or by the same call
// earlier in this turn, the zero Asked for nothing: an agent whose answer was lost
// asks once more, and names and instructions that are the same cannot mean another agent.
func (d *Door) spawnedBefore(ctx context.Context, c *caller, cmd parser.Command) (got Asked, err error) {
	err = d.o.Engine.View(ctx, func(tx *bridge.Scene) error {
		if id, err := c.once.Earlier(tx, c.agent.ID); err != nil {
			return err
		} else if id != "" {
			m, err := tx.Command(bridge.CommandID(id))
			if err == nil {
				got, err = launched(tx, m)
			}
			return err
		}
		t, err := turnOf(tx, c.agent.ID)
		if err != nil || t.ID == "" {
			return err
		}
		all, err := tx.Commands(bridge.CommandFilter{Turn: t.ID, Limit: 1000})
		if err != nil {
			return err
		}
		for _, m := range all {
			was := m.Parsed
			was.Raw, was.Line = cmd.Raw, cmd.Line
			if was == cmd && (m.Child != "" || m.State == bridge.CommandHeld) {
				got, err = launched(tx, m)
				return err
			}
		}
		return nil
	})
	return got, err
}

// checkSubdir refuses what could lead out of a workspace. Empty is the workspace itself.
func checkSubdir(dir string) error {
	if dir == "" {
		return nil
	}
	if len(dir) > 255 || !filepath.IsLocal(dir) || strings.ContainsAny(dir, "\\:\n\r\t") || strings.ContainsFunc(dir, hidden) || slices.Contains(strings.Split(dir, "/"), "..") {
		return bridge.Errorf(bridge.Invalid, "workspace_subdir %+.60q does not stay within your workspace; name a folder below it, such as services/api", dir)
	}
	return nil
}

// freeName refuses a name that nobody could tell from another's; see
// bridge.NameTaken. The launch looks again, in its own transaction.
func (d *Door) freeName(ctx context.Context, c *caller, name string) error {
	taken := false
	err := d.o.Engine.View(ctx, func(tx *bridge.Scene) (err error) {
		taken, err = bridge.NameTaken(tx, c.agent.Root, name)
		return err
	})
	if err == nil && taken {
		err = bridge.Errorf(bridge.Conflict, "the name %q is taken; choose another", name)
	}
	return err
}

type nameArgs struct {
	Name string `json:"name"`
}

// Inspection is what inspect_agent answers.
type Inspection struct {
	// State is one of the seed's words; Detail is the bridge's own, with what is wrong.
	State   string `json:"state"`
	Detail  string `json:"detail"`
	Trouble string `json:"trouble,omitempty"`
	// WaitsFor are its actions that wait for a relay or for a person at its machine, in words.
	WaitsFor []string `json:"waits_for,omitempty"`
	// Recent is what the agent was told and replied in its last turns, oldest first.
	Recent []Said `json:"recent_messages"`
}

// Said is one side of a turn, clipped.
type Said struct {
	Turn int64  `json:"turn"`
	From string `json:"from"`
	Text string `json:"text"`
	At   string `json:"at"`
}

// What inspect_agent shows: so many turns, and so many bytes of each side.
const (
	recentTurns = 5
	recentBytes = 4000
)

func (d *Door) inspectAgent(ctx context.Context, c *caller, in nameArgs) (answer, error) {
	out := Inspection{Recent: []Said{}}
	var said []echo.Heard
	err := d.o.Engine.View(ctx, func(tx *bridge.Scene) error {
		a, err := c.find(tx, in.Name)
		if err != nil {
			return err
		}
		if below, err := c.leads(tx, a); err != nil || !below {
			return errors.Join(err, bridge.Errorf(bridge.Denied, "%s is not below you; you may inspect your children (see list_children) and the agents below them", a.Name))
		}
		out.State, out.Detail, out.Trouble = seedState(a.State), string(a.State), words.ForAgent(a.Trouble)
		if awaited, err := tx.AwaitedBy(a.ID, 1); err != nil {
			return err
		} else if len(awaited) > 0 && out.State != "busy" { // it asked outside of a turn
			out.State = "waiting"
		}
		if out.WaitsFor, err = waitsFor(tx, a.ID); err != nil {
			return err
		}
		turns, err := tx.Turns(bridge.TurnFilter{Agent: a.ID, Limit: recentTurns})
		for _, t := range slices.Backward(turns) {
			out.Recent = append(out.Recent, Said{Turn: t.Seq, From: "prompt", Text: words.Clip(cmpOr(t.Sent, t.Text), recentBytes), At: t.CreatedAt.UTC().Format(time.RFC3339)})
			said = append(said, echo.Heard{Text: barred(words.Clip(t.Sent, recentBytes)), Mode: echo.Named, Source: bridge.EchoTree, Place: fmt.Sprintf("what others wrote to %s in its turn %d", a.Name, t.Seq)})
			if t.Reply != "" && !a.Silent() {
				said = append(said, echo.Heard{Text: words.Clip(t.Reply, recentBytes), Mode: echo.Named, Source: bridge.EchoTree, Author: a.Name, Place: fmt.Sprintf("the reply of %s in its turn %d", a.Name, t.Seq)})
				out.Recent = append(out.Recent, Said{Turn: t.Seq, From: a.Name, Text: words.Clip(t.Reply, recentBytes), At: t.EndedAt.UTC().Format(time.RFC3339)})
			}
		}
		return err
	})
	if err == nil {
		err = d.hear(ctx, c, said)
	}
	return answer{data: out}, err
}

// barred returns the lines of a turn that stand behind a bar, which others wrote.
func barred(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "| "); ok {
			b.WriteString(rest)
		}
	}
	return b.String()
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// seedState tells one of the seed's three words.
func seedState(s bridge.AgentState) string {
	switch s {
	case bridge.AgentBusy:
		return "busy"
	case bridge.AgentWaiting, bridge.AgentGated:
		return "waiting"
	}
	return "idle"
}

// leads reports whether an agent is below the caller.
func (c *caller) leads(tx *bridge.Scene, a bridge.Agent) (bool, error) {
	for a.Parent != "" {
		if a.Parent == c.agent.ID {
			return true, nil
		}
		var err error
		if a, err = tx.Agent(a.Parent); err != nil {
			return false, err
		}
	}
	return false, nil
}

type resultArgs struct {
	Result      string `json:"result"`
	Uncommitted string `json:"why_uncommitted"`
}

// checkSaved refuses to complete while work in the caller's tree is in no commit, unless the caller says why.
func (d *Door) checkSaved(ctx context.Context, c *caller, in resultArgs) error {
	if in.Uncommitted != "" {
		return checkWords("why_uncommitted", in.Uncommitted)
	}
	if !d.hosted(c) {
		return nil
	}
	left, err := d.o.Machines.Uncommitted(ctx, c.agent)
	switch {
	case err != nil:
		return bridge.Errorf(bridge.KindOf(err), "the bridge could not find out whether your work is committed (%s). Call complete again, or say in why_uncommitted what you left uncommitted", bridge.SafeMessage(err))
	case left != "":
		return bridge.Errorf(bridge.Conflict, "your workspace has uncommitted work: %+.600q. Commit it and call complete again, or call complete with why_uncommitted and say why you leave it uncommitted", left)
	}
	return nil
}

func (d *Door) complete(ctx context.Context, c *caller, in resultArgs) (answer, error) {
	if err := checkWords("result", in.Result); err != nil {
		return answer{}, err
	}
	if err := d.checkSaved(ctx, c, in); err != nil {
		return answer{}, err
	}
	if in.Uncommitted != "" {
		in.Result += "\n\nLeft uncommitted: " + in.Uncommitted
	}
	const head = "Completed: "
	if room := bridge.MaxMessage - len(head); len(in.Result) > room {
		return answer{}, bridge.Errorf(bridge.TooLarge, "result has %d bytes; at most %d are allowed: put the rest into a file of the repository", len(in.Result), room)
	}
	sent, err := d.post(c).Complete(ctx, c.agent.ID, head+in.Result)
	return answer{data: MessageSent{Status: "completed", MessageID: string(sent.Message.ID)}}, err
}

func (d *Door) poke(ctx context.Context, c *caller, in agentArgs) (answer, error) {
	var child bridge.Agent
	var last bridge.Turn
	var earlier string
	err := d.o.Engine.View(ctx, func(tx *bridge.Scene) (err error) {
		if earlier, err = c.once.Earlier(tx, c.agent.ID); err != nil || earlier != "" {
			return err
		}
		if child, err = c.find(tx, in.Agent); err != nil {
			return err
		}
		turns, err := tx.Turns(bridge.TurnFilter{Agent: child.ID, Limit: 1})
		if len(turns) > 0 {
			last = turns[0]
		}
		return err
	})
	switch {
	case err != nil:
		return answer{}, err
	case earlier != "":
		return pokedAs(earlier), nil
	case child.Parent != c.agent.ID:
		return answer{}, bridge.Errorf(bridge.Denied, "%s is not your child; call list_children to see which agents you may poke", child.Name)
	case child.State == bridge.AgentGated || child.Quarantined:
		return answer{}, bridge.Errorf(bridge.Conflict, "%s gets no turns until a person has checked it: %s", child.Name, child.Trouble)
	case last.State == bridge.TurnUncertain:
		return answer{}, bridge.Errorf(bridge.Conflict, "the last turn of %s may not have arrived; ask a person to check it", child.Name)
	case last.State == bridge.TurnFailed:
		t, err := d.o.Engine.ContinueFor(ctx, c.agent.ID, c.once, last.ID)
		return pokedAs(string(t.ID)), err
	case child.State == bridge.AgentBusy:
		return answer{data: poked{Status: "busy"}}, nil
	}
	made, err := d.do(ctx, c, func(tx bridge.Change) (string, error) {
		t, err := turnOf(tx.Scene, c.agent.ID)
		if err != nil {
			return "", err
		}
		_, err = tx.Notify(bridge.Notice{Agent: child.ID, Cause: bridge.CauseMessage, Depth: t.Depth, Text: words.Say("your parent %s pokes you: look at what waits for you and continue your work", c.agent.Name)})
		return string(child.ID), err
	})
	return pokedAs(made), err
}

// pokedAs is the answer to a poke that made something: the turn that is tried again, or a notice for the child, whose id it is then.
func pokedAs(made string) answer {
	if strings.HasPrefix(made, "trn_") {
		return answer{data: poked{"retried", made}}
	}
	return answer{data: poked{Status: "poked"}}
}

func (d *Door) listChildren(ctx context.Context, c *caller, _ struct{}) (answer, error) {
	views := []AgentView{}
	err := d.o.Engine.View(ctx, func(tx *bridge.Scene) error {
		all, err := tx.Agents(bridge.AgentFilter{Parent: c.agent.ID, Limit: maxAgents})
		for _, a := range all {
			views = append(views, c.view(a))
		}
		return err
	})
	return answer{data: childList{views}}, err
}
