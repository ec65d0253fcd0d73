package keeper

import (
	"errors"
	"os"
)

// Unread is not available: macOS does not say at the writer's end of a pipe what was not read.
func Unread(*os.File) (int, error) { return 0, errors.ErrUnsupported }
