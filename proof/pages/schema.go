package pages

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"

	"drawbridge/internal/yamlconf"
)

// Key is what a reference page says of a key of a file: its default, "" without one, and what it is for.
type Key struct{ Default, Text string }

// Keys reads the tables of a reference page. A row may tell of several keys, which share its text. Its defaults then stand in their order, with commas
// between.
func Keys(page string) map[string]Key {
	all := map[string]Key{}
	for line := range strings.SplitSeq(page, "\n") {
		if !strings.HasPrefix(line, "| ") || !strings.HasSuffix(line, "|") {
			continue
		}
		cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "|"), `\|`, "\x00"), "|")
		names := span.FindAllStringSubmatch(cells[0], -1)
		for i, name := range names {
			k := Key{Text: plain(cells[len(cells)-1])}
			if len(cells) > 2 {
				k.Default = plain(cells[1])
				if parts := strings.Split(k.Default, ", "); len(parts) == len(names) {
					k.Default = parts[i]
				}
			}
			if _, twice := all[name[1]]; !twice {
				all[name[1]] = k
			}
		}
	}
	return all
}

// plain is the text of a cell.
func plain(cell string) string { return strings.ReplaceAll(strings.TrimSpace(cell), "\x00", "|") }

// describes is the text for an editor, without Markdown.
func (k Key) describes() string {
	text := strings.ReplaceAll(link.ReplaceAllString(k.Text, "$1"), "`", "")
	if text == "" {
		return ""
	}
	if d := strings.ReplaceAll(k.Default, "`", ""); d != "" && d != "none" && !strings.Contains(d, "required") {
		text += " (default: " + d + ")"
	}
	return text
}

var link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// Schema is a JSON schema (draft 7) of a YAML file that package yamlconf reads into a struct. It finds in said what each key is for, under the
// path that name makes of the key's own. It fails for a key that has no row of its own, and that the row of the key above it does not name.
func Schema(t *testing.T, file any, said map[string]Key, name func(path string) string) string {
	t.Helper()
	s := schemas{t, said, name}
	root := s.of(reflect.TypeOf(file), "", "")
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	text, err := json.MarshalIndent(root, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return words.ReplaceAllStringFunc(string(text), func(list string) string { return strings.Join(strings.Fields(list), " ") }) + "\n"
}

// words is a list of words over several lines.
var words = regexp.MustCompile(`\[\s+("[^"]*",\s+)*"[^"]*"\s+\]`)

type schemas struct {
	*testing.T
	said map[string]Key
	name func(path string) string
}

type schema = map[string]any

// reference is a value that holds ${…}, which may stand for anything.
var reference = schema{"type": "string", "pattern": `\$\{`}

func (s schemas) of(of reflect.Type, path string, words string) schema {
	switch {
	case of.Kind() == reflect.Pointer:
		return s.of(of.Elem(), path, words)
	case of == reflect.TypeFor[yamlconf.Secret]():
		return schema{"type": "string", "pattern": `^\$\{[^}]+\}$`}
	case of == reflect.TypeFor[time.Duration]():
		return schema{"type": "string", "pattern": `^-?([0-9.]+(ns|us|µs|ms|s|m|h))+$|\$\{|^0$`}
	case of.Kind() == reflect.Slice:
		list := schema{"type": []string{"array", "null"}, "items": s.of(of.Elem(), path+"[]", "")}
		if words != "" {
			return schema{"anyOf": []any{schema{"enum": strings.Fields(words)}, list}}
		}
		return list
	case of.Kind() == reflect.Map:
		return schema{"type": []string{"object", "null"}, "additionalProperties": s.of(of.Elem(), path+".<name>", "")}
	case of.Kind() == reflect.Struct:
		return s.structure(of, path)
	case words != "":
		return schema{"anyOf": []any{schema{"enum": strings.Fields(words)}, reference}}
	case of.Kind() == reflect.Bool:
		return schema{"anyOf": []any{schema{"type": "boolean"}, reference}}
	case of.Kind() == reflect.String:
		return schema{"type": []string{"string", "number", "boolean"}}
	}
	return schema{"anyOf": []any{schema{"type": "integer"}, schema{"type": "string", "pattern": `^-?[0-9]+$|\$\{`}}}
}

// holds reports whether a field holds keys that have rows of their own.
func holds(of reflect.Type) bool {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	return of.Kind() == reflect.Struct && of != reflect.TypeFor[yamlconf.Secret]()
}

// named reports whether the row of a key above names a key.
func (s schemas) named(above, key string) bool {
	for above != "" {
		if text := s.said[s.name(strings.TrimSuffix(above, "[]"))].Text; text != "" {
			return regexp.MustCompile(`\b` + regexp.QuoteMeta(key) + `\b`).MatchString(text)
		}
		above = above[:max(strings.LastIndexAny(above, "."), 0)]
	}
	return false
}

func (s schemas) structure(of reflect.Type, path string) schema {
	properties, out := schema{}, schema{"type": []string{"object", "null"}, "additionalProperties": false}
	var short *schema
	for i := range of.NumField() {
		field := of.Field(i)
		name, option, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if option == "short" {
			bare := s.of(field.Type, path, field.Tag.Get("oneof"))
			short = &bare
		}
		if name == "" {
			continue
		}
		at := strings.TrimPrefix(path+"."+name, ".")
		property := maps.Clone(s.of(field.Type, at, field.Tag.Get("oneof")))
		if text := s.said[s.name(at)].describes(); text != "" {
			property["description"] = text
		} else if !holds(field.Type) && !s.named(path, name) {
			s.Errorf("the reference does not say what %s is for", at)
		}
		properties[name] = property
	}
	out["properties"] = properties
	if short != nil {
		return schema{"anyOf": []any{*short, out}}
	}
	return out
}

// Against checks a file in YAML with a schema, by a library that did not make it.
func Against(t *testing.T, schema, file string) error {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(schema), &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := yaml.Unmarshal([]byte(file), &value); err != nil {
		t.Fatal(err)
	}
	return resolved.Validate(value)
}
