package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/cloudagents"
	"drawbridge/config"
)

type checkCmd struct {
	Config  string `help:"The configuration." default:"bridge.yaml" placeholder:"FILE" type:"path"`
	Offline bool   `help:"Only read the files; ask nobody."`
	JSON    bool   `help:"Print JSON."`
}

// Help shows an example.
func (checkCmd) Help() string {
	return "Exits with 0 when nothing is wrong and with 1 otherwise.\n\nExample:\n  drawbridge check --config bridge.yaml"
}

// finding is one line of the check.
type finding struct {
	What   string `json:"what"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// Run checks everything and tells all of it at once.
func (c checkCmd) Run(ctx context.Context, a app) error {
	findings, cfg := c.files(a)
	if cfg != nil && !c.Offline {
		findings = append(findings, checkCloud(ctx, cfg), checkPublicURL(ctx, cfg))
		for name, r := range cfg.Relays {
			findings = append(findings, checkRelay(ctx, name, r))
		}
		findings = append(findings, checkEnrolled(ctx, cfg)...)
	}
	ok := true
	for _, f := range findings {
		ok = ok && f.OK
		if !c.JSON {
			word := "ok     "
			if !f.OK {
				word = "PROBLEM"
			}
			what := f.What + ": "
			if strings.HasPrefix(f.Detail, f.What) {
				what = "" // a problem names its file itself
			}
			fmt.Fprintf(a.stdout, "%s %s%s\n", word, what, f.Detail)
		}
	}
	if c.JSON {
		if err := printJSON(a.stdout, map[string]any{"ok": ok, "findings": findings}); err != nil {
			return err
		}
	}
	if !ok {
		return errNo
	}
	return nil
}

// files checks what stands on disk.
func (c checkCmd) files(a app) (out []finding, cfg *config.Bridge) {
	cfg, problems := config.Load(c.Config, a.getenv)
	if cfg != nil {
		problems = append(problems, cfg.ServeProblems()...)
	}
	out = append(out, problemFindings(c.Config, problems)...)
	if cfg == nil {
		for _, p := range besideProblems(c.Config) {
			out = append(out, finding{What: p.At, Detail: p.String()})
		}
		return out, nil
	}
	rules, problems := config.LoadAllowlist(cfg.Allowlist)
	if len(problems) == 0 {
		var warnings []config.Problem
		p, more := cfg.Policy(rules)
		problems = more
		if p != nil {
			warnings = config.Problems(p.Warnings())
		}
		for _, w := range warnings {
			out = append(out, finding{What: "warning", OK: true, Detail: w.String()})
		}
	}
	return append(out, problemFindings(cfg.Allowlist, problems)...), cfg
}

func problemFindings(file string, problems []config.Problem) []finding {
	if len(problems) == 0 {
		return []finding{{What: file, OK: true, Detail: "reads well"}}
	}
	out := make([]finding, len(problems))
	for i, p := range problems {
		out[i] = finding{What: file, Detail: p.String()}
	}
	return out
}

const checkTimeout = 15 * time.Second

func checkCloud(ctx context.Context, cfg *config.Bridge) finding {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	f := finding{What: "Cloud Agents API at " + cfg.Cursor.URL}
	cloud, err := newCloud(cfg)
	if err == nil {
		var me string
		if me, err = accountName(ctx, cloud); err == nil {
			f.OK, f.Detail = true, "the key "+me+" is accepted, API "+cfg.Cursor.API
			return f
		}
	}
	f.Detail = checkText(err)
	return f
}

func checkText(err error) string {
	var known *bridge.Error
	if errors.As(err, &known) {
		return known.Message
	}
	return err.Error()
}

// checkPublicURL asks for our own health from outside, if the bridge runs.
func checkPublicURL(ctx context.Context, cfg *config.Bridge) finding {
	f := finding{What: "public_url"}
	if cfg.PublicURL == "" {
		f.OK, f.Detail = true, "not set: completions are learned by asking, webhooks are not used"
		return f
	}
	status, err := getStatus(ctx, cfg.PublicURL+"/health")
	switch {
	case err != nil:
		f.Detail = fmt.Sprintf("%s does not answer (%v); is the bridge running, and does this address lead to it?", cfg.PublicURL, err)
	case status != http.StatusOK:
		f.Detail = fmt.Sprintf("%s/health answers with HTTP %d; does this address lead to the bridge?", cfg.PublicURL, status)
	default:
		f.OK, f.Detail = true, cfg.PublicURL+" leads to a bridge"
	}
	return f
}

func checkRelay(ctx context.Context, name string, r config.Relay) finding {
	f := finding{What: "relay " + name}
	status, err := getStatus(ctx, r.URL+"/health")
	switch {
	case err != nil:
		f.Detail = fmt.Sprintf("does not answer at %s; start it with `drawbridge-relay run`", r.URL)
	case status != http.StatusOK:
		f.Detail = fmt.Sprintf("%s/health answers with HTTP %d; is this a relay?", r.URL, status)
	default:
		f.OK, f.Detail = true, "answers at "+r.URL
	}
	return f
}

func getStatus(ctx context.Context, url string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return 0, errors.Unwrap(err)
	}
	return resp.StatusCode, resp.Body.Close()
}

// accountName is whom the key belongs to, without the key.
func accountName(ctx context.Context, cloud *cloudagents.Client) (string, error) {
	me, err := cloud.Me(ctx)
	if err != nil {
		return "", err
	}
	if me.Email == "" {
		return fmt.Sprintf("%q", me.KeyName), nil
	}
	return fmt.Sprintf("%q of %s", me.KeyName, me.Email), nil
}
