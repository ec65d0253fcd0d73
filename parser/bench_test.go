package parser_test

import (
	"bytes"
	"testing"
	"time"

	"drawbridge/parser"
)

// countLines is the yardstick: no reader of lines can do less than find them.
func countLines(b []byte) (lines int) {
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			return lines
		}
		lines++
		b = b[i+1:]
	}
}

// BenchmarkTranscript parses the transcript and, in the same run and in turn
// with it, scans it for line ends only, so that both see the same machine. It
// reports both rates and parse/scan, the part of the plain scan's rate that the
// parser reaches.
func BenchmarkTranscript(b *testing.B) {
	for _, bench := range []struct {
		name  string
		parse func(text []byte) int
	}{
		{"Parse", parseOnce},
		{"Write4KiB", func(text []byte) int { return parseChunks(text, 4<<10) }},
		{"Write64KiB", func(text []byte) int { return parseChunks(text, 64<<10) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			text := transcript()
			var parsing, scanning time.Duration
			found, lines := 0, 0
			for b.Loop() {
				start := time.Now()
				lines = countLines(text)
				middle := time.Now()
				found = bench.parse(text)
				scanning += middle.Sub(start)
				parsing += time.Since(middle)
			}
			total := float64(len(text)) * float64(b.N) / 1e9
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(total/parsing.Seconds(), "GB/s-parse")
			b.ReportMetric(total/scanning.Seconds(), "GB/s-scan")
			b.ReportMetric(scanning.Seconds()/parsing.Seconds(), "parse/scan")
			b.ReportMetric(float64(len(text))/float64(lines), "B/line")
			b.ReportMetric(float64(found), "found")
		})
	}
}

func parseOnce(text []byte) int {
	res := parser.Parse(text, parser.Options{})
	return len(res.Commands) + len(res.NearMisses)
}

func parseChunks(text []byte, size int) (found int) {
	p := parser.New(parser.Options{}, parser.Handler{
		Command:  func(parser.Command) { found++ },
		NearMiss: func(parser.NearMiss) { found++ },
	})
	for len(text) > 0 {
		n := min(size, len(text))
		p.Write(text[:n])
		text = text[n:]
	}
	p.Close()
	return found
}
