package courier_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"drawbridge/cloudagents/cloudsim/internal/courier"
)

func TestClientStaysOnThisMachine(t *testing.T) {
	t.Parallel()
	client := courier.NewClient(nil, time.Second)
	_, err := client.Get("http://192.0.2.1/")
	if err == nil || !strings.Contains(err.Error(), "loopback only") {
		t.Errorf("error %v", err)
	}
	elsewhere := httptest.NewServer(http.RedirectHandler("http://192.0.2.1/", http.StatusFound))
	t.Cleanup(elsewhere.Close)
	res, err := client.Get(elsewhere.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusFound {
		t.Errorf("a redirect was followed: %d", res.StatusCode)
	}
}

func TestSleepEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if courier.Sleep(ctx, time.Hour, nil) {
		t.Error("the context had ended")
	}
	early := make(chan struct{})
	close(early)
	if !courier.Sleep(t.Context(), time.Hour, early) {
		t.Error("early was closed")
	}
}
