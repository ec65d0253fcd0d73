package hub_test

import (
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"drawbridge/proof/memstore"
	"drawbridge/relay/hub"
	"drawbridge/relay/link"
)

// The bridge gets another address. The relay moves there without a new invitation, with its keys, and while it is connected; what
// does not prove the pinned key there changes nothing.
func TestMove(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	path, m := joined(t, s, "laptop"), newDiary("a")
	stop := connect(t, path, m, nil)
	s.online(t, "laptop")
	before, err := s.RelayByName(t.Context(), "laptop")
	fatal(t, err)
	moved := httptest.NewServer(s.Hub)
	t.Cleanup(moved.Close)
	other := siteOn(t, memstore.NewDisk(), func(o *hub.Options) { o.Keys = bridgeKeys("key two ") })
	mute := httptest.NewServer(nil)
	t.Cleanup(mute.Close)
	gone := httptest.NewServer(nil)
	gone.Close()

	kept, err := os.ReadFile(path)
	fatal(t, err)
	for address, want := range map[string]string{
		other.url: "none of the keys", mute.URL: "is not a bridge", gone.URL: "cannot be reached", "http://bridge.example": "must begin with https://", "bridge": "must be https://",
	} {
		if _, err := link.Move(t.Context(), path, address, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("moved to %s: %v", address, err)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != string(kept) {
			t.Errorf("%s changed the identity, %v", address, err)
		}
	}
	was, err := link.Load(path)
	fatal(t, err)
	if _, err := link.Move(t.Context(), path, moved.URL+"/", ""); err != nil {
		t.Fatal(err)
	}
	i, err := link.Load(path)
	fatal(t, err)
	if i.Bridge != moved.URL || !i.Key.Equal(was.Key) || len(i.Pins) != 1 || !i.Pins[0].Key.Equal(was.Pins[0].Key) || i.Relay != "laptop" {
		t.Errorf("it became %+v", i)
	}
	if v, err := s.RelayByName(t.Context(), "laptop"); err != nil || !v.Connected || v.Session != before.Session {
		t.Errorf("the connection was disturbed: %+v, %v", v, err)
	}
	stop()
	s.offline(t, "laptop")
	stop = connect(t, path, m, nil)
	s.online(t, "laptop")
	if _, err := s.RunAction(t.Context(), ask(t, "a", "laptop", "op-1")); err != nil {
		t.Errorf("over the new address: %v", err)
	}
	stop()
	_, err = s.Revoke(t.Context(), "laptop")
	fatal(t, err)
	if _, err := link.Move(t.Context(), path, s.url, ""); err == nil || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("a revoked relay moved: %v", err)
	}
}

// A key of the bridge that changed while the relay was away is learned at the new address, by the next connection.
func TestMoveAfterRotation(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	path := joined(t, s, "laptop")
	_, err := s.Rotate(t.Context())
	fatal(t, err)
	if _, err := link.Move(t.Context(), path, s.url, ""); err != nil {
		t.Fatal(err)
	}
	connect(t, path, newDiary("a"), nil)
	s.online(t, "laptop")
	eventually(t, "the key is learned", func() bool {
		i, err := link.Load(path)
		return err == nil && len(i.Trusted(time.Now())) == 2
	})
}
