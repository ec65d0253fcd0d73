package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"drawbridge/api"
	"drawbridge/cmd/drawbridge/internal/local"
	"drawbridge/internal/logs"
)

type openCmd struct {
	Print bool   `help:"Print the link, and open no browser."`
	As    string `help:"Make the link for this person below operators in bridge.yaml, and print it. For another person, you must be an admin." placeholder:"NAME"`
	target
}

// Help shows examples.
func (openCmd) Help() string {
	return "The page shows what waits for you and what agents do, and takes your decisions. The command makes a link that works once, for ten minutes, and opens the link in your browser. The browser then stays logged in for 14 days. Without a desktop, or with --print, the command prints the link. At a terminal, it draws the link as a QR code, too, if a phone can reach the address. Whoever opens the link first acts on the page under your name and role, so keep it to yourself. With --as, the link is for somebody else.\n\nExamples:\n  drawbridge open\n  drawbridge open --print\n  drawbridge open --as ann"
}

// Run opens the page.
func (c openCmd) Run(ctx context.Context, a app) error {
	return c.withClient(a, func(client *api.Client) error {
		link, err := client.PageLink(ctx, c.As)
		if err != nil {
			return err
		}
		link.URL = cmp.Or(link.URL, client.URL()+link.Path)
		if c.JSON {
			return printJSON(a.stdout, link)
		}
		if !c.Print && c.As == "" {
			if err := local.Browse(ctx, a.getenv, link.URL); err == nil {
				_, err = fmt.Fprintf(a.stdout, "The page opens in your browser. If it does not, open this link there: %s\n", link.URL)
				return err
			}
		}
		if _, err = fmt.Fprintf(a.stdout, "%s\n", link.URL); err != nil {
			return err
		}
		how := "open this link in a browser"
		switch {
		case c.As != "":
			if how = "send this link to " + c.As + " alone"; here(link.URL) {
				how += "; it opens on this machine only (for another machine, set operator.url, or public_url without operator.listen)"
			}
		case !logs.IsTerminal(a.stdout):
		case here(link.URL):
			how += " of this machine (for a phone, set operator.url or public_url)"
		default:
			how += ", or scan the code with a phone"
			if code, err := qrCode(link.URL); err == nil { // without the code, the link is still there
				fmt.Fprint(a.stdout, code)
			}
		}
		fmt.Fprintf(a.stderr, "drawbridge: %s; it works once, until %s\n", how, link.ExpiresAt.Local().Format(time.TimeOnly))
		return nil
	})
}
