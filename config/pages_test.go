package config

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestReferenceNamesEveryKey: docs/reference has a row for each key that a file may hold, with its default.
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
		if page == "bridge-yaml.md" {
			defaultsOn(t, string(text))
		}
	}
}

// defaultsOn compares the second column of the page with the defaults of bridge.yaml.
func defaultsOn(t *testing.T, page string) {
	t.Helper()
	found := 0
	for key, value := range valuesBelow(reflect.ValueOf(defaults()), "") {
		row := regexp.MustCompile("(?m)^\\| [^|]*`" + regexp.QuoteMeta(key) + "`[^|]*\\| ([^|]*) \\|").FindStringSubmatch(page)
		if row == nil {
			continue // TestReferenceNamesEveryKey tells
		}
		found++
		if !slices.ContainsFunc(regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(row[1], -1), func(m []string) bool {
			span, err := time.ParseDuration(m[1])
			return m[1] == value || err == nil && span.String() == value
		}) {
			t.Errorf("the default of %s is %s, and the page says %s", key, value, row[1])
		}
	}
	if found < 15 {
		t.Errorf("%d defaults: the test looks in the wrong place", found)
	}
}

// valuesBelow returns the scalar values that are not zero, by the paths of their keys.
func valuesBelow(of reflect.Value, path string) map[string]string {
	all := map[string]string{}
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Type().Field(i).Tag.Get("yaml"), ",")
		if name == "" || of.Field(i).IsZero() {
			continue
		}
		at := strings.TrimPrefix(path+"."+name, ".")
		if of.Field(i).Kind() == reflect.Struct {
			maps.Copy(all, valuesBelow(of.Field(i), at))
			continue
		}
		all[at] = fmt.Sprint(of.Field(i).Interface())
	}
	return all
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
