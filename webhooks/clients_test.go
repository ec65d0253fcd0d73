package webhooks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"drawbridge/bridge"
)

// cutBody is a body that ends with an error after some bytes.
type cutBody struct {
	io.Reader
	err error
}

func (c *cutBody) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err == io.EOF { //nolint:errorlint // the contract of io.Reader
		err = c.err
	}
	return n, err
}

// TestMistakesOfSendersAreNoFaults: what strangers send is not answered as 5xx and makes no line at error level.
func TestMistakesOfSendersAreNoFaults(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]delivery{
		"bad signature":        with(func(d *delivery) { d.body += " " }),
		"no signature":         with(func(d *delivery) { d.header.Del("X-Webhook-Signature") }),
		"two signatures":       with(func(d *delivery) { d.header.Add("X-Webhook-Signature", "sha256=00") }),
		"short signature":      with(func(d *delivery) { d.header.Set("X-Webhook-Signature", "sha256=00") }),
		"another algorithm":    with(func(d *delivery) { d.header.Set("X-Webhook-Signature", "sha1="+strings.Repeat("0", 40)) }),
		"empty body":           signed(""),
		"not JSON":             signed("<xml/>"),
		"cut JSON":             signed(goodBody[:40]),
		"duplicate key":        signed(strings.Replace(goodBody, `"event"`, `"Event":"x","event"`, 1)),
		"not UTF-8":            signed("{\"event\":\"\xff\"}"),
		"body too large":       signed(strings.Repeat("x", 2<<20)),
		"unknown key":          with(func(d *delivery) { d.path = "/hooks/cursor/k9/" + string(op) }),
		"unknown operation":    with(func(d *delivery) { d.path = "/hooks/cursor/k2/agt_none" }),
		"another agent's":      signed(strings.Replace(goodBody, external, "bc-00000000-0000-5000-8000-000000000002", 1)),
		"another method":       with(func(d *delivery) { d.method = http.MethodGet }),
		"no route":             with(func(d *delivery) { d.path = "/hooks/other" }),
		"encoded slashes":      with(func(d *delivery) { d.path = "/hooks/cursor/k2%2f..%2f" }),
		"long path":            with(func(d *delivery) { d.path = "/hooks/cursor/" + strings.Repeat("k", 9000) + "/x" }),
		"a word of the future": signed(strings.Replace(goodBody, "FINISHED", "MELTED", 1)),
	} {
		var log bytes.Buffer
		if w := send(receiver(t, &recorder{bound: external}, &log), d); w.Code >= 500 || strings.Contains(log.String(), `"level":"error"`) {
			t.Errorf("%s: %d, log %s", name, w.Code, log.String())
		}
	}
}

// leaver is an engine whose sender leaves while it records.
type leaver struct {
	leave func()
	err   error
}

func (l leaver) RecordDelivery(context.Context, bridge.Delivery) (string, error) {
	l.leave()
	return "", l.err
}

// TestSendersThatLeave: a sender that leaves is not a fault, and does not hide one.
func TestSendersThatLeave(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body   error
		record error
		status int
		fault  bool
	}{
		"in the middle of the body": {body: io.ErrUnexpectedEOF, status: 400},
		"too slow":                  {body: errors.New("i/o timeout"), status: 400},
		"while it is recorded":      {record: fmt.Errorf("look up: %w", context.Canceled), status: 499},
		"while the disk fails":      {record: errors.New("disk I/O error"), status: 503, fault: true},
		"while the database is not there": {record: bridge.Errorf(bridge.Unavailable, "no database"), status: 503,
			fault: true},
	} {
		var log bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		h := receiverOf(t, leaver{leave: cancel, err: tt.record}, &log)
		d := good()
		var body io.Reader = strings.NewReader(d.body)
		if tt.body != nil {
			body = &cutBody{strings.NewReader(d.body[:20]), tt.body}
		}
		r := httptest.NewRequestWithContext(ctx, d.method, d.path, body)
		r.Header = d.header
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.status || strings.Contains(log.String(), `"level":"error"`) != tt.fault {
			t.Errorf("%s: %d, log %s", name, w.Code, log.String())
		}
		cancel()
	}
}
