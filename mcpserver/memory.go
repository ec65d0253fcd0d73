package mcpserver

import (
	"context"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/echo"
	"drawbridge/memory"
)

// memoryTools is the set for what an agent remembers (seed: the office).
func (d *Door) memoryTools() []tool {
	return []tool{
		define("update_memory", "Replace the whole content of one of your own core memory blocks. Each of your turns begins with your blocks.",
			takes(text("label", "Name of the block."), text("content", "The new text of the block. An empty text leaves the block out of your turns."),
				number("if_version", "Optional: the version that you read, or 0 for a new block. If the block has another version now, the bridge changes nothing and tells you.").maybe()), d.updateMemory).keeps(),
		define("search_memory", "Search your own archival passages by keyword, best first. A passage matches if it has every word. No character has a special meaning.",
			takes(text("query", "Words to look for. An empty query finds the newest passages."), list("tags", "Optional: tags that must all be on the passage.").maybe(),
				number("limit", "Optional: how many at most.").maybe()), d.searchMemory),
		define("store_memory", "Save a new archival passage, which you find again with search_memory.",
			takes(text("content", "What to remember."), list("tags", "Optional: words to find it by.").maybe()), d.storeMemory).keyed(),
	}
}

type updateArgs struct {
	Label   string   `json:"label"`
	Content string   `json:"content"`
	If      *float64 `json:"if_version"`
}

func (d *Door) updateMemory(ctx context.Context, c *caller, in updateArgs) (answer, error) {
	draft := memory.Draft{Label: in.Label, Content: in.Content}
	if in.If != nil {
		version, err := whole("if_version", *in.If, 1<<30)
		if err != nil {
			return answer{}, err
		}
		draft.IfVersion = &version
	}
	b, err := d.mind(c).Update(ctx, c.agent.ID, draft)
	return answer{data: blockMade{err == nil, b.Version}}, err
}

type searchArgs struct {
	Query string   `json:"query"`
	Tags  []string `json:"tags"`
	Limit *float64 `json:"limit"`
}

// PassageView is a passage as the seed's tool shows it.
type PassageView struct {
	ID        string    `json:"id"`
	Content   string    `json:"content"`
	Tags      []string  `json:"tags"`
	CreatedAt time.Time `json:"createdAt"`
}

func (d *Door) searchMemory(ctx context.Context, c *caller, in searchArgs) (answer, error) {
	q := memory.Query{Text: in.Query, Tags: in.Tags}
	if in.Limit != nil {
		var err error
		if q.Limit, err = whole("limit", *in.Limit, memory.MaxFound); err != nil {
			return answer{}, err
		}
	}
	found, err := d.o.Memory.Search(ctx, c.agent.ID, q)
	if err != nil {
		return answer{}, err
	}
	views := make([]PassageView, len(found))
	var said []echo.Heard
	for i, p := range found {
		views[i] = PassageView{ID: string(p.ID), Content: p.Content, Tags: append([]string{}, p.Tags...), CreatedAt: p.CreatedAt.UTC()}
		// It may have been copied from others.
		said = append(said, echo.Heard{Text: p.Content, Source: bridge.EchoTree, Author: c.agent.Name, Place: "the passage " + string(p.ID)})
	}
	return answer{data: passageList{views}}, d.hear(ctx, c, said)
}

type storeArgs struct {
	Content string   `json:"content"`
	Tags    []string `json:"tags"`
}

func (d *Door) storeMemory(ctx context.Context, c *caller, in storeArgs) (answer, error) {
	p, err := d.mind(c).Store(ctx, c.agent.ID, in.Content, in.Tags)
	return answer{data: passageMade{string(p.ID)}}, err
}
