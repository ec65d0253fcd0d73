package openai

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"drawbridge/openai/upstream"
)

// responsesVoice speaks as the Responses API does: an answer is a list of items, and a stream tells how they grow.
type responsesVoice struct {
	leg *leg
	ask *responsesAsked
	// out is the stream so far that was not returned yet, and n how many events it had.
	out strings.Builder
	n   int
	// open are the items that are being written, and done those that are whole, by their places.
	open  []*responseItem
	items []map[string]any
	begun bool
	// finish and usage are those of the answer's end.
	finish string
	usage  *upstream.Usage
}

// responseItem is an item that is being written.
type responseItem struct {
	kind  string // message, reasoning or call
	id    string
	place int
	text  strings.Builder
	// call is its place among the calls, callID its id, and tool what it is of.
	call   int
	callID string
	tool   responsesTool
}

func newResponsesVoice(l *leg, ask *responsesAsked) *responsesVoice {
	return &responsesVoice{leg: l, ask: ask}
}

// tell adds an event to the stream.
func (v *responsesVoice) tell(kind string, fields map[string]any) {
	all := map[string]any{"type": kind, "sequence_number": v.n}
	maps.Copy(all, fields)
	v.n++
	v.out.WriteString(frame(kind, all))
}

// said returns what was added since the last call.
func (v *responsesVoice) said() string {
	text := v.out.String()
	v.out.Reset()
	return text
}

func (v *responsesVoice) begin() {
	if !v.begun {
		v.begun = true
		v.tell("response.created", map[string]any{"response": v.response("in_progress", nil)})
		v.tell("response.in_progress", map[string]any{"response": v.response("in_progress", nil)})
	}
}

// quiet is an event, because clients count the time since the last one.
func (v *responsesVoice) quiet() string {
	v.begin()
	v.tell("keepalive", nil)
	return v.said()
}

func (v *responsesVoice) event(e upstream.Event) string {
	v.begin()
	switch e.Kind {
	case upstream.Text:
		v.piece("message", e.Text)
	case upstream.Reasoning:
		v.piece("reasoning", e.Text)
	case upstream.CallPiece:
		v.callPiece(e)
	case upstream.Parked:
		v.finish, v.usage = "tool_calls", e.Usage
	case upstream.Ended:
		v.finish, v.usage = e.Finish, e.Usage
	}
	return v.said()
}

// piece adds to the message or to the thoughts that are being written, or begins such an item.
func (v *responsesVoice) piece(kind, text string) {
	if text == "" {
		return
	}
	if len(v.open) != 1 || v.open[0].kind != kind {
		v.shut()
		v.add(&responseItem{kind: kind})
	}
	i := v.open[0]
	i.text.WriteString(text)
	if kind == "message" {
		v.tell("response.output_text.delta", i.at(map[string]any{"content_index": 0, "delta": text, "logprobs": []any{}}))
	} else {
		v.tell("response.reasoning_summary_text.delta", i.at(map[string]any{"summary_index": 0, "delta": text}))
	}
}

// callPiece adds to a call, or begins one. Several calls may be written at a time.
func (v *responsesVoice) callPiece(e upstream.Event) {
	var i *responseItem
	for _, o := range v.open {
		if o.kind == "call" && o.call == e.Index {
			i = o
		}
	}
	if i == nil {
		if len(v.open) > 0 && v.open[0].kind != "call" {
			v.shut()
		}
		tool, known := v.ask.tools.byName[e.Name]
		if !known {
			tool = responsesTool{Name: e.Name}
		}
		i = &responseItem{kind: "call", call: e.Index, callID: e.ID, tool: tool}
		v.add(i)
	}
	i.text.WriteString(e.Arguments)
	if e.Arguments != "" && !i.tool.Custom { // the text of a custom tool is inside of JSON, and is known at the end
		v.tell("response.function_call_arguments.delta", i.at(map[string]any{"delta": e.Arguments}))
	}
}

// add begins an item.
func (v *responsesVoice) add(i *responseItem) {
	i.place = len(v.items)
	i.id = fmt.Sprintf("%s_%s_%d", map[string]string{"message": "msg", "reasoning": "rs", "call": "fc"}[i.kind], strings.TrimPrefix(v.leg.id, turnPrefix), i.place+1)
	v.items, v.open = append(v.items, nil), append(v.open, i)
	v.tell("response.output_item.added", map[string]any{"output_index": i.place, "item": i.view("in_progress")})
	switch i.kind {
	case "message":
		v.tell("response.content_part.added", i.at(map[string]any{"content_index": 0, "part": outputText("")}))
	case "reasoning":
		v.tell("response.reasoning_summary_part.added", i.at(map[string]any{"summary_index": 0, "part": summaryText("")}))
	}
}

// shut ends the items that are being written.
func (v *responsesVoice) shut() {
	for _, i := range v.open {
		text := i.text.String()
		switch {
		case i.kind == "message":
			v.tell("response.output_text.done", i.at(map[string]any{"content_index": 0, "text": text, "logprobs": []any{}}))
			v.tell("response.content_part.done", i.at(map[string]any{"content_index": 0, "part": outputText(text)}))
		case i.kind == "reasoning":
			v.tell("response.reasoning_summary_text.done", i.at(map[string]any{"summary_index": 0, "text": text}))
			v.tell("response.reasoning_summary_part.done", i.at(map[string]any{"summary_index": 0, "part": summaryText(text)}))
		case i.tool.Custom:
			v.tell("response.custom_tool_call_input.delta", i.at(map[string]any{"delta": i.input()}))
			v.tell("response.custom_tool_call_input.done", i.at(map[string]any{"input": i.input()}))
		default:
			v.tell("response.function_call_arguments.done", i.at(map[string]any{"name": i.tool.Name, "arguments": text}))
		}
		v.items[i.place] = i.view("completed")
		v.tell("response.output_item.done", map[string]any{"output_index": i.place, "item": v.items[i.place]})
	}
	v.open = nil
}

func (v *responsesVoice) end(failed *upstream.Error) string {
	v.begin()
	if failed != nil {
		v.tell("response.failed", map[string]any{"response": v.response("failed", failed)})
		return v.said()
	}
	r := v.ended()
	v.tell(fmt.Sprint("response.", r["status"]), map[string]any{"response": r})
	return v.said()
}

// ended is a whole answer as an object.
func (v *responsesVoice) ended() map[string]any {
	v.shut()
	r := v.response("completed", nil)
	if reason := incomplete[v.finish]; reason != "" {
		r["status"], r["incomplete_details"] = "incomplete", map[string]string{"reason": reason}
	}
	return r
}

// broken ends the stream without an end of the response, so that the client asks again and meets the turn.
func (v *responsesVoice) broken(e *upstream.Error) string {
	v.tell("error", map[string]any{"code": orNull(e.Code), "message": e.Message, "param": nil})
	return v.said()
}

func (v *responsesVoice) whole(events []upstream.Event) any {
	for _, e := range events {
		v.event(e)
	}
	return v.ended()
}

// incomplete are the API's words for an answer that was cut off.
var incomplete = map[string]string{"length": "max_output_tokens", "content_filter": "content_filter"}

// response is the answer as an object, as far as it is.
func (v *responsesVoice) response(status string, failed *upstream.Error) map[string]any {
	output := []any{}
	for _, i := range v.items {
		if i != nil {
			output = append(output, i)
		}
	}
	r := map[string]any{"id": responseID(v.leg.id), "object": "response", "created_at": v.leg.created, "status": status, "model": v.leg.model, "output": output,
		"error": nil, "incomplete_details": nil, "usage": responsesUsage(v.usage), "background": false, "truncation": "disabled",
		"instructions": nil, "max_output_tokens": nil, "metadata": map[string]any{}, "parallel_tool_calls": true, "previous_response_id": nil, "reasoning": nil, "store": true,
		"temperature": nil, "text": map[string]any{"format": map[string]string{"type": "text"}}, "tool_choice": "auto", "tools": []any{}, "top_p": nil, "user": nil}
	for _, name := range []string{"instructions", "max_output_tokens", "metadata", "parallel_tool_calls", "previous_response_id", "reasoning", "store", "temperature", "text", "tool_choice", "tools", "top_p", "user"} {
		if raw := v.ask.fields[name]; !isNull(raw) {
			r[name] = raw
		}
	}
	if failed != nil {
		r["error"] = map[string]string{"code": failureCode(failed), "message": failed.Message}
	}
	return r
}

// failureCode is the API's word for a failure. Codex repeats a request after all words but a few.
func failureCode(e *upstream.Error) string {
	if e.Code == "context_length_exceeded" || e.NothingHappened && e.Code == "rate_limit_exceeded" || e.Code == "insufficient_quota" {
		return e.Code
	}
	return "invalid_prompt"
}

// responsesUsage shows what is known of usage; nil where the sum is not known.
func responsesUsage(u *upstream.Usage) any {
	if u == nil || u.Prompt == nil || u.Completion == nil {
		return nil
	}
	n := func(p *int64) int64 {
		if p == nil {
			return 0
		}
		return *p
	}
	return map[string]any{"input_tokens": *u.Prompt, "input_tokens_details": map[string]int64{"cached_tokens": n(u.Cached)}, "output_tokens": *u.Completion,
		"output_tokens_details": map[string]int64{"reasoning_tokens": n(u.Reasoning)}, "total_tokens": u.Sum()}
}

func outputText(text string) map[string]any {
	return map[string]any{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
}

func summaryText(text string) map[string]any {
	return map[string]any{"type": "summary_text", "text": text}
}

// at are the fields of an event about an item.
func (i *responseItem) at(fields map[string]any) map[string]any {
	fields["item_id"], fields["output_index"] = i.id, i.place
	return fields
}

// input is the text of a call of a custom tool. A model that did not write the JSON that it was asked for wrote the text itself.
func (i *responseItem) input() string {
	var in map[string]json.RawMessage
	var text string
	if json.Unmarshal([]byte(i.text.String()), &in) == nil && json.Unmarshal(in[customInput], &text) == nil {
		return text
	}
	return i.text.String()
}

// view is the item as an object; while it is being written it is empty.
func (i *responseItem) view(status string) map[string]any {
	out := map[string]any{"id": i.id, "status": status}
	whole := status == "completed"
	switch {
	case i.kind == "message":
		content := []any{}
		if whole {
			content = append(content, outputText(i.text.String()))
		}
		out["type"], out["role"], out["content"] = "message", "assistant", content
	case i.kind == "reasoning":
		summary := []any{}
		if whole {
			summary = append(summary, summaryText(i.text.String()))
		}
		out["type"], out["summary"] = "reasoning", summary
	case i.tool.Custom:
		out["type"], out["call_id"], out["name"], out["input"] = "custom_tool_call", i.callID, i.tool.Name, ""
		if whole {
			out["input"] = i.input()
		}
	default:
		out["type"], out["call_id"], out["name"], out["arguments"] = "function_call", i.callID, i.tool.Name, ""
		if i.tool.Namespace != "" {
			out["namespace"] = i.tool.Namespace
		}
		if whole {
			out["arguments"] = i.text.String()
		}
	}
	return out
}
