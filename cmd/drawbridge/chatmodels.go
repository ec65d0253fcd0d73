package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"drawbridge/bridge"
	"drawbridge/chatmodel"
	"drawbridge/cmd/drawbridge/internal/probe"
	"drawbridge/config"
	"drawbridge/memory"
)

// kindChat is the kind of runtime whose agents are chat models in this process.
const kindChat = "chat"

// openChat makes the runtime of a chat model. It calls the engine and the door that are wired later.
func (w *parts) openChat(name string, c config.Runtime) (*chatmodel.Runtime, error) {
	r, err := chatmodel.New(chatmodel.Options{
		Name: name, URL: c.URL, Model: c.Model, Key: c.Key.Reveal(), MaxSteps: c.Steps, TurnTimeout: c.TurnTimeout, MaxTokens: c.MaxTokens, Parallel: c.Parallel,
		Steps: inProcess{w}, Tools: inProcess{w}, Blocks: memory.Preamble, Tracing: w.tracing, Now: time.Now, Rand: rand.Float64, Log: w.log,
	})
	if err != nil {
		return nil, fmt.Errorf("runtime %s: %w", name, err)
	}
	if w.chats == nil {
		w.chats = chatmodel.Runtimes{}
	}
	w.chats[name] = r
	return r, nil
}

// inProcess is the engine and the door for agents that live in this process. Both are there before the engine runs.
type inProcess struct{ *parts }

// Change implements bridge.Steps.
func (p inProcess) Change(ctx context.Context, fn func(bridge.Change) error, hints ...bridge.Need) error {
	return p.engine.Change(ctx, fn, hints...)
}

// View implements bridge.Steps.
func (p inProcess) View(ctx context.Context, fn func(*bridge.Scene) error) error {
	return p.engine.View(ctx, fn)
}

// Offered implements chatmodel.Tools.
func (p inProcess) Offered(ctx context.Context, agent bridge.AgentID) (string, []bridge.ToolOffer, error) {
	return p.door.Offered(ctx, agent)
}

// Call implements chatmodel.Tools.
func (p inProcess) Call(ctx context.Context, agent bridge.AgentID, k bridge.ToolCall) (bridge.ToolReturn, error) {
	return p.door.Call(ctx, agent, k)
}

// chatWork goes on with the turn of a chat model.
func (w *parts) chatWork(ctx context.Context, work bridge.Work) error {
	return w.chats.Work(ctx, inProcess{w}, work)
}

// inside reports whether agents of a runtime live in this process and need no token for their tools.
func (w *parts) inside(runtime string) bool { return w.config.Runtimes[runtime].Kind == kindChat }

// tokenless reports whether agents of a runtime call tools without a token: chat models, and agents whose relay carries their calls.
func (w *parts) tokenless(runtime string) bool { return w.inside(runtime) || w.relayOf(runtime) != "" }

// preamble is what of its memory an agent's turn begins with. The system prompt of a chat model shows it instead.
func (w *parts) preamble(tx *bridge.Scene, agent bridge.AgentID) (string, error) {
	a, err := tx.Agent(agent)
	if err != nil || w.inside(a.Runtime) {
		return "", err
	}
	return memory.Preamble(tx, agent)
}

// chatToolsets are what a chat model is offered, and each agent below one, if the orchestrator names none. A chat model can only call tools, so that it
// needs those that report and speak.
var chatToolsets = []string{"bridge", "team", "channels", "memory"}

// blocks are the first memory blocks of an agent, as its orchestrator's entry says.
func (w *parts) blocks(name, role string) map[string]string {
	if o := w.orchestrator(name, role); o != nil {
		return o.Blocks
	}
	return nil
}

// askModels asks the endpoint of each chat model once, for drawbridge check.
func askModels(ctx context.Context, cfg *config.Bridge) (out []probe.Finding) {
	for _, name := range slices.Sorted(maps.Keys(cfg.Runtimes)) {
		c := cfg.Runtimes[name]
		if c.Kind != kindChat {
			continue
		}
		f := probe.Finding{What: "runtime " + name, OK: true, Detail: "the endpoint answers, and the model calls tools"}
		call, cancel := context.WithTimeout(ctx, modelPatience)
		calls, err := chatmodel.Try(call, chatmodel.Options{Name: name, URL: c.URL, Model: c.Model, Key: c.Key.Reveal(), Parallel: 1, Now: time.Now})
		cancel()
		switch {
		case err != nil:
			f.OK, f.Detail = false, bridge.SafeMessage(err)
		case !calls:
			f.OK, f.Detail = false, fmt.Sprintf("the model %s answers, but does not call a tool when it is asked to; use one that can call tools", c.Model)
		}
		out = append(out, f)
	}
	return out
}

// modelPatience bounds one question to a model, which may have to be loaded first.
const modelPatience = 2 * time.Minute
