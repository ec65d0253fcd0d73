package cli

import (
	"context"
	"fmt"
	"strings"

	"drawbridge/relay/agents/turns"
	"drawbridge/relay/runner/settings"
)

// Files that the relay writes into an agent's folder, from which Cursor reads them.
const (
	serversFile = ".cursor/mcp.json"
	rulesFile   = ".cursor/rules/drawbridge.mdc"
)

// rules tell an agent how the tools of the bridge behave. The file is the same for every agent.
const rules = `---
description: How the tools of Drawbridge behave
alwaysApply: true
---

- Each tool of the server drawbridge returns at once, with a status. None of them waits.
- The reply to a message that you sent with sync=true arrives as your next message, in a new turn. Finish your turn to receive it.
- Do not poll, loop or sleep to wait for a reply.
- Other messages wait in your inbox until you call check_inbox.
`

// putFiles writes the files of an entry with mcp: file, before each turn. A file of the repository is never overwritten: if it has one in
// the place of the servers, the turn fails, because the agent would act without the tools of the bridge; its own rules may stay.
func putFiles(ctx context.Context, t *settings.Template, o turns.Opening) error {
	if t.MCP != settings.ByFile {
		return nil
	}
	if o.Put == nil {
		return crashed("the relay cannot write %s, because it does not keep a workspace for the agent", serversFile)
	}
	if err := o.Put(ctx, serversFile, append(serversJSON(o.MCP), '\n')); err != nil {
		return crashed("the relay cannot write the agent's MCP servers: %s", oneLine(err))
	}
	if err := o.Put(ctx, rulesFile, []byte(rules)); err != nil && ctx.Err() != nil {
		return crashed("the relay cannot write the agent's rules: %s", oneLine(err))
	}
	return nil
}

func oneLine(err error) string { return strings.Join(strings.Fields(fmt.Sprint(err)), " ") }
