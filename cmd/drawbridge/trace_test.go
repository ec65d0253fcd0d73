package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestTheReceiverAloneTraces: the webhook receiver without a bridge around it has a SERVER span for each webhook, under its
// route and without what stands in the path. The exporter reads the environment of the process, so this test is not parallel.
func TestTheReceiverAloneTraces(t *testing.T) {
	var mu sync.Mutex
	var got strings.Builder
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		got.Write(body)
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"bridge.key":     strings.Repeat("k", 64),
		"bridge.token":   strings.Repeat("t", 64),
		"allowlist.yaml": "repos: [github.com/me/my-app]\n",
		"bridge.yaml":    "listen: 127.0.0.1:0\ndatabase: bridge.db\ntoken: ${file:bridge.token}\nkey: ${file:bridge.key}\nallowlist: allowlist.yaml\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := app{stdout: io.Discard, stderr: testWriter{t}, getenv: os.LookupEnv}
	cfg, rules, err := loadConfig(filepath.Join(dir, "bridge.yaml"), false, a)
	if err != nil {
		t.Fatal(err)
	}
	w, hooks, err := wireReceiver(t.Context(), a, cfg, rules)
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	hooks.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hooks/cursor/sesame/agt_1", strings.NewReader("{}")))
	if err := w.close(nil); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if sent := got.String(); !strings.Contains(sent, "POST "+hooksRoute) || strings.Contains(sent, "sesame") {
		t.Errorf("answered %d; the collector got %q", answer.Code, sent)
	}
}

// testWriter writes what a command prints into the test's log.
type testWriter struct{ t *testing.T }

// Write implements io.Writer.
func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(string(p))
	return len(p), nil
}
