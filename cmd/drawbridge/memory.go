package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"drawbridge/api"
	"drawbridge/api/recall"
)

type memoryCmd struct {
	Agent string   `arg:"" help:"The agent's name or id."`
	Words []string `arg:"" optional:"" help:"Show only passages that contain all of these words, best match first."`
	Tag   []string `help:"Show only passages with this tag. You may give the flag several times." placeholder:"TAG"`
	Block string   `help:"Show the versions of this block, newest first." placeholder:"LABEL"`
	Limit int      `help:"Show at most this many passages." default:"20" placeholder:"N"`
	// One at a time, so that a word too many deletes nothing.
	Forget      string `help:"Delete this passage for good." placeholder:"psg_…" xor:"what"`
	ForgetBlock string `help:"Delete this block with all its versions." placeholder:"LABEL" xor:"what"`
	Set         string `help:"Write this block, with the text of the next argument or of standard input." placeholder:"LABEL" xor:"what"`
	IfVersion   *int   `help:"With --set: write only if the block is at this version. Use 0 for a block that does not exist yet." placeholder:"N"`
	target
}

// Help shows an example.
func (memoryCmd) Help() string {
	return "The command shows the blocks that each turn of the agent contains, and the agent's passages, newest first. --set writes a block, as the agent itself does. The agent reads the block at the head of its next turn, with a bar in front of each line. The bridge keeps the earlier text of the block as a version.\n\nExamples:\n  drawbridge memory main\n  drawbridge memory main invoice deadline --tag customer\n  drawbridge memory main --block plan\n  drawbridge memory main --forget psg_0123456789\n  drawbridge memory main --set plan \"Finish the docs first.\"\n  drawbridge memory main --set plan --if-version 3 < plan.md"
}

// shownMemory is what --json prints.
type shownMemory struct {
	Blocks   []recall.Block   `json:"blocks"`
	Passages []recall.Passage `json:"passages"`
}

// Run shows an agent's memory.
func (c memoryCmd) Run(ctx context.Context, a app) error {
	switch {
	case c.Set != "":
		return c.write(ctx, a)
	case c.IfVersion != nil:
		return usageError{fmt.Errorf("--if-version belongs to --set LABEL")}
	case c.Forget+c.ForgetBlock != "":
		return c.forget(ctx, a)
	}
	if c.Block != "" && (len(c.Words) > 0 || len(c.Tag) > 0) {
		return usageError{fmt.Errorf("--block shows versions of one block; leave out words and --tag")}
	}
	shown, err := ask(c.target, a, func(client *api.Client) (shownMemory, error) { return c.read(ctx, client) })
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.stdout, shown)
	}
	if !c.searches() {
		if err := table(a.stdout, "BLOCK\tVERSION\tUPDATED\tTEXT", "no blocks", blockRows(shown.Blocks)); err != nil || c.Block != "" {
			return err
		}
		fmt.Fprintln(a.stdout)
	}
	rows := make([][]string, len(shown.Passages))
	for i, p := range shown.Passages {
		rows[i] = []string{p.ID, p.CreatedAt.Local().Format(time.DateTime), short(strings.Join(p.Tags, ", "), 40), short(p.Content, 100)}
	}
	return table(a.stdout, "PASSAGE\tSTORED\tTAGS\tTEXT", "no passages", rows)
}

// maxInput bounds what is read for a block; the bridge says what its own limit is.
const maxInput = 1 << 20

// write replaces one block, or makes it.
func (c memoryCmd) write(ctx context.Context, a app) error {
	if c.Block != "" || len(c.Tag) > 0 {
		return usageError{fmt.Errorf("--set writes one block; leave out --tag and --block")}
	}
	if len(c.Words) > 1 {
		return usageError{fmt.Errorf("--set takes one text; put it into quotes, or give it on standard input")}
	}
	text := strings.Join(c.Words, "")
	if len(c.Words) == 0 {
		data, err := io.ReadAll(io.LimitReader(a.stdin, maxInput+1))
		switch {
		case err != nil:
			return fmt.Errorf("read standard input: %w", err)
		case len(data) == 0:
			return usageError{fmt.Errorf("standard input is empty; give the text behind --set %s, or \"\" to empty the block", c.Set)}
		case len(data) > maxInput:
			return usageError{fmt.Errorf("standard input has more than %d bytes; a block is smaller", maxInput)}
		case !utf8.Valid(data): // JSON would replace the bytes in silence
			return usageError{fmt.Errorf("standard input is not valid UTF-8; convert it first")}
		}
		text = string(data)
	}
	return tell(c.target, a, func(client *api.Client) (recall.Block, error) {
		return client.WriteBlock(ctx, c.Agent, recall.BlockRequest{Label: c.Set, Content: text, IfVersion: c.IfVersion})
	}, func(b recall.Block) error {
		_, err := fmt.Fprintf(a.stdout, "block %s of %s is at version %d; the agent reads it with its next turn\n", short(b.Label, 80), short(c.Agent, 80), b.Version)
		return err
	})
}

// forget deletes one passage or one block.
func (c memoryCmd) forget(ctx context.Context, a app) error {
	if c.Block != "" || c.searches() {
		return usageError{fmt.Errorf("--forget and --forget-block delete one thing; leave out words, --tag and --block")}
	}
	return tell(c.target, a, func(client *api.Client) (recall.Deleted, error) {
		if c.ForgetBlock != "" {
			return client.ForgetBlock(ctx, c.Agent, c.ForgetBlock)
		}
		return client.Forget(ctx, c.Agent, c.Forget)
	}, func(d recall.Deleted) error {
		_, err := fmt.Fprintf(a.stdout, "%s is deleted\n", short(d.Deleted, 80))
		return err
	})
}

// searches reports whether passages alone were asked for.
func (c memoryCmd) searches() bool { return len(c.Words) > 0 || len(c.Tag) > 0 }

func (c memoryCmd) read(ctx context.Context, client *api.Client) (shown shownMemory, err error) {
	shown = shownMemory{Blocks: []recall.Block{}, Passages: []recall.Passage{}}
	if !c.searches() {
		list, err := client.Blocks(ctx, c.Agent, c.Block)
		if err != nil || c.Block != "" {
			shown.Blocks = list.Blocks
			return shown, err
		}
		shown.Blocks = list.Blocks
	}
	found, err := client.Passages(ctx, c.Agent, api.PassageSearch{Text: strings.Join(c.Words, " "), Tags: c.Tag, Limit: c.Limit})
	shown.Passages = found.Passages
	return shown, err
}

func blockRows(blocks []recall.Block) [][]string {
	rows := make([][]string, len(blocks))
	for i, b := range blocks {
		rows[i] = []string{short(b.Label, 64), fmt.Sprint(b.Version), b.UpdatedAt.Local().Format(time.DateTime), short(b.Content, 100)}
	}
	return rows
}

type toolsCmd struct {
	Turn  string `arg:"" help:"The turn's id, trn_…"`
	After int64  `help:"Show only lines after this number." placeholder:"N"`
	Limit int    `help:"Show at most this many lines." default:"100" placeholder:"N"`
	target
}

// Help shows an example.
func (toolsCmd) Help() string {
	return "The command shows each tool call of the turn's run and the result of each call, in order. For a chat model, it also shows the calls to the model.\n\nExample:\n  drawbridge tools trn_0069… --json"
}

// Run shows the record of a run.
func (c toolsCmd) Run(ctx context.Context, a app) error {
	return tell(c.target, a, func(client *api.Client) (recall.RunMessageList, error) {
		return client.Run(ctx, c.Turn, c.After, c.Limit)
	}, func(list recall.RunMessageList) error {
		rows := make([][]string, len(list.Messages))
		for i, m := range list.Messages {
			rows[i] = []string{fmt.Sprint(m.Seq), m.At.Local().Format(time.TimeOnly), strings.TrimSuffix(m.Kind, "_message"), short(m.Name, 40), short(m.CallID, 40), short(string(m.Payload), 100)}
		}
		if err := table(a.stdout, "SEQ\tTIME\tWHAT\tTOOL\tCALL\tPAYLOAD", "no tool calls", rows); err != nil {
			return err
		}
		if list.Next == "" {
			return nil
		}
		_, err := fmt.Fprintf(a.stdout, "more: --after %s\n", list.Next)
		return err
	})
}
