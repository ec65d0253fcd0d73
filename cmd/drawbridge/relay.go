package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
)

// relayCmd is "drawbridge relay …": the relays that dial in.
type relayCmd struct {
	Token    relayTokenCmd    `cmd:"" help:"Make a join command for one relay; it works once."`
	Withdraw relayWithdrawCmd `cmd:"" help:"Withdraw the join command for a relay, if no machine has used it."`
	List     relayListCmd     `cmd:"" help:"List relays with their connection times and offers, and list the open join commands."`
	Show     relayShowCmd     `cmd:"" help:"Show one relay, with what it is running."`
	Revoke   relayRevokeCmd   `cmd:"" help:"Disconnect a relay and refuse it from now on."`
	Accept   relayAcceptCmd   `cmd:"" help:"Accept a relay that the bridge refused because the relay's state looks copied."`
	Rotate   relayRotateCmd   `cmd:"" help:"Give the bridge a new key to sign requests with."`
}

// Help shows examples.
func (relayCmd) Help() string {
	return "Examples:\n  drawbridge relay token laptop\n  drawbridge relay list\n  drawbridge relay revoke laptop"
}

type relayTokenCmd struct {
	Name string        `arg:"" help:"The relay's name in the allowlist, such as laptop."`
	For  time.Duration `help:"Let the join command work for this long, 1m to 24h." default:"15m" placeholder:"TIME"`
	At   string        `help:"Put this address of the bridge into the join command, instead of public_url or the address that you use." placeholder:"URL"`
	target
}

// Help shows an example.
func (relayTokenCmd) Help() string {
	return "This prints a join command. Run the join command on the relay's machine. Keep the join command private: the first machine that uses its secret\nbecomes this relay. A new join command ends the earlier one for the same name. To end a join command yourself, run drawbridge relay withdraw NAME.\n\nExample:\n  drawbridge relay token laptop"
}

// Run makes a token and prints the command for the other machine.
func (c relayTokenCmd) Run(ctx context.Context, a app) error {
	return c.withClient(a, func(client *api.Client) error {
		t, err := client.RelayToken(ctx, c.Name, c.For)
		if err != nil {
			return err
		}
		at := c.At
		for _, known := range []string{t.URL, client.URL()} {
			if at == "" {
				at = known
			}
		}
		join, err := joinCommand(at, t.Token)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(a.stdout, struct {
				api.JoinToken
				Command string `json:"command"`
			}{t, join})
		}
		where := "the machine of " + t.Relay
		if strings.Contains(join, " drawbridge+http://") {
			where = "this machine (for another one set public_url in bridge.yaml, or use --at https://…)"
		}
		_, err = fmt.Fprintf(a.stdout, "On %s, before %s, beside its relay.yaml:\n\n  %s\n\nThen start it there: drawbridge-relay run\n",
			where, t.ExpiresAt.Local().Format(time.TimeOnly), join)
		return err
	})
}

type relayWithdrawCmd struct {
	Name string `arg:"" help:"The relay's name, as you gave it to relay token."`
	target
}

// Help shows an example.
func (relayWithdrawCmd) Help() string {
	return "Afterwards no machine can join with the command that drawbridge relay token printed. If a machine has joined already, this\nwithdraws nothing. Disconnect that machine with drawbridge relay revoke.\n\nExample:\n  drawbridge relay withdraw laptop"
}

// Run withdraws.
func (c relayWithdrawCmd) Run(ctx context.Context, a app) error {
	return c.withClient(a, func(client *api.Client) error {
		if err := client.WithdrawRelayToken(ctx, c.Name); err != nil {
			return err
		}
		if c.JSON {
			return printJSON(a.stdout, api.Withdrawn{Relay: c.Name})
		}
		_, err := fmt.Fprintf(a.stdout, "the join command for relay %s is withdrawn; no machine can join with it\n", c.Name)
		return err
	})
}

// joinCommand writes an address and a token as one word.
func joinCommand(at, token string) (string, error) {
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return "", usageError{fmt.Errorf("%q is not an address that a relay can dial; use --at https://…", at)}
	}
	scheme := "drawbridge://"
	if u.Scheme == "http" {
		scheme = "drawbridge+http://"
		if host := u.Hostname(); host != "localhost" && !strings.HasPrefix(host, "127.") && host != "::1" {
			return "", usageError{errors.New("a relay on another machine reaches a bridge by https:// only; set public_url, or use --at https://…")}
		}
	}
	return "drawbridge-relay join " + scheme + u.Host + strings.TrimRight(u.EscapedPath(), "/") + "/" + token, nil
}

type relayListCmd struct {
	After string `help:"Continue the list after this relay name." placeholder:"NAME"`
	Limit int    `help:"List at most this many relays." default:"100"`
	target
}

// Help shows an example.
func (relayListCmd) Help() string { return "Example:\n  drawbridge relay list" }

// Run lists relays.
func (c relayListCmd) Run(ctx context.Context, a app) error {
	return c.withClient(a, func(client *api.Client) error {
		list, err := client.Relays(ctx, c.After, c.Limit)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(a.stdout, list)
		}
		if err := a.printRelays(list.Relays...); err != nil {
			return err
		}
		for _, i := range list.Invitations {
			fmt.Fprintf(a.stdout, "an invitation for %s is open until %s; end it with: drawbridge relay withdraw %s\n", i.Relay, i.ExpiresAt.Local().Format(time.DateTime), i.Relay)
		}
		for _, r := range list.Relays {
			if copyThere(r) {
				fmt.Fprintf(a.stdout, "%s:\n", r.Name)
				warnOfCopy(a.stdout, r)
			}
		}
		if list.Next != "" {
			_, err = fmt.Fprintf(a.stdout, "more: --after %s\n", list.Next)
		}
		return err
	})
}

func (a app) printRelays(relays ...api.Relay) error {
	cells := make([][]string, len(relays))
	for i, r := range relays {
		cells[i] = relayRow(r)
	}
	return table(a.stdout, "NAME\tSTATE\tSINCE\tLAST SEEN\tOFFERS\tBRIDGE KEY", "no relays; drawbridge relay token NAME invites one", cells)
}

func relayRow(r api.Relay) []string {
	since, seen := "", r.SeenAt.Local().Format(time.DateTime)
	if r.Connected != nil {
		since, seen = r.Connected.Local().Format(time.DateTime), "now"
	}
	offers := make([]string, len(r.Offers))
	for i, o := range r.Offers {
		offers[i] = o.Action
		switch {
		case o.ApproveBy != "":
			offers[i] += " (" + o.Approval + " by " + o.ApproveBy + ")"
		case o.Approval != "never":
			offers[i] += " (" + o.Approval + ")"
		}
	}
	return []string{r.Name, relayState(r), since, seen, short(strings.Join(offers, ", "), 100), r.BridgeKey}
}

// relayState adds what needs a person to a relay's state.
func relayState(r api.Relay) string {
	state := r.State
	if r.Stopped != nil {
		state += ", kill switch on"
	}
	if r.Outdated != nil {
		state += ", relay.yaml is newer"
	}
	if copyThere(r) {
		state += ", COPY REFUSED"
	}
	return state
}

// copyThere reports whether a copy of the relay tried to connect lately. One that runs tries about every ten seconds.
func copyThere(r api.Relay) bool { return r.Copy != nil && time.Since(r.Copy.At) < 5*time.Minute }

// warnOfCopy says what to do about a copy.
func warnOfCopy(w io.Writer, r api.Relay) {
	if r.Copy == nil {
		return
	}
	fmt.Fprintf(w, "  refused at %s: this relay with the epoch %d; the last acknowledged epoch is %d\n", r.Copy.At.Local().Format(time.DateTime), r.Copy.Epoch, r.Epoch)
	if time.Since(r.Copy.AcceptedAt) < bridge.AcceptFor {
		fmt.Fprintln(w, "    you accepted the refused relay; the bridge lets it in when it connects next")
		return
	}
	fmt.Fprintf(w, "    its state folder was copied or restored, or its journal was removed; stop the refused relay, or to use it instead of the other one: drawbridge relay accept %s\n", r.Name)
}

type relayAcceptCmd struct {
	Name string `arg:"" help:"The relay's name."`
	target
}

// Help says what it means.
func (relayAcceptCmd) Help() string {
	return "The bridge refuses a relay whose journal is older than at the relay's last connection. The cause is a state folder that was copied or\nput back, or a journal that was removed. Stop the other copy of the relay before you accept this one. After that, the bridge\nrefuses the other copy. The bridge does not send requests again that may have reached the other copy.\n\nExample:\n  drawbridge relay accept laptop"
}

// Run accepts.
func (c relayAcceptCmd) Run(ctx context.Context, a app) error {
	return c.withClient(a, func(client *api.Client) error {
		r, err := client.AcceptRelay(ctx, c.Name)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(a.stdout, r)
		}
		_, err = fmt.Fprintf(a.stdout, "the bridge lets the refused relay %s in when it connects next, within about ten seconds. From then on the bridge refuses the other one. If the relay does not connect within an hour, accept it again\n", r.Name)
		return err
	})
}

type relayShowCmd struct {
	Name string `arg:"" help:"The relay's name."`
	target
}

// Help shows an example.
func (relayShowCmd) Help() string { return "Example:\n  drawbridge relay show laptop" }

// Run shows a relay.
func (c relayShowCmd) Run(ctx context.Context, a app) error {
	return c.withClient(a, func(client *api.Client) error {
		r, err := client.Relay(ctx, c.Name)
		if err != nil {
			return err
		}
		return c.print(a, r)
	})
}

func (c relayShowCmd) print(a app, r api.Relay) error {
	if c.JSON {
		return printJSON(a.stdout, r)
	}
	if err := a.printRelays(r); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "  its key is %s; on its machine, drawbridge-relay keys must show the same\n", cmp.Or(r.KeyID, "unknown"))
	warnOfCopy(a.stdout, r)
	for _, o := range r.Offers {
		who := bridge.RelayOffer{Approval: o.Approval, Bridge: o.Bridge, ApproveBy: o.ApproveBy}.Approver()
		fmt.Fprintf(a.stdout, "  offers %s, approval %s (by %s), definition %.16s\n", o.Action, short(o.Approval, 40), cmp.Or(who, "nobody"), short(o.Definition, 64))
		if o.Shows != "" {
			fmt.Fprintf(a.stdout, "    %s\n", short(o.Shows, len(o.Shows)))
		}
	}
	for _, run := range r.Running {
		fmt.Fprintf(a.stdout, "  running %s since %s, request %.16s\n", run.Action, run.Since.Local().Format(time.TimeOnly), run.Request)
		for _, line := range strings.Split(strings.TrimRight(run.Stdout+run.Stderr, "\n"), "\n") {
			fmt.Fprintf(a.stdout, "  | %s\n", short(line, 160))
		}
	}
	return nil
}

type relayRevokeCmd struct {
	Name string `arg:"" help:"The relay's name."`
	target
}

// Help shows an example.
func (relayRevokeCmd) Help() string {
	return "Actions that the relay is running continue on its machine, but the bridge no longer accepts their results. Afterwards you can give the relay's name to another machine.\n\nExample:\n  drawbridge relay revoke laptop"
}

// Run revokes.
func (c relayRevokeCmd) Run(ctx context.Context, a app) error {
	return c.withClient(a, func(client *api.Client) error {
		r, err := client.RevokeRelay(ctx, c.Name)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(a.stdout, r)
		}
		_, err = fmt.Fprintf(a.stdout, "relay %s is %s\n", r.Name, r.State)
		return err
	})
}

type relayRotateCmd struct{ target }

// Help shows an example.
func (relayRotateCmd) Help() string {
	return "Each relay learns the new key over its own connection, at once or when the relay connects again. The old key vouches for the new key.\nEach relay trusts the old key for another day. To rotate a relay's own key, run drawbridge-relay keys rotate at its machine.\n\nExample:\n  drawbridge relay rotate"
}

// Run rotates.
func (c relayRotateCmd) Run(ctx context.Context, a app) error {
	return c.withClient(a, func(client *api.Client) error {
		k, err := client.RotateRelayKey(ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(a.stdout, k)
		}
		_, err = fmt.Fprintf(a.stdout, "requests are signed with key number %d from now on; relays that are not connected learn the key when they connect\n", k.Generation)
		return err
	})
}
