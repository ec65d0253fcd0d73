package api_test

import (
	"testing"

	"drawbridge/api"
)

// People read on one line what a turn took, as far as the event of its end tells it.
func TestSpent(t *testing.T) {
	t.Parallel()
	for want, fields := range map[string]map[string]string{
		"": {"status": "FINISHED"},
		"1234567 tokens in (1000000 from a cache), 89 out, $0.0123, model m": {"input_tokens": "234000", "output_tokens": "89", "cache_read_tokens": "1000000", "cache_write_tokens": "567", "cost_micros": "12345", "model": "m"},
		"0 tokens in, 999 out": {"input_tokens": "0", "output_tokens": "999", "cache_read_tokens": "0", "cache_write_tokens": "0"},
		"$0.0000, model auto":  {"cost_micros": "0", "model": "auto", "input_tokens": "many", "output_tokens": "1", "cache_read_tokens": "0", "cache_write_tokens": "0"},
	} {
		if got := api.SpentOf(api.Event{Fields: fields}).String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
