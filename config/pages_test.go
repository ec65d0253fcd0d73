package config

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"drawbridge/proof/pages"
)

// TestReferenceHasTheDefaults compares the second column of the page with the defaults of bridge.yaml.
func TestReferenceHasTheDefaults(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/reference/bridge-yaml.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, found := pages.Keys(string(text)), 0
	for key, value := range valuesBelow(reflect.ValueOf(defaults()), "") {
		row, there := rows[key]
		if !there {
			continue // TestSchemas tells
		}
		found++
		said := strings.Trim(regexp.MustCompile("`[^`]*`").FindString(row.Default), "`")
		if span, err := time.ParseDuration(said); said != value && (err != nil || span.String() != value) {
			t.Errorf("the default of %s is %s, and the page says %q", key, value, row.Default)
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
