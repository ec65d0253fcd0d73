package passthrough

import (
	"bytes"
	"encoding/json"

	"drawbridge/openai/upstream"
)

// request is the body for the endpoint: the caller's, with the endpoint's name of the model, as a stream, with the usage where the
// endpoint can, and with a result for each call of the history. All other fields stay as they came.
func request(r upstream.Request, model string, usage bool) ([]byte, error) {
	var body map[string]json.RawMessage
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return nil, upstream.BadRequest("", "invalid_json", "the body is not a JSON object; send one")
	}
	var err error
	if body["model"], err = json.Marshal(model); err != nil {
		return nil, err
	}
	body["stream"] = json.RawMessage("true")
	delete(body, "stream_options")
	if usage {
		options := map[string]json.RawMessage{}
		_ = json.Unmarshal(raw(r.Body, "stream_options"), &options) // null and what is wrong become ours
		if options == nil {
			options = map[string]json.RawMessage{}
		}
		options["include_usage"] = json.RawMessage("true")
		if body["stream_options"], err = json.Marshal(options); err != nil {
			return nil, err
		}
	}
	if body["messages"], err = complete(body["messages"]); err != nil {
		return nil, err
	}
	return encode(body)
}

func raw(body json.RawMessage, field string) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(body, &all) != nil {
		return nil
	}
	return all[field]
}

// encode leaves <, > and & as they are: the caller's text is not for a web page.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(out.Bytes()), err
}

// complete adds an error as the result of each call that the history leaves without one, because endpoints refuse such a history.
// Without such a call the messages stay as they came.
func complete(messages json.RawMessage) (json.RawMessage, error) {
	var list []json.RawMessage
	if json.Unmarshal(messages, &list) != nil {
		return nil, upstream.BadRequest("messages", "invalid_type", "messages must be a list; correct it")
	}
	var out []json.RawMessage
	var open []string
	names := map[string]string{}
	shut := func() error {
		for _, id := range open {
			b, err := encode(map[string]string{"role": "tool", "tool_call_id": id, "content": "Error: the caller sent no result for the call " + id + " of " + names[id] + "."})
			if err != nil {
				return err
			}
			out = append(out, b)
		}
		open = nil
		return nil
	}
	for _, one := range list {
		var m struct {
			Role  string `json:"role"`
			ID    string `json:"tool_call_id"`
			Calls []struct {
				ID       string `json:"id"`
				Function struct {
					Name string `json:"name"`
				} `json:"function"`
			} `json:"tool_calls"`
		}
		_ = json.Unmarshal(one, &m) // the door has read it already
		if m.Role == "tool" {
			open = without(open, m.ID)
		} else if err := shut(); err != nil {
			return nil, err
		}
		out = append(out, one)
		for _, c := range m.Calls {
			open = append(open, c.ID)
			names[c.ID] = c.Function.Name
		}
	}
	if err := shut(); err != nil {
		return nil, err
	}
	if len(out) == len(list) {
		return messages, nil
	}
	return encode(out)
}

func without(ids []string, id string) (rest []string) {
	for _, other := range ids {
		if other != id {
			rest = append(rest, other)
		}
	}
	return rest
}
