package openai

import (
	"encoding/json"
	"fmt"

	"drawbridge/internal/loosejson"
)

// customInput is the argument of the function that stands for a custom tool, which takes a text.
const customInput = "input"

// responsesTool is a tool as a request of /v1/responses names it: in a namespace, or custom.
type responsesTool struct {
	Namespace, Name string
	Custom          bool
}

// responsesTools are the tools of a request, by the names that their functions have for a backend.
type responsesTools struct{ byName map[string]responsesTool }

// flatName is what the function of a tool is called. Backends know no namespaces.
func flatName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "__" + name
}

type chatTool struct {
	Type     string           `json:"type"`
	Function chatToolFunction `json:"function"`
}

type chatToolFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Strict      *bool           `json:"strict,omitempty"`
}

// offeredTool is a tool in a request of /v1/responses.
type offeredTool struct {
	Type        string                  `json:"type"`
	Name        string                  `json:"name"`
	Description loosejson.Value[string] `json:"description"`
	Parameters  json.RawMessage         `json:"parameters"`
	Strict      loosejson.Value[*bool]  `json:"strict"`
	Format      json.RawMessage         `json:"format"`
	Tools       []json.RawMessage       `json:"tools"`
}

// read makes functions of the tools. Tools that the API's own servers would run, such as web_search, are left out: nothing here runs them.
func (t *responsesTools) read(list []json.RawMessage) (functions []chatTool, err error) {
	t.byName = map[string]responsesTool{}
	return t.within("tools", "", list)
}

func (t *responsesTools) within(at, namespace string, list []json.RawMessage) (functions []chatTool, err error) {
	for i, raw := range list {
		at := fmt.Sprintf("%s[%d]", at, i)
		var o offeredTool
		if err := json.Unmarshal(raw, &o); err != nil {
			return nil, invalid(at, "invalid_type", at+" is not a tool; send an object with a type")
		}
		switch {
		case o.Type == "namespace" && namespace == "":
			inner, err := t.within(at+".tools", o.Name, o.Tools)
			if err != nil {
				return nil, err
			}
			functions = append(functions, inner...)
			continue
		case o.Type == "custom":
			o.Parameters = json.RawMessage(`{"type":"object","properties":{"` + customInput + `":{"type":"string"}},"required":["` + customInput + `"],"additionalProperties":false}`)
			o.Description.Is, o.Strict.Is = o.Description.Is+syntax(o.Format), nil
		case o.Type != "function":
			continue
		}
		name := flatName(namespace, o.Name)
		if _, twice := t.byName[name]; twice {
			return nil, invalid(at+".name", "invalid_value", fmt.Sprintf("two tools are named %q; rename one", name))
		}
		t.byName[name] = responsesTool{Namespace: namespace, Name: o.Name, Custom: o.Type == "custom"}
		functions = append(functions, chatTool{"function", chatToolFunction{name, o.Description.Is, o.Parameters, o.Strict.Is}})
	}
	return functions, nil
}

// syntax tells a model which text a custom tool takes.
func syntax(format json.RawMessage) string {
	var f struct{ Type, Syntax, Definition string }
	if json.Unmarshal(format, &f) != nil || f.Type != "grammar" {
		return ""
	}
	return "\n\nThe input follows this " + f.Syntax + " grammar:\n" + f.Definition
}

// choice is tool_choice in the form of a chat completion request.
func (t *responsesTools) choice(raw json.RawMessage) (json.RawMessage, error) {
	none := invalid("tool_choice", "unsupported_value", "tool_choice demands a tool, and the request offers no function that fits; offer one, or leave tool_choice out")
	var word string
	if isNull(raw) || json.Unmarshal(raw, &word) == nil {
		if word == "required" && len(t.byName) == 0 {
			return nil, none
		}
		return raw, nil
	}
	var named struct {
		Type  string `json:"type"`
		Name  string `json:"name"`
		Mode  string `json:"mode"`
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(raw, &named); err != nil {
		return nil, invalid("tool_choice", "invalid_type", "tool_choice must be a word or an object; use auto, none, required, or name a function")
	}
	one := func(name string) map[string]any {
		return map[string]any{"type": "function", "function": map[string]string{"name": name}}
	}
	switch named.Type {
	case "function", "custom":
		if len(t.byName) == 0 {
			return nil, none
		}
		return mustJSON(one(named.Name)), nil
	case "allowed_tools":
		var tools []any
		for _, n := range named.Tools {
			if _, there := t.byName[n.Name]; there {
				tools = append(tools, one(n.Name))
			}
		}
		if len(tools) == 0 {
			return nil, none
		}
		return mustJSON(map[string]any{"type": named.Type, named.Type: map[string]any{"mode": named.Mode, "tools": tools}}), nil
	}
	return nil, invalid("tool_choice", "unsupported_value", fmt.Sprintf("tool_choice of type %q is not supported; use auto, none, required, or name a function", named.Type))
}
