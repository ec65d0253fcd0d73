//go:build conformance

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/color"
	"image/png"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// pixel is a PNG of one red pixel.
var pixel = func() []byte {
	one := image.NewRGBA(image.Rect(0, 0, 1, 1))
	one.Set(0, 0, color.RGBA{R: 255, A: 255})
	var out bytes.Buffer
	if err := png.Encode(&out, one); err != nil {
		panic(err) // into memory; never happens
	}
	return out.Bytes()
}()

// silence is a WAV file with one sample of 16 bits, mono, at 8 kHz.
var silence = []byte("RIFF\x26\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x10\x00data\x02\x00\x00\x00\x00\x00")

// draft2020 uses the words of JSON Schema 2020-12 that must come through a list
// of tools unchanged (SEP-1613, SEP-2106).
const draft2020 = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
	"properties": {
		"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}, "contactMethod": {"type": "string", "enum": ["phone", "email"]},
		"phone": {"type": "string"}, "email": {"type": "string"}
	},
	"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
	"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
	"then": {"required": ["phone"]},
	"else": {"required": ["email"]},
	"additionalProperties": false
}`

// mirrored has an argument that clients repeat in a header (SEP-2243).
const mirrored = `{
	"type": "object",
	"properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "level": {"type": "integer"}}
}`

// addContent adds the tools that answer with each kind of content.
func addContent(s *mcp.Server) {
	picture := &mcp.ImageContent{Data: pixel, MIMEType: "image/png"}
	embedded := &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "test://embedded-resource", MIMEType: "text/plain", Text: "This is an embedded resource content."}}
	add(s, "test_simple_text", "Answers with text.", says(text("This is a simple text response for testing.")))
	add(s, "test_image_content", "Answers with an image.", says(picture))
	add(s, "test_audio_content", "Answers with sound.", says(&mcp.AudioContent{Data: silence, MIMEType: "audio/wav"}))
	add(s, "test_embedded_resource", "Answers with a resource.", says(embedded))
	add(s, "test_multiple_content_types", "Answers with three kinds of content.", says(text("Multiple content types test:"), picture, embedded))
	add(s, "test_error_handling", "Always fails.", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{text("This tool intentionally returns an error for testing")}}, nil
	})
	s.AddTool(&mcp.Tool{Name: "json_schema_2020_12_tool", Description: "Has a schema of 2020-12.", InputSchema: json.RawMessage(draft2020)}, mcp.ToolHandler(says(text("called"))))
	s.AddTool(&mcp.Tool{Name: "test_x_mcp_header", Description: "Has an argument that stands in a header, too.", InputSchema: json.RawMessage(mirrored)},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return said("region=" + argument(r, "region"))
		})
}
