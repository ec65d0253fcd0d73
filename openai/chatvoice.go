package openai

import (
	"maps"

	"drawbridge/openai/upstream"
)

// chatVoice speaks as the chat completions API does.
type chatVoice struct {
	leg *leg
	// usage asks for an event with the usage.
	usage bool
	role  bool // the first delta is out
}

func (c *chatVoice) whole(events []upstream.Event) any {
	return completion(c.leg, answerOf(events, nil))
}

func (c *chatVoice) quiet() string { return ": keepalive\n\n" }

func (c *chatVoice) broken(e *upstream.Error) string { return frame("", bodyOf(e)) }

func (c *chatVoice) end(failed *upstream.Error) string {
	if failed != nil {
		return c.broken(failed)
	}
	return "data: [DONE]\n\n"
}

func (c *chatVoice) event(e upstream.Event) string {
	delta := map[string]any{}
	if e.Kind != upstream.CallPiece { // a call holds its own
		for key, raw := range e.Extra {
			delta[key] = raw
		}
	}
	switch e.Kind {
	case upstream.Text:
		delta["content"] = e.Text
	case upstream.Reasoning:
		delta["reasoning_content"] = e.Text
	case upstream.CallPiece:
		delta["tool_calls"] = []any{callDelta(e)}
	case upstream.Parked:
		return c.finish("tool_calls", e.Usage)
	case upstream.Ended:
		return c.finish(e.Finish, e.Usage)
	}
	return c.first() + c.chunk(delta, nil)
}

// callDelta is a piece of a call: the first one with id, type and name, later ones with arguments alone.
func callDelta(e upstream.Event) map[string]any {
	function := map[string]any{"arguments": e.Arguments}
	out := map[string]any{}
	for key, raw := range e.Extra {
		out[key] = raw
	}
	out["index"], out["function"] = e.Index, function
	if e.ID != "" {
		out["id"], out["type"], function["name"] = e.ID, "function", e.Name
	}
	return out
}

// first is the delta that opens an answer.
func (c *chatVoice) first() string {
	if c.role {
		return ""
	}
	c.role = true
	return c.chunk(map[string]any{"role": "assistant", "content": ""}, nil)
}

// finish is the closing chunk, and the one with the usage where it was asked for and is known.
func (c *chatVoice) finish(reason string, u *upstream.Usage) string {
	out := c.first() + c.chunk(map[string]any{}, reason)
	if c.usage && u != nil {
		last := c.head()
		last["choices"], last["usage"] = []any{}, usageView(u)
		out += frame("", last)
	}
	return out
}

func (c *chatVoice) head() map[string]any {
	return map[string]any{"id": c.leg.id, "object": "chat.completion.chunk", "created": c.leg.created, "model": c.leg.model}
}

// chunk is one choice; finish is nil until the end.
func (c *chatVoice) chunk(delta map[string]any, finish any) string {
	out := c.head()
	maps.Copy(out, map[string]any{"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
	return frame("", out)
}

// completion is an answer that is not a stream.
func completion(l *leg, a answer) map[string]any {
	out := map[string]any{"id": l.id, "object": "chat.completion", "created": l.created, "model": l.model,
		"choices": []any{map[string]any{"index": 0, "message": messageOf(a), "logprobs": nil, "finish_reason": a.Finish}}}
	if a.Usage != nil {
		out["usage"] = usageView(a.Usage)
	}
	return out
}

// usageView shows what is known of usage, and nothing of what is not.
func usageView(u *upstream.Usage) map[string]any {
	out := map[string]any{}
	put := func(m map[string]any, key string, n *int64) {
		if n != nil {
			m[key] = *n
		}
	}
	put(out, "prompt_tokens", u.Prompt)
	put(out, "completion_tokens", u.Completion)
	if total := u.Sum(); total > 0 || u.Total != nil {
		out["total_tokens"] = total
	}
	for key, part := range map[string]struct {
		name string
		n    *int64
	}{"prompt_tokens_details": {"cached_tokens", u.Cached}, "completion_tokens_details": {"reasoning_tokens", u.Reasoning}} {
		if part.n != nil {
			out[key] = map[string]any{part.name: *part.n}
		}
	}
	return out
}
