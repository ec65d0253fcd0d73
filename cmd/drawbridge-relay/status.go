package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"drawbridge/relay/link"
	"drawbridge/relay/runner"
	"drawbridge/relay/runner/audit"
	"drawbridge/relay/runner/control"
	"drawbridge/relay/runner/output"
	"drawbridge/relay/wire"
)

const statusDescription = `Show whether the relay runs, whether it is connected to its bridge and since when, and whether the kill switch is on. Also show what
runs and what waits. The command reads the audit log from end to end, to see whether the log is whole. The command asks the
running relay through a socket in the state folder, which only you can open. Without a running relay, the command shows what the
files in the state folder say.

The exit code is 0 if all of these are true:
  - the relay runs with the present relay.yaml
  - the relay is connected, if it has joined a bridge
  - the kill switch is off
  - the audit log is whole
Otherwise the exit code is 1, and stderr says what is wrong.`

type status struct {
	place
	Identity string
	JSON     bool
}

func newStatus(s streams) *cobra.Command {
	var c status
	cmd := command(help{"status", "Say whether the relay runs and is connected, what it does, and what is wrong with it", statusDescription,
		"  drawbridge-relay status\n  drawbridge-relay status --json | jq .connection.last_error"},
		func(ctx context.Context) error { return c.run(ctx, s) })
	c.flags(cmd.Flags())
	cmd.Flags().StringVar(&c.Identity, "identity", "", "the `FILE` with the relay's key; relay.identity beside relay.yaml unless given")
	cmd.Flags().BoolVar(&c.JSON, "json", false, "print JSON")
	return cmd
}

// report is what is said of a relay. Without a running relay only the kill switch and the name are known of its Status.
type report struct {
	OK       bool     `json:"ok"`
	Problems []string `json:"problems"`
	Running  bool     `json:"running"`
	control.Status
	Log record `json:"audit"`
}

// record is what is said of the audit log.
type record struct {
	Whole   bool   `json:"whole"`
	Problem string `json:"problem,omitempty"`
	Lines   uint64 `json:"lines"`
	Hash    string `json:"hash,omitempty"`
	// Last is the kind of the last line, written at At.
	Last string    `json:"last,omitempty"`
	At   time.Time `json:"last_at,omitzero"`
}

// run prints the report; what is wrong is its error as well.
func (c status) run(ctx context.Context, s streams) error {
	state, err := c.state()
	if err != nil {
		return err
	}
	r, err := c.look(ctx, state)
	if err != nil {
		return err
	}
	if c.JSON {
		err = json.NewEncoder(s.out).Encode(r)
	} else {
		err = r.print(s.out)
	}
	if err == nil && !r.OK {
		err = errors.New(strings.Join(r.Problems, "; "))
	}
	return err
}

func (c status) look(ctx context.Context, state string) (report, error) {
	r := report{Problems: []string{}}
	var err error
	switch r.Status, err = control.NewClient(state).Status(ctx); {
	case err == nil:
		r.Running = true
	case errors.Is(err, control.ErrNoRelay):
		r.Problems = append(r.Problems, err.Error())
		r.Stopped = control.Switched(state)
		i, err := link.Load(home{c.Config, c.Identity}.identity())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return r, err
		}
		if err == nil {
			r.Connection = &wire.Connection{Relay: i.Relay, Bridge: i.Bridge}
		}
	default:
		// One that hangs is no reason to say nothing of the rest.
		r.Problems = append(r.Problems, err.Error())
		r.Stopped = control.Switched(state)
	}
	r.Log = recordOf(filepath.Join(state, runner.AuditName))
	r.judge()
	return r, nil
}

func recordOf(path string) record {
	log, err := audit.Verify(path, "")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return record{Whole: true}
	case err == nil && log.NoHead && log.Head.Seq > 0:
		err = errors.New("its head file is missing or empty, so this check cannot detect lines that were removed at the end")
	}
	r := record{Whole: err == nil, Lines: log.Head.Seq, Last: log.Last, At: log.At}
	if err != nil {
		r.Problem = fmt.Sprintf("%s: %v", path, err)
	} else {
		r.Hash = log.Head.Hash
	}
	return r
}

// judge says what keeps this relay from doing what it is for.
func (r *report) judge() {
	if c := r.Connection; r.Running && c != nil && c.Since.IsZero() {
		why := "it has not answered yet"
		if c.Error != "" {
			why = output.Line(c.Error)
		}
		r.Problems = append(r.Problems, "the relay is not connected to its bridge: "+why)
	}
	if r.Stopped {
		r.Problems = append(r.Problems, "the kill switch is on; turn it off with drawbridge-relay start")
	}
	if r.Outdated {
		r.Problems = append(r.Problems, "relay.yaml is newer than the running relay; test it with `drawbridge-relay check`, then restart the relay")
	}
	for _, problem := range []string{r.Log.Problem, r.Audit} {
		if problem != "" {
			r.Problems = append(r.Problems, "audit log: "+problem)
		}
	}
	r.OK = len(r.Problems) == 0
}

func (r *report) print(w io.Writer) error {
	lines := [][2]string{{"relay", "not running"}}
	if r.Running {
		lines[0][1] = "running since " + local(r.Started)
	}
	lines = append(lines, r.bridgeLines()...)
	lines = append(lines, [2]string{"kill switch", map[bool]string{true: "on", false: "off"}[r.Stopped]})
	if r.Running {
		running := "nothing"
		if len(r.Actions) > 0 {
			running = strings.Join(slices.Sorted(maps.Keys(r.Actions)), ", ")
		}
		lines = append(lines, [2]string{"runs", fmt.Sprintf("%s; %d waiting", running, r.Waiting)}, [2]string{"approvals", fmt.Sprintf("%d open", r.Approvals)})
	}
	lines = append(lines, [2]string{"audit log", r.Log.String()})
	var text strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&text, "%-12s%s\n", l[0], l[1])
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func (r *report) bridgeLines() (lines [][2]string) {
	if r.Door != "" {
		lines = append(lines, [2]string{"listens", r.Door})
	}
	c := r.Connection
	if c == nil {
		return lines
	}
	said := fmt.Sprintf("%s, which knows it as %s; ", output.Line(c.Bridge), output.Line(c.Relay))
	if c.Since.IsZero() {
		said += "not connected"
	} else {
		said += "connected since " + local(c.Since)
	}
	lines = append(lines, [2]string{"bridge", said})
	if c.Error != "" {
		lines = append(lines, [2]string{"last error", local(c.Failed) + ": " + output.Line(c.Error)})
	}
	return lines
}

// String is the record on one line.
func (r record) String() string {
	switch {
	case !r.Whole:
		return "NOT WHOLE: " + r.Problem
	case r.Lines == 0:
		return "empty"
	default:
		return fmt.Sprintf("whole; the last line is number %d, %q, of %s, with the hash %s", r.Lines, r.Last, local(r.At), r.Hash)
	}
}

func local(t time.Time) string { return t.Local().Format(time.DateTime) }
