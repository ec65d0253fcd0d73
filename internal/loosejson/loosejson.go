// Package loosejson reads fields of foreign JSON that only inform: what comes in
// another form is not known, and decides nothing.
package loosejson

import "encoding/json"

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
