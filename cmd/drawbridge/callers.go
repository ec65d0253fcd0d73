package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"drawbridge/api"
	"drawbridge/api/callers"
	"drawbridge/openai"
)

// callerTokens are the flags of drawbridge token --openai, where the argument is the token's name.
type callerTokens struct {
	OpenAI    bool     `name:"openai" help:"Make, list or revoke a token of the bridge's OpenAI-compatible API. The argument is the token's name, such as opencode."`
	Model     []string `help:"With --openai: allow this model, such as gpt-4o or agent/main. A * at the end matches any ending. You may give the flag again. Without the flag, the token allows all models except agents and repositories." placeholder:"NAME"`
	Budget    int64    `help:"With --openai: let the caller's turns use at most this many model tokens a day (UTC)." placeholder:"N"`
	PerMinute int      `help:"With --openai: let the caller begin at most this many turns in a minute." placeholder:"N"`
	Commands  string   `help:"With --openai: run command lines in answers as commands of this agent. Without the flag they are only text." placeholder:"AGENT"`
	Operator  bool     `help:"With --openai: treat the caller's newest words as yours. Without the flag they count as words from outside."`
}

// asked reports whether one of the flags was given that go with --openai alone.
func (c callerTokens) asked() bool {
	return len(c.Model) > 0 || c.Budget != 0 || c.PerMinute != 0 || c.Commands != "" || c.Operator
}

// runOpenAI makes, lists or revokes a token of the OpenAI-compatible door.
func (c tokenCmd) runOpenAI(ctx context.Context, a app, client *api.Client) error {
	switch {
	case c.ID != "":
		return usageError{errors.New("--id selects an agent's token; with --openai, write the token's name instead")}
	case (c.List || c.Revoke) && c.asked():
		return usageError{errors.New("--list and --revoke take a name and no other flag; leave the other flags out")}
	case c.List:
		return c.listOpenAI(ctx, a, client)
	case c.Agent == "":
		return usageError{errors.New("name the token, such as drawbridge token --openai opencode")}
	case c.Revoke:
		t, err := client.RevokeCallerToken(ctx, c.Agent)
		if err != nil || c.JSON {
			return firstError(err, func() error { return printJSON(a.stdout, t) })
		}
		_, err = fmt.Fprintf(a.stdout, "%s: revoked\n", t.Name)
		return err
	}
	req := callers.MintRequest{Name: c.Agent, Models: c.Model, Budget: c.Budget, PerMinute: c.PerMinute, Commands: c.Commands}
	if c.Operator {
		req.SpeaksFor = openai.SpeaksForOperator
	}
	t, err := client.MintCallerToken(ctx, req)
	if err != nil || c.JSON {
		return firstError(err, func() error { return printJSON(a.stdout, t) })
	}
	_, err = fmt.Fprintln(a.stdout, t.Secret)
	return err
}

func (c tokenCmd) listOpenAI(ctx context.Context, a app, client *api.Client) error {
	list, err := client.CallerTokens(ctx)
	if err != nil || c.JSON {
		return firstError(err, func() error { return printJSON(a.stdout, list) })
	}
	bound := func(n int64, unit string) string {
		if n == 0 {
			return "-"
		}
		return fmt.Sprint(n) + unit
	}
	var rows [][]string
	for _, t := range list.Tokens {
		if c.Agent == "" || c.Agent == t.Name {
			models := cmp.Or(strings.Join(t.Models, " "), "all but agents and repositories")
			rows = append(rows, []string{t.Name, models, bound(t.Budget, "/day"), bound(int64(t.PerMinute), "/min"), cmp.Or(t.Commands, "-"), cmp.Or(t.SpeaksFor, "-"), tokenDay(t.LastUsed), tokenDay(t.RevokedAt)})
		}
	}
	return table(a.stdout, "NAME\tMODELS\tBUDGET\tRATE\tACTS AS\tSPEAKS FOR\tLAST USED\tREVOKED", "no tokens", rows)
}

// tokenDay shows a time that may not have come yet.
func tokenDay(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}
