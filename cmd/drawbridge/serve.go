package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/config"
	"drawbridge/internal/httpx"
	"drawbridge/internal/lifecycle"
	"drawbridge/internal/pause"
	"drawbridge/policy"
	"drawbridge/store"
)

type serveCmd struct {
	Config string `help:"Read this configuration." default:"bridge.yaml" placeholder:"FILE" type:"path"`
	NewKey bool   `help:"Accept a new bridge key when the earlier key is lost and is not in old_keys. The bridge then refuses webhooks that are under way. A launch whose answer was lost may happen twice."`
	Log    string `help:"Write the log in this format: json, console, or auto (console at a terminal, json elsewhere). The default is log.format of the configuration." enum:",auto,json,console" default:"" placeholder:"FORMAT"`
	Only   string `help:"Run only this part of the bridge. webhooks is the webhook receiver, which needs no API key. The other parts run elsewhere on the same database." enum:",webhooks" default:"" placeholder:"PART"`
}

// Help shows an example.
func (serveCmd) Help() string {
	return "The bridge runs until you interrupt it. At the next start it continues the work that was under way.\n\nExample:\n  CURSOR_API_KEY=… drawbridge serve --config bridge.yaml"
}

// Run serves until ctx ends.
func (c serveCmd) Run(ctx context.Context, a app) error {
	a.newKey = c.NewKey
	if c.Only == "webhooks" {
		return c.receive(ctx, a)
	}
	cfg, p, err := loadConfig(c.Config, true, a)
	if err != nil {
		return err
	}
	cfg.Log.Format = cmp.Or(c.Log, cfg.Log.Format)
	w, err := wire(ctx, a, cfg, p)
	if err != nil {
		return err
	}
	if err := w.keyAccepted(ctx); err != nil {
		return w.close(err)
	}
	servers, err := httpx.ListenAll(ctx, w.addresses(filepath.Base(c.Config))...)
	if err != nil {
		return w.close(err)
	}
	if n, err := w.mail.Sweep(ctx, time.Now()); err != nil || n > 0 {
		w.log.Warn().Err(err).Int("removed", n).Msg("removed files that a crash left without a message")
	}
	for _, warning := range append(cfg.Warnings(), config.Problems(p.Warnings())...) {
		w.log.Warn().Str("at", warning.At).Msg(warning.String())
	}
	if notice, wanted := cfg.CloudNotice(); notice != "" && !wanted {
		w.log.Info().Msg(notice)
	}
	w.ready(servers)
	err = lifecycle.Run(ctx,
		lifecycle.Part{Name: "relays", Run: w.relays.Run, Stop: 20 * time.Second}, // what the engine still waits for comes through here
		lifecycle.Part{Name: "database watch", Run: w.watchDatabase},
		lifecycle.Part{Name: "size of the database", Run: w.noteSizes},
		lifecycle.Part{Name: "wake-ups of other replicas", Run: w.listen},
		lifecycle.Part{Name: "scripted agents", Run: w.runScripts, Stop: 40 * time.Second},
		lifecycle.Part{Name: "agents of relays", Run: w.runHosted},
		lifecycle.Part{Name: "engine", Run: w.engine.Run, Stop: 20 * time.Second},
		lifecycle.Part{Name: "allowlist watch", Run: w.watchAllowlist},
		lifecycle.Part{Name: "MCP door", Run: w.door.Run},
		lifecycle.Part{Name: "alerts", Run: w.runAlerts},
		lifecycle.Part{Name: "OpenAI-compatible door", Run: w.runCallers, Stop: 20 * time.Second},
		lifecycle.Part{Name: "HTTP server", Run: servers.Serve},
	)
	w.log.Info().Msg("stopped")
	return w.close(err)
}

// addresses are what the bridge listens on: one address for all, or one for programs and one for the operator.
func (w *parts) addresses(file string) []httpx.ServerOptions {
	more := w.callerAddress(file)
	all := httpx.ServerOptions{Addr: w.config.Listen, Setting: "listen in " + file, Handler: w.api, Log: w.log}
	if !w.config.Split() {
		return append([]httpx.ServerOptions{all}, more...)
	}
	all.Handler = w.api.Public()
	return append([]httpx.ServerOptions{all, {Addr: w.config.Operator.Listen, Setting: "operator.listen in " + file, Handler: w.api.Operator(), Log: w.log}}, more...)
}

// ready logs that the addresses are taken.
func (w *parts) ready(servers httpx.Servers) {
	line := w.log.Info().Str("addr", servers[0].Addr().String())
	if w.config.Split() {
		line = line.Str("operator", servers[1].Addr().String())
	}
	if w.callerDoor != nil {
		line = line.Str("openai", servers[len(servers)-1].Addr().String())
	}
	line.Str("page", w.config.OperatorURL()).Str("version", version).Str("database", store.Place(w.config.Database)).Bool("webhooks", w.config.PublicURL != "").Msg("ready")
}

// keyAccepted asks the Cloud Agents API once whether it takes the key. A key that it refuses ends the start: nothing could be
// launched. An API that does not answer in time is only told, because the bridge goes on when it is back.
func (w *parts) keyAccepted(ctx context.Context) error {
	if w.cloud == nil {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := w.cloud.Me(asking)
	if bridge.KindOf(err) == bridge.Unauthenticated {
		return fmt.Errorf("the Cloud Agents API at %s refuses the key in cursor.key (%s); make a new one (Dashboard, Integrations) and start again", w.config.Cursor.URL, bridge.SafeMessage(err))
	}
	if err != nil && ctx.Err() == nil {
		w.log.Warn().Str("url", w.config.Cursor.URL).Str("error", bridge.SafeMessage(err)).Msg("the Cloud Agents API did not answer, so its key is not yet checked")
	}
	return nil
}

// receive runs the webhook receiver alone: it records what comes and wakes the
// others, and holds neither the API key nor any way to act.
func (c serveCmd) receive(ctx context.Context, a app) error {
	cfg, p, err := loadConfig(c.Config, false, a)
	if err != nil {
		return err
	}
	cfg.Log.Format = cmp.Or(c.Log, cfg.Log.Format)
	if !store.IsURL(cfg.Database) {
		return usageError{errors.New("--only webhooks needs a database that the rest of the bridge shares; set database in bridge.yaml to a postgres:// address")}
	}
	w, hooks, err := wireReceiver(ctx, a, cfg, p)
	if err != nil {
		return err
	}
	server, err := httpx.Listen(ctx, httpx.ServerOptions{Addr: cfg.Listen, Setting: "listen in " + filepath.Base(c.Config), Handler: hooks, Log: w.log})
	if err != nil {
		return w.close(err)
	}
	w.log.Info().Str("addr", server.Addr().String()).Str("version", version).Str("database", store.Place(cfg.Database)).Str("only", "webhooks").Msg("ready")
	err = lifecycle.Run(ctx, lifecycle.Part{Name: "HTTP server", Run: server.Serve})
	w.log.Info().Msg("stopped")
	return w.close(err)
}

type migrateCmd struct {
	Config string `help:"The configuration." default:"bridge.yaml" placeholder:"FILE" type:"path"`
}

// Help shows an example.
func (migrateCmd) Help() string {
	return "The bridge does this at every start. Run this command before the start if the bridge's own database user may not change tables.\n\nExample:\n  drawbridge migrate --config bridge.yaml"
}

// Run brings the database's schema up to date.
func (c migrateCmd) Run(ctx context.Context, a app) error {
	cfg, _, err := loadConfig(c.Config, false, a)
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, cfg.Database)
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s is up to date\n", store.Place(cfg.Database))
	return err
}

// watchAllowlist puts each new allowlist in force; a broken one is told loudly and changes nothing.
func (w *parts) watchAllowlist(ctx context.Context) error {
	rules, _ := config.LoadAllowlist(w.config.Allowlist)
	compile := func(r policy.Rules) (*policy.Policy, []config.Problem) { return w.config.Policy(r) }
	err := config.WatchAllowlist(ctx, config.WatchOptions{
		Path: w.config.Allowlist, Current: rules,
		Check: func(r policy.Rules) []config.Problem { _, problems := compile(r); return problems },
		OnChange: func(r policy.Rules) {
			p, problems := compile(r)
			if p == nil {
				w.broken(problems)
				return
			}
			w.policy.Store(p)
			w.trouble.Store(nil)
			w.log.Info().Str("file", w.config.Allowlist).Int("repos", len(p.AllowedRepos(nil))).Int("actions", len(p.AllowedActions(nil))).Msg("allowlist reloaded")
		},
		OnBroken: w.broken,
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// watchDatabase says once, loudly, that the database's files are not those that
// were opened. Each request finds that out by itself.
func (w *parts) watchDatabase(ctx context.Context) error {
	return w.store.Watch(ctx, time.Second, func(err error) {
		w.log.Error().Err(err).Msg("the database is lost; no work is accepted")
	})
}

// noteSizes records each day how large the database is.
func (w *parts) noteSizes(ctx context.Context) error {
	for {
		if err := w.store.NoteSize(ctx, time.Now()); err != nil && ctx.Err() == nil {
			w.log.Warn().Str("error", bridge.SafeMessage(err)).Msg("the bridge cannot record the size of the database; it tries again in an hour")
		}
		if pause.For(ctx, time.Hour) != nil {
			return nil
		}
	}
}

func (w *parts) broken(problems []config.Problem) {
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.String()
	}
	text := fmt.Sprintf("the allowlist on disk is broken, the old one stays in force: %s", strings.Join(lines, "; "))
	w.trouble.Store(&text)
	w.log.Error().Str("file", w.config.Allowlist).Strs("problems", lines).Msg("allowlist is broken; the old one stays in force")
}

// listen passes on that another replica wrote something.
func (w *parts) listen(ctx context.Context) error {
	return w.store.Listen(ctx, func() {
		w.engine.Wake()
		w.relays.Wake()
	})
}
