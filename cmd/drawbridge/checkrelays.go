package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/config"
)

// checkEnrolled asks the bridge, when it runs, about the relays that the allowlist names and bridge.yaml has no address for.
func checkEnrolled(ctx context.Context, cfg *config.Bridge) (out []finding) {
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
		return []finding{{What: "relays", Detail: checkText(err)}}
	}
	defer client.Close()
	if err := client.Health(ctx); err != nil {
		return []finding{{What: "relays that dial in", OK: true, Detail: "the bridge does not run, so nobody can tell yet which are enrolled"}}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out = append(out, enrolled(ctx, client, name))
	}
	return out
}

func enrolled(ctx context.Context, client *api.Client, name string) finding {
	f := finding{What: "relay " + name}
	r, err := client.Relay(ctx, name)
	switch {
	case bridge.KindOf(err) == bridge.NotFound:
		f.Detail = fmt.Sprintf("is neither enrolled nor configured; enrol it with `drawbridge relay token %s`", name)
	case err != nil:
		f.Detail = checkText(err)
	case r.Connected == nil:
		f.Detail = fmt.Sprintf("is %s; start it there with `drawbridge-relay run`", r.State)
	default:
		f.OK, f.Detail = true, fmt.Sprintf("is connected and offers %d actions", len(r.Offers))
	}
	return f
}
