package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
)

// goneReader is standard output whose reader has gone away, as in … | head.
type goneReader struct{}

func (goneReader) Write([]byte) (int, error) {
	return 0, fmt.Errorf("write /dev/stdout: %w", syscall.EPIPE)
}

// TestInterruptedInPlainWords: Ctrl-C and a reader that goes away once ended a command with "context canceled" and "broken pipe".
func TestInterruptedInPlainWords(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	asked := make(chan struct{}, 1)
	bridge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("state") == "busy" { // this one takes long
			asked <- struct{}{}
			<-release
		}
		fmt.Fprint(w, `{"agents":[]}`)
	}))
	defer bridge.Close()
	defer close(release)
	call := func(ctx context.Context, stdout io.Writer, args ...string) (int, string) {
		var stderr bytes.Buffer
		a := app{stdout: stdout, stderr: &stderr, getenv: func(string) (string, bool) { return "", false }}
		code := run(ctx, a, append([]string{"agents", "--url", bridge.URL, "--token", operatorToken}, args...))
		return code, stderr.String()
	}
	if code, said := call(t.Context(), goneReader{}); code != exitOK || said != "" {
		t.Errorf("a reader that went away: exit code %d, standard error %q", code, said)
	}
	ctx, interrupt := context.WithCancelCause(t.Context())
	go func() {
		<-asked
		interrupt(errors.New("interrupt"))
	}()
	if code, said := call(ctx, io.Discard, "--state", "busy"); code != exitNo || said != "drawbridge: interrupted\n" {
		t.Errorf("Ctrl-C: exit code %d, standard error %q", code, said)
	}
}
