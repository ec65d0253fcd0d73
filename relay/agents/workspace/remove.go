package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Loss is a removal that was refused because work would be lost.
type Loss struct{ State State }

// Error lists what would be lost and says how to save it, and how to lose it.
func (e *Loss) Error() string {
	return fmt.Sprintf("the workspace of %s holds unsaved work: %s; to save the commits, run drawbridge-relay workspaces fetch %s --all; to lose all of it, run drawbridge-relay workspaces remove %s --lose %s",
		e.State.Agent, strings.Join(e.State.Unsaved(), ", "), e.State.Agent, e.State.Agent, e.State.Code)
}

// Remove removes a workspace in which nothing would be lost. Otherwise it returns a *Loss, and the code in it, given as lose,
// removes the workspace all the same, unless something changed meanwhile. While the agent runs, nothing is removed.
func (st *Store) Remove(ctx context.Context, agent, lose string) error {
	if err := checkAgent(agent); err != nil {
		return err
	}
	if err := st.recover(ctx, agent); err != nil {
		return err
	}
	release, err := st.work(ctx, agent)
	if err != nil {
		return err
	}
	defer release()
	s, err := st.open(agent)
	if err != nil {
		return err
	}
	free, err := st.alone(agent)
	if err != nil {
		return err
	}
	defer free()
	if err := s.mayGo(ctx, lose); err != nil {
		return err
	}
	return st.takeAway(ctx, s, lose)
}

// mayGo returns a *Loss when work would be lost that lose does not name.
func (s *Space) mayGo(ctx context.Context, lose string) error {
	state, _, err := s.state(ctx)
	if err != nil {
		return err
	}
	if len(state.Unsaved()) > 0 && state.Code != lose {
		return &Loss{State: state}
	}
	return nil
}

// takeAway moves the workspace out of reach, looks once more, and removes it only then.
func (st *Store) takeAway(ctx context.Context, s *Space, lose string) error {
	place, leaving := filepath.Join(st.dir, s.agent), filepath.Join(st.dir, leavingPrefix+s.agent)
	here("workspace.remove.before")
	if err := os.Rename(place, leaving); err != nil {
		return fmt.Errorf("remove workspace: %w", err)
	}
	here("workspace.remove.moved")
	gone, err := st.at(s.agent, leaving)
	if err == nil {
		err = gone.mayGo(ctx, lose)
	}
	if err != nil {
		return errors.Join(err, os.Rename(leaving, place))
	}
	here("workspace.remove.judged")
	if err := writeSynced(filepath.Join(leaving, confirmedName), nil); err != nil {
		return errors.Join(err, os.Rename(leaving, place))
	}
	here("workspace.remove.confirmed")
	return finishLeaving(leaving)
}

// finishLeaving removes a workspace whose removal was decided. The mark goes last, so that a crash does not bring half of it back.
func finishLeaving(leaving string) error {
	entries, err := os.ReadDir(leaving)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == confirmedName {
			continue
		}
		if err := forget(filepath.Join(leaving, e.Name())); err != nil {
			return fmt.Errorf("remove workspace: %w", err)
		}
		here("workspace.remove.part")
	}
	return forget(leaving)
}

// recover finishes or takes back a removal that a crash cut off.
func (st *Store) recover(ctx context.Context, agent string) error {
	leaving := filepath.Join(st.dir, leavingPrefix+agent)
	if _, err := os.Lstat(leaving); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	release, err := st.work(ctx, agent)
	if err != nil {
		return err
	}
	defer release()
	if _, err := os.Lstat(leaving); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(leaving, confirmedName)); err == nil {
		return finishLeaving(leaving)
	}
	if err := os.Rename(leaving, filepath.Join(st.dir, agent)); err != nil {
		return fmt.Errorf("put back workspace of %s: %w", agent, err)
	}
	return nil
}
