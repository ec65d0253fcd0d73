package agents

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/bridge/words"
	"drawbridge/openai/upstream"
)

// Cloud are the models cloud/<alias>: each conversation has an agent of its own on the alias's repository. Safe for concurrent use.
type Cloud struct{ o Options }

var _ upstream.Upstream = (*Cloud)(nil)

// NewCloud returns the backend whose models are the aliases in [Options.Repos], without a prefix.
func NewCloud(o Options) (*Cloud, error) {
	o, err := o.complete()
	return &Cloud{o}, err
}

// Models implements [upstream.Upstream].
func (b *Cloud) Models(context.Context) ([]upstream.Model, error) {
	var list []upstream.Model
	for alias := range b.o.Repos {
		list = append(list, upstream.Model{ID: alias, Owner: "drawbridge", Context: contextLength})
	}
	slices.SortFunc(list, func(a, b upstream.Model) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return list, nil
}

// Start implements [upstream.Upstream]: the first words of a conversation launch its agent through the allowlist, later ones are turns of it.
func (b *Cloud) Start(ctx context.Context, r upstream.Request) (upstream.Turn, error) {
	repo, ok := b.o.Repos[r.Model]
	if !ok {
		return nil, noModel("bridge.yaml has no repository " + words.SafeWord(r.Model) + " for this endpoint; GET /v1/models lists the names that this token may use")
	}
	return b.o.begin(ctx, r, func(said engine.Words) (bridge.Turn, error) { return b.converse(ctx, r, repo, said) }, false)
}

// Resume implements [upstream.Upstream].
func (b *Cloud) Resume(ctx context.Context, r upstream.Request, ref string) (upstream.Turn, error) {
	return b.o.resume(ctx, r, ref)
}

// agentName names the agent of a conversation, so that a repeat of its launch meets it.
func agentName(r upstream.Request) string {
	sum := sha256.Sum256([]byte("drawbridge conversation\n" + r.Session + "\n" + r.Model))
	return "cloud-" + hex.EncodeToString(sum[:8])
}

// converse gives the conversation's agent its next turn, and launches one where there is none that takes turns.
func (b *Cloud) converse(ctx context.Context, r upstream.Request, repo string, said engine.Words) (bridge.Turn, error) {
	for range 2 {
		a, err := b.o.Engine.FindAgent(ctx, agentName(r))
		switch {
		case err == nil && !gone(a):
			return b.o.Engine.SayAs(ctx, a.ID, said)
		case err != nil && bridge.KindOf(err) != bridge.NotFound:
			return bridge.Turn{}, err
		}
		spec := engine.Spec{Name: agentName(r), Repo: repo, Prompt: said.Text, First: said}
		if b.o.Spec != nil {
			b.o.Spec(&spec)
		}
		_, turn, err := b.o.Engine.LaunchAgent(ctx, spec)
		if bridge.KindOf(err) != bridge.Conflict {
			return turn, err
		}
		// Another request of the conversation was first: its agent is the one to talk to.
	}
	return bridge.Turn{}, bridge.Errorf(bridge.Conflict, "the agent of this conversation takes no more turns; begin a new conversation")
}
