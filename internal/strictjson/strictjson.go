// Package strictjson reads one JSON document in the only way that leaves no room for two readings of it.
//
// The standard decoder takes the last of two equal keys and matches keys to fields without regard to case, so a
// document can say one thing to whoever checked it and another to whoever acts on it. Here both are refused or ignored
// as described at [Decode]. It is not a schema language and does not validate values. Rule of thumb: whatever crosses a
// trust boundary as JSON is read with this package, whatever we wrote ourselves may be read with encoding/json.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxBytes is the largest document that Decode and DecodeExact read, in bytes. It equals the body cap of the webhook receiver, the largest
// caller (facts: Webhook receiver, rule 1).
const MaxBytes = 1 << 20

// MaxDepth is how deep objects and arrays may nest. Nothing that we exchange nests deeper than a handful.
const MaxDepth = 64

// ErrTooLarge is returned for a document of more than [MaxBytes], or of more than the limit of [DecodeExactUpTo].
var ErrTooLarge = errors.New("JSON document is larger than is allowed")

// KeyError says which key of which object was refused. Path names the object in dotted form and is empty for the
// outermost one; both parts come from the document, so print them quoted.
type KeyError struct {
	Path, Key, Reason string
}

// Error quotes the key as ASCII, so that it is safe to print on a terminal, and cuts it at 80 characters.
func (e *KeyError) Error() string {
	where := ""
	if e.Path != "" {
		where = fmt.Sprintf(" in %+.80q", e.Path)
	}
	return fmt.Sprintf("%s key %+.80q%s", e.Reason, e.Key, where)
}

// Decode reads the one JSON document in data into v, which must be a non-nil pointer. It refuses invalid UTF-8, trailing
// data, documents over [MaxBytes] or [MaxDepth], and any object, at any depth, that holds two keys that are equal or equal
// under Unicode case folding. Unknown keys are ignored, and so is a key that equals a field's name in all but case.
// Types with their own UnmarshalJSON get their part of the document without insignificant blanks.
func Decode(data []byte, v any) error {
	return decode(data, v, how{limit: MaxBytes})
}

// DecodeExact is [Decode] that also refuses every key which no field of the struct at that place is named after.
func DecodeExact(data []byte, v any) error {
	return DecodeExactUpTo(data, v, MaxBytes)
}

// DecodeExactUpTo is [DecodeExact] with a limit of its own, in bytes. It takes some four times the document's size in memory, so the
// caller bounds how many of them are read at a time.
func DecodeExactUpTo(data []byte, v any, limit int) error {
	return decode(data, v, how{exact: true, limit: limit})
}

type how struct {
	exact bool
	limit int
}

func decode(data []byte, v any, how how) error {
	if len(data) > how.limit {
		return ErrTooLarge
	}
	if !utf8.Valid(data) {
		return errors.New("JSON document is not valid UTF-8")
	}
	// The token reader alone forgives some misplaced separators; the full syntax check does not.
	if !json.Valid(data) {
		return syntaxError(data)
	}
	target := reflect.TypeOf(v)
	if target == nil || target.Kind() != reflect.Pointer {
		return &json.InvalidUnmarshalError{Type: target}
	}
	r := reader{data: data, tokens: json.NewDecoder(bytes.NewReader(data)), exact: how.exact}
	r.tokens.UseNumber()
	if err := r.value(place{typ: target}); err != nil {
		return err
	}
	if err := json.Unmarshal(r.kept.Bytes(), v); err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	return nil
}

func syntaxError(data []byte) error {
	var ignored any
	err := json.Unmarshal(data, &ignored)
	return fmt.Errorf("read JSON: %w", err)
}

// reader copies the document to kept, leaving out the members that must not reach the standard decoder.
type reader struct {
	data   []byte
	tokens *json.Decoder
	kept   bytes.Buffer
	exact  bool
}

// place is where in the document a value stands and what it will be read into; a nil type means that no struct is there.
type place struct {
	typ   reflect.Type
	path  string
	depth int
}

func (p place) member(typ reflect.Type, key string) place {
	path := key
	if p.path != "" {
		path = p.path + "." + key
	}
	return place{typ: typ, path: path, depth: p.depth + 1}
}

func (p place) element() place {
	return place{typ: elementType(p.typ), path: p.path, depth: p.depth + 1}
}

func (r *reader) value(at place) error {
	raw, token, err := r.next()
	if err != nil {
		return err
	}
	r.kept.Write(raw)
	if _, nests := token.(json.Delim); !nests {
		return nil
	}
	if at.depth >= MaxDepth {
		return fmt.Errorf("JSON document nests deeper than %d", MaxDepth)
	}
	at.typ = settle(at.typ)
	if token == json.Delim('{') {
		return r.object(at)
	}
	return r.array(at)
}

// next returns the next token and its bytes as they stand in the document.
func (r *reader) next() ([]byte, json.Token, error) {
	from := r.tokens.InputOffset()
	token, err := r.tokens.Token()
	if err != nil {
		return nil, nil, fmt.Errorf("read JSON: %w", err)
	}
	return bytes.TrimLeft(r.data[from:r.tokens.InputOffset()], " \t\r\n,:"), token, nil
}

func (r *reader) array(at place) error {
	for first := true; r.tokens.More(); first = false {
		if !first {
			r.kept.WriteByte(',')
		}
		if err := r.value(at.element()); err != nil {
			return err
		}
	}
	return r.closing()
}

func (r *reader) object(at place) error {
	named := fieldsOf(at.typ)
	seen := map[string]bool{}
	for first := true; r.tokens.More(); {
		raw, token, err := r.next()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		folded := fold(key)
		if seen[folded] {
			return &KeyError{Path: at.path, Key: key, Reason: "repeated or case-variant"}
		}
		seen[folded] = true
		typ, known := named.lookup(key)
		if !known && r.exact {
			return &KeyError{Path: at.path, Key: key, Reason: "unknown"}
		}
		before := r.kept.Len()
		if !first {
			r.kept.WriteByte(',')
		}
		r.kept.Write(raw)
		r.kept.WriteByte(':')
		if err := r.value(at.member(typ, key)); err != nil {
			return err
		}
		if known {
			first = false
			continue
		}
		// Left in, the standard decoder would take it for a field whose name differs in case only.
		r.kept.Truncate(before)
	}
	return r.closing()
}

func (r *reader) closing() error {
	raw, _, err := r.next()
	r.kept.Write(raw)
	return err
}

// fold maps every rune to the smallest of those that are equal to it in all but case, as the standard decoder does.
func fold(key string) string {
	return strings.Map(func(c rune) rune {
		least := c
		for next := unicode.SimpleFold(c); next != c; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, key)
}
