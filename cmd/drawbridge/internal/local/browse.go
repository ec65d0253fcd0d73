package local

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
)

// Browse opens an address in the person's browser. It is an error where there is no desktop, or no program that opens addresses.
func Browse(ctx context.Context, getenv func(string) (string, bool), address string) error {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	} else {
		x, _ := getenv("DISPLAY")
		wayland, _ := getenv("WAYLAND_DISPLAY")
		if x == "" && wayland == "" {
			return errors.New("no desktop")
		}
	}
	if err := exec.CommandContext(ctx, program, address).Run(); err != nil {
		return fmt.Errorf("open the browser: %w", err)
	}
	return nil
}
