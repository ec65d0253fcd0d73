package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"drawbridge/api"
	"drawbridge/api/recall"
	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// maxBlocks and maxPassages bound what a page shows.
const (
	maxBlocks   = 100
	maxPassages = 50
)

// memory is a block of an agent's memory, or a passage.
type memory struct {
	// Agent and Label name a block; Label is "" for a passage.
	Agent, Label, Text string
	ID                 string
	Version            int
	Tags               string
	// Writes says that the person may change the block.
	Writes bool
	moment
}

func (b memory) names() (template, key string) { return "memory.html", b.ID }

// Change is where the block can be changed.
func (b memory) Change() string {
	return memoryPath(b.Agent) + "?open=" + url.QueryEscape(b.Label) + "#block"
}

func memoryPath(agent string) string { return agentPath(agent) + "/memory" }

// block is the form that writes a block.
type block struct {
	// Version is the one that was read, 0 for a block that is new.
	Agent, Label, Text, Word string
	Version                  int
}

// memoryModel collects what an agent remembers: its blocks, and the newest passages.
func (p *Page) memoryModel(ctx context.Context, m *page, v view) error {
	a, err := p.o.API.Agent(ctx, v.agent)
	if err != nil {
		return err
	}
	blocks, err := p.o.API.Blocks(ctx, a.ID, "")
	if err != nil {
		return err
	}
	passages, err := p.o.API.Passages(ctx, a.ID, api.PassageSearch{Limit: maxPassages})
	if err != nil {
		return err
	}
	m.Title, m.Live, m.Quiet = "What "+a.Name+" remembers", "place="+placeMemory+"&agent="+url.QueryEscape(a.ID), "The agent remembers nothing yet."
	m.Sub = words.Count(len(blocks.Blocks), "block")
	var form block
	if m.Speaks() {
		m.Block = &form
	}
	form.Agent, form.Word = a.ID, m.Word
	if len(blocks.Blocks) > maxBlocks {
		m.Sub += fmt.Sprintf(", the newest %d shown", maxBlocks)
		slices.SortStableFunc(blocks.Blocks, func(a, b recall.Block) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
		blocks.Blocks = blocks.Blocks[:maxBlocks]
	}
	for _, b := range blocks.Blocks {
		m.Items = append(m.Items, memory{ID: "block-" + b.Label, Agent: a.ID, Label: b.Label, Version: b.Version, Text: b.Content, Writes: m.Speaks(), moment: p.moment(b.UpdatedAt)})
		if b.Label == v.open {
			form.Label, form.Text, form.Version = b.Label, b.Content, b.Version
		}
	}
	for _, g := range passages.Passages {
		m.Items = append(m.Items, memory{ID: g.ID, Text: g.Content, Tags: strings.Join(g.Tags, ", "), moment: p.moment(g.CreatedAt)})
	}
	if len(passages.Passages) == maxPassages {
		m.Sub += fmt.Sprintf(", the newest %d passages; to find others, type: drawbridge memory %s", maxPassages, a.Name)
	}
	return nil
}

// remember writes a block of an agent.
func (p *Page) remember(w http.ResponseWriter, r *http.Request, s session) error {
	v, err := viewOf(r, s)
	if err != nil {
		return err
	}
	f := r.PostForm
	b := recall.BlockRequest{Label: strings.TrimSpace(f.Get("label")), Content: formText(f, "value")}
	version, err := strconv.Atoi(f.Get("version"))
	if err != nil {
		return bridge.Errorf(bridge.Invalid, "the form is incomplete; load the page again")
	}
	b.IfVersion = &version
	if err = only(p.o.API.WriteBlock(r.Context(), v.agent, b)); err == nil {
		http.Redirect(w, r, memoryPath(v.agent), http.StatusSeeOther)
		return nil
	}
	v.place = placeMemory
	m, modelErr := p.model(r.Context(), v)
	if modelErr != nil || m.Block == nil {
		return err
	}
	m.Error = bridge.SafeMessage(err)
	m.Block.Label, m.Block.Text, m.Block.Version = b.Label, b.Content, version
	for _, known := range m.Items {
		if known, is := known.(memory); is && known.Label == b.Label && known.Version != version && bridge.KindOf(err) == bridge.Conflict {
			m.Block.Version = known.Version
			m.Error = "The block has changed since you opened it. Read the new text above. Your text is below; to replace the block with your text, send it again."
		}
	}
	p.show(w, api.StatusOf(err), "page.html", m)
	return nil
}
