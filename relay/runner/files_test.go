package runner_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"drawbridge/relay/wire"
)

// A file that is swapped while the request waits for its slot is not read: TestProgramChangesWhileTheRequestWaits for files.
func TestFileChangesWhileTheRequestWaits(t *testing.T) {
	t.Parallel()
	script := write(t, filepath.Join(t.TempDir(), "script"), "echo good\n", 0o600)
	sum := sha256.Sum256([]byte("echo good\n"))
	second := "{ argv: [/bin/sh, " + script + "], files: [ { path: " + script + ", sha256: " + hex.EncodeToString(sum[:]) + " } ] }"
	synctest.Test(t, func(t *testing.T) {
		executor := held{make(chan struct{}), make(chan struct{})}
		h := handle(t, "limits: { concurrent: 1 }\nactions:\n  first: { argv: [/bin/true], timeout: 1s }\n  second: "+second+"\n", executor)
		go h.ask(t, wire.Request{ID: "1", Action: "first"})
		<-executor.begun
		waits := make(chan wire.Outcome, 1)
		go func() { waits <- h.ask(t, wire.Request{ID: "2", Action: "second"}) }()
		synctest.Wait() // it was looked at, and waits
		must(t, os.WriteFile(script, []byte("echo evil\n"), 0o600))
		close(executor.free)
		if out := <-waits; out.Refusal != wire.RefusedUnsafe {
			t.Errorf("%+v", out)
		}
	})
}
