package turns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"

	"drawbridge/relay/agents/workspace"
	"drawbridge/relay/runner/settings"
	"drawbridge/relay/wire"
)

// place is where a turn works: a workspace, or a folder below one, which nobody removes meanwhile.
type place struct {
	space *workspace.Space
	dir   string
	// sub is nil for the workspace itself.
	sub *workspace.Subdir
	// below is the folder's path in the workspace, "" for the workspace itself.
	below string
	// since is the commit at which the turn begins, "" for the beginning of the workspace.
	since string
	// readOnly means that the agent may change nothing here.
	readOnly bool
	// setup is what sets up the workspace before an agent works in it, nil for nothing.
	setup []string
	hold  func()
}

// release lets others remove the workspace.
func (p *place) release() {
	if p.sub != nil {
		_ = p.sub.File.Close()
	}
	p.hold()
}

// same reports with an error when the folder was replaced since it was opened.
func (p *place) same() error {
	if p.sub == nil {
		return nil
	}
	return p.sub.Same()
}

// put writes a file for the agent into its folder.
func (p *place) put(ctx context.Context, name string, data []byte) error {
	return p.space.Put(ctx, path.Join(p.below, name), data)
}

// refusedError is a refusal in words for the bridge.
type refusedError struct{ end wire.TurnEnded }

// Error implements error.
func (e *refusedError) Error() string { return e.end.Error }

// settleIn opens the place of a session, and makes it for the first turn.
func (h *Host) settleIn(ctx context.Context, l *lane, t wire.Turn) (*place, error) {
	l.mu.Lock()
	home, head := l.record.home, l.record.head
	if l.record.session == "" || home.Ref == "" {
		ref := t.Home.Ref
		if l.record.session == "" {
			home = t.Home
		}
		home.Ref = ref
	}
	l.mu.Unlock()
	repos := h.o.Live.Now().Repos // the same clones for all of the turn
	space, made, err := h.space(ctx, repos, home, t.Agent)
	if err != nil {
		return nil, err
	}
	p := &place{space: space, dir: space.Dir(), since: head, setup: repos[home.Repo].Setup, readOnly: home.ReadOnly}
	if p.hold, err = space.Hold(); err != nil {
		return nil, err
	}
	if home.Subdir != "" {
		if p.sub, err = space.Below(home.Subdir); err != nil {
			p.hold()
			return nil, err
		}
		p.dir, p.below = p.sub.Path, home.Subdir
	}
	if p.since == "" && !made {
		if state, err := space.State(ctx); err == nil {
			p.since = state.Head
		}
	}
	return p, nil
}

// space returns the workspace of a home; made is true when it did not exist.
func (h *Host) space(ctx context.Context, repos map[string]settings.Repo, home wire.Home, agent string) (space *workspace.Space, made bool, err error) {
	if home.Repo == "" {
		if space, err = h.o.Spaces.Get(ctx, home.Within); err != nil {
			return nil, false, err
		}
		return space, false, h.mayWorkIn(space, repos, agent)
	}
	// relay.yaml may have changed since the session began.
	repo, why := h.repo(repos, agent, home.Repo)
	if why != nil {
		return nil, false, &refusedError{*why}
	}
	var missing *workspace.NotFound
	if _, err = h.o.Spaces.Get(ctx, home.Name); errors.As(err, &missing) {
		made = true
	} else if err != nil {
		return nil, false, err
	}
	spec := workspace.Spec{Agent: home.Name, Clone: repo.Clone}
	if home.Ref != "" {
		spec.Branches = []string{home.Ref}
	}
	space, err = h.o.Spaces.Make(ctx, spec)
	return space, made, err
}

// mayWorkIn refuses the workspace of another agent whose clone is not listed for this one.
func (h *Host) mayWorkIn(space *workspace.Space, repos map[string]settings.Repo, agent string) error {
	for name, repo := range repos {
		real, err := filepath.EvalSymlinks(repo.Clone)
		if err != nil || real != space.Clone() {
			continue
		}
		if slices.Contains(repo.Agents, agent) {
			return nil
		}
		_, why := h.repo(repos, agent, name)
		return &refusedError{*why}
	}
	return &refusedError{*unlisted("the workspace of %s belongs to the clone %s, which is not listed below repos: in %s; list it there with agents: [%s]%s", space.Agent(), space.Clone(), h.o.Config.File, agent, h.restart())}
}

// evidence is what goes to the bridge as the evidence of a turn, in JSON.
type evidence struct {
	workspace.Evidence
	// Fetched is what came into the listed clone, and Failed why something could not be read or fetched.
	Fetched *workspace.Fetched `json:"fetched,omitempty"`
	Failed  []string           `json:"failed,omitempty"`
	// Noticed is what the relay noticed of the agent beside its answer and its work, such as words that came too late.
	Noticed []string `json:"noticed,omitempty"`
}

// evidence reads what became of the workspace since a commit, brings the commits into the listed clone, and returns both in JSON, and
// the commit that is checked out now.
func (p *place) evidence(ctx context.Context, since string, noticed []string) (text, head string) {
	seen, fetched, failed := p.space.EndTurn(ctx, since)
	e := evidence{Evidence: seen, Fetched: fetched, Noticed: noticed}
	for _, err := range failed {
		e.Failed = append(e.Failed, clipped(err.Error()))
	}
	return e.text(), e.Head
}

// text is the evidence in JSON that the wire takes. The lists lose their ends where it is too long; the sums stay.
func (e evidence) text() string {
	for {
		text, err := json.Marshal(e)
		if err != nil {
			return fmt.Sprintf(`{"failed":[%q]}`, "the evidence cannot be written")
		}
		if len(text) <= wire.MaxEvidence {
			return string(text)
		}
		if len(e.Files)+len(e.Commits)+len(e.Problems)+len(e.Failed)+len(e.Noticed) == 0 {
			return fmt.Sprintf(`{"failed":[%q]}`, "the evidence is too long")
		}
		e.Files, e.Commits, e.Problems, e.Failed, e.Noticed = half(e.Files), half(e.Commits), half(e.Problems), half(e.Failed), half(e.Noticed)
	}
}

func half[T any](list []T) []T { return list[:len(list)/2] }
