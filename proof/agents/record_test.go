//go:build deep

package agents_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"drawbridge/proof/wires"
)

// recorded leads a client's configuration to a proxy that writes its requests into the folder DRAWBRIDGE_RECORD, when there is one.
func (w *world) recorded(config string) string {
	dir := os.Getenv("DRAWBRIDGE_RECORD")
	if dir == "" || !strings.Contains(config, w.url) {
		return config
	}
	to, err := url.Parse(w.url)
	if err != nil {
		w.Fatal(err)
	}
	var mu sync.Mutex
	proxy := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		body, _ := io.ReadAll(r.In.Body)
		r.Out.Body = io.NopCloser(bytes.NewReader(body))
		q := wires.Recorded{Method: r.In.Method, Path: r.In.URL.Path, Headers: map[string]string{}}
		for name, values := range r.In.Header {
			if strings.HasPrefix(name, "Mcp-") || name == "Accept" || name == "Content-Type" || name == "Last-Event-Id" {
				q.Headers[name] = values[0]
			}
		}
		if json.Valid(body) {
			q.Body = body
		}
		text, err := json.Marshal(q)
		mu.Lock()
		defer mu.Unlock()
		f, openErr := os.OpenFile(filepath.Join(dir, strings.ReplaceAll(w.Name(), "/", "_")+".jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil || openErr != nil {
			w.Error(err, openErr)
			return
		}
		_, _ = f.Write(append(text, '\n'))
		_ = f.Close()
	}})
	w.Cleanup(proxy.Close)
	return strings.ReplaceAll(config, w.url, proxy.URL)
}
