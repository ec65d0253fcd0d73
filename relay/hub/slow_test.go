package hub_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"drawbridge/proof/memstore"
	"drawbridge/relay/link"
	"drawbridge/relay/wire"
)

// TestSilentStrangers: strangers who connect and say nothing keep no relay out. As many as are asked at a time once kept all
// of them out for 10 s, and again with each new round.
func TestSilentStrangers(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	identity := joined(t, s, "laptop")
	s.clock.stop()
	s.Patient() // a busy machine needs longer for these strangers than a handshake may take
	var gone atomic.Int32
	transport := &http.Transport{DisableKeepAlives: true}
	silent := func() error {
		ws, r, err := websocket.Dial(t.Context(), s.url+wire.ConnectPath, &websocket.DialOptions{Subprotocols: []string{wire.Subprotocol}, HTTPClient: &http.Client{Transport: transport}})
		if err != nil && (r == nil || r.StatusCode != http.StatusServiceUnavailable) {
			t.Fatal(err)
		}
		if err == nil {
			t.Cleanup(func() { _ = ws.CloseNow() })
			go func() {
				if _, _, err := ws.Read(t.Context()); err != nil {
					gone.Add(1)
				}
			}()
		}
		return err
	}
	refused := 0
	for range 600 {
		if err := silent(); err != nil {
			refused++
		}
	}
	if refused == 0 {
		t.Error("strangers are asked without a bound")
	}
	s.clock.forward(2 * time.Second)
	connect(t, identity, newMachine("a"), func(o *link.Options) { o.Now = s.clock.now })
	s.online(t, "laptop")
	if n := gone.Load(); n > 20 {
		t.Errorf("%d strangers were sent away before the relay came in; its tries make room by themselves", n)
	}
}
