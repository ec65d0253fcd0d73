package turns

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"drawbridge/relay/agents/workspace"
	"drawbridge/relay/wire"
)

var _ wire.AgentPeeker = (*Host)(nil)

// Found is one workspace as the relay tells the bridge of it. Exactly one of State and Error is set.
type Found struct {
	Agent string           `json:"agent"`
	State *workspace.State `json:"state,omitempty"`
	// Unsaved says in words what would be lost with the workspace; none when all is saved.
	Unsaved []string `json:"unsaved,omitempty"`
	// Clean is true when every file of the tree is in a commit.
	Clean bool `json:"clean"`
	// Error says why the workspace could not be read.
	Error string `json:"error,omitempty"`
}

// PeekTurn implements wire.AgentPeeker. Git never runs in an agent's repository, so that a look is safe while the agent works.
func (h *Host) PeekTurn(ctx context.Context, t wire.Turn) wire.Peeked {
	answer, err := h.peek(ctx, t)
	var missing *workspace.NotFound
	switch {
	case errors.As(err, &missing), errors.Is(err, errNoSession):
		return wire.Peeked{Error: clipped(err.Error()), Missing: true}
	case ctx.Err() != nil:
		return wire.Peeked{Error: "the relay did not finish reading in time; run drawbridge-relay workspaces on its machine"}
	case err != nil:
		return wire.Peeked{Error: clipped(err.Error())}
	case len(answer) > wire.MaxPeeked:
		return wire.Peeked{Error: "the answer is too long; run drawbridge-relay workspaces on the relay's machine"}
	}
	return wire.Peeked{Data: answer}
}

// errNoSession means that nothing was ever said to an agent of this session.
var errNoSession = errors.New("the relay has no record of this session, so the session has no workspace")

func (h *Host) peek(ctx context.Context, t wire.Turn) (string, error) {
	switch t.Peek.What {
	case wire.PeekAll:
		return h.peekAll(ctx, maxFound)
	case wire.PeekLive:
		return asJSON(h.steps.since(t.Session, t.Peek.After))
	}
	home, err := h.homeOf(t)
	if err != nil {
		return "", err
	}
	name := home.Name
	if home.Within != "" {
		name = home.Within
	}
	space, err := h.o.Spaces.Get(ctx, name)
	if err != nil {
		return "", err
	}
	if t.Peek.What == wire.PeekState {
		return asJSON(found(ctx, space))
	}
	file, err := below(path.Join(space.Dir(), home.Subdir), t.Peek.Path)
	if err != nil {
		return "", err
	}
	if home.Subdir != "" {
		file = home.Subdir + "/" + file // not path.Join: a ".." has to stay, so that it is refused
	}
	data, err := space.Read(file, wire.MaxPeekFile)
	if err == nil && len(data) == 0 {
		err = errors.New("the file is empty, so it cannot be handed over; say in a message that it is empty")
	}
	return base64.StdEncoding.EncodeToString(data), err
}

// homeOf returns where a session of an agent works, from its record.
func (h *Host) homeOf(t wire.Turn) (wire.Home, error) {
	l, err := h.enter(t, false)
	if err != nil {
		return wire.Home{}, err
	}
	if l == nil {
		return wire.Home{}, errNoSession
	}
	defer l.leave()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.record.session == "" || l.record.agent != t.Agent {
		return wire.Home{}, errNoSession
	}
	return l.record.home, nil
}

// below returns the path of a file relative to the folder in which its agent works. No part of an absolute path is resolved, because an
// agent could change it meanwhile.
func below(dir, name string) (string, error) {
	if !filepath.IsAbs(name) {
		return strings.TrimPrefix(name, "./"), nil
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	for _, folder := range []string{dir, real} {
		if rest, inside := strings.CutPrefix(name, folder+"/"); inside {
			return rest, nil
		}
	}
	return "", errors.New("the file is outside of the folder in which you work; copy the file there, or give its content")
}

func found(ctx context.Context, space *workspace.Space) Found {
	state, err := space.State(ctx)
	if err != nil {
		return Found{Agent: space.Agent(), Error: clipped(err.Error())}
	}
	return Found{Agent: space.Agent(), State: &state, Unsaved: state.Unsaved(), Clean: state.Clean()}
}

// maxFound bounds the workspaces of one answer.
const maxFound = 500

// peekAll looks at the first workspaces by name, at most so many. If there are more, the last entry says so.
func (h *Host) peekAll(ctx context.Context, most int) (string, error) {
	names, err := h.o.Spaces.List(ctx)
	if err != nil {
		return "", err
	}
	all := []Found{}
	for _, name := range names[:min(len(names), most)] {
		space, err := h.o.Spaces.Get(ctx, name)
		if err != nil {
			all = append(all, Found{Agent: name, Error: clipped(err.Error())})
			continue
		}
		all = append(all, found(ctx, space))
	}
	if more := len(names) - most; more > 0 { // an entry without a name, which bridges of every version show
		all = append(all, Found{Error: fmt.Sprintf("%d of its %d workspaces are not shown; to see them, run drawbridge-relay workspaces at that machine", more, len(names))})
	}
	return asJSON(all)
}

func asJSON(v any) (string, error) {
	data, err := json.Marshal(v)
	return string(data), err
}
