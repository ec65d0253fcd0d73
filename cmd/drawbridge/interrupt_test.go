package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"

	"drawbridge/bridge"
)

// goneReader is standard output whose reader has gone away, as in … | head.
type goneReader struct{}

func (goneReader) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}
}

// TestInterruptedInPlainWords: Ctrl-C and a reader that goes away once ended a command with "context canceled" and "broken pipe".
func TestInterruptedInPlainWords(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	asked := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("state") == "busy" { // this one takes long
			asked <- struct{}{}
			<-release
		}
		fmt.Fprint(w, `{"agents":[]}`)
	}))
	defer server.Close()
	defer close(release)
	call := func(ctx context.Context, stdout io.Writer, args ...string) (int, string) {
		var stderr bytes.Buffer
		a := app{stdout: stdout, stderr: &stderr, getenv: func(string) (string, bool) { return "", false }}
		code := run(ctx, a, append([]string{"agents", "--url", server.URL, "--token", operatorToken}, args...))
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

// TestOnlyTheReaderOfOutputLeaves: a connection to the bridge that breaks in the middle of a request is an error, though it is a broken pipe, too.
func TestOnlyTheReaderOfOutputLeaves(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	broke := &bridge.Error{Kind: bridge.Unavailable, Message: "the bridge did not answer", Cause: &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}}
	if code := (app{stderr: &stderr}).code(broke); code != exitNo || stderr.String() != "drawbridge: the bridge did not answer\n" {
		t.Errorf("exit code %d, standard error %q", code, stderr.String())
	}
}
