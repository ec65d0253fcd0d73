package mcpserver

import (
	"context"

	"drawbridge/bridge"
)

// channelTools is the set for channels and DMs (seed: the office).
func (d *Door) channelTools() []tool {
	return []tool{
		define("send_channel_message", "Post a message in a channel that you are a member of. The message does not wake the other members: they read it with their next turn.",
			takes(text("channelId", "Id or name of the channel."), text("text", "The message.")), d.sendChannel).keyed(),
		define("send_dm", "Send a direct message to another agent of your tree or of one of your channels. Use this tool if you need no answer. The bridge wakes the other agent only near the beginning of a conversation. Later that agent reads the message with its next turn.",
			takes(text("targetAgentId", "Id or name of the agent."), text("text", "The message.")), d.sendDM).keyed(),
		define("react_to_message", "Add an emoji reaction to a message.",
			takes(text("messageId", "Id of the message."), text("emoji", "One emoji.")), d.react).keeps(),
		define("do_nothing", "Choose not to respond. Nothing happens. A message that is not relevant to you needs no answer.",
			takes(), doNothing),
	}
}

type channelArgs struct {
	Channel string `json:"channelId"`
	Text    string `json:"text"`
}

func (d *Door) sendChannel(ctx context.Context, c *caller, in channelArgs) (answer, error) {
	sent, err := d.post(c).PostChannel(ctx, c.agent.ID, in.Channel, in.Text)
	return answer{data: messageMade{string(sent.Message.ID)}}, err
}

type dmArgs struct {
	Target string `json:"targetAgentId"`
	Text   string `json:"text"`
}

func (d *Door) sendDM(ctx context.Context, c *caller, in dmArgs) (answer, error) {
	sent, err := d.post(c).DM(ctx, c.agent.ID, in.Target, in.Text)
	return answer{data: messageMade{string(sent.Message.ID)}}, err
}

type reactArgs struct {
	Message string `json:"messageId"`
	Emoji   string `json:"emoji"`
}

func (d *Door) react(ctx context.Context, c *caller, in reactArgs) (answer, error) {
	_, err := d.post(c).React(ctx, c.agent.ID, bridge.MessageID(in.Message), in.Emoji)
	return answer{data: succeeded{err == nil}}, err
}

func doNothing(context.Context, *caller, struct{}) (answer, error) {
	return answer{data: noAction{"none"}}, nil
}
