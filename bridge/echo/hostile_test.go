package echo_test

import (
	"fmt"
	"strings"
	"testing"

	"drawbridge/bridge/echo"
)

// hostile are beginnings of what a decoder reads, repeated to fill a text.
var hostile = []string{"=", `\`, "%", "\x1b", "\b", "[", "<", "\u202e", "repo: ", "A", "A\n", "TE9DQUxf", `"L" + `, `\00004C`, "%u004C", "\U000e004c",
	"noitca_lacol ", "@", "LOCAL_ACTION: x\n", "SUBAGENT ", "`a` ", "&amp;", "'", "0", "underscore "}

// BenchmarkHostile reads 64 KiB and 1 MiB of each: sixteen times the text must not take much more than sixteen times as long.
func BenchmarkHostile(b *testing.B) {
	for _, sign := range hostile {
		for _, size := range []int{64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%+q/%dKiB", sign, size>>10), func(b *testing.B) {
				text := strings.Repeat(sign, size/len(sign))
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					echo.Of(text, echo.Named)
				}
			})
		}
	}
}
