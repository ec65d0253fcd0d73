package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/openai/cursor/wire"
)

// TestOutput: a character that comes in two pieces stays whole, small pieces are said together, and what is long is counted.
func TestOutput(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		writes, told []string
		flush        bool // behind each write
	}{
		"a character in two pieces": {[]string{"\xc3", "\xbc \xff"}, []string{"ü \ufffd"}, true},
		"half a character":          {[]string{"a\xc3"}, []string{"a", "\ufffd"}, true},
		"small pieces":              {[]string{"a", "b", "c"}, []string{"abc"}, false},
		"pieces with time between":  {[]string{"a", "b"}, []string{"a", "b"}, true},
		"a large piece":             {[]string{strings.Repeat("x", tellAt), "y"}, []string{strings.Repeat("x", tellAt), "y"}, false},
		"one write over the bound":  {[]string{strings.Repeat("x", maxOutput+3)}, []string{strings.Repeat("x", maxOutput), "\n(3 more bytes are left out)\n"}, false},
		"a cut character there":     {[]string{strings.Repeat("x", maxOutput-1), "üy", "z"}, []string{strings.Repeat("x", maxOutput-1), "\n(4 more bytes are left out)\n"}, false},
		"more than is kept":         {[]string{strings.Repeat("x", maxOutput), "yy"}, []string{strings.Repeat("x", maxOutput), "\n(2 more bytes are left out)\n"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told []string
			o := &output{tell: func(text string) { told = append(told, text) }}
			for _, text := range c.writes {
				if n, err := o.Write([]byte(text)); n != len(text) || err != nil {
					t.Fatal(n, err)
				}
				if c.flush {
					o.flush()
				}
			}
			all := o.rest()
			if d := cmp.Diff(c.told, told); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if all != strings.Join(c.told, "") {
				t.Errorf("%d bytes are kept", len(all))
			}
		})
	}
}

// TestLimit: a command runs as long as the service says, within a bound.
func TestLimit(t *testing.T) {
	t.Parallel()
	hard := int32(5000)
	for want, a := range map[time.Duration]*wire.ShellArgs{shellFor: {}, 2 * time.Second: {Timeout: 2000}, 5 * time.Second: {Timeout: 2000, HardTimeout: &hard}, shellMost: {Timeout: 1 << 30}} {
		if got := limit(a); got != want {
			t.Errorf("%v: %s, want %s", a, got, want)
		}
	}
}
