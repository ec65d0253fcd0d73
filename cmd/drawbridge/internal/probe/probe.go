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
	"strings"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/bridge/words"
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
	out := []Finding{database(ctx, cfg)}
	if !cfg.CloudOff() {
		out = append(out, cloudOf(ctx, cfg, open))
	}
	out = append(out, publicURL(ctx, cfg))
	for name, r := range cfg.Relays {
		out = append(out, calledRelay(ctx, name, r))
	}
	return append(out, runningBridge(ctx, cfg)...)
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
	f.OK, f.Detail = true, "this program can open it"
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
		f.OK, f.Detail = true, "not set: the bridge polls for completions and gets no webhooks"
		return f
	}
	status, err := getStatus(ctx, cfg.PublicURL+"/health")
	switch {
	case err != nil:
		f.Detail = fmt.Sprintf("%s does not answer (%v); start the bridge (drawbridge serve), or correct the address", cfg.PublicURL, err)
	case status != http.StatusOK:
		f.Detail = fmt.Sprintf("%s/health answers with HTTP %d; correct public_url, which must lead to the bridge", cfg.PublicURL, status)
	case cfg.Split() && leadsToOperator(ctx, cfg.PublicURL):
		f.Detail = cfg.PublicURL + " leads to the operator's address; point it at listen (" + cfg.Listen + "), which serves agents, webhooks and relays, but not your API"
	default:
		f.OK, f.Detail = true, cfg.PublicURL+" leads to a bridge"
	}
	return f
}

// leadsToOperator reports whether the operator's API answers below a URL. It asks without a token: only that API then answers 401.
func leadsToOperator(ctx context.Context, url string) bool {
	status, err := getStatus(ctx, url+"/v1/status")
	return err == nil && status == http.StatusUnauthorized
}

// doorAddress asks for the health at listen, when the bridge that runs at the operator's address must be there, too.
func doorAddress(ctx context.Context, cfg *config.Bridge) []Finding {
	if !cfg.Split() {
		return nil
	}
	status, err := getStatus(ctx, cfg.DoorURL()+"/health")
	switch {
	case err != nil:
		return []Finding{{What: "listen", Detail: fmt.Sprintf("%s does not answer (%v), so agents, webhooks and relays cannot reach the bridge; restart it (drawbridge serve)", cfg.Listen, err)}}
	case status != http.StatusOK || leadsToOperator(ctx, cfg.DoorURL()):
		return []Finding{{What: "listen", Detail: cfg.Listen + " is not the address of this bridge for agents, webhooks and relays; restart the bridge (drawbridge serve)"}}
	}
	return nil
}

func calledRelay(ctx context.Context, name string, r config.Relay) Finding {
	f := Finding{What: "relay " + name}
	status, err := getStatus(ctx, r.URL+"/health")
	switch {
	case err != nil:
		f.Detail = fmt.Sprintf("does not answer at %s; start it with `drawbridge-relay run`", r.URL)
	case status != http.StatusOK:
		f.Detail = fmt.Sprintf("%s/health answers with HTTP %d; correct the url of this relay in bridge.yaml", r.URL, status)
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

// runningBridge asks the bridge, when it runs, whether it follows this configuration, and what the relays offer.
func runningBridge(ctx context.Context, cfg *config.Bridge) (out []Finding) {
	client, err := api.NewClient(api.ClientOptions{URL: cfg.OperatorURL(), Token: cfg.Token.Reveal(), Timeout: 5 * time.Second})
	if err != nil {
		return []Finding{{What: "the running bridge", Detail: textOf(err)}}
	}
	defer client.Close()
	if err := client.Health(ctx); err != nil {
		if cfg.Split() && leadsToOperator(ctx, cfg.DoorURL()) {
			return []Finding{{What: "the running bridge", Detail: "started before operator.listen was set, and still serves your API at " + cfg.Listen + "; restart it (drawbridge serve)"}}
		}
		return []Finding{{What: "the running bridge", OK: true, Detail: "no bridge answers at " + cfg.OperatorAddr() + ", so this check leaves out enrolled relays; to check them, start the bridge (drawbridge serve)"}}
	}
	status, err := client.Status(ctx)
	switch {
	case err != nil:
		return []Finding{{What: "the running bridge", Detail: textOf(err)}}
	case status.Config != "" && status.Config != cfg.Digest():
		out = append(out, Finding{What: "the running bridge", Detail: "was started with another bridge.yaml than this one; restart it (drawbridge serve)"})
	case status.AllowlistProblem != "":
		out = append(out, Finding{What: "the running bridge", Detail: status.AllowlistProblem})
	default:
		out = append(out, Finding{What: "the running bridge", OK: true, Detail: "follows this configuration"})
	}
	out = append(out, doorAddress(ctx, cfg)...)
	return append(out, offers(ctx, client, cfg)...)
}

// offers compares the allowlist's actions with what the enrolled relays offer. Relays that the bridge calls are probed by themselves.
func offers(ctx context.Context, client *api.Client, cfg *config.Bridge) (out []Finding) {
	rules, problems := config.LoadAllowlist(cfg.Allowlist)
	if len(problems) > 0 {
		return nil // told already
	}
	wanted, anywhere := map[string][]string{}, []string(nil)
	for _, rule := range rules.Actions {
		if _, static := cfg.Relays[rule.Relay]; rule.Relay != "" && !static {
			wanted[rule.Relay] = append(wanted[rule.Relay], rule.ID)
		} else if rule.Relay == "" && len(cfg.Relays) == 0 {
			anywhere = append(anywhere, rule.ID)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		out = append(out, enrolled(ctx, client, name, wanted[name]))
	}
	if len(anywhere) == 0 {
		return out
	}
	list, err := client.Relays(ctx, "", 0)
	if err != nil {
		return append(out, Finding{What: "relays", Detail: textOf(err)})
	}
	var all []api.RelayOffer
	for _, r := range list.Relays {
		all = append(all, r.Offers...)
	}
	if missing := notOffered(anywhere, all); len(missing) > 0 {
		out = append(out, Finding{What: "relays", Detail: fmt.Sprintf("no enrolled relay offers %s; add it to a relay.yaml, or name its relay in the allowlist", strings.Join(missing, ", "))})
	}
	return out
}

// notOffered are the actions that a relay's list lacks.
func notOffered(wanted []string, offers []api.RelayOffer) (missing []string) {
	for _, id := range wanted {
		if !slices.ContainsFunc(offers, func(o api.RelayOffer) bool { return o.Action == id }) {
			missing = append(missing, id)
		}
	}
	return missing
}

func enrolled(ctx context.Context, client *api.Client, name string, wanted []string) Finding {
	f := Finding{What: "relay " + name}
	r, err := client.Relay(ctx, name)
	switch {
	case bridge.KindOf(err) == bridge.NotFound:
		f.Detail = fmt.Sprintf("is neither enrolled nor configured; enroll it with `drawbridge relay token %s`", name)
	case err != nil:
		f.Detail = textOf(err)
	case r.State == "revoked":
		f.Detail = fmt.Sprintf("is revoked; enroll it again with `drawbridge relay token %s`, or remove its actions from the allowlist", name)
	case r.Connected == nil:
		f.Detail = fmt.Sprintf("is %s; start it there with `drawbridge-relay run`", r.State)
	case r.Outdated != nil:
		f.Detail = "its relay.yaml is newer than the running relay; test it there with `drawbridge-relay check`, then restart the relay"
	case r.Stopped != nil:
		f.Detail = "its kill switch is on, so it runs nothing; turn it off there with `drawbridge-relay start`"
	default:
		if missing := notOffered(wanted, r.Offers); len(missing) > 0 {
			f.Detail = fmt.Sprintf("is connected and does not offer %s, which the allowlist holds; add it to the relay's relay.yaml and restart the relay, or remove it from the allowlist", strings.Join(missing, ", "))
			break
		}
		f.OK, f.Detail = true, "is connected and offers "+words.Count(len(r.Offers), "action")
	}
	return f
}
