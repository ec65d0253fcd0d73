package lookalike_test

import (
	"testing"
	"unicode/utf8"

	"drawbridge/internal/lookalike"
)

func TestSkeleton(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ a, b string }{
		{"operator", "OPERATOR"}, {"operator", "0per4tor"}, {"operator", "0p3r4t0r"}, {"operator", "-op_er.ator-"},
		{"operator", "ореrаtоr"},                           // Cyrillic
		{"operator", "ｏｐｅｒａｔｏｒ"},                           // full width
		{"operator", "𝓸𝓹𝓮𝓻𝓪𝓽𝓸𝓻"},                           // mathematical
		{"operator", "óp\u0301era\u200btor\ufeff"},         // marks and what is not seen
		{"operator", "ⓞⓟⓔⓡⓐⓣⓞⓡ"}, {"operator", "🅞🅟🅔🅡🅐🅣🅞🅡"}, // circled
		{"local", "IocaI"}, {"admin", "adrnin"}, {"SUBAGENT", "ЅUΒАGЕΝТ"}, {"SUBAGENT", "sᴜʙᴀɢᴇɴᴛ"},
	} {
		if a, b := lookalike.Skeleton(tt.a), lookalike.Skeleton(tt.b); a != b {
			t.Errorf("%q has the skeleton %q and %q has %q", tt.a, a, tt.b, b)
		}
	}
	for _, tt := range []struct{ a, b string }{{"operator", "operators"}, {"build2", "build3"}, {"操作員", "操作"}} {
		if a, b := lookalike.Skeleton(tt.a), lookalike.Skeleton(tt.b); a == b {
			t.Errorf("%q and %q have one skeleton, %q", tt.a, tt.b, a)
		}
	}
}

// FuzzSkeleton: a skeleton is UTF-8 and is its own skeleton.
func FuzzSkeleton(f *testing.F) {
	for _, s := range []string{"", "Operator", "ﬃ ① Ǆ ﷺ", "\xff\xfe", "ſẛ̣ İı", "m w rn vv", "ꝏ㏂½"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := lookalike.Skeleton(s)
		if !utf8.ValidString(once) {
			t.Fatalf("the skeleton of %q is %q, which is not UTF-8", s, once)
		}
		if twice := lookalike.Skeleton(once); twice != once {
			t.Fatalf("%q has the skeleton %q, and that one has %q", s, once, twice)
		}
	})
}
