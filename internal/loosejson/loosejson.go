// Package loosejson reads fields of foreign JSON that only inform: what comes in
// another form is not known, and decides nothing.
package loosejson

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Value is a field of form T. In any other form, null and a number that does not fit included, Is is T's zero value.
type Value[T any] struct{ Is T }

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (v *Value[T]) UnmarshalJSON(raw []byte) error {
	var is T
	if json.Unmarshal(raw, &is) != nil {
		is = *new(T) // without what was read before the error
	}
	v.Is = is
	return nil
}

// Said reports whether a field is there and is not null.
func Said(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// Text reads a string; absent, null and other types read as nothing.
func Text(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s)
	return s
}

// Object reads an object. Absent, null and an empty list, which some languages write for an empty object, have no fields; ok is false
// for anything else.
func Object(raw json.RawMessage) (fields map[string]json.RawMessage, ok bool) {
	if !Said(raw) {
		return nil, true
	}
	if json.Unmarshal(raw, &fields) == nil {
		return fields, true
	}
	var list []json.RawMessage
	return nil, json.Unmarshal(raw, &list) == nil && len(list) == 0
}

// Number reads a whole number from 0 to 2^31-1, also from within a string; nil is unknown.
func Number(raw json.RawMessage) *int64 {
	f, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	if err != nil || f < 0 || f > math.MaxInt32 || f != math.Trunc(f) {
		return nil
	}
	n := int64(f)
	return &n
}
