package request

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode/utf8"
)

// maxNesting bounds the recursion of readJSON; no documented body is deeper than seven.
const maxNesting = 64

// errDuplicateKey is reported by readJSON when an object names a key twice; the value has the last one.
var errDuplicateKey = errors.New("duplicate key")

// readJSON decodes one JSON value by exact key. encoding/json's own decoding would match keys without regard to case and
// take the last of two equal keys in silence.
func readJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	dup := ""
	v, err := readValue(d, &dup, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("data after the JSON value")
	}
	if dup != "" {
		return v, fmt.Errorf("%w %q", errDuplicateKey, dup)
	}
	return v, nil
}

func readValue(d *json.Decoder, dup *string, depth int) (any, error) {
	if depth > maxNesting {
		return nil, errors.New("nested too deeply")
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		return readMembers(d, dup, depth)
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := readValue(d, dup, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	}
	return t, nil
}

func readMembers(d *json.Decoder, dup *string, depth int) (any, error) {
	m := map[string]any{}
	for d.More() {
		k, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, _ := k.(string)
		v, err := readValue(d, dup, depth+1)
		if err != nil {
			return nil, err
		}
		if _, twice := m[key]; twice && *dup == "" {
			*dup = key
		}
		m[key] = v
	}
	_, err := d.Token()
	return m, err
}

// object reads one JSON object of a request. The first thing wrong is kept in problem, which all objects of a request share,
// so that a reader asks once at its end. A reader of an absent object sees every field as absent.
type object struct {
	path    string
	fields  map[string]any
	problem *error
}

func (o object) fail(key, format string, args ...any) {
	if *o.problem == nil {
		*o.problem = Invalid("%s %s", o.name(key), fmt.Sprintf(format, args...))
	}
}

func (o object) name(key string) string {
	if o.path == "" {
		return key
	}
	return o.path + "." + key
}

func (o object) has(key string) bool { _, ok := o.fields[key]; return ok }

// text is a string of 1 to limit characters, "" when absent; limit 0 is no limit.
func (o object) text(key string, limit int) string {
	v, ok := o.fields[key]
	if !ok {
		return ""
	}
	str, ok := v.(string)
	switch {
	case !ok:
		o.fail(key, "must be a string")
	case str == "":
		o.fail(key, "must not be empty")
	case limit > 0 && utf8.RuneCountInString(str) > limit:
		o.fail(key, "must be at most %d characters", limit)
	}
	return str
}

func (o object) needText(key string, limit int) string {
	if !o.has(key) {
		o.fail(key, "is required")
	}
	return o.text(key, limit)
}

func (o object) word(key string, allowed ...string) string {
	v := o.text(key, 0)
	for _, a := range allowed {
		if v == a {
			return v
		}
	}
	if o.has(key) {
		o.fail(key, "must be one of %s", strings.Join(allowed, ", "))
	}
	return v
}

// link is an absolute http or https URL, "" when absent.
func (o object) link(key string, limit int) string {
	v := o.text(key, limit)
	u, err := url.Parse(v)
	if v != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		o.fail(key, "must be an http or https URL")
	}
	return v
}

// flag is nil when absent.
func (o object) flag(key string) *bool {
	v, ok := o.fields[key]
	if !ok {
		return nil
	}
	b, ok := v.(bool)
	if !ok {
		o.fail(key, "must be true or false")
	}
	return &b
}

func (o object) object(key string) object {
	child := object{path: o.name(key), problem: o.problem}
	v, ok := o.fields[key]
	if !ok {
		return child
	}
	if child.fields, ok = v.(map[string]any); !ok {
		o.fail(key, "must be an object")
	}
	return child
}

// objects is a list of at most limit objects.
func (o object) objects(key string, limit int) []object {
	v, ok := o.fields[key]
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		o.fail(key, "must be a list")
	}
	if len(list) > limit {
		o.fail(key, "must have at most %d entries", limit)
	}
	out := make([]object, 0, len(list))
	for i, item := range list {
		name := fmt.Sprintf("%s[%d]", key, i)
		fields, ok := item.(map[string]any)
		if !ok {
			o.fail(name, "must be an object")
		}
		out = append(out, object{path: o.name(name), fields: fields, problem: o.problem})
	}
	return out
}

// texts is a map of strings; values of other types are refused.
func (o object) texts(key string) map[string]string {
	child := o.object(key)
	if child.fields == nil {
		return nil
	}
	out := make(map[string]string, len(child.fields))
	for k, v := range child.fields {
		str, ok := v.(string)
		if !ok {
			child.fail(k, "must be a string")
		}
		out[k] = str
	}
	return out
}

// only refuses every field that is not named.
func (o object) only(names ...string) {
next:
	for k := range o.fields {
		for _, n := range names {
			if k == n {
				continue next
			}
		}
		o.fail(k, "is not a known field")
	}
}

func (o object) whole(key string, least int64) {
	v, ok := o.fields[key]
	if !ok {
		o.fail(key, "is required")
		return
	}
	n, _ := v.(json.Number)
	if i, err := n.Int64(); err != nil || i < least {
		o.fail(key, "must be a whole number of at least %d", least)
	}
}
