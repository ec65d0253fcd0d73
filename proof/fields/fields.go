// Package fields breaks the fields of foreign JSON one after another, so that a
// test shows which of them decide and that the others only inform.
package fields

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Broken is a JSON value in which one field has a form that nobody expects.
type Broken struct {
	// Path names the field, such as choices[].delta.content.
	Path string
	// JSON is the whole value, and Form what stands in the field now.
	JSON, Form string
}

// forms are what is put in the place of a field's value: each kind of JSON, a number that fits no Go number, and a text that is no word.
var forms = []string{"null", "true", "7", "-1.5", "1e999", `"7"`, `"a\nb ü"`, "[]", "[7]", "{}", `{"a":[7]}`}

// Break returns value with each of its fields broken in each way, in a stable order. A field is a member of an object at any depth.
// decides lists the paths that it leaves alone. It panics for what is not JSON.
func Break(value string, decides ...string) (all []Broken) {
	var root any
	d := json.NewDecoder(strings.NewReader(value))
	d.UseNumber()
	if err := d.Decode(&root); err != nil {
		panic(fmt.Sprintf("fields: %v in %s", err, value))
	}
	b := breaker{root: root, decides: decides}
	b.walk(root, "")
	return b.all
}

type breaker struct {
	root    any
	decides []string
	all     []Broken
}

func (b *breaker) walk(at any, path string) {
	switch v := at.(type) {
	case []any:
		for _, e := range v {
			b.walk(e, path+"[]")
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			was, name := v[key], strings.TrimPrefix(path+"."+key, ".")
			if !slices.Contains(b.decides, name) {
				for _, form := range forms {
					v[key] = json.RawMessage(form)
					raw, err := json.Marshal(b.root)
					if err != nil {
						panic("fields: " + err.Error())
					}
					b.all = append(b.all, Broken{Path: name, JSON: string(raw), Form: form})
				}
				v[key] = was
			}
			b.walk(was, name)
		}
	}
}

// Line is value on one line.
func Line(value string) string {
	var out bytes.Buffer
	if err := json.Compact(&out, []byte(value)); err != nil {
		panic(fmt.Sprintf("fields: %v in %s", err, value))
	}
	return out.String()
}
