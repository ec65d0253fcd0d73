// Package probe asks the world that a configuration names whether it is there:
// the database, the Cloud Agents API, the bridge's own public address, the relays. It changes
// nothing and reads no file but the allowlist. Rule of thumb: every answer says
// what to do next.
package probe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/cloudagents"
	"drawbridge/config"
	"drawbridge/store"
)

// Finding is one line of what was found.
type Finding struct {
	What   string `json:"what"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// All asks everybody; open makes the client of the Cloud Agents API.
func All(ctx context.Context, cfg *config.Bridge, open func(*config.Bridge) (*cloudagents.Client, error)) []Finding {
	out := []Finding{database(ctx, cfg), cloudOf(ctx, cfg, open), publicURL(ctx, cfg)}
	for name, r := range cfg.Relays {
		out = append(out, calledRelay(ctx, name, r))
	}
	return append(out, enrolledRelays(ctx, cfg)...)
}

// patience bounds one question.
const patience = 15 * time.Second

// database looks whether this program may work on the schema that is there.
func database(ctx context.Context, cfg *config.Bridge) Finding {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	f := Finding{What: "database " + store.Place(cfg.Database)}
	if err := store.CheckSchema(ctx, cfg.Database); err != nil {
		f.Detail = textOf(err)
		return f
	}
	f.OK, f.Detail = true, "nothing keeps this program from opening it"
	return f
}

func cloudOf(ctx context.Context, cfg *config.Bridge, open func(*config.Bridge) (*cloudagents.Client, error)) Finding {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	f := Finding{What: "Cloud Agents API at " + cfg.Cursor.URL}
	cloud, err := open(cfg)
	if err == nil {
		var me string
		if me, err = accountName(ctx, cloud); err == nil {
			f.OK, f.Detail = true, "the key "+me+" is accepted, API "+cfg.Cursor.API
			return f
		}
	}
	f.Detail = textOf(err)
	return f
}

func textOf(err error) string {
	var known *bridge.Error
	if errors.As(err, &known) {
		return known.Message
	}
	return err.Error()
}

// publicURL asks for our own health from outside, if the bridge runs.
func publicURL(ctx context.Context, cfg *config.Bridge) Finding {
	f := Finding{What: "public_url"}
	if cfg.PublicURL == "" {
		f.OK, f.Detail = true, "not set: completions are learned by asking, webhooks are not used"
		return f
	}
	status, err := getStatus(ctx, cfg.PublicURL+"/health")
	switch {
	case err != nil:
		f.Detail = fmt.Sprintf("%s does not answer (%v); is the bridge running, and does this address lead to it?", cfg.PublicURL, err)
	case status != http.StatusOK:
		f.Detail = fmt.Sprintf("%s/health answers with HTTP %d; does this address lead to the bridge?", cfg.PublicURL, status)
	default:
		f.OK, f.Detail = true, cfg.PublicURL+" leads to a bridge"
	}
	return f
}

func calledRelay(ctx context.Context, name string, r config.Relay) Finding {
	f := Finding{What: "relay " + name}
	status, err := getStatus(ctx, r.URL+"/health")
	switch {
	case err != nil:
		f.Detail = fmt.Sprintf("does not answer at %s; start it with `drawbridge-relay run`", r.URL)
	case status != http.StatusOK:
		f.Detail = fmt.Sprintf("%s/health answers with HTTP %d; is this a relay?", r.URL, status)
	default:
		f.OK, f.Detail = true, "answers at "+r.URL
	}
	return f
}

func getStatus(ctx context.Context, url string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return 0, errors.Unwrap(err)
	}
	return resp.StatusCode, resp.Body.Close()
}

// accountName is whom the key belongs to, without the key.
func accountName(ctx context.Context, cloud *cloudagents.Client) (string, error) {
	me, err := cloud.Me(ctx)
	if err != nil {
		return "", err
	}
	if me.Email == "" {
		return fmt.Sprintf("%q", me.KeyName), nil
	}
	return fmt.Sprintf("%q of %s", me.KeyName, me.Email), nil
}

// enrolledRelays asks the bridge, when it runs, about the relays that the allowlist names and bridge.yaml has no address for.
func enrolledRelays(ctx context.Context, cfg *config.Bridge) (out []Finding) {
	rules, problems := config.LoadAllowlist(cfg.Allowlist)
	if len(problems) > 0 {
		return nil // told already
	}
	names := map[string]bool{}
	for _, rule := range rules.Actions {
		if _, static := cfg.Relays[rule.Relay]; !static && rule.Relay != "" {
			names[rule.Relay] = true
		}
	}
	if len(names) == 0 {
		return nil
	}
	client, err := api.NewClient(api.ClientOptions{URL: "http://" + cfg.Listen, Token: cfg.Token.Reveal(), Timeout: 5 * time.Second})
	if err != nil {
		return []Finding{{What: "relays", Detail: textOf(err)}}
	}
	defer client.Close()
	if err := client.Health(ctx); err != nil {
		return []Finding{{What: "relays that dial in", OK: true, Detail: "the bridge does not run, so nobody can tell yet which are enrolled"}}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out = append(out, enrolled(ctx, client, name))
	}
	return out
}

func enrolled(ctx context.Context, client *api.Client, name string) Finding {
	f := Finding{What: "relay " + name}
	r, err := client.Relay(ctx, name)
	switch {
	case bridge.KindOf(err) == bridge.NotFound:
		f.Detail = fmt.Sprintf("is neither enrolled nor configured; enrol it with `drawbridge relay token %s`", name)
	case err != nil:
		f.Detail = textOf(err)
	case r.Connected == nil:
		f.Detail = fmt.Sprintf("is %s; start it there with `drawbridge-relay run`", r.State)
	default:
		f.OK, f.Detail = true, fmt.Sprintf("is connected and offers %d actions", len(r.Offers))
	}
	return f
}
