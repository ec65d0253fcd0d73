package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
)

// relays is a bridge.RelayAdmin with one relay, laptop.
type relays struct{ revoked bool }

func (r *relays) view() bridge.RelayView {
	v := bridge.RelayView{Relay: bridge.Relay{Name: "laptop", State: bridge.RelayEnrolled, Key: "public", Pin: "id", ConnectedAt: time.Unix(1000, 0).UTC()}, Connected: true,
		Offers:  []bridge.RelayOffer{{Relay: "laptop", Action: "backup", Approval: "each", Bridge: true, ApproveBy: "either", Definition: "d"}},
		Running: []bridge.RelayRun{{Request: "op", Action: "backup", Stdout: "so far"}}}
	if r.revoked {
		v.State, v.Connected = bridge.RelayRevoked, false
	}
	return v
}

func (r *relays) NewToken(_ context.Context, relay string, life time.Duration) (bridge.JoinToken, error) {
	if relay == "taken" {
		return bridge.JoinToken{}, bridge.Errorf(bridge.Conflict, "a relay named %q is enrolled", relay)
	}
	return bridge.JoinToken{Relay: relay, Text: "dbj_secret", ExpiresAt: time.Unix(0, 0).Add(life).UTC(), BridgeKey: "id"}, nil
}

func (r *relays) RelayList(_ context.Context, after string, limit int) ([]bridge.RelayView, error) {
	list := []bridge.RelayView{r.view(), r.view(), r.view()}
	if after != "" {
		list = nil
	}
	return list[:min(limit, len(list))], nil
}

func (r *relays) RelayByName(_ context.Context, name string) (bridge.RelayView, error) {
	if name != "laptop" {
		return bridge.RelayView{}, bridge.Errorf(bridge.NotFound, "no relay %q is enrolled", name)
	}
	return r.view(), nil
}

func (r *relays) Revoke(ctx context.Context, name string) (bridge.RelayView, error) {
	r.revoked = true
	return r.RelayByName(ctx, name)
}

func (r *relays) Withdraw(_ context.Context, name string) error {
	if name != "desk" {
		return bridge.Errorf(bridge.NotFound, "no invitation for a relay %q is open", name)
	}
	return nil
}

func (r *relays) Invitations(context.Context) ([]bridge.RelayJoin, error) {
	return []bridge.RelayJoin{{ID: "secret", Relay: "desk", ExpiresAt: time.Unix(60, 0).UTC()}}, nil
}

func (r *relays) Accept(ctx context.Context, name string) (bridge.RelayView, error) {
	v, err := r.RelayByName(ctx, name)
	v.Epoch, v.CopyEpoch, v.CopyAt, v.AcceptedAt, v.StoppedAt = 7, 5, time.Unix(1, 0).UTC(), time.Unix(3, 0).UTC(), time.Unix(2, 0).UTC()
	return v, err
}

func (r *relays) Rotate(context.Context) (bridge.RelayKey, error) {
	return bridge.RelayKey{Generation: 7, CreatedAt: time.Unix(0, 0).UTC()}, nil
}

func TestRelays(t *testing.T) {
	t.Parallel()
	door := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	w := newWorld(t, func(o *api.Options) { o.Relays, o.RelayDoor = &relays{}, door })
	c, err := api.NewClient(api.ClientOptions{URL: w.url, Token: testToken})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	r, err := c.Relay(ctx, "laptop")
	if err != nil || r.State != "connected" || r.Connected == nil || len(r.Offers) != 1 || !r.Offers[0].Bridge || r.Offers[0].ApproveBy != "either" || r.Running[0].Stdout != "so far" {
		t.Errorf("%+v, %v", r, err)
	}
	if list, err := c.Relays(ctx, "", 2); err != nil || len(list.Relays) != 2 || list.Next != "laptop" || len(list.Invitations) != 1 || list.Invitations[0].ExpiresAt.Unix() != 60 {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := c.Relays(ctx, "laptop", 2); err != nil || len(list.Invitations) != 0 {
		t.Errorf("the second page: %+v, %v", list, err)
	}
	if _, body, _ := w.call(t, "GET", "/metrics", ""); !strings.Contains(body, `drawbridge_open{what="relays_connected"} 3`) || !strings.Contains(body, `drawbridge_open{what="relays_away"} 0`) {
		t.Errorf("no relays among the metrics: %s", body)
	}
	if err := c.WithdrawRelayToken(ctx, "desk"); err != nil {
		t.Error(err)
	}
	if err := c.WithdrawRelayToken(ctx, "laptop"); bridge.KindOf(err) != bridge.NotFound {
		t.Errorf("nothing to withdraw: %v", err)
	}
	if token, err := c.RelayToken(ctx, "desk", time.Minute); err != nil || token.Relay != "desk" || token.Token != "dbj_secret" || token.ExpiresAt.Unix() != 60 {
		t.Errorf("%+v, %v", token, err)
	}
	if _, err := c.RelayToken(ctx, "taken", 0); bridge.KindOf(err) != bridge.Conflict {
		t.Error(err)
	}
	if k, err := c.RotateRelayKey(ctx); err != nil || k.Generation != 7 {
		t.Errorf("%+v, %v", k, err)
	}
	if r, err := c.AcceptRelay(ctx, "laptop"); err != nil || r.Epoch != 7 || r.Stopped == nil || !r.Stopped.Equal(time.Unix(2, 0)) ||
		r.Copy == nil || *r.Copy != (api.RelayCopy{At: time.Unix(1, 0).UTC(), Epoch: 5, AcceptedAt: time.Unix(3, 0).UTC()}) {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := c.RevokeRelay(ctx, "laptop"); err != nil || r.State != "revoked" || r.Connected != nil {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := c.Relay(ctx, "nobody"); bridge.KindOf(err) != bridge.NotFound {
		t.Error(err)
	}
	for path, want := range map[string]int{"/relay/connect": 418, "/relay/": 418, "/relay": 404, "/relays/connect": 404, "/v1/relays": 401, "/v1/relays/laptop": 401} {
		resp, err := http.Get(w.url + path) //nolint:noctx // a stranger without a token
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("GET %s without a token: %d, want %d", path, resp.StatusCode, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	for body, want := range map[string]int{`{"seconds":-1}`: 400, `{"second":1}`: 400, `{}`: 200} {
		if code, answer, _ := w.call(t, "POST", "/v1/relays/x/token", body); code != want {
			t.Errorf("%s: %d %s", body, code, answer)
		}
	}
}
