package cloudagents_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"
	"unicode/utf8"

	"drawbridge/cloudagents"

	"github.com/google/go-cmp/cmp"
)

// FuzzErrorBody: any answer gives a code, and text that can be shown.
func FuzzErrorBody(f *testing.F) {
	for _, body := range []string{
		`{"error":{"code":"agent_busy","message":"m","helpUrl":"https://x"}}`, `{"error":"m"}`, `{"code":"error","message":"m"}`,
		`{"error":"t","message":"m"}`, "<html>", "", "null", `{"error":{"code":1}}`, `{"error":[[[[`, "\xff\x00",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		code, message, help := cloudagents.ParseErrorBody(body)
		if code == "" {
			t.Error("no code")
		}
		for _, s := range []string{code, message, help} {
			shown := cloudagents.Clip(s, 300)
			bad := func(r rune) bool { return !unicode.IsPrint(r) && r != utf8.RuneError }
			if len(shown) > 300 || !utf8.ValidString(shown) || strings.ContainsFunc(shown, bad) {
				t.Errorf("unfit to show: %q", shown)
			}
		}
	})
}

// FuzzSSE: events do not depend on how the bytes arrive or on CRLF, and stay in bounds.
func FuzzSSE(f *testing.F) {
	for _, in := range []string{
		"event: status\ndata: {}\n\nid: 1-0\nevent: assistant\ndata: {\"text\":\"a\"}\n\n", "id:1\r\ndata:x\r\n\r\n",
		"data: a\ndata: b\n\n", ": c\n\n\n", "data", "data\n\n", "id: \x00\ndata:\n\n", "event: \u2028\ndata: \xff\n\n",
	} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		whole, err := collect(in, false)
		bits, bitErr := collect(in, true)
		if diff := cmp.Diff(whole, bits); diff != "" || (err == nil) != (bitErr == nil) {
			t.Errorf("%v, %v: %s", err, bitErr, diff)
		}
		if !bytes.Contains(in, []byte("\r")) {
			crlf, _ := collect(bytes.ReplaceAll(in, []byte("\n"), []byte("\r\n")), false)
			if diff := cmp.Diff(whole, crlf); diff != "" {
				t.Error(diff)
			}
		}
		for _, e := range whole {
			if len(e.Data) > cloudagents.MaxFrame || len(e.ID) > 256 || bytes.Contains([]byte(e.ID), []byte{0}) || strings.ContainsAny(e.Name, "\r\n") {
				t.Errorf("out of bounds: %q %q", e.ID, e.Name)
			}
		}
	})
}

func collect(in []byte, bits bool) ([]cloudagents.Event, error) {
	var r io.Reader = bytes.NewReader(in)
	if bits {
		r = iotest.OneByteReader(r)
	}
	var events []cloudagents.Event
	err := cloudagents.ReadEvents(r, 8<<20, func(e cloudagents.Event) error {
		events = append(events, e)
		return nil
	})
	return events, err
}
