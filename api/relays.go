package api

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// The states of a relay as people read them.
const (
	relayConnected = "connected"
	relayAway      = "away"
	relayRevoked   = "revoked"
)

// Relay is an enrolled relay.
type Relay struct {
	Name string `json:"name"`
	// State is connected, away or revoked.
	State string `json:"state"`
	// Stopped is since when the relay's kill switch is on; nil while it is off.
	Stopped *time.Time `json:"kill_switch_since,omitempty"`
	// Outdated is since when the relay's relay.yaml is another than the one that it follows; nil while it is not.
	Outdated *time.Time `json:"outdated_since,omitempty"`
	// Copy says that a relay was refused that shows an older epoch than Epoch, the last that was acknowledged.
	Copy       *RelayCopy `json:"copy_refused,omitempty"`
	Epoch      int64      `json:"epoch,omitempty"`
	EnrolledAt time.Time  `json:"enrolled_at"`
	Connected  *time.Time `json:"connected_since,omitempty"`
	SeenAt     time.Time  `json:"last_seen"`
	// Key is the relay's public key, NextKey the one that follows it; BridgeKey is the id of the newest of the bridge's
	// keys that the relay trusts, and KeyID that of Key. drawbridge-relay keys shows both ids.
	Key       string       `json:"key"`
	KeyID     string       `json:"key_id"`
	NextKey   string       `json:"next_key,omitempty"`
	BridgeKey string       `json:"bridge_key"`
	Offers    []RelayOffer `json:"offers"`
	// Running is what the asked replica has under way with it.
	Running []RelayRun `json:"running,omitempty"`
}

// RelayCopy is a relay that was refused, because its state folder was copied or put back, or its journal removed.
type RelayCopy struct {
	// At is when it was refused last.
	At time.Time `json:"at"`
	// Epoch is the one that it showed.
	Epoch int64 `json:"epoch"`
	// AcceptedAt is when the operator said that it is to be let in; the word holds for an hour.
	AcceptedAt time.Time `json:"accepted_at,omitzero"`
}

// RelayOffer is one action that the relay said it may run.
type RelayOffer struct {
	Action   string `json:"action"`
	Approval string `json:"approval"`
	Bridge   bool   `json:"bridge_may_approve,omitempty"`
	// ApproveBy is machine, bridge or either where somebody has to approve; "" otherwise, and from relays that do not say it.
	ApproveBy  string `json:"approve_by,omitempty"`
	Definition string `json:"definition"`
	// Shows is what that definition would run, where the operator's word counts; in the relay's words.
	Shows string `json:"shows,omitempty"`
}

// RelayRun is a request that a relay works on. Its output is untrusted text.
type RelayRun struct {
	Request string    `json:"request"`
	Action  string    `json:"action"`
	Since   time.Time `json:"since"`
	Stdout  string    `json:"stdout,omitempty"`
	Stderr  string    `json:"stderr,omitempty"`
}

// RelayList is one page of relays, by name.
type RelayList struct {
	Relays []Relay `json:"relays"`
	// Next is the "after" of the next page, "" at the end.
	Next string `json:"next,omitempty"`
	// Invitations stand on the first page only.
	Invitations []Invitation `json:"invitations,omitempty"`
}

// Invitation is a join token that nobody has used, without its secret.
type Invitation struct {
	Relay     string    `json:"relay"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// TokenRequest asks for a join token; 0 seconds mean 15 minutes.
type TokenRequest struct {
	Seconds int64 `json:"seconds,omitempty"`
}

// JoinToken enrolls one relay, once. Token is a secret.
type JoinToken struct {
	Relay     string    `json:"relay"`
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
	BridgeKey string    `json:"bridge_key"`
	// URL is where relays reach this bridge: from everywhere under public_url, else from its own machine alone; "" when the
	// operator's address serves relays too and public_url is not set.
	URL string `json:"url,omitempty"`
}

// Withdrawn names the relay whose invitations ended.
type Withdrawn struct {
	Relay string `json:"relay"`
}

// RelayKey is a generation of the bridge's signing key.
type RelayKey struct {
	Generation int64     `json:"generation"`
	CreatedAt  time.Time `json:"created_at"`
}

func viewRelay(v bridge.RelayView) Relay {
	out := Relay{
		Name: v.Name, State: relayAway, EnrolledAt: v.EnrolledAt, SeenAt: v.SeenAt, Key: v.Key, KeyID: v.KeyID, NextKey: v.NextKey, BridgeKey: v.Pin,
		Offers: viewAll(v.Offers, func(o bridge.RelayOffer) RelayOffer {
			return RelayOffer{Action: o.Action, Approval: o.Approval, Bridge: o.Bridge, ApproveBy: o.ApproveBy, Definition: o.Definition, Shows: o.Shows}
		}),
		Running: viewAll(v.Running, func(r bridge.RelayRun) RelayRun {
			return RelayRun{Request: r.Request, Action: r.Action, Since: r.Since, Stdout: r.Stdout, Stderr: r.Stderr}
		}),
	}
	out.Epoch = v.Epoch
	if !v.StoppedAt.IsZero() {
		out.Stopped = &v.StoppedAt
	}
	if !v.OutdatedAt.IsZero() {
		out.Outdated = &v.OutdatedAt
	}
	if !v.CopyAt.IsZero() {
		out.Copy = &RelayCopy{At: v.CopyAt, Epoch: v.CopyEpoch, AcceptedAt: v.AcceptedAt}
	}
	switch {
	case v.State == bridge.RelayRevoked:
		out.State = relayRevoked
	case v.Connected:
		out.State, out.Connected = relayConnected, &v.ConnectedAt
	}
	return out
}

// relayRoutes are the operator's part of the relays; without them there are no such paths.
func (h *Handler) relayRoutes() []route {
	if h.o.Relays == nil {
		return nil
	}
	return []route{
		{http.MethodGet, "/v1/relays", h.listRelays},
		{http.MethodGet, "/v1/workspaces", h.listWorkspaces},
		{http.MethodPost, "/v1/relays/rotate", h.rotateRelays},
		{http.MethodGet, "/v1/relays/{id}", h.getRelay},
		{http.MethodPost, "/v1/relays/{id}/token", h.relayToken},
		{http.MethodPost, "/v1/relays/{id}/withdraw", h.withdrawToken},
		{http.MethodPost, "/v1/relays/{id}/revoke", h.revokeRelay},
		{http.MethodPost, "/v1/relays/{id}/accept", h.acceptRelay},
	}
}

func (h *Handler) listRelays(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r, "after", "limit")
	if err != nil {
		return err
	}
	limit, err := q.limit()
	if err != nil {
		return err
	}
	found, err := h.o.Relays.RelayList(r.Context(), q.get("after"), limit+1)
	if err != nil {
		return err
	}
	page, more := cut(found, limit)
	list := RelayList{Relays: viewAll(page, viewRelay)}
	if more {
		list.Next = page[len(page)-1].Name
	}
	if q.get("after") == "" {
		open, err := h.o.Relays.Invitations(r.Context())
		if err != nil {
			return err
		}
		list.Invitations = viewAll(open, func(j bridge.RelayJoin) Invitation {
			return Invitation{Relay: j.Relay, CreatedAt: j.CreatedAt, ExpiresAt: j.ExpiresAt}
		})
	}
	httpx.WriteJSON(w, http.StatusOK, list)
	return nil
}

func (h *Handler) getRelay(w http.ResponseWriter, r *http.Request) error {
	return h.oneRelay(w, r, h.o.Relays.RelayByName)
}

func (h *Handler) revokeRelay(w http.ResponseWriter, r *http.Request) error {
	return h.oneRelay(w, r, h.o.Relays.Revoke)
}

func (h *Handler) acceptRelay(w http.ResponseWriter, r *http.Request) error {
	return h.oneRelay(w, r, h.o.Relays.Accept)
}

func (h *Handler) oneRelay(w http.ResponseWriter, r *http.Request, do func(context.Context, string) (bridge.RelayView, error)) error {
	name, err := pathValue(r, "id")
	if err != nil {
		return err
	}
	v, err := do(r.Context(), name)
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, viewRelay(v))
	return nil
}

func (h *Handler) relayToken(w http.ResponseWriter, r *http.Request) error {
	name, err := pathValue(r, "id")
	if err != nil {
		return err
	}
	var in TokenRequest
	if err := readExact(w, r, &in); err != nil {
		return err
	}
	if in.Seconds < 0 || in.Seconds > 1<<20 {
		return bridge.Errorf(bridge.Invalid, "seconds must be a number from 0 to %d", 1<<20)
	}
	t, err := h.o.Relays.NewToken(r.Context(), name, time.Duration(in.Seconds)*time.Second)
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, JoinToken{Relay: t.Relay, Token: t.Text, ExpiresAt: t.ExpiresAt, BridgeKey: t.BridgeKey, URL: cmp.Or(h.o.PublicURL, h.o.DoorURL)})
	return nil
}

func (h *Handler) withdrawToken(w http.ResponseWriter, r *http.Request) error {
	name, err := pathValue(r, "id")
	if err != nil {
		return err
	}
	if err := h.o.Relays.Withdraw(r.Context(), name); err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, Withdrawn{Relay: name})
	return nil
}

func (h *Handler) rotateRelays(w http.ResponseWriter, r *http.Request) error {
	k, err := h.o.Relays.Rotate(r.Context())
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, RelayKey{Generation: k.Generation, CreatedAt: k.CreatedAt})
	return nil
}

// Relays lists enrolled relays by name, up to limit after a name.
func (c *Client) Relays(ctx context.Context, after string, limit int) (RelayList, error) {
	q := url.Values{}
	if after != "" {
		q.Set("after", after)
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	return get[RelayList](ctx, c, "/v1/relays", q)
}

// Relay returns an enrolled relay.
func (c *Client) Relay(ctx context.Context, name string) (Relay, error) {
	return get[Relay](ctx, c, "/v1/relays/"+url.PathEscape(name), nil)
}

// RelayToken makes a join token that lives for so long; 0 is 15 minutes. It ends those for that name that nobody has used.
func (c *Client) RelayToken(ctx context.Context, name string, life time.Duration) (JoinToken, error) {
	return post[JoinToken](ctx, c, "/v1/relays/"+url.PathEscape(name)+"/token", TokenRequest{Seconds: int64(life / time.Second)})
}

// WithdrawRelayToken ends the join tokens for a name that nobody has used.
func (c *Client) WithdrawRelayToken(ctx context.Context, name string) error {
	_, err := post[Withdrawn](ctx, c, "/v1/relays/"+url.PathEscape(name)+"/withdraw", nil)
	return err
}

// RevokeRelay cuts a relay off and refuses it from then on.
func (c *Client) RevokeRelay(ctx context.Context, name string) (Relay, error) {
	return post[Relay](ctx, c, "/v1/relays/"+url.PathEscape(name)+"/revoke", nil)
}

// AcceptRelay lets the relay in that was refused as a copy.
func (c *Client) AcceptRelay(ctx context.Context, name string) (Relay, error) {
	return post[Relay](ctx, c, "/v1/relays/"+url.PathEscape(name)+"/accept", nil)
}

// RotateRelayKey gives the bridge a new key to sign requests with.
func (c *Client) RotateRelayKey(ctx context.Context) (RelayKey, error) {
	return post[RelayKey](ctx, c, "/v1/relays/rotate", nil)
}
