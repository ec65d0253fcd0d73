package main

import (
	"context"
	"fmt"
	"strings"

	"drawbridge/api"
	"drawbridge/api/office"
)

type messageCmd struct {
	Edit    messageEditCmd    `cmd:"" help:"Change what a message says."`
	Delete  messageDeleteCmd  `cmd:"" help:"Withdraw a message."`
	React   messageReactCmd   `cmd:"" help:"Put your emoji on a message."`
	Unreact messageUnreactCmd `cmd:"" help:"Take your emoji off a message."`
}

// Help shows an example.
func (messageCmd) Help() string {
	return "You may change or withdraw any message, even an agent's, except those that the bridge wrote. The bridge does not notify agents that have already read the message.\n\nExample:\n  drawbridge message delete msg_0123456789"
}

type messageEditCmd struct {
	Message string  `arg:"" help:"The message's id, msg_…."`
	Text    textArg `arg:"" help:"Replace the message by this text; write - to read standard input."`
	target
}

// Help shows an example.
func (messageEditCmd) Help() string {
	return "Example:\n  drawbridge message edit msg_0123456789 \"The release is on Friday.\""
}

// Run edits.
func (c messageEditCmd) Run(ctx context.Context, a app) error {
	return c.change(a, "changed", func(client *api.Client) (office.Message, error) {
		return client.EditMessage(ctx, c.Message, string(c.Text))
	})
}

type messageDeleteCmd struct {
	Message string `arg:"" help:"The id of a message, msg_…, or of a file that was handed over, fil_…."`
	target
}

// Help shows an example.
func (messageDeleteCmd) Help() string {
	return "For a file, the bridge deletes its copy and keeps the message.\n\nExample:\n  drawbridge message delete msg_0123456789"
}

// Run withdraws.
func (c messageDeleteCmd) Run(ctx context.Context, a app) error {
	if strings.HasPrefix(c.Message, "fil_") {
		return tell(c.target, a, func(client *api.Client) (office.DeletedFile, error) { return client.DeleteFile(ctx, c.Message) }, func(d office.DeletedFile) error {
			_, err := fmt.Fprintf(a.stdout, "file %s is deleted\n", short(d.Deleted, 60))
			return err
		})
	}
	return c.change(a, "withdrawn", func(client *api.Client) (office.Message, error) { return client.DeleteMessage(ctx, c.Message) })
}

// change makes one change of a message and prints it.
func (t target) change(a app, what string, change func(*api.Client) (office.Message, error)) error {
	return tell(t, a, change, func(m office.Message) error {
		_, err := fmt.Fprintf(a.stdout, "message %s of %s is %s\n", m.ID, m.FromName, what)
		return err
	})
}

type messageReactCmd struct {
	Message string `arg:"" help:"The message's id, msg_…."`
	Emoji   string `arg:"" help:"An emoji, or a short code such as :+1:."`
	target
}

// Help shows an example.
func (messageReactCmd) Help() string {
	return "A reaction does not wake an agent.\n\nExample:\n  drawbridge message react msg_0123456789 👍"
}

// Run reacts.
func (c messageReactCmd) Run(ctx context.Context, a app) error {
	return c.react(ctx, a, c.Message, office.ReactionRequest{Emoji: c.Emoji})
}

type messageUnreactCmd struct {
	Message string `arg:"" help:"The message's id, msg_…."`
	Emoji   string `arg:"" help:"The emoji that you put there."`
	target
}

// Help shows an example.
func (messageUnreactCmd) Help() string {
	return "Example:\n  drawbridge message unreact msg_0123456789 👍"
}

// Run takes a reaction away.
func (c messageUnreactCmd) Run(ctx context.Context, a app) error {
	return c.react(ctx, a, c.Message, office.ReactionRequest{Emoji: c.Emoji, Remove: true})
}

func (t target) react(ctx context.Context, a app, message string, r office.ReactionRequest) error {
	return tell(t, a, func(client *api.Client) (office.Changed, error) { return client.React(ctx, message, r) }, func(c office.Changed) error {
		words := map[bool]string{false: "your reaction is on the message", true: "your reaction is off the message"}[r.Remove]
		if !c.Changed {
			words += " already"
		}
		_, err := fmt.Fprintln(a.stdout, words)
		return err
	})
}
