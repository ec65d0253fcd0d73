//go:build conformance

package mcp

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The address of a resource for each id, before and behind the id.
const (
	templateHead = "test://template/"
	templateTail = "/data"
)

// addResources adds what can be listed, read and watched.
func addResources(s *mcp.Server) {
	for _, r := range []mcp.ResourceContents{
		{URI: "test://static-text", MIMEType: "text/plain", Text: "This is the content of the static text resource."},
		{URI: "test://static-binary", MIMEType: "image/png", Blob: pixel},
		{URI: "test://watched-resource", MIMEType: "text/plain", Text: "Watched, and never changed."},
	} {
		name := strings.TrimPrefix(r.URI, "test://")
		s.AddResource(&mcp.Resource{Name: name, Description: "Always the same.", MIMEType: r.MIMEType, URI: r.URI}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{&r}}, nil
		})
	}
	s.AddResourceTemplate(&mcp.ResourceTemplate{Name: "template", Description: "One for each id.", MIMEType: "application/json", URITemplate: templateHead + "{id}" + templateTail}, readTemplate)
}

func readTemplate(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	id := strings.TrimSuffix(strings.TrimPrefix(r.Params.URI, templateHead), templateTail)
	data, err := json.Marshal(map[string]any{"id": id, "templateTest": true, "data": "Data for ID: " + id})
	if err != nil {
		return nil, err
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, MIMEType: "application/json", Text: string(data)}}}, nil
}

// prompts answers every time with the same messages.
func prompts(content ...mcp.Content) mcp.PromptHandler {
	return func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return messages(content...), nil
	}
}

func messages(content ...mcp.Content) *mcp.GetPromptResult {
	r := &mcp.GetPromptResult{}
	for _, c := range content {
		r.Messages = append(r.Messages, &mcp.PromptMessage{Role: "user", Content: c})
	}
	return r
}

// addPrompts adds a prompt of each kind.
func addPrompts(s *mcp.Server) {
	s.AddPrompt(&mcp.Prompt{Name: "test_simple_prompt", Description: "Takes nothing."}, prompts(text("This is a simple prompt for testing.")))
	s.AddPrompt(&mcp.Prompt{Name: "test_prompt_with_image", Description: "Shows an image."},
		prompts(&mcp.ImageContent{Data: pixel, MIMEType: "image/png"}, text("Please analyze the image above.")))
	s.AddPrompt(&mcp.Prompt{Name: "test_prompt_with_arguments", Description: "Repeats its arguments.",
		Arguments: []*mcp.PromptArgument{{Name: "arg1", Required: true}, {Name: "arg2", Required: true}}},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return messages(text("Prompt with arguments: arg1='" + r.Params.Arguments["arg1"] + "', arg2='" + r.Params.Arguments["arg2"] + "'")), nil
		})
	s.AddPrompt(&mcp.Prompt{Name: "test_prompt_with_embedded_resource", Description: "Embeds a resource.", Arguments: []*mcp.PromptArgument{{Name: "resourceUri", Required: true}}},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			embedded := &mcp.ResourceContents{URI: r.Params.Arguments["resourceUri"], MIMEType: "text/plain", Text: "Embedded resource content for testing."}
			return messages(&mcp.EmbeddedResource{Resource: embedded}, text("Please process the embedded resource above.")), nil
		})
	s.AddPrompt(&mcp.Prompt{Name: "test_input_required_result_prompt", Description: "Needs a second round (SEP-2322)."},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			if got := word(r.Params.InputResponses, "user_context", "context"); got != "" {
				return messages(text("Context: " + got)), nil
			}
			return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{"user_context": form("What context should the prompt use?", askContext)}}, nil
		})
}
