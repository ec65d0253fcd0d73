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

// TestReferenceHasTheDefaults compares the second column of the page with the defaults of bridge.yaml.
func TestReferenceHasTheDefaults(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/reference/bridge-yaml.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	found := 0
	for key, value := range valuesBelow(reflect.ValueOf(defaults()), "") {
		row := regexp.MustCompile("(?m)^\\| [^|]*`" + regexp.QuoteMeta(key) + "`[^|]*\\| ([^|]*) \\|").FindStringSubmatch(page)
		if row == nil {
			continue // TestSchemas tells
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
