package main

import (
	"context"
	"maps"
	"slices"

	"drawbridge/config"
	"drawbridge/internal/httpx"
	"drawbridge/openai"
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

// backend makes one backend of the OpenAI-compatible door.
func (w *parts) backend(name string, u config.Upstream) (openai.Backend, error) {
	b := openai.Backend{Name: name}
	var err error
	switch u.Kind {
	case config.UpstreamChat:
		models := map[string]passthrough.Model{}
		for id, m := range u.Models {
			models[id] = passthrough.Model{Model: m.Model, Context: m.Context}
		}
		b.Stateless = true
		b.Upstream, err = passthrough.New(passthrough.Options{Name: name, URL: u.URL, Key: u.Key.Reveal(), Models: models, Log: w.log})
	}
	return b, err
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
	return w.callerDoor.Run(ctx)
}
