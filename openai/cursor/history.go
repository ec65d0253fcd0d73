package cursor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/structpb"

	"drawbridge/openai/cursor/wire"
	"drawbridge/openai/upstream"
)

// kept is where a conversation of the service stood at the end of a turn.
type kept struct {
	Conversation string `json:"conversation"`
	// State is the service's own, as it came.
	State []byte `json:"state"`
	// System is the digest of the system text that the model has read.
	System string `json:"system"`
}

func stateKey(turn string) string { return upstream.TurnKeys + "cursor " + turn }

// plan is what a run asks for first.
type plan struct {
	kept
	run   string
	text  string
	image []upstream.Image
	mode  wire.AgentMode
	tools []*wire.McpToolDefinition
	model *wire.RequestedModel
	// env is where the service's own tools run; nil where they run nowhere.
	env *wire.RequestContextEnv
}

// plan reads where the conversation stands. Without a state of the service, the whole conversation becomes one message.
func (c *Client) plan(ctx context.Context, q upstream.Request) (plan, error) {
	p := plan{run: uuid.NewString(), mode: wire.AgentMode_AGENT_MODE_AGENT, model: c.model(q.Model)}
	if q.Follows != "" && q.New > 0 {
		raw, err := q.State.Get(ctx, stateKey(q.Follows))
		if err != nil {
			return p, fmt.Errorf("load the state of the conversation: %w", err)
		}
		if raw != nil && json.Unmarshal(raw, &p.kept) != nil {
			p.kept = kept{}
		}
	}
	var system []string
	for _, m := range q.Messages {
		if m.Role == "system" && m.Text != "" {
			system = append(system, m.Text)
		}
	}
	rules := strings.Join(system, "\n\n")
	sum := sha256.Sum256([]byte(rules))
	var b strings.Builder
	if digest := hex.EncodeToString(sum[:]); digest != p.System {
		if rules != "" {
			fmt.Fprintf(&b, "<system>\n%s\n</system>\n\n", rules)
		}
		p.System = digest
	}
	fresh := q.Messages
	if p.Conversation != "" {
		fresh = q.Messages[q.New:]
	}
	p.image = flatten(&b, fresh)
	p.text = strings.ToValidUTF8(b.String(), "\ufffd")
	if strings.TrimSpace(p.text) == "" && len(p.image) == 0 {
		return p, upstream.BadRequest("messages", "empty_message", "the messages hold no text; send a message of the user with a text")
	}
	if p.Conversation == "" {
		p.Conversation = uuid.NewString()
	}
	tools, err := definitions(q)
	if len(tools) == 0 {
		p.mode = wire.AgentMode_AGENT_MODE_ASK
	}
	p.tools = tools
	return p, err
}

// flatten writes messages as one text, and returns their images. One message of the user alone stands as it is.
func flatten(b *strings.Builder, messages []upstream.Message) (images []upstream.Image) {
	var said []upstream.Message
	for _, m := range messages {
		images = append(images, m.Images...)
		if m.Role != "system" {
			said = append(said, m)
		}
	}
	if len(said) == 1 && said[0].Role == "user" {
		b.WriteString(said[0].Text)
		return images
	}
	last := len(said)
	if last > 0 && said[last-1].Role == "user" {
		last--
	}
	if last > 0 {
		b.WriteString("This conversation took place before. Go on with it.\n<conversation>\n")
		for _, m := range said[:last] {
			fmt.Fprintf(b, "[%s]\n", m.Role+by(m.CallID))
			if m.Text != "" {
				b.WriteString(m.Text + "\n")
			}
			for _, call := range m.Calls {
				fmt.Fprintf(b, "(calls %s%s with %s)\n", call.Name, by(call.ID), call.Arguments)
			}
		}
		b.WriteString("</conversation>\n")
	}
	for _, m := range said[last:] {
		b.WriteString("\n" + m.Text)
	}
	return images
}

func by(call string) string {
	if call == "" {
		return ""
	}
	return " " + call
}

// provider names the caller's tools on the service.
const provider = "caller"

// shownAs is the name under which the service knows a tool of the caller.
func shownAs(tool string) string { return provider + "___" + tool }

// definitions are the caller's tools as the service reads them.
func definitions(q upstream.Request) (out []*wire.McpToolDefinition, err error) {
	if q.Choice == "none" {
		return nil, nil
	}
	for i, t := range q.Tools {
		schema := &structpb.Value{}
		raw := t.Parameters
		if len(raw) == 0 || string(raw) == "null" {
			raw = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		if err := schema.UnmarshalJSON(raw); err != nil {
			return nil, upstream.BadRequest(fmt.Sprintf("tools[%d].function.parameters", i), "invalid_schema", "the schema cannot be sent to this backend: "+err.Error())
		}
		out = append(out, &wire.McpToolDefinition{Name: shownAs(t.Name), Description: t.Description, InputSchema: schema, ProviderIdentifier: provider, ToolName: t.Name})
	}
	return out, nil
}

// request is the first message of a run, or of another try that goes on from a state.
func (p plan) request(state []byte, goOn bool) *wire.AgentClientMessage {
	action := &wire.ConversationAction{Action: &wire.ConversationAction_ResumeAction{ResumeAction: &wire.ResumeAction{}}}
	if !goOn {
		words := &wire.UserMessage{Text: p.text}
		if p.mode != wire.AgentMode_AGENT_MODE_AGENT {
			words.Mode = p.mode
		}
		for _, i := range p.image {
			if words.SelectedContext == nil {
				words.SelectedContext = &wire.SelectedContext{}
			}
			words.SelectedContext.SelectedImages = append(words.SelectedContext.SelectedImages, &wire.SelectedImage{Uuid: uuid.NewString(), MimeType: i.MIME, Data: i.Data})
		}
		action.Action = &wire.ConversationAction_UserMessageAction{UserMessageAction: &wire.UserMessageAction{UserMessage: words}}
	}
	if state == nil {
		state = []byte{} // it has to be there, though it is empty
	}
	run := &wire.AgentRunRequest{ConversationState: state, Action: action, ConversationId: &p.Conversation, RequestedModel: p.model, RunId: &p.run}
	if len(p.tools) > 0 {
		run.McpTools = &wire.McpTools{McpTools: p.tools}
	}
	return &wire.AgentClientMessage{Message: &wire.AgentClientMessage_RunRequest{RunRequest: run}}
}

// context is what the service asks for before it runs: the caller's tools again, and where its own run. Without those, it says as good as nothing of
// this machine.
func (p plan) context() *wire.RequestContext {
	if p.env != nil {
		return &wire.RequestContext{Tools: p.tools, Env: p.env}
	}
	return &wire.RequestContext{Tools: p.tools, Env: &wire.RequestContextEnv{OsVersion: "unknown", WorkspacePaths: []string{"/workspace"}, Shell: "sh", TimeZone: "UTC", ProjectFolder: "/workspace"}}
}
