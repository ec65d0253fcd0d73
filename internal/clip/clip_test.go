package clip_test

import (
	"testing"

	"drawbridge/internal/clip"
)

func TestText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc..."}, {"aé", 2, "a..."}, {"日本", 3, "日..."}, {"日本", 5, "日..."}, {"\xff\xff\xff\xff\xff\xff", 5, "\xff\xff\xff\xff\xff..."}, {"日", 1, "..."}} {
		if got := clip.Text(c.s, c.n); got != c.want {
			t.Errorf("%q to %d: %q, want %q", c.s, c.n, got, c.want)
		}
	}
}
