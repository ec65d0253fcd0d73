package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"drawbridge/relay/link"
)

// home says where the relay's files are.
type home struct {
	Config   string `default:"relay.yaml" placeholder:"FILE" help:"Path of relay.yaml."`
	Identity string `placeholder:"FILE" help:"Path of the file with the relay's key; relay.identity beside relay.yaml unless given."`
}

func (h home) identity() string {
	if h.Identity != "" {
		return h.Identity
	}
	return filepath.Join(filepath.Dir(h.Config), link.DefaultFile)
}

type joinCmd struct {
	Invitation string `arg:"" optional:"" help:"What drawbridge relay token printed: drawbridge://…"`
	Bridge     string `placeholder:"URL" help:"The bridge's address, with --token, instead of an invitation."`
	Token      string `placeholder:"TOKEN" help:"The join token, with --bridge, instead of an invitation."`
	home
}

// Help shows an example.
func (joinCmd) Help() string {
	return `Makes a key for this machine and exchanges it for the bridge's, which the invitation names, so that nobody in between can
pose as the bridge. The invitation works once and not for long. From then on drawbridge-relay run dials the bridge; no port
needs to be open here. HTTPS_PROXY and NO_PROXY of the environment count.

Example:
  drawbridge-relay join drawbridge://bridge.example.com/dbj_…
  drawbridge-relay join --bridge https://bridge.example.com --token dbj_…`
}

// Run joins and says what comes next.
func (c joinCmd) Run(ctx context.Context, s streams) error {
	in, err := c.invitation()
	if err != nil {
		return err
	}
	i, err := link.Join(ctx, c.identity(), in, time.Now)
	if err != nil {
		return err
	}
	own, bridge := i.KeyIDs(time.Now())
	_, err = fmt.Fprintf(s.out, "this machine is relay %s of %s\nits key is %s, the bridge's %s; both are in %s, which only you may read\nnow start it: drawbridge-relay run --config %s\n",
		i.Relay, i.Bridge, own, strings.Join(bridge, " "), c.identity(), c.Config)
	return err
}

func (c joinCmd) invitation() (link.Invitation, error) {
	switch {
	case c.Invitation != "" && c.Bridge == "" && c.Token == "":
		return link.ReadInvitation(c.Invitation)
	case c.Invitation == "" && c.Bridge != "" && c.Token != "":
		return link.NewInvitation(c.Bridge, c.Token)
	}
	return link.Invitation{}, errors.New("give the invitation that `drawbridge relay token <name>` printed, or --bridge and --token")
}

type keysCmd struct {
	Show   keysShowCmd   `cmd:"" default:"withargs" help:"Say which keys count; compare them with drawbridge relay show."`
	Rotate keysRotateCmd `cmd:"" help:"Give this relay a new key."`
}

type keysShowCmd struct{ home }

// Help shows an example.
func (keysShowCmd) Help() string { return "Example:\n  drawbridge-relay keys" }

// Run prints ids, never a key.
func (c keysShowCmd) Run(s streams) error {
	i, err := loadIdentity(c.identity())
	if err != nil {
		return err
	}
	return printKeys(s.out, i)
}

type keysRotateCmd struct{ home }

// Help shows an example.
func (keysRotateCmd) Help() string {
	return `The bridge takes the new key before this relay uses it, and the old one counts until then. A relay that runs uses the new key
from its next connection on; restart it to make that now. Interrupted, it goes on where it was when you call it again.

Example:
  drawbridge-relay keys rotate`
}

// Run rotates.
func (c keysRotateCmd) Run(ctx context.Context, s streams) error {
	if _, err := loadIdentity(c.identity()); err != nil {
		return err
	}
	i, err := link.Rotate(ctx, c.identity(), time.Now)
	if err != nil {
		return err
	}
	return printKeys(s.out, i)
}

func printKeys(w io.Writer, i link.Identity) error {
	own, bridge := i.KeyIDs(time.Now())
	_, err := fmt.Fprintf(w, "relay   %s\nbridge  %s\nkey     %s\ntrusts  %s\n", i.Relay, i.Bridge, own, strings.Join(bridge, " "))
	return err
}

func loadIdentity(path string) (link.Identity, error) {
	i, err := link.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return i, fmt.Errorf("%s is not there: this relay has not joined a bridge; make an invitation with `drawbridge relay token <name>`, and use drawbridge-relay join", path)
	}
	return i, err
}
