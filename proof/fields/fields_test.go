package fields_test

import (
	"fmt"
	"testing"

	"drawbridge/proof/fields"
)

func TestBreak(t *testing.T) {
	t.Parallel()
	var paths []string
	first := map[string]string{}
	for _, b := range fields.Break(`{"a":[{"b":1,"c":{"d":2}}],"e":"x","f":{"g":1}}`, "a", "a[].b", "f") {
		if first[b.Path] == "" {
			paths, first[b.Path] = append(paths, b.Path), b.JSON
		}
	}
	if got := fmt.Sprint(paths); got != "[a[].c a[].c.d e f.g]" || first["a[].c.d"] != `{"a":[{"b":1,"c":{"d":null}}],"e":"x","f":{"g":1}}` {
		t.Error(got, first)
	}
}
