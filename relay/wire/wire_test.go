package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drawbridge/relay/wire"
)

func TestNames(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name            string
		action, request bool
	}{
		{"", false, false},
		{"backup_script", true, true},
		{"7zip.all-of_it", true, true},
		{"Backup", false, true},
		{"-x", false, true},
		{".x", false, true},
		{"backup script", false, false},
		{"backup_script --x", false, false},
		{"a/b", false, false},
		{"a\n", false, false},
		{"a\x00", false, false},
		{"\u017fh", false, false},
		{"\u212aey", false, false},
		{strings.Repeat("a", 64), true, true},
		{strings.Repeat("a", 65), false, true},
		{strings.Repeat("a", 128), false, true},
		{strings.Repeat("a", 129), false, false},
	}
	for _, tt := range tests {
		if got := wire.ValidAction(tt.name); got != tt.action {
			t.Errorf("ValidAction(%q) = %v, want %v", tt.name, got, tt.action)
		}
		if got := wire.ValidRequestID(tt.name); got != tt.request {
			t.Errorf("ValidRequestID(%q) = %v, want %v", tt.name, got, tt.request)
		}
	}
}

// The keys are a published contract; a renamed field must fail here and not at a relay in the field.
func TestAnswerKeys(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(wire.Refused("x", "why"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"action":"x","status":"refused","exit_code":-1,"stdout":"","stderr":"",` +
		`"stdout_omitted":0,"stderr_omitted":0,"duration_ms":0,"error":"why"}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}
