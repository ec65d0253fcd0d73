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

func TestIsLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "localhost": true, "::ffff:127.0.0.1": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "localhost.example": false, "127.0.0.1.example": false, "2130706433": false,
	} {
		if got := courier.IsLoopback(host); got != want {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
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
