package api

import (
	"context"
	"net/url"

	"drawbridge/api/office"
)

// Channels lists channels, or what else kind says: thread, dm.
func (c *Client) Channels(ctx context.Context, kind string, o ListOptions) (office.ChannelList, error) {
	q := o.query()
	if kind != "" {
		q.Set("kind", kind)
	}
	return get[office.ChannelList](ctx, c, "/v1/channels", q)
}

// Channel returns a channel, thread or DM, by id or name.
func (c *Client) Channel(ctx context.Context, channel string) (office.Channel, error) {
	return get[office.Channel](ctx, c, "/v1/channels/"+url.PathEscape(channel), nil)
}

// CreateChannel makes a channel.
func (c *Client) CreateChannel(ctx context.Context, r office.ChannelRequest) (office.Channel, error) {
	return post[office.Channel](ctx, c, "/v1/channels", r)
}

// ChannelMembers adds members to a channel or takes them out. Adding twice is fine.
func (c *Client) ChannelMembers(ctx context.Context, channel string, r office.MembersRequest) (office.Channel, error) {
	return post[office.Channel](ctx, c, "/v1/channels/"+url.PathEscape(channel)+"/members", r)
}

// ChannelStatus closes a channel or thread, or opens it again. Twice is fine.
func (c *Client) ChannelStatus(ctx context.Context, channel, status string) (office.Channel, error) {
	return post[office.Channel](ctx, c, "/v1/channels/"+url.PathEscape(channel)+"/status", office.StatusRequest{Status: status})
}

// ChannelMessages lists what stands in a channel, thread or DM.
func (c *Client) ChannelMessages(ctx context.Context, channel string, o ListOptions) (office.MessageList, error) {
	return get[office.MessageList](ctx, c, "/v1/channels/"+url.PathEscape(channel)+"/messages", o.query())
}

// Post writes into a channel, thread or DM, or to an agent, as the operator.
// Twice is two messages.
func (c *Client) Post(ctx context.Context, to, text string) (office.Posted, error) {
	return post[office.Posted](ctx, c, "/v1/channels/"+url.PathEscape(to)+"/messages", office.PostRequest{Text: text})
}

// Mail lists what was written to an agent, or to USER, with receipts.
func (c *Client) Mail(ctx context.Context, idOrName string, o ListOptions) (office.MessageList, error) {
	return get[office.MessageList](ctx, c, "/v1/agents/"+url.PathEscape(idOrName)+"/mail", o.query())
}

// EditMessage changes what a message says, also where it still waits to be read.
func (c *Client) EditMessage(ctx context.Context, id, text string) (office.Message, error) {
	return post[office.Message](ctx, c, "/v1/messages/"+url.PathEscape(id)+"/edit", office.EditRequest{Text: text})
}

// DeleteMessage withdraws a message's text. Twice is fine.
func (c *Client) DeleteMessage(ctx context.Context, id string) (office.Message, error) {
	return post[office.Message](ctx, c, "/v1/messages/"+url.PathEscape(id)+"/delete", struct{}{})
}

// React puts the operator's emoji on a message or takes it away. Twice is fine.
func (c *Client) React(ctx context.Context, id string, r office.ReactionRequest) (office.Changed, error) {
	return post[office.Changed](ctx, c, "/v1/messages/"+url.PathEscape(id)+"/reactions", r)
}

// MarkRead notes that messages to the operator were read. Twice is fine.
func (c *Client) MarkRead(ctx context.Context, messages ...string) (office.ReadAnswer, error) {
	return post[office.ReadAnswer](ctx, c, "/v1/mail/read", office.ReadRequest{Messages: messages})
}

// DeleteFile takes away a file that an agent handed over.
func (c *Client) DeleteFile(ctx context.Context, id string) (office.DeletedFile, error) {
	return post[office.DeletedFile](ctx, c, "/v1/files/"+url.PathEscape(id)+"/delete", struct{}{})
}
