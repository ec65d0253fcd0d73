package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"drawbridge/internal/yamlconf"
	"drawbridge/relay/link"
	"drawbridge/relay/runner/settings"
)

// home says where the relay's files are.
type home struct {
	Config, Identity string
}

func (h *home) flags(f *pflag.FlagSet) {
	configFlag(f, &h.Config)
	f.StringVar(&h.Identity, "identity", "", "the `FILE` with the relay's key; relay.identity beside relay.yaml unless given")
}

func (h home) identity() string {
	if h.Identity != "" {
		return h.Identity
	}
	return filepath.Join(filepath.Dir(h.Config), link.DefaultFile)
}

const joinDescription = `Enroll this machine at a bridge, with the invitation that drawbridge relay token printed at the bridge.

The command makes a key for this machine and exchanges it for the bridge's key. The invitation names the bridge's key, so that
no other machine can pose as the bridge. The invitation works once, and only for a short time. From then on,
drawbridge-relay run connects to the bridge, and this machine needs no open port. The relay obeys HTTPS_PROXY and NO_PROXY of the
environment. The relay keeps certificates that you give with --ca.`

type join struct {
	Invitation, Bridge, Token, CA string
	home
}

func newJoin(s streams) *cobra.Command {
	var c join
	cmd := command(help{"join [invitation]", "Enroll this machine at a bridge with an invitation", joinDescription,
		"  drawbridge-relay join drawbridge://bridge.example.com/dbj_…\n  drawbridge-relay join --bridge https://bridge.example.com --token dbj_…"}, nil)
	cmd.Args = usage(cobra.MaximumNArgs(1))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			c.Invitation = args[0]
		}
		return c.run(cmd.Context(), s)
	}
	c.flags(cmd.Flags())
	cmd.Flags().StringVar(&c.Bridge, "bridge", "", "the bridge's address, a `URL`, with --token, instead of an invitation")
	cmd.Flags().StringVar(&c.Token, "token", "", "the join `TOKEN`, with --bridge, instead of an invitation")
	cmd.Flags().StringVar(&c.CA, "ca", "", "trust only the authority in this PEM `FILE` for the bridge's certificate, if the system does not know the authority")
	return cmd
}

// run joins and says what comes next.
func (c join) run(ctx context.Context, s streams) error {
	in, err := c.invitation()
	if err != nil {
		return err
	}
	if _, err := os.Stat(c.Config); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist, so this machine would have nothing to run; write it first with `drawbridge-relay init`, or name yours with --config FILE", c.Config)
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

func (c join) invitation() (in link.Invitation, err error) {
	switch {
	case c.Invitation != "" && c.Bridge == "" && c.Token == "":
		in, err = link.ReadInvitation(c.Invitation)
	case c.Invitation == "" && c.Bridge != "" && c.Token != "":
		in, err = link.NewInvitation(c.Bridge, c.Token)
	default:
		err = &usageError{"drawbridge-relay join", errors.New("give the invitation that `drawbridge relay token <name>` printed, or --bridge and --token")}
	}
	if err == nil && c.CA != "" {
		in.CA, err = link.ReadCA(c.CA)
	}
	return in, err
}

const rotateDescription = `Give this relay a new key. The bridge takes the new key before this relay uses it, and accepts the old key until then. A
running relay uses the new key from its next connection on. To use the new key at once, restart the relay. If the command was
interrupted, run it again; it continues where it stopped.`

const caDescription = `Keep the certificates (PEM) of another authority than the one that drawbridge-relay join got. Without a file, trust the authorities
that the system knows again. A running relay applies the change from its next connection on.`

const initDescription = `Write a relay.yaml to start from. Only you can change the file. Its actions only print a line, so replace them by your own. The
command does not change an existing file.`

func newInit(s streams) *cobra.Command {
	var config string
	cmd := command(help{"init", "Write a relay.yaml to start from", initDescription, "  drawbridge-relay init\n  drawbridge-relay init --config /home/me/relay/relay.yaml"},
		func(context.Context) error { return writeSample(s, config) })
	configFlag(cmd.Flags(), &config)
	return cmd
}

// writeSample writes the sample unless a file is there.
func writeSample(s streams, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	line, err := yamlconf.KeepSchema(path, settings.Schema)
	if err != nil {
		return fmt.Errorf("write the schema of %s: %w", path, err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already, and init does not change it; check it with `drawbridge-relay check`", path)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + settings.Sample)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "wrote %s\nNext: put your actions there, then join the bridge with what `drawbridge relay token <name>` prints.\n", path)
	return err
}

func newKeys(s streams) *cobra.Command {
	var shown, rotated, vouched home
	keys := group(help{"keys", "Show the keys of this relay and its bridge, or rotate the relay's",
		"Print the keys that count now. Compare them with the output of drawbridge relay show at the bridge.", "  drawbridge-relay keys\n  drawbridge-relay keys rotate"})
	keys.RunE = func(*cobra.Command, []string) error { return shown.showKeys(s) }
	shown.flags(keys.Flags())
	rotate := command(help{"rotate", "Give this relay a new key", rotateDescription, "  drawbridge-relay keys rotate"},
		func(ctx context.Context) error { return rotated.rotateKeys(ctx, s) })
	rotated.flags(rotate.Flags())
	ca := command(help{"ca [file]", "Change which authority vouches for the bridge's TLS certificate", caDescription, "  drawbridge-relay keys ca our-ca.pem"}, nil)
	ca.Args = usage(cobra.MaximumNArgs(1))
	ca.RunE = func(_ *cobra.Command, args []string) error { return vouched.setCA(s, args) }
	vouched.flags(ca.Flags())
	keys.AddCommand(rotate, ca)
	return keys
}

// showKeys prints ids, never a key.
func (h home) showKeys(s streams) error {
	i, err := loadIdentity(h.identity())
	if err != nil {
		return err
	}
	return printKeys(s.out, i)
}

// rotateKeys makes a new key count.
func (h home) rotateKeys(ctx context.Context, s streams) error {
	if _, err := loadIdentity(h.identity()); err != nil {
		return err
	}
	i, err := link.Rotate(ctx, h.identity(), time.Now)
	if err != nil {
		return err
	}
	return printKeys(s.out, i)
}

// setCA keeps the certificates of the file, or none.
func (h home) setCA(s streams, files []string) (err error) {
	if _, err := loadIdentity(h.identity()); err != nil {
		return err
	}
	ca, whose := "", "the authorities that the system knows"
	if len(files) > 0 {
		whose = files[0] + ", and no other"
		if ca, err = link.ReadCA(files[0]); err != nil {
			return err
		}
	}
	if err := link.SetCA(h.identity(), ca); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "for the bridge's certificate this relay trusts: %s\n", whose)
	return err
}

const bridgeDescription = `Show or change the address at which this relay dials its bridge. The relay keeps its keys, so you need no new invitation.

The bridge at the new address must prove the key that this relay trusts, and must know this relay. Otherwise nothing changes. A
running relay dials the new address from its next connection on. To dial the new address at once, restart the relay.`

func newBridge(s streams) *cobra.Command {
	var h home
	var ca string
	cmd := command(help{"bridge [url]", "Show or change the address of the bridge, and keep the keys", bridgeDescription,
		"  drawbridge-relay bridge\n  drawbridge-relay bridge https://new.example.com"}, nil)
	cmd.Args = usage(cobra.MaximumNArgs(1))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return h.showKeys(s)
		}
		return h.moveTo(cmd.Context(), s, args[0], ca)
	}
	h.flags(cmd.Flags())
	cmd.Flags().StringVar(&ca, "ca", "", "trust the authority in this PEM `FILE` at the new address; needed if a different authority signed the certificate of the new address")
	return cmd
}

// moveTo changes the address of the bridge.
func (h home) moveTo(ctx context.Context, s streams, address, caFile string) (err error) {
	before, err := loadIdentity(h.identity())
	if err != nil {
		return err
	}
	ca := ""
	if caFile != "" {
		if ca, err = link.ReadCA(caFile); err != nil {
			return err
		}
	}
	i, err := link.Move(ctx, h.identity(), address, ca)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "relay %s dials %s from its next connection on; it was %s. The bridge there proved its key.\n", i.Relay, i.Bridge, before.Bridge)
	return err
}

func printKeys(w io.Writer, i link.Identity) error {
	own, bridge := i.KeyIDs(time.Now())
	_, err := fmt.Fprintf(w, "relay   %s\nbridge  %s\nkey     %s\ntrusts  %s\n", i.Relay, i.Bridge, own, strings.Join(bridge, " "))
	return err
}

func loadIdentity(path string) (link.Identity, error) {
	i, err := link.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return i, fmt.Errorf("%s does not exist: this relay has not joined a bridge; make an invitation with `drawbridge relay token <name>`, and use drawbridge-relay join", path)
	}
	return i, err
}
