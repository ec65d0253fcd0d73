package hosting

import (
	"context"
	"syscall"

	"drawbridge/relay/agents/workspace"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/sandbox"
)

// Spaces opens the workspaces below the state folder of a relay until do returns, whether the relay runs or not. As in the relay, nobody else on this
// machine can read what is written meanwhile: the file mode mask of the whole process is another one until then.
func Spaces(ctx context.Context, state string, do func(*workspace.Store) error) error {
	defer syscall.Umask(syscall.Umask(0o077))
	pool, err := keeper.NewPool(true)
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := workspace.Open(workspace.Options{State: state, Run: pool, Ability: sandbox.Probe(ctx, nil)})
	if err != nil {
		return err
	}
	return do(store)
}
