package config

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestReferenceNamesEveryKey: docs/reference has a row for each key that a file may hold.
func TestReferenceNamesEveryKey(t *testing.T) {
	t.Parallel()
	for page, file := range map[string]any{"bridge-yaml.md": Bridge{}, "allowlist-yaml.md": allowlist{}} {
		text, err := os.ReadFile("../docs/reference/" + page)
		if err != nil {
			t.Fatal(err)
		}
		keys := keysBelow(reflect.TypeOf(file), "")
		if len(keys) < 20 {
			t.Fatalf("%s: %d keys: the test looks in the wrong place", page, len(keys))
		}
		for _, key := range keys {
			if !strings.Contains(string(text), "`"+key+"`") {
				t.Errorf("%s does not name %s", page, key)
			}
		}
	}
}

// keysBelow returns the paths of all keys that hold a value, as the pages write them.
func keysBelow(of reflect.Type, path string) (keys []string) {
	switch of.Kind() {
	case reflect.Pointer:
		return keysBelow(of.Elem(), path)
	case reflect.Map, reflect.Slice:
		if of.Elem().Kind() != reflect.Struct || of.Elem() == reflect.TypeFor[Secret]() {
			return []string{path}
		}
		mark := "[]"
		if of.Kind() == reflect.Map {
			mark = map[string]string{"actions": ".<id>", "openai.upstreams.<name>.models": ".<model>"}[path]
			if mark == "" {
				mark = ".<name>"
			}
		}
		return keysBelow(of.Elem(), path+mark)
	case reflect.Struct:
		if of == reflect.TypeFor[Secret]() || of == reflect.TypeFor[time.Duration]() {
			return []string{path}
		}
		for i := range of.NumField() {
			if name, _, _ := strings.Cut(of.Field(i).Tag.Get("yaml"), ","); name != "" {
				keys = append(keys, keysBelow(of.Field(i).Type, strings.TrimPrefix(path+"."+name, "."))...)
			}
		}
		return keys
	}
	return []string{path}
}
