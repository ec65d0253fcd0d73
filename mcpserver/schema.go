package mcpserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"drawbridge/bridge"
)

// prop is one argument of a tool.
type prop struct {
	name     string
	schema   jsonschema.Schema
	optional bool
}

func typed(kind, name, about string) prop {
	return prop{name: name, schema: jsonschema.Schema{Type: kind, Description: about}}
}

func text(name, about string) prop   { return typed("string", name, about) }
func flag(name, about string) prop   { return typed("boolean", name, about) }
func number(name, about string) prop { return typed("number", name, about) }

func list(name, about string) prop {
	p := typed("array", name, about)
	p.schema.Items = &jsonschema.Schema{Type: "string"}
	return p
}

// or makes an argument optional, with what is taken for it when it is absent.
func (p prop) or(value any) prop {
	data, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("default of %s: %v", p.name, err)) // a literal in this package
	}
	p.optional, p.schema.Default = true, data
	return p
}

// maybe makes an argument optional.
func (p prop) maybe() prop {
	p.optional = true
	return p
}

// among bounds an argument to a few words.
func (p prop) among(words ...string) prop {
	for _, w := range words {
		p.schema.Enum = append(p.schema.Enum, w)
	}
	return p
}

// formatted names the format of a string, for models; the tool itself checks it.
func (p prop) formatted(format string) prop {
	p.schema.Format = format
	return p
}

// some asks for at least one element.
func (p prop) some() prop {
	p.schema.MinItems = jsonschema.Ptr(1)
	return p
}

// takes is the schema of a tool's arguments. What is not named is refused: an
// argument that is misspelt must not be ignored in silence.
func takes(props ...prop) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
	for _, p := range props {
		s.Properties[p.name] = &p.schema
		s.PropertyOrder = append(s.PropertyOrder, p.name)
		if !p.optional {
			s.Required = append(s.Required, p.name)
		}
	}
	return s
}

// whole reads a number of 0 to limit; JSON does not tell whole ones from others.
func whole(argument string, n float64, limit int) (int, error) {
	if n != float64(int(n)) || n < 0 || n > float64(limit) {
		return 0, bridge.Errorf(bridge.Invalid, "%s must be a whole number from 0 to %d", argument, limit)
	}
	return int(n), nil
}

// signature says in one line what a tool takes.
func signature(s *jsonschema.Schema) string {
	if len(s.Properties) == 0 {
		return "no arguments"
	}
	parts := make([]string, 0, len(s.Properties))
	for _, name := range s.PropertyOrder {
		p := s.Properties[name]
		kind := p.Type
		if !slices.Contains(s.Required, name) {
			kind += ", optional"
		}
		parts = append(parts, name+" ("+kind+")")
	}
	return strings.Join(parts, ", ")
}
