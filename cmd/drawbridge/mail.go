package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"drawbridge/api"
	"drawbridge/api/office"
	"drawbridge/bridge/words"
)

type channelsCmd struct {
	List   channelsListCmd   `cmd:"" default:"withargs" help:"List channels, threads or DMs."`
	Create channelsCreateCmd `cmd:"" help:"Make a channel."`
	Add    channelsAddCmd    `cmd:"" help:"Add agents to a channel."`
	Remove channelsRemoveCmd `cmd:"" help:"Take agents out of a channel."`
	Show   channelsShowCmd   `cmd:"" help:"Show the messages of a channel, thread or DM."`
	Close  channelsCloseCmd  `cmd:"" help:"Close a channel or thread, so that it takes no messages."`
	Reopen channelsReopenCmd `cmd:"" help:"Let a closed channel or thread take messages again."`
}

// Help shows examples.
func (channelsCmd) Help() string {
	return "Without a subcommand, the command lists channels.\n\nExamples:\n  drawbridge channels --kind thread\n  drawbridge channels create general main docs-bot\n  drawbridge channels show general"
}

type channelsListCmd struct {
	Kind   string `help:"List this kind: channel, thread or dm." enum:"channel,thread,dm" default:"channel"`
	Limit  int    `help:"List at most this many, newest first." default:"50"`
	Before string `help:"Continue a list before this entry; the previous list prints the value." placeholder:"NEXT"`
	target
}

// Help shows an example.
func (channelsListCmd) Help() string { return "Example:\n  drawbridge channels --kind thread" }

// Run lists.
func (c channelsListCmd) Run(ctx context.Context, a app) error {
	return tell(c.target, a, func(client *api.Client) (office.ChannelList, error) {
		return client.Channels(ctx, c.Kind, api.ListOptions{Limit: c.Limit, Before: c.Before})
	}, func(list office.ChannelList) error {
		rows := make([][]string, len(list.Channels))
		for i, ch := range list.Channels {
			rows[i] = []string{ch.ID, short(ch.Name+ch.Title, 60), ch.Status, short(memberNames(ch), 100)}
		}
		if err := table(a.stdout, "ID\tNAME\tSTATUS\tMEMBERS", "no "+c.Kind+"s", rows); err != nil {
			return err
		}
		return more(a, list.Next)
	})
}

func memberNames(ch office.Channel) string {
	names := make([]string, len(ch.Members))
	for i, m := range ch.Members {
		names[i] = m.Name
	}
	return strings.Join(names, ", ")
}

type channelsCreateCmd struct {
	Name    string   `arg:"" help:"The channel's name, made of letters, digits, dots, dashes and underscores."`
	Members []string `arg:"" optional:"" help:"Add these agents, given by name or id."`
	target
}

// Help shows an example.
func (channelsCreateCmd) Help() string {
	return "Agents that share a channel may also write to each other directly.\n\nExample:\n  drawbridge channels create general main docs-bot"
}

// Run makes a channel.
func (c channelsCreateCmd) Run(ctx context.Context, a app) error {
	return c.channel(ctx, a, func(client *api.Client) (office.Channel, error) {
		return client.CreateChannel(ctx, office.ChannelRequest{Name: c.Name, Members: c.Members})
	})
}

type channelsAddCmd struct {
	Channel string   `arg:"" help:"The channel's name or id."`
	Members []string `arg:"" help:"Agents, by name or id."`
	target
}

// Help shows an example.
func (channelsAddCmd) Help() string {
	return "The agents learn of the channel in their next turn.\n\nExample:\n  drawbridge channels add general main"
}

// Run adds.
func (c channelsAddCmd) Run(ctx context.Context, a app) error {
	return c.channel(ctx, a, func(client *api.Client) (office.Channel, error) {
		return client.ChannelMembers(ctx, c.Channel, office.MembersRequest{Add: c.Members})
	})
}

type channelsRemoveCmd struct {
	Channel string   `arg:"" help:"The channel's name or id."`
	Members []string `arg:"" help:"Agents, by name or id."`
	target
}

// Help shows an example.
func (channelsRemoveCmd) Help() string { return "Example:\n  drawbridge channels remove general main" }

// Run removes.
func (c channelsRemoveCmd) Run(ctx context.Context, a app) error {
	return c.channel(ctx, a, func(client *api.Client) (office.Channel, error) {
		return client.ChannelMembers(ctx, c.Channel, office.MembersRequest{Remove: c.Members})
	})
}

type channelsCloseCmd struct {
	Channel string `arg:"" help:"The channel's name, or its or the thread's id."`
	target
}

// Help shows an example.
func (channelsCloseCmd) Help() string {
	return "The messages of a closed channel stay readable.\n\nExample:\n  drawbridge channels close general"
}

// Run closes.
func (c channelsCloseCmd) Run(ctx context.Context, a app) error {
	return c.channel(ctx, a, func(client *api.Client) (office.Channel, error) {
		return client.ChannelStatus(ctx, c.Channel, "closed")
	})
}

type channelsReopenCmd struct {
	Channel string `arg:"" help:"The channel's name, or its or the thread's id."`
	target
}

// Help shows an example.
func (channelsReopenCmd) Help() string { return "Example:\n  drawbridge channels reopen general" }

// Run opens again.
func (c channelsReopenCmd) Run(ctx context.Context, a app) error {
	return c.channel(ctx, a, func(client *api.Client) (office.Channel, error) {
		return client.ChannelStatus(ctx, c.Channel, "active")
	})
}

// channel makes one change of a channel and prints it.
func (t target) channel(_ context.Context, a app, change func(*api.Client) (office.Channel, error)) error {
	return tell(t, a, change, func(ch office.Channel) error {
		_, err := fmt.Fprintf(a.stdout, "%s %s (%s) is %s; members: %s\n", ch.Kind, short(ch.Name+ch.Title, 80), ch.ID, ch.Status, memberNames(ch))
		return err
	})
}

type channelsShowCmd struct {
	Channel string `arg:"" help:"The name of a channel, or the id of a channel, thread or DM."`
	Limit   int    `help:"Show at most this many messages, newest first." default:"50"`
	Before  string `help:"Continue a list before this message; the previous list prints the value." placeholder:"NEXT"`
	target
}

// Help shows an example.
func (channelsShowCmd) Help() string {
	return "The command shows each message with its delivery state for each member, and with its reactions: emoji, count and names.\n\nExample:\n  drawbridge channels show general"
}

// Run shows messages.
func (c channelsShowCmd) Run(ctx context.Context, a app) error {
	list, err := ask(c.target, a, func(client *api.Client) (office.MessageList, error) {
		return client.ChannelMessages(ctx, c.Channel, api.ListOptions{Limit: c.Limit, Before: c.Before})
	})
	if err != nil {
		return err
	}
	return c.messages(a, list, "")
}

type mailCmd struct {
	Agent  string `arg:"" help:"The agent's name or id. Write USER for the messages of agents to you."`
	Limit  int    `help:"Show at most this many messages, newest first." default:"50"`
	Before string `help:"Continue a list before this message; the previous list prints the value." placeholder:"NEXT"`
	Read   bool   `help:"Mark the shown messages as read. This works only with USER."`
	target
}

// Help shows an example.
func (mailCmd) Help() string {
	return "The command shows each message with its delivery state: queued, offered (fetched by a tool call), in_prompt (of the turn that runs) or acknowledged. A message to you is queued until you mark it as read.\n\nExamples:\n  drawbridge mail main\n  drawbridge mail USER --read"
}

// Run shows an agent's mail.
func (c mailCmd) Run(ctx context.Context, a app) error {
	if c.Read && c.Agent != "USER" {
		return usageError{fmt.Errorf("--read marks what agents wrote to you; use it with USER only, because agents read their own mail")}
	}
	list, err := ask(c.target, a, func(client *api.Client) (office.MessageList, error) {
		return client.Mail(ctx, c.Agent, api.ListOptions{Limit: c.Limit, Before: c.Before})
	})
	if err != nil {
		return err
	}
	if err := c.messages(a, list, c.Agent); err != nil || !c.Read || len(list.Messages) == 0 {
		return err
	}
	ids := make([]string, len(list.Messages))
	for i, m := range list.Messages {
		ids[i] = m.ID
	}
	// It was shown above as it was before; who cannot read it there must not lose it here.
	_, err = ask(c.target, a, func(client *api.Client) (office.ReadAnswer, error) { return client.MarkRead(ctx, ids...) })
	return err
}

// messages prints a list, with the receipts of one agent, by name or id, or of all.
func (t target) messages(a app, list office.MessageList, of string) error {
	if t.JSON {
		return printJSON(a.stdout, list)
	}
	rows := make([][]string, len(list.Messages))
	for i, m := range list.Messages {
		text := m.Text
		if !m.DeletedAt.IsZero() {
			text = "(withdrawn)"
		}
		rows[i] = []string{m.ID, m.CreatedAt.Local().Format(time.DateTime), m.FromName, short(m.Conversation, 60), short(receiptText(m.Receipts, of), 80), short(reactionText(m.Reactions), 80), short(text, 80)}
	}
	if err := table(a.stdout, "ID\tWRITTEN\tFROM\tIN\tRECEIPT\tREACTIONS\tTEXT", "no messages", rows); err != nil {
		return err
	}
	return more(a, list.Next)
}

// reactionText counts a message's reactions by emoji, with the names of those they are
// from: "👍 2 (ann, bob), 🎉 1 (cy)".
func reactionText(all []office.Reaction) string {
	var order, out []string
	names := map[string][]string{}
	for _, r := range all {
		if len(names[r.Emoji]) == 0 {
			order = append(order, r.Emoji)
		}
		names[r.Emoji] = append(names[r.Emoji], r.Name)
	}
	for _, emoji := range order {
		out = append(out, fmt.Sprintf("%s %d (%s)", emoji, len(names[emoji]), strings.Join(names[emoji], ", ")))
	}
	return strings.Join(out, ", ")
}

func receiptText(all []office.Receipt, of string) string {
	var out []string
	for _, r := range all {
		state := r.State
		if r.Turn != "" {
			state += " " + r.Turn
		}
		switch of {
		case r.Name, r.Agent:
			return state
		case "":
			out = append(out, r.Name+" "+r.State)
		}
	}
	return strings.Join(out, ", ")
}

type postCmd struct {
	Channel string  `arg:"" help:"The name of a channel, the id of a thread or DM, or an agent."`
	Text    textArg `arg:"" help:"Post this text; write - to read standard input."`
	target
}

// Help shows an example.
func (postCmd) Help() string {
	return "The bridge wakes the members one after another, so that each member reads the earlier answers first. Agents that have failed or are gated read the message when drawbridge say lets them continue.\n\nExample:\n  drawbridge post general \"What is left before the release?\""
}

// Run posts.
func (c postCmd) Run(ctx context.Context, a app) error {
	return tell(c.target, a, func(client *api.Client) (office.Posted, error) { return client.Post(ctx, c.Channel, string(c.Text)) }, func(p office.Posted) error {
		_, err := fmt.Fprintf(a.stdout, "%s goes to %s and wakes %d\n", p.Message.ID, words.Count(p.Recipients, "agent"), p.Woken)
		return err
	})
}
