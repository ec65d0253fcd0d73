package output_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"drawbridge/relay/runner/output"
	"drawbridge/relay/wire"
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
		{"two secrets that share bytes", "abcdefgh_ijklmnop", 64, []string{"abcdefgh_", "h_ijklmnop"}, "[redacted]", 0},
		{"two secrets side by side", "hunter22hunter22", 64, []string{"hunter22"}, "[redacted]", 0},
		{"secret cut off by the end of the process", "x hunter2-3456", 64, []string{"hunter2-34567"}, "x [redacted]", 0},
		{"a private key, line by line", "k: LINE-TWO-2 ", 64, []string{"LINE-ONE-1\nLINE-TWO-2\n"}, "k: [redacted] ", 0},
		{"short secrets are none", "abc", 64, []string{"abc"}, "abc", 0},
		{"cut before a secret", "xhunter22", 8, []string{"hunter22"}, "[redacted]", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, chunk := range []int{1, 3, 1000} {
				stream := output.NewTail(tt.limit, output.NewRedactor(tt.secrets, nil))
				feed(stream, tt.in, chunk)
				if got, omitted := stream.Text(); got != tt.want || omitted != tt.omitted {
					t.Errorf("in chunks of %d: %q, %d omitted, want %q, %d", chunk, got, omitted, tt.want, tt.omitted)
				}
			}
		})
	}
}

func feed(stream *output.Tail, text string, chunk int) {
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
		secrets := output.NewRedactor([]string{"hunter22"}, nil)
		chopped, whole := output.NewTail(limit, secrets), output.NewTail(limit, secrets)
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

// A pattern finds what no list can hold, also across writes and across what the limit cuts.
func TestPatterns(t *testing.T) {
	t.Parallel()
	secret := output.NewRedactor([]string{"hunter22"}, []*regexp.Regexp{regexp.MustCompile(`ghp_[A-Za-z0-9]{36}`)})
	key := "ghp_" + strings.Repeat("a1", 18)
	for _, limit := range []int{5, 40, 64 << 10} {
		for _, chunk := range []int{1, 7, 1000} {
			stream := output.NewTail(limit, secret)
			feed(stream, strings.Repeat("z", 70_000)+key+"y", chunk)
			shown, _ := stream.Text()
			if strings.Contains(shown, "a1a1") || !strings.HasSuffix(shown, "y") {
				t.Errorf("limit %d, chunks of %d: shows %.80q", limit, chunk, shown)
			}
		}
	}
}

// What is redacted and escaped of both streams fits into one frame, or the answer would never arrive.
func TestWorstOutputFitsIntoAFrame(t *testing.T) {
	t.Parallel()
	// Fifteen bytes come of two at worst; a small output shows it as well as the largest.
	const limit, rest = 4 << 10, 8 << 10
	if most := 2*wire.DefaultOutput*15/2 + rest; most > wire.MaxToBridge {
		t.Errorf("an answer may have %d bytes", most)
	}
	if most := 2*wire.MaxOutput*15/2 + rest; most > wire.MaxBody {
		t.Errorf("an answer in chunks may have %d bytes", most)
	}
	digits := output.NewRedactor(nil, []*regexp.Regexp{regexp.MustCompile(`[0-9]`)})
	for _, unit := range []string{"7", "7\x00", "7<", "7\u0085", "7\u2028", "\xff", "<", "\\"} {
		stream := output.NewTail(limit, digits)
		feed(stream, strings.Repeat(unit, 2*limit/len(unit)), 1000)
		shown, _ := stream.Text()
		answer := wire.Answer{Action: strings.Repeat("a", 64), Status: wire.StatusExecuted, Stdout: shown, Stderr: shown, Error: strings.Repeat("\x01", 1000)}
		data, err := wire.Frame{Outcome: &wire.Outcome{ID: strings.Repeat("i", 128), Answer: answer}}.Bytes()
		if err != nil || len(data) > 2*limit*15/2+rest {
			t.Errorf("%q: %d bytes, %v", unit, len(data), err)
		}
	}
}

// While an action runs, what may become a secret is held back: the reader of two looks must not be able to put one together.
func TestSofarHoldsBack(t *testing.T) {
	t.Parallel()
	stream := output.NewTail(1000, output.NewRedactor([]string{"hunter22"}, nil))
	var seen string
	for _, c := range []byte("say hunter22 now") {
		_, _ = stream.Write([]byte{c})
		seen += stream.Sofar(1000) + "\n"
	}
	if strings.Contains(seen, "hu") || !strings.HasSuffix(seen, "say [redacted] now\n") {
		t.Errorf("shown in turn:\n%s", seen)
	}
	patterns := output.NewTail(1000, output.NewRedactor(nil, []*regexp.Regexp{regexp.MustCompile(`key=\d+`)}))
	_, _ = patterns.Write([]byte("one\nkey=12"))
	if got := patterns.Sofar(1000); got != "one\n" {
		t.Errorf("with a pattern: %q", got)
	}
	_, _ = patterns.Write([]byte("34\n"))
	if got := patterns.Sofar(1000); got != "one\n[redacted]\n" {
		t.Errorf("with a pattern, later: %q", got)
	}
}

func TestSofarIsBounded(t *testing.T) {
	t.Parallel()
	stream := output.NewTail(1000, nil)
	_, _ = stream.Write(bytes.Repeat([]byte("é\x00"), 500))
	if got := stream.Sofar(101); len(got) > 101 || !utf8.ValidString(got) || got == "" {
		t.Errorf("%d bytes, %q", len(got), got)
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	if got, want := output.Line("a\x1b[2J\n\u202e\u00e9\\\xff\U0001f469"), `a\x1b[2J\x0a\u202e\u00e9\\\xff\U0001f469`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
