package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/openai/upstream"
)

// Route leads names of models to a backend.
type Route struct {
	// Name is the backend's name in the configuration, for errors and the log.
	Name string
	// Prefix is what the names of the backend's models begin with, such as "agent/". The door removes it from Request.Model and
	// puts it before what Models says. With "" the backend gets those names that its Models says.
	Prefix   string
	Upstream upstream.Upstream
	// Agents is set where a turn wakes an agent: requests for titles, tags and follow-up questions do not reach such a backend.
	Agents bool
}

// Options configure a Door. Records and ProcessID are required.
type Options struct {
	Records Records
	// Upstreams are asked in this order for the names of models.
	Upstreams []Route
	// URL is where a proxy shows the door, "" without one. Origins are pages of other sites that may call it.
	URL     string
	Origins []string
	// Anonymous names the token of callers on this machine that send none; "" lets nobody in without one.
	Anonymous string
	// ParkTimeout is how long a turn waits for results of the caller's tools; 0 is 15 minutes.
	ParkTimeout time.Duration
	// Side names the model that answers requests for titles, tags and follow-up questions of agents; "" answers them by a rule.
	Side string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	Log zerolog.Logger
	// ProcessID names this process among those that use the same records, and among its own earlier starts.
	ProcessID string
}

// Door is the OpenAI-compatible door. Safe for concurrent use.
type Door struct {
	o     Options
	keys  Keyring
	edge  *edge
	names *names

	work sync.WaitGroup
}

const defaultPark = 15 * time.Minute

// New returns a door that serves nothing and has started nothing yet.
func New(o Options) (*Door, error) {
	if o.Records == nil || o.ProcessID == "" {
		return nil, errors.New("the OpenAI-compatible door needs records and the id of its process")
	}
	for i, r := range o.Upstreams {
		if r.Upstream == nil {
			return nil, fmt.Errorf("upstream %d (%s) of the OpenAI-compatible door is not set", i, r.Name)
		}
		if r.Prefix != "" && !strings.HasSuffix(r.Prefix, "/") {
			return nil, fmt.Errorf("the prefix %q of upstream %s does not end with /", r.Prefix, r.Name)
		}
	}
	if o.ParkTimeout <= 0 {
		o.ParkTimeout = defaultPark
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &Door{o: o, keys: Keyring{Records: o.Records, Now: o.Now}}
	d.names = &names{routes: o.Upstreams, now: o.Now}
	var err error
	if d.edge, err = newEdge(o); err != nil {
		return nil, err
	}
	return d, nil
}

// Handler serves the door: below /v1, and the same without it. It is safe to call once Run runs, and answers until Run ends.
func (d *Door) Handler() http.Handler { return d.edge.wrap(http.HandlerFunc(d.route)) }

// Run takes up the turns that an earlier process left, keeps hold of this process's, and ends those whose caller brings no results.
// When ctx ends, it lets go of the turns, which the next process takes up, and waits for what it started.
func (d *Door) Run(ctx context.Context) error {
	<-ctx.Done()
	d.work.Wait()
	return nil
}
