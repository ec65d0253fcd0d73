package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/internal/httpx"
	"drawbridge/internal/mcpstdio"
)

type tokenCmd struct {
	Agent  string `arg:"" optional:"" help:"The agent's name or id; with --openai the token's name."`
	List   bool   `help:"List the tokens instead of making one." xor:"what"`
	Revoke bool   `help:"Revoke all of the agent's tokens, and end what was opened with them. With --openai, revoke the token of that name." xor:"what"`
	ID     string `help:"With --revoke: revoke only the token with this id." placeholder:"TOK"`
	callerTokens
	target
}

// Help shows an example.
func (tokenCmd) Help() string {
	return "The command prints the token only once; the bridge keeps only its hash. With the token, a client connects at /mcp as this agent and as no other. With --openai, a program connects to the bridge's OpenAI-compatible API.\n\nExample:\n  drawbridge token main\n  drawbridge token main --revoke\n  drawbridge token --openai opencode --model agent/main --model gpt-4o"
}

// Run makes, lists or revokes.
func (c tokenCmd) Run(ctx context.Context, a app) error {
	client, err := c.client(a)
	if err != nil {
		return err
	}
	defer client.Close()
	switch {
	case c.OpenAI:
		return c.runOpenAI(ctx, a, client)
	case c.asked():
		return usageError{errors.New("--model, --budget, --per-minute, --commands and --operator go with --openai; add --openai, or leave them out")}
	case c.Agent == "":
		return usageError{errors.New("name the agent, such as drawbridge token main")}
	case c.List:
		return c.list(ctx, a, client)
	case c.Revoke:
		got, err := client.RevokeTokens(ctx, c.Agent, c.ID)
		if err != nil || c.JSON {
			return firstError(err, func() error { return printJSON(a.stdout, got) })
		}
		_, err = fmt.Fprintf(a.stdout, "%s: %s revoked\n", c.Agent, words.Count(got.Revoked, "token"))
		return err
	case c.ID != "":
		return usageError{fmt.Errorf("--id goes with --revoke")}
	}
	t, err := client.MintToken(ctx, c.Agent, "")
	if err != nil || c.JSON {
		return firstError(err, func() error { return printJSON(a.stdout, t) })
	}
	_, err = fmt.Fprintln(a.stdout, t.Secret)
	return err
}

func firstError(err error, next func() error) error {
	if err != nil {
		return err
	}
	return next()
}

func (c tokenCmd) list(ctx context.Context, a app, client *api.Client) error {
	list, err := client.Tokens(ctx, c.Agent)
	if err != nil || c.JSON {
		return firstError(err, func() error { return printJSON(a.stdout, list) })
	}
	rows := make([][]string, len(list.Tokens))
	for i, t := range list.Tokens {
		rows[i] = []string{t.ID, cmp.Or(t.Client, "-"), tokenDay(t.CreatedAt), tokenDay(t.LastUsed), tokenDay(t.RevokedAt)}
	}
	return table(a.stdout, "ID\tFOR\tMADE\tLAST USED\tREVOKED", "no tokens", rows)
}

// tokenVariable is where an agent's own token is looked for.
const tokenVariable = "DRAWBRIDGE_AGENT_TOKEN"

type mcpConfigCmd struct {
	Agent  string `arg:"" help:"The agent's name or id."`
	For    string `help:"Make the entry for this client: cursor, claude, codex, gemini, opencode or vscode." enum:"cursor,claude,codex,gemini,opencode,vscode" default:"cursor" placeholder:"CLIENT"`
	Inline bool   `help:"Make a token and write it into the entry. Keep a file with such an entry out of the repository. The agent's earlier token for the same client ends."`
	Stdio  bool   `help:"Make an entry that runs drawbridge mcp, for clients that cannot use HTTP."`
	Set    string `help:"Offer only this toolset: bridge, team, threads, channels or memory." enum:",bridge,team,threads,channels,memory" default:"" placeholder:"NAME"`
	Public string `help:"Write this address of the bridge into the entry, if the agent needs another address than you." placeholder:"URL"`
	target
}

// Help shows an example.
func (mcpConfigCmd) Help() string {
	return "Without --inline the client takes the token from the variable " + tokenVariable + " of its environment; vscode asks for the token. The command says on standard error where the entry belongs.\n\nExample:\n  drawbridge mcp-config main --for claude > .mcp.json\n  export " + tokenVariable + "=$(drawbridge token main)"
}

// Run prints the entry.
func (c mcpConfigCmd) Run(ctx context.Context, a app) error {
	at, err := c.resolve(a)
	if err != nil {
		return err
	}
	agent, err := ask(c.target, a, func(client *api.Client) (api.Agent, error) { return client.Agent(ctx, c.Agent) })
	if err != nil {
		return err
	}
	base := c.Public
	if base == "" {
		if base, err = ask(c.target, a, func(client *api.Client) (string, error) { return at.agents(ctx, client) }); err != nil {
			return err
		}
	}
	entry := mcpstdio.Config{Client: c.For, Base: base, Set: c.Set, Agent: agent.Name, Variable: tokenVariable, Stdio: c.Stdio}
	if c.Stdio {
		if entry.Program, err = os.Executable(); err != nil {
			return fmt.Errorf("find this program's own path: %w", err)
		}
	}
	if c.Inline {
		t, err := ask(c.target, a, func(client *api.Client) (api.Token, error) {
			return client.MintToken(ctx, agent.ID, "mcp-config-"+c.For)
		})
		if err != nil {
			return err
		}
		entry.Token = t.Secret
	}
	if err := mcpstdio.WriteConfig(a.stdout, entry); err != nil {
		return err
	}
	fmt.Fprintln(a.stderr, "drawbridge:", mcpstdio.Place(c.For))
	return nil
}

type mcpCmd struct {
	Agent      string `help:"Act as this agent, given by name or id." required:"" placeholder:"NAME"`
	Set        string `help:"Offer only this toolset: bridge, team, threads, channels or memory." enum:",bridge,team,threads,channels,memory" default:"" placeholder:"NAME"`
	AgentToken string `help:"Use this token of the agent. Without it, the command makes a token with the operator's token and revokes it at the end. Prefer the environment variable." env:"DRAWBRIDGE_AGENT_TOKEN" placeholder:"TOKEN"`
	connection
}

// Help shows an example.
func (mcpCmd) Help() string {
	return "The command writes nothing but MCP messages to standard output. Several agents may run this command against the same bridge. When the bridge restarts, the command begins a new session, and the agent does not notice it. While no bridge answers, the command answers every request with an error that says so.\n\nExample:\n  drawbridge mcp --agent main"
}

// Run carries messages until standard input ends.
func (c mcpCmd) Run(ctx context.Context, a app) error {
	if reference, ok := httpx.Unexpanded(c.AgentToken); ok {
		return usageError{fmt.Errorf("the agent's token is only a reference to %s, because the client did not replace the variable by its value. Set the variable where the client starts, or leave %s out of the client's configuration", reference, tokenVariable)}
	}
	open, end, err := c.opener(ctx, a)
	if err != nil {
		return err
	}
	defer end()
	return mcpstdio.Run(ctx, mcpstdio.Options{Open: open, Agent: c.Agent, In: a.stdin, Out: a.stdout, Log: a.stderr})
}

// opener returns how the door and the agent's token are found, and what ends both.
func (c mcpCmd) opener(ctx context.Context, a app) (open func(context.Context) (mcpstdio.Door, error), end func(), err error) {
	if c.AgentToken == "" {
		return c.withOperators(ctx, a)
	}
	address := c.URL
	if address == "" { // else the operator's token is not needed, nor its file
		at, err := c.resolve(a)
		if err != nil {
			return nil, nil, err
		}
		address = at.door
	}
	door := mcpstdio.Door{URL: mcpstdio.Endpoint(address, c.Set), Token: c.AgentToken}
	return func(context.Context) (mcpstdio.Door, error) { return door, nil }, func() {}, nil
}

// withOperators makes a token for the agent with the operator's, and revokes it at the end.
func (c mcpCmd) withOperators(ctx context.Context, a app) (open func(context.Context) (mcpstdio.Door, error), end func(), err error) {
	at, err := c.resolve(a)
	if err != nil {
		return nil, nil, err
	}
	client, err := api.NewClient(api.ClientOptions{URL: at.url, Token: at.token})
	if err != nil {
		return nil, nil, err
	}
	minted := ""
	end = func() {
		c.disown(ctx, a, client, minted)
		client.Close()
	}
	mint := func(ctx context.Context) (mcpstdio.Door, error) {
		address, err := at.agents(ctx, client)
		if err != nil {
			return mcpstdio.Door{}, err
		}
		t, err := client.MintToken(ctx, c.Agent, "")
		minted = t.ID
		return mcpstdio.Door{URL: mcpstdio.Endpoint(address, c.Set), Token: t.Secret}, err
	}
	door, err := mint(ctx)
	switch {
	case err == nil:
		return func(context.Context) (mcpstdio.Door, error) { return door, nil }, end, nil
	case bridge.KindOf(err) != bridge.Unavailable: // a person must mend this; a bridge that is not up yet may come
		client.Close()
		return nil, nil, err
	}
	fmt.Fprintf(a.stderr, "drawbridge: %s; until a bridge answers, each call gets an error\n", bridge.SafeMessage(err))
	return safely(mint), end, nil
}

// safely makes an error fit to be shown to an agent.
func safely(open func(context.Context) (mcpstdio.Door, error)) func(context.Context) (mcpstdio.Door, error) {
	return func(ctx context.Context) (mcpstdio.Door, error) {
		door, err := open(ctx)
		if err != nil {
			err = errors.New(bridge.SafeMessage(err))
		}
		return door, err
	}
}

// disown revokes the token that this command made, if it made one.
func (c mcpCmd) disown(ctx context.Context, a app, client *api.Client, token string) {
	if token == "" {
		return
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := client.RevokeTokens(ending, c.Agent, token); err != nil {
		fmt.Fprintf(a.stderr, "drawbridge: token %s was not revoked: %v\n", token, err)
	}
}
