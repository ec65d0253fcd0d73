package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"drawbridge/alerts"
	"drawbridge/api"
	"drawbridge/store/alerted"
)

// openAlerts builds what tells a program of the operator what waits, where the configuration names one.
func (w *parts) openAlerts() (err error) {
	c := w.config.Alerts
	if c.URL == "" {
		return nil
	}
	w.alerts, err = alerts.New(alerts.Options{Needs: func(ctx context.Context) (api.NeedList, error) { return w.api.Needs(ctx) }, Watch: w.engine.Watch, Records: alerted.New(w.store),
		URL: c.URL, Keys: c.Keys(), Private: c.Private, Contents: c.Contents, Page: cmp.Or(w.shown(), w.config.OperatorURL()), Log: w.log})
	return err
}

// runAlerts sends alerts until ctx ends.
func (w *parts) runAlerts(ctx context.Context) error {
	if w.alerts == nil {
		<-ctx.Done()
		return nil
	}
	return w.alerts.Run(ctx)
}

type alertsCmd struct {
	Test   bool   `help:"Send a test now, and say whether it arrived."`
	Limit  int    `help:"List at most this many alerts, newest first." default:"50"`
	Before string `help:"Continue a list before this entry; the previous list prints the value." placeholder:"NEXT"`
	target
}

// Help shows an example.
func (alertsCmd) Help() string {
	return "The bridge sends an alert to alerts.url of bridge.yaml when something begins to wait for a person. If an alert does not arrive, the bridge sends it up to nine more times. It stops after four days at most, or when the thing no longer waits.\n\nExample:\n  drawbridge alerts --test"
}

// Run lists alerts, or sends a test.
func (c alertsCmd) Run(ctx context.Context, a app) error {
	if c.Test {
		done, err := ask(c.target, a, func(client *api.Client) (api.AlertTest, error) { return client.TestAlerts(ctx) })
		if err != nil || c.JSON {
			return firstError(err, func() error { return printJSON(a.stdout, done) })
		}
		_, err = fmt.Fprintln(a.stdout, "The test arrived.")
		return err
	}
	list, err := ask(c.target, a, func(client *api.Client) (api.AlertList, error) {
		return client.Alerts(ctx, api.ListOptions{Limit: c.Limit, Before: c.Before})
	})
	if err != nil || c.JSON {
		return firstError(err, func() error { return printJSON(a.stdout, list) })
	}
	out := rows{head: []string{"AGE", "STATE", "TRIES", "KIND", "AGENT", "TROUBLE"}, none: "No alerts."}
	for _, l := range list.Alerts {
		out.rows = append(out.rows, row{cells: []string{age(l.MadeAt, time.Now()), l.State, fmt.Sprint(l.Tries), l.Kind, cmp.Or(l.Agent, "-"), short(cmp.Or(l.Trouble, "-"), maxNote)}})
	}
	if err := out.print(a.stdout); err != nil {
		return err
	}
	return more(a, list.Next)
}
