package turns

import "context"

// PeekAtMost lists the workspaces of a host as PeekTurn does, but at most so many.
func (h *Host) PeekAtMost(ctx context.Context, most int) (string, error) { return h.peekAll(ctx, most) }
