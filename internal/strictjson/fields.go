package strictjson

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
)

var (
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// fields maps the names that an object may use to the types of their values; a nil map takes every name.
type fields map[string]reflect.Type

// lookup returns what the value under key will be read into. With no struct at this place every key is known, and its
// type is what a map would hold.
func (f fields) lookup(key string) (reflect.Type, bool) {
	if f == nil {
		return nil, true
	}
	if every, isMap := f[""]; isMap {
		return every, true
	}
	typ, known := f[key]
	return typ, known
}

// settle follows pointers and drops types whose own method reads the value, and interfaces, about which nothing is known.
func settle(typ reflect.Type) reflect.Type {
	for typ != nil {
		readsItself := typ.Implements(jsonUnmarshaler) || reflect.PointerTo(typ).Implements(jsonUnmarshaler) ||
			typ.Implements(textUnmarshaler) || reflect.PointerTo(typ).Implements(textUnmarshaler)
		if readsItself {
			return nil
		}
		if typ.Kind() != reflect.Pointer {
			break
		}
		typ = typ.Elem()
	}
	return typ
}

func elementType(typ reflect.Type) reflect.Type {
	if typ == nil || (typ.Kind() != reflect.Slice && typ.Kind() != reflect.Array) {
		return nil
	}
	return typ.Elem()
}

func fieldsOf(typ reflect.Type) fields {
	if typ == nil {
		return nil
	}
	switch typ.Kind() {
	case reflect.Map:
		return fields{"": typ.Elem()}
	case reflect.Struct:
		found := fields{}
		found.collect(typ, map[reflect.Type]bool{})
		return found
	default:
		return nil
	}
}

// collect adds the fields of typ, its own before those of embedded structs, because the shallower name wins.
func (f fields) collect(typ reflect.Type, seen map[reflect.Type]bool) {
	if seen[typ] {
		return
	}
	seen[typ] = true
	var embedded []reflect.Type
	for field := range typ.Fields() {
		tag := field.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		if inner := structBehind(field.Type); field.Anonymous && name == "" && inner != nil {
			embedded = append(embedded, inner)
			continue
		}
		if tag == "-" || !field.IsExported() {
			continue
		}
		if name == "" {
			name = field.Name
		}
		if _, taken := f[name]; !taken {
			f[name] = field.Type
		}
	}
	for _, inner := range embedded {
		f.collect(inner, seen)
	}
}

func structBehind(typ reflect.Type) reflect.Type {
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct {
		return nil
	}
	return typ
}
