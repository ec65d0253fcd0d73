package webhooks_test

import (
	"io"
	"strings"
	"testing"
)

// The three refusals must cost the same, or the time tells which operations exist.
func BenchmarkReceive(b *testing.B) {
	h := receiver(b, &recorder{bound: external}, io.Discard)
	wrong := "sha256=" + strings.Repeat("0", 64)
	bad := with(func(d *delivery) { d.header.Set("X-Webhook-Signature", wrong) })
	unknown := with(func(d *delivery) { d.path = "/hooks/cursor/k2/agt_0000000000000000000000000b" })
	missing := with(func(d *delivery) { d.header.Del("X-Webhook-Signature") })
	for _, bm := range []struct {
		name string
		d    delivery
	}{{"right", good()}, {"bad_signature", bad}, {"unknown_operation", unknown}, {"no_signature", missing}} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				send(h, bm.d)
			}
		})
	}
}
