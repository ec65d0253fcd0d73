package openai_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"drawbridge/proof/wires"
)

// ownIDs are what differs between two answers to one request.
var ownIDs = regexp.MustCompile(`chatcmpl-[0-9a-z]+|"created":\d+`)

// sent sends a request, and no more than cut bytes of its body where cut is not negative, or in pieces. It returns the status and the answer.
func (w *world) sent(body string, cut, piece int) string {
	w.t.Helper()
	header := http.Header{"Authorization": {"Bearer " + w.token}, "Content-Type": {"application/json"}}
	status, _, answer := wires.Post(w.t, wires.Request{Address: w.server.Listener.Addr().String(), Path: "/v1/chat/completions", Header: header, Body: body, Cut: cut, Piece: piece})
	if got := events(answer); got != nil {
		answer = strings.Join(got, "\n") // without the comments
	}
	return fmt.Sprint(status, " ", ownIDs.ReplaceAllString(answer, "ID"))
}

// TestWires: what real clients send is read, and a request that does not arrive whole begins nothing.
func TestWires(t *testing.T) {
	t.Parallel()
	wires.Each(t, "chat", func(t *testing.T, _ string, lines []string) {
		f := &fake{}
		w := newWorld(t, f)
		whole := 0
		for _, body := range lines {
			before := f.starts()
			want := w.sent(body, -1, 0)
			began := f.starts() - before
			if !strings.HasPrefix(want, "200 ") && !strings.HasPrefix(want, "400 ") {
				t.Fatalf("%.200s: %s", body, want)
			}
			whole += began
			if got := w.sent(body, -1, 100); got != want || f.starts()-before > 2*began {
				t.Errorf("a second time, in pieces: %s, want %s; %d turns", got, want, f.starts()-before)
			}
			before = f.starts()
			for cut := 1; cut < len(body)-1; cut += 1 + len(body)/9 {
				got := w.sent(body, cut, 0)
				if !strings.HasPrefix(got, fmt.Sprint(http.StatusBadRequest, " ")) || !strings.Contains(got, "arrived incomplete") || f.starts() != before {
					t.Errorf("cut after %d of %d bytes: %s, %d turns", cut, len(body), got, f.starts()-before)
				}
			}
		}
		if whole == 0 {
			t.Error("no request began a turn")
		}
	})
}
