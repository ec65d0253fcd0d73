package runner_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"drawbridge/relay/runner"
)

func TestTail(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in string
		limit    int
		secrets  []string
		want     string
		omitted  int64
	}{
		{"empty", "", 4, nil, "", 0},
		{"exact", "abcd", 4, nil, "abcd", 0},
		{"cut", "abcdef", 4, nil, "cdef", 2},
		{"controls", "a\x00\x1b[2J\r\n\tb\x7f", 64, nil, "a\\x00\\x1b[2J\\x0d\n\tb\\x7f", 0},
		{"invalid UTF-8", "a\xff\xc3", 64, nil, `a\xff\xc3`, 0},
		{"C1 and separators", "\u0085\u2028", 64, nil, `\u0085\u2028`, 0},
		{"reordering marks", "\u202egnp\u2066", 64, nil, `\u202egnp\u2066`, 0},
		{"tag characters", "\U000e0041", 64, nil, `\ue0041`, 0},
		{"plain text", "é ✓ \U0001f469\u200d\U0001f4bb", 64, nil, "é ✓ \U0001f469\u200d\U0001f4bb", 0},
		{"cut in a rune", "aéb", 2, nil, "b", 3},
		{"begins with a broken rune", "\xa9b", 4, nil, `\xa9b`, 0},
		{"secret", "x hunter22 y hunter22", 64, []string{"hunter22"}, "x [redacted] y [redacted]", 0},
		{"longest secret", "hunter2233", 64, []string{"hunter22", "hunter2233"}, "[redacted]", 0},
		{"cut in a secret", "xhunter22y", 4, []string{"hunter22"}, "y", 9},
		{"cut in a secret, much before", strings.Repeat("z", 99) + "hunter22y", 4, []string{"hunter22"}, "y", 107},
		{"cut before a secret", "xhunter22", 8, []string{"hunter22"}, "[redacted]", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, chunk := range []int{1, 3, 1000} {
				stream := runner.NewTail(tt.limit, tt.secrets)
				feed(stream, tt.in, chunk)
				if got, omitted := stream.Text(); got != tt.want || omitted != tt.omitted {
					t.Errorf("in chunks of %d: %q, %d omitted, want %q, %d", chunk, got, omitted, tt.want, tt.omitted)
				}
			}
		})
	}
}

func feed(stream *runner.Tail, text string, chunk int) {
	for len(text) > 0 {
		n := min(chunk, len(text))
		_, _ = stream.Write([]byte(text[:n]))
		text = text[n:]
	}
}

// However a stream is chopped, the same is shown; it is printable, holds no secret, and every byte is counted.
func FuzzTail(f *testing.F) {
	f.Add("some hunter22 text", 7, 3)
	f.Add("hunter2hunter22", 3, 1)
	f.Add("\xff\xfe\u202e\x00", 2, 2)
	f.Fuzz(func(t *testing.T, in string, limit, chunk int) {
		if limit < 1 || limit > 1<<12 || chunk < 1 {
			return
		}
		secrets := []string{"hunter22"}
		chopped, whole := runner.NewTail(limit, secrets), runner.NewTail(limit, secrets)
		feed(chopped, in, chunk)
		feed(whole, in, len(in))
		got, omitted := chopped.Text()
		want, wantOmitted := whole.Text()
		if got != want || omitted != wantOmitted {
			t.Fatalf("chopped %q, %d; whole %q, %d", got, omitted, want, wantOmitted)
		}
		if !utf8.ValidString(got) || strings.Contains(got, "hunter22") || strings.ContainsAny(got, "\x00\x1b\r\u202e") {
			t.Fatalf("shows %q", got)
		}
		if omitted < max(0, int64(len(in)-limit)) || omitted > int64(len(in)) {
			t.Fatalf("%d of %d omitted with a limit of %d", omitted, len(in), limit)
		}
	})
}
