package loosejson_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"drawbridge/internal/loosejson"
)

func TestValue(t *testing.T) {
	t.Parallel()
	type field struct {
		A loosejson.Value[int]
		B loosejson.Value[struct {
			C string
			D loosejson.Value[bool]
		}]
	}
	for raw, want := range map[string]string{
		`{"A":7,"B":{"C":"x","D":true}}`:  "{{7} {{x {true}}}}",
		`{"A":"7","B":{"C":"x","D":1}}`:   "{{0} {{x {false}}}}",
		`{"A":1e99,"B":{"C":1,"D":true}}`: "{{0} {{ {false}}}}",
		`{"A":null,"B":[]}`:               "{{0} {{ {false}}}}",
	} {
		f := field{A: loosejson.Value[int]{Is: 1}}
		if err := json.Unmarshal([]byte(raw), &f); err != nil || fmt.Sprint(f) != want {
			t.Errorf("%s: %v %v, want %s", raw, f, err, want)
		}
	}
}
