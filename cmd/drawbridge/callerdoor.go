package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/bridge/words"
	"drawbridge/cmd/drawbridge/internal/probe"
	"drawbridge/config"
	"drawbridge/internal/httpx"
	"drawbridge/openai"
	"drawbridge/openai/agents"
	"drawbridge/openai/cursor"
	"drawbridge/openai/passthrough"
	"drawbridge/store"
	"drawbridge/store/callers"
)

// openCallers opens the OpenAI-compatible door, where the configuration has it.
func (w *parts) openCallers() error {
	o := w.config.OpenAI
	if o.Listen == "" {
		return nil
	}
	records := callers.New(w.store)
	w.callers = &openai.Keyring{Records: records}
	var backends []openai.Backend
	for _, name := range slices.Sorted(maps.Keys(o.Upstreams)) {
		b, err := w.backend(name, o.Upstreams[name])
		if err != nil {
			return err
		}
		backends = append(backends, b)
	}
	var err error
	w.callerDoor, err = openai.New(openai.Options{Records: records, Backends: backends, Anonymous: o.Anonymous, URL: o.URL, Origins: o.Origins, ParkTimeout: o.ParkTimeout,
		SideModel: o.SideModel, Alone: !store.IsURL(w.config.Database), Log: w.log})
	return err
}

// openCallerTools makes the tools of callers, which the MCP door shows to the agents that they wait for; nil without the OpenAI-compatible door.
func (w *parts) openCallerTools() {
	if w.config.OpenAI.Listen != "" {
		w.callerTools = agents.NewTools(agents.ToolsOptions{Steps: w.engine, Watch: w.engine.Watch, Hold: w.config.OpenAI.ParkTimeout,
			Fixed: func(a bridge.Agent) bool { return w.hosted[a.Runtime] != nil }}) // an ACP agent reads its tools once in a session
	}
}

// backend makes one backend of the OpenAI-compatible door.
func (w *parts) backend(name string, u config.Upstream) (openai.Backend, error) {
	b := openai.Backend{Name: name}
	behind := agents.Options{Engine: w.engine, Tools: w.callerTools, Repos: u.Repos, Spec: w.completeSpec}
	var err error
	switch u.Kind {
	case config.UpstreamAgent:
		b.Agents, b.Prefix = true, "agent/"
		b.Upstream, err = agents.New(behind)
	case config.UpstreamCloud:
		b.Agents, b.Prefix = true, "cloud/"
		b.Upstream, err = agents.NewCloud(behind)
	case config.UpstreamChat:
		b.Stateless = true
		b.Upstream, err = newEndpoint(name, u, w.log)
	case config.UpstreamCursor:
		w.log.Warn().Str("upstream", name).Msg(cursor.Notice)
		var c *cursor.Client
		if c, err = newCursor(name, u, w.log); err == nil {
			b.Upstream, b.Anew, w.cursors = c, true, append(w.cursors, c)
		}
	}
	if err == nil && !b.Agents { // the text of its answers is data, but for tokens that name an agent
		b.Upstream = agents.Commanding{Upstream: b.Upstream, Commander: agents.NewCommander(w.engine), Agent: w.actsAs}
	}
	return b, err
}

// newEndpoint makes the backend of a chat completions endpoint.
func newEndpoint(name string, u config.Upstream, log zerolog.Logger) (*passthrough.Endpoint, error) {
	models := map[string]passthrough.Model{}
	for id, m := range u.Models {
		models[id] = passthrough.Model{Model: m.Model, Context: m.Context}
	}
	return passthrough.New(passthrough.Options{Name: name, URL: u.URL, Key: u.Key.Reveal(), Models: models, Log: log})
}

// newCursor makes the backend of the agent protocol.
func newCursor(name string, u config.Upstream, log zerolog.Logger) (*cursor.Client, error) {
	models := map[string]cursor.Model{}
	for id, m := range u.Models {
		models[id] = cursor.Model{Model: m.Model, Context: m.Context, Max: m.MaxMode, Parameters: m.Parameters}
	}
	return cursor.New(cursor.Options{Name: name, URL: u.URL, AgentURL: u.AgentURL, Key: u.Key.Reveal(), HTTP2: u.HTTP2, Privacy: !u.Share, Models: models, Log: log})
}

// endpoint is a backend that can be asked for its models.
type endpoint interface {
	Check(ctx context.Context) (missing []string, listed int, err error)
	Close()
}

// askEndpoints asks each endpoint behind the OpenAI-compatible door once, for drawbridge check.
func askEndpoints(ctx context.Context, cfg *config.Bridge) (out []probe.Finding) {
	for _, name := range slices.Sorted(maps.Keys(cfg.OpenAI.Upstreams)) {
		u := cfg.OpenAI.Upstreams[name]
		var p endpoint
		var err error
		switch u.Kind {
		case config.UpstreamChat:
			p, err = newEndpoint(name, u, zerolog.Nop())
		case config.UpstreamCursor:
			out = append(out, probe.Finding{OK: true, What: "warning", Detail: cursor.Notice})
			p, err = newCursor(name, u, zerolog.Nop())
		default:
			continue
		}
		f := probe.Finding{What: "upstream " + name}
		if err != nil {
			f.Detail = err.Error()
			out = append(out, f)
			continue
		}
		missing, listed, err := p.Check(ctx)
		p.Close()
		switch {
		case err != nil:
			f.Detail = err.Error()
		case len(missing) > 0:
			f.Detail = fmt.Sprintf("the endpoint does not list %s; correct model below openai.upstreams.%s.models", strings.Join(missing, ", "), name)
		case listed == 0 && len(u.Models) == 0:
			f.Detail = "the endpoint lists no model; start a model there, then type drawbridge check again"
		case listed == 0:
			f.OK, f.Detail = true, "the endpoint answers, but lists no models to compare with yours"
		default:
			f.OK, f.Detail = true, fmt.Sprintf("the endpoint answers, and lists %s", words.Count(listed, "model"))
		}
		out = append(out, f)
	}
	return out
}

// actsAs returns the agent as which the answers to a token act, "" for none.
func (w *parts) actsAs(ctx context.Context, token string) (string, error) {
	all, err := w.callers.Records.Tokens(ctx)
	for _, t := range all {
		if t.Name == token && t.RevokedAt.IsZero() {
			return t.Commands, nil
		}
	}
	return "", err
}

// completeSpec gives a launch what the orchestrator's entry of its repository says.
func (w *parts) completeSpec(s *engine.Spec) {
	s.Role = w.roles(s.Repo)
	s.Runtime, s.Blocks = w.runtime(s.Name, s.Role), w.blocks(s.Name, s.Role)
	if s.Join == "" {
		s.Join, s.JoinWithin = w.join(s.Name, s.Role)
	}
}

// callerAddress is where the OpenAI-compatible door listens; none without that door.
func (w *parts) callerAddress(file string) []httpx.ServerOptions {
	if w.callerDoor == nil {
		return nil
	}
	return []httpx.ServerOptions{{Addr: w.config.OpenAI.Listen, Setting: "openai.listen in " + file, Handler: w.callerDoor.Handler(), Log: w.log}}
}

// runCallers runs the OpenAI-compatible door until ctx ends.
func (w *parts) runCallers(ctx context.Context) error {
	if w.callerDoor == nil {
		<-ctx.Done()
		return nil
	}
	err := w.callerDoor.Run(ctx)
	for _, c := range w.cursors {
		c.Close()
	}
	return err
}
