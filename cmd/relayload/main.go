// Command relayload enrols and connects many idle relays to a running bridge and says what the bridge's memory comes to. It is
// for measurements only and is not installed: each of its relays is the real connection of package link with a handler that
// runs nothing. Rule of thumb: it must not spare the bridge anything that real relays do.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"drawbridge/api"
	"drawbridge/relay/link"
	"drawbridge/relay/wire"
)

const usage = `Example (the bridge runs as process 4711; both need as many open files as there are relays):
  DRAWBRIDGE_TOKEN=… relayload -bridge http://127.0.0.1:7410 -relays 10000 -pid 4711 -hold 2m`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "relayload:", err)
		os.Exit(1)
	}
}

// idle offers three actions and runs none.
type idle struct{}

// Run implements wire.Handler.
func (idle) Run(_ context.Context, r wire.Request, _ func(wire.Output)) (wire.Outcome, error) {
	return wire.Outcome{Answer: wire.Refused(r.Action, "this relay only waits"), Refusal: wire.RefusedUnlisted}, nil
}

// Offers implements wire.Handler.
func (idle) Offers() (out []wire.Offer) {
	for _, action := range []string{"backup_script", "lock_screen", "open_browser"} {
		out = append(out, wire.Offer{Action: action, Approval: "never", Definition: strings.Repeat("0", 64)})
	}
	return out
}

func run(ctx context.Context) error {
	bridge := flag.String("bridge", "http://127.0.0.1:7410", "the bridge's address for its operator")
	relays := flag.Int("relays", 10_000, "how many")
	pid := flag.Int("pid", 0, "the bridge's process, to read its memory")
	hold := flag.Duration("hold", time.Minute, "how long to stay connected")
	flag.Usage = func() { flag.PrintDefaults(); fmt.Fprintln(os.Stderr, usage) }
	flag.Parse()
	dir, err := os.MkdirTemp("", "relayload")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	say(*pid, "before")
	began := time.Now()
	paths, err := enrol(ctx, *bridge, dir, *relays)
	if err != nil {
		return err
	}
	say(*pid, fmt.Sprintf("%d relays enrolled in %.1f s", *relays, time.Since(began).Seconds()))
	return wait(ctx, paths, *pid, *hold)
}

// enrol makes a token for each relay and joins with it, as an operator and a user do.
func enrol(ctx context.Context, bridge, dir string, n int) ([]string, error) {
	client, err := api.NewClient(api.ClientOptions{URL: bridge, Token: os.Getenv("DRAWBRIDGE_TOKEN")})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	status, err := client.Status(ctx)
	if err != nil {
		return nil, err
	}
	paths := make([]string, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(64)
	for i := range n {
		group.Go(func() error {
			token, err := client.RelayToken(ctx, fmt.Sprintf("load-%d-%05d", os.Getpid(), i), time.Hour)
			if err != nil {
				return err
			}
			in, err := link.NewInvitation(cmp.Or(status.DoorURL, bridge), token.Token)
			if err != nil {
				return err
			}
			paths[i] = filepath.Join(dir, fmt.Sprintf("%05d.identity", i))
			_, err = link.Join(ctx, paths[i], in, time.Now)
			return err
		})
	}
	return paths, group.Wait()
}

// wait connects every relay, says what the bridge's memory comes to, and lets go.
func wait(ctx context.Context, paths []string, pid int, hold time.Duration) error {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	began := time.Now()
	links := make([]*link.Link, len(paths))
	for i, path := range paths {
		l, err := link.New(link.Options{Identity: path, Handler: idle{}, Log: zerolog.Nop()})
		if err != nil {
			return err
		}
		links[i] = l
		running.Go(func() { _ = l.Run(ctx) }) // it returns nil always
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var end <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return errors.New("interrupted")
		case <-end:
			say(pid, fmt.Sprintf("%d connected at the end", connected(links)))
			return nil
		case <-tick.C:
		}
		if n := connected(links); end == nil && n == len(links) {
			say(pid, fmt.Sprintf("%d connected after %.1f s", n, time.Since(began).Seconds()))
			end = time.After(hold)
		}
	}
}

func connected(links []*link.Link) (n int) {
	for _, l := range links {
		if l.Connected() {
			n++
		}
	}
	return n
}

// say prints a line with the bridge's memory as the kernel counts it.
func say(pid int, what string) {
	memory := ""
	if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
		for line := range strings.Lines(string(data)) {
			if name, value, _ := strings.Cut(line, ":"); name == "VmRSS" || name == "VmHWM" {
				memory += fmt.Sprintf(" %s %s;", name, strings.TrimSpace(value))
			}
		}
	}
	fmt.Printf("%s %s;%s\n", time.Now().Format(time.TimeOnly), what, memory)
}
