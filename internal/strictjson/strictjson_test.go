package strictjson_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/internal/strictjson"
)

type inner struct {
	Name string `json:"name"`
}

type base struct {
	Shared string `json:"shared"`
}

type doc struct {
	base
	ID      string           `json:"id"`
	Count   int              `json:"count,omitempty"`
	Inner   inner            `json:"inner"`
	List    []inner          `json:"list"`
	ByName  map[string]inner `json:"by_name"`
	Free    any              `json:"free"`
	Raw     json.RawMessage  `json:"raw"`
	At      time.Time        `json:"at"`
	Skipped string           `json:"-"`
	Plain   string
}

func TestDecode(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in string
		want     doc
	}{
		{"plain", `{"id":"a","count":2}`, doc{ID: "a", Count: 2}},
		{"unknown key ignored", `{"id":"a","else":{"x":[1,{"y":2}]},"count":3}`, doc{ID: "a", Count: 3}},
		{"unknown key first", `{"else":1,"id":"a"}`, doc{ID: "a"}},
		{"only unknown keys", ` { "x" : 1 , "y" : [ ] } `, doc{}},
		{"case variant is not the field", `{"ID":"evil","Count":9}`, doc{}},
		{"folded rune is not the field", `{"\u0131d":"x","i\u0064":"a"}`, doc{ID: "a"}},
		{"kelvin sign is not a k", `{"\u212aey":"x"}`, doc{}},
		{"nested case variant", `{"inner":{"NAME":"evil"}}`, doc{}},
		{"nested in list", `{"list":[{"NAME":"evil"},{"name":"b"}]}`, doc{List: []inner{{}, {Name: "b"}}}},
		{"nested in map", `{"by_name":{"A":{"Name":"evil","name2":1}}}`, doc{ByName: map[string]inner{"A": {}}}},
		{"embedded", `{"shared":"s"}`, doc{base: base{Shared: "s"}}},
		{"embedded case variant", `{"Shared":"s"}`, doc{}},
		{"dash tag", `{"Skipped":"x","-":"y"}`, doc{}},
		{"untagged", `{"Plain":"x"}`, doc{Plain: "x"}},
		{"untagged case variant", `{"plain":"x"}`, doc{}},
		{"free", `{"free":{"A":[true,null,1.5,"\u00e9"]}}`, doc{Free: map[string]any{"A": []any{true, nil, 1.5, "é"}}}},
		{"raw keeps its text", `{"raw": {"b" : 1.0, "a":"\u0041"} }`, doc{Raw: json.RawMessage(`{"b":1.0,"a":"\u0041"}`)}},
		{"own reader", `{"at":"2026-01-02T03:04:05Z"}`, doc{At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}},
		{"null", `null`, doc{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got doc
			if err := strictjson.Decode([]byte(tt.in), &got); err != nil {
				t.Fatal(err)
			}
			equal := cmp.Comparer(func(a, b doc) bool { return reflect.DeepEqual(a, b) })
			if diff := cmp.Diff(tt.want, got, equal); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 65) + strings.Repeat("]", 65)
	tests := []struct{ name, in, says string }{
		{"empty", ``, "unexpected end"},
		{"blank", " \n", "unexpected end"},
		{"trailing value", `{"id":"a"}{"id":"b"}`, "after top-level value"},
		{"trailing text", `{"id":"a"} x`, "after top-level value"},
		{"trailing comma", `{"id":"a",}`, "invalid character"},
		{"trailing comma in array", `[1,]`, "invalid character"},
		{"byte order mark", "\ufeff{}", "invalid character"},
		{"comment", `{/**/}`, "invalid character"},
		{"truncated", `{"id":"a"`, "unexpected end"},
		{"invalid UTF-8", "{\"id\":\"\xff\"}", "UTF-8"},
		{"duplicate", `{"id":"a","id":"b"}`, `repeated or case-variant key "id"`},
		{"duplicate by escape", `{"id":"a","\u0069d":"b"}`, `repeated or case-variant key "id"`},
		{"case variant", `{"id":"a","ID":"b"}`, `repeated or case-variant key "ID"`},
		{"case variant first", `{"Id":"a","id":"b"}`, `repeated or case-variant key "id"`},
		{"long s", `{"list":[],"li\u017ft":[]}`, `key "li\u017ft"`},
		{"kelvin", `{"key":1,"\u212aey":2}`, `key "\u212aey"`},
		{"unknown keys twice", `{"x":1,"X":2}`, `key "X"`},
		{"nested", `{"free":{"a":[{"b":1,"B":2}]}}`, `key "B" in "free.a"`},
		{"inside what is ignored", `{"else":{"a":1,"A":2}}`, `key "A" in "else"`},
		{"inside what reads itself", `{"raw":{"a":1,"a":2}}`, `key "a" in "raw"`},
		{"terminal escape in key", `{"\u001b[2J":1,"\u001b[2J":2}`, `"\x1b[2J"`},
		{"too deep", deep, "deeper than 64"},
		{"wrong type", `{"id":1}`, "cannot unmarshal number"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got doc
			err := strictjson.Decode([]byte(tt.in), &got)
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want one with %q", err, tt.says)
			}
		})
	}
}

func TestDecodeExact(t *testing.T) {
	t.Parallel()
	var got inner
	if err := strictjson.DecodeExact([]byte(`{"name":"a"}`), &got); err != nil || got.Name != "a" {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, in := range []string{`{"Name":"a"}`, `{"name":"a","x":1}`, `{"name":"a","NAME":"b"}`, `{"":"a"}`} {
		var keyError *strictjson.KeyError
		if err := strictjson.DecodeExact([]byte(in), new(inner)); !errors.As(err, &keyError) {
			t.Errorf("%s: error %v, want a KeyError", in, err)
		}
	}
	var nested struct {
		By map[string]inner `json:"by"`
	}
	if err := strictjson.DecodeExact([]byte(`{"by":{"any":{"name":"a","x":1}}}`), &nested); err == nil {
		t.Error("an unknown key below a map was taken")
	}
	if err := strictjson.DecodeExact([]byte(`{"any":[1],"ANYTHING":2}`), new(any)); err != nil {
		t.Errorf("without a struct every key is known: %v", err)
	}
}

func TestLimitsAndMisuse(t *testing.T) {
	t.Parallel()
	large := `"` + strings.Repeat("a", strictjson.MaxBytes) + `"`
	if err := strictjson.Decode([]byte(large), new(string)); !errors.Is(err, strictjson.ErrTooLarge) {
		t.Errorf("error %v, want ErrTooLarge", err)
	}
	if err := strictjson.Decode([]byte(large[2:]), new(string)); err == nil || errors.Is(err, strictjson.ErrTooLarge) {
		t.Errorf("error %v, want a syntax error for a document of exactly the limit", err)
	}
	if err := strictjson.DecodeExactUpTo([]byte(large), new(string), len(large)); err != nil {
		t.Errorf("a document of exactly a limit of its own: %v", err)
	}
	if err := strictjson.DecodeExactUpTo([]byte(large), new(string), len(large)-1); !errors.Is(err, strictjson.ErrTooLarge) {
		t.Errorf("error %v, want ErrTooLarge", err)
	}
	deepest := strings.Repeat("[", strictjson.MaxDepth) + strings.Repeat("]", strictjson.MaxDepth)
	if err := strictjson.Decode([]byte(deepest), new(any)); err != nil {
		t.Errorf("the deepest allowed document: %v", err)
	}
	for _, v := range []any{nil, inner{}, (*inner)(nil)} {
		if err := strictjson.Decode([]byte(`{}`), v); err == nil {
			t.Errorf("Decode into %T gave no error", v)
		}
	}
}

// Whatever is accepted reads the same with the standard decoder, holds no two keys that it could confuse, and is taken
// for a field only under the exact name.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"id":"a","ID":"b"}`, `{"id":"a"} `, `[1,{"a":[]}]`, `{"inner":{"name":"x"},"raw":[1, 2]}`, `{"a":{"b":{"c":null}}}`,
		`"\ud800"`, `{"\ud800":1,"\ud801":2}`, `-1e5`, `{"free":{"x":1},"list":[{"name":"n","o":[]}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var free, standard any
		freeErr := strictjson.Decode(in, &free)
		if freeErr == nil {
			if err := json.Unmarshal(in, &standard); err != nil {
				t.Fatalf("accepted what the standard decoder refuses: %v", err)
			}
			if diff := cmp.Diff(standard, free); diff != "" {
				t.Fatalf("reads differently:\n%s", diff)
			}
			again, err := json.Marshal(free)
			if err != nil {
				t.Fatal(err)
			}
			if err := strictjson.Decode(again, new(any)); err != nil && !errors.Is(err, strictjson.ErrTooLarge) {
				t.Fatalf("what was read does not survive a second reading: %v", err)
			}
		}
		var typed doc
		if err := strictjson.Decode(in, &typed); err != nil {
			return
		}
		if freeErr != nil {
			t.Fatalf("accepted only because of its type: %v", freeErr)
		}
		if object, ok := free.(map[string]any); ok {
			if _, has := object["id"]; !has && typed.ID != "" {
				t.Fatalf("id = %q without a key of that name", typed.ID)
			}
		}
	})
}
