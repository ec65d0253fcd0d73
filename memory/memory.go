// Package memory is what agents keep between turns: blocks, which stand in
// every turn of theirs, and passages, which they look for. It checks what they
// write, lets no update be lost, and says what of it enters a turn. It is no
// place for what others say to an agent (package mail), and knows no database.
// Rule of thumb: an agent reads and writes its own memory alone, and what comes
// back from it is text that nobody trusts.
package memory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"drawbridge/bridge"
	"drawbridge/bridge/echo"
)

// Options configures a Service. Steps is required.
type Options struct {
	Steps bridge.Steps
	// Blocks and Passages bound what one agent may keep; default MaxBlocks and MaxPassages.
	Blocks   int
	Passages int64
	// Bytes bounds all contents and tags of one agent, with the kept versions of its
	// blocks; default MaxBytes.
	Bytes int64
}

// Service keeps agents' memory. Its methods are safe for concurrent use. The
// agent of each call is who asks, as the door knows it, and never an argument of
// theirs. Errors are *bridge.Error: NotFound for an unknown agent, Invalid and
// TooLarge for what cannot be kept.
type Service struct {
	o Options
	// once is of the one request for which Once made this copy.
	once bridge.Once
}

// New returns a service; it starts nothing.
func New(o Options) (*Service, error) {
	if o.Steps == nil {
		return nil, errors.New("memory needs an engine")
	}
	if o.Blocks <= 0 {
		o.Blocks = MaxBlocks
	}
	if o.Passages <= 0 {
		o.Passages = MaxPassages
	}
	if o.Bytes <= 0 {
		o.Bytes = MaxBytes
	}
	return &Service{o: o}, nil
}

// Once returns the memory for one request of an agent: what Update and Store did under its key before, they do not do again. Conflict
// for a key that the agent used for something else.
func (s *Service) Once(o bridge.Once) *Service {
	one := *s
	one.once = o
	return &one
}

// Draft is what a block shall say. The label is one line of text; blanks around it
// are no part of it.
type Draft struct {
	Label, Content string
	// IfVersion is the version that the writer read, 0 for a block that was not
	// there; nil replaces whatever is there.
	IfVersion *int
}

// Update replaces a block of the agent, or makes it, and returns it as it stands
// now. What it said before is kept as a version. Conflict when d.IfVersion is not
// the present version, and when there would be too many blocks. Under a key that was used before it returns the version that it made then.
func (s *Service) Update(ctx context.Context, agent bridge.AgentID, d Draft) (b bridge.Block, err error) {
	return s.put(ctx, agent, d, byAgent)
}

// Write is Update on the operator's behalf: label and content of b for b.Agent, with
// ifVersion as Draft.IfVersion. The timeline records that the operator wrote it; the
// agent reads it at the head of its next turn, and nobody is woken.
func (s *Service) Write(ctx context.Context, b bridge.Block, ifVersion *int) (bridge.Block, error) {
	return s.put(ctx, b.Agent, Draft{Label: b.Label, Content: b.Content, IfVersion: ifVersion}, byOperator)
}

// The writers of a block, as its event names them.
const (
	byAgent    = "agent"
	byOperator = "operator"
)

func (s *Service) put(ctx context.Context, agent bridge.AgentID, d Draft, by string) (b bridge.Block, err error) {
	d.Label = strings.TrimSpace(d.Label)
	if err := checkDraft(d); err != nil {
		return b, err
	}
	err = s.o.Steps.Change(ctx, func(c bridge.Change) error {
		a, err := findAgent(c.Scene, agent)
		if err == nil && by == byAgent {
			err = a.MayAct()
		}
		if err != nil {
			return err
		}
		if made, err := s.once.Earlier(c.Scene, a.ID); err != nil || made != "" {
			b = bridge.Block{Agent: a.ID, Label: d.Label, Content: d.Content}
			b.Version, _ = strconv.Atoi(made)
			return err
		}
		if b, err = s.next(c.Scene, a, d); err != nil {
			return err
		}
		b.UpdatedAt = c.Now()
		if err := s.putBlock(c.Scene, b); err != nil {
			return err
		}
		if err := errors.Join(keep(c, blockKept(b, by)), s.once.Keep(c.Scene, a.ID, strconv.Itoa(b.Version), c.Now())); err != nil {
			return err
		}
		text := fmt.Sprintf("block %q is at version %d", b.Label, b.Version)
		if by == byOperator {
			text = fmt.Sprintf("the operator wrote block %q; it is at version %d", b.Label, b.Version)
		}
		return c.Record(bridge.EventMemory, a, bridge.Event{Text: text, Fields: map[string]string{"label": b.Label, "version": fmt.Sprint(b.Version), "by": by}})
	})
	return b, err
}

// keep has the echo guard watch what an agent's memory carries of others' words.
func keep(c bridge.Change, k echo.Kept) error { return echo.Keep(c.Scene, k, c.Now()) }

// blockKept is a block as the echo guard sees it. The operator's words may command.
func blockKept(b bridge.Block, by string) echo.Kept {
	k := echo.Kept{Agent: b.Agent, Key: "block " + b.Label, Text: b.Content, Place: fmt.Sprintf("the agent's memory block %q", b.Label)}
	if by == byOperator {
		k.Text = ""
	}
	return k
}

func passageKept(p bridge.Passage) echo.Kept {
	return echo.Kept{Agent: p.Agent, Key: "passage " + string(p.ID), Text: p.Content, Place: "the agent's passage " + string(p.ID)}
}

// putBlock stores a block. When the memory is full, it deletes the block's earlier versions
// to make room, so that an agent can always replace a block by one of the same size.
func (s *Service) putBlock(tx *bridge.Scene, b bridge.Block) error {
	was, err := tx.Block(b.Agent, b.Label)
	if err != nil && !errors.Is(err, bridge.ErrNoRow) {
		return fmt.Errorf("read block %q: %w", b.Label, err)
	}
	if err := tx.PutBlock(b); err != nil {
		return fmt.Errorf("put block %q: %w", b.Label, err)
	}
	full := s.bytesFit(tx, b.Agent)
	if bridge.KindOf(full) != bridge.Conflict {
		return full
	}
	if err := tx.DropVersions(b.Agent, b.Label); err != nil {
		return fmt.Errorf("delete versions of block %q: %w", b.Label, err)
	}
	if was.Version > 0 && len(b.Content) <= len(was.Content) {
		return nil
	}
	return s.bytesFit(tx, b.Agent)
}

// bytesFit returns a Conflict error when an agent's memory holds too many bytes.
func (s *Service) bytesFit(tx *bridge.Scene, agent bridge.AgentID) error {
	n, err := tx.MemoryBytes(agent)
	if err != nil {
		return fmt.Errorf("read size of memory: %w", err)
	}
	if n > s.o.Bytes {
		return bridge.Errorf(bridge.Conflict, "the memory would hold %d bytes; at most %d are allowed; replace a block with a shorter one, or ask the operator to delete some (`drawbridge memory AGENT --forget psg_…` or `--forget-block LABEL`)", n, s.o.Bytes)
	}
	return nil
}

// next is the block that a draft makes of what is there.
func (s *Service) next(tx *bridge.Scene, a bridge.Agent, d Draft) (bridge.Block, error) {
	was, err := tx.Block(a.ID, d.Label)
	switch {
	case err != nil && !errors.Is(err, bridge.ErrNoRow):
		return was, fmt.Errorf("read block %q: %w", d.Label, err)
	case d.IfVersion != nil && *d.IfVersion != was.Version:
		return was, stale(d, was)
	case err != nil:
		if err := s.room(tx, a.ID); err != nil {
			return was, err
		}
	}
	return bridge.Block{Agent: a.ID, Label: d.Label, Content: d.Content, Version: was.Version + 1}, nil
}

func stale(d Draft, was bridge.Block) error {
	if was.Version == 0 {
		return bridge.Errorf(bridge.Conflict, "there is no block %q yet, so it has no version %d; write it with version 0, or without one", d.Label, *d.IfVersion)
	}
	return bridge.Errorf(bridge.Conflict, "block %q is at version %d, not %d: it was changed since you read it; read it again, put both together and write with version %d",
		d.Label, was.Version, *d.IfVersion, was.Version)
}

// room refuses one block more than an agent may have.
func (s *Service) room(tx *bridge.Scene, agent bridge.AgentID) error {
	all, err := tx.Blocks(agent)
	if err != nil {
		return fmt.Errorf("read blocks: %w", err)
	}
	if len(all) >= s.o.Blocks {
		return bridge.Errorf(bridge.Conflict, "the agent has %d blocks, which is the limit; write into an existing block, or store passages; delete a block with `drawbridge memory AGENT --forget-block LABEL`", len(all))
	}
	return nil
}

// Blocks returns the agent's blocks by label.
func (s *Service) Blocks(ctx context.Context, agent bridge.AgentID) ([]bridge.Block, error) {
	return view(ctx, s, func(tx *bridge.Scene) ([]bridge.Block, error) {
		if _, err := findAgent(tx, agent); err != nil {
			return nil, err
		}
		return tx.Blocks(agent)
	})
}

// Versions returns what a block of the agent said, newest first and at most
// limit of them (0 means 100); NotFound when there is no such block.
func (s *Service) Versions(ctx context.Context, agent bridge.AgentID, label string, limit int) ([]bridge.Block, error) {
	return view(ctx, s, func(tx *bridge.Scene) ([]bridge.Block, error) {
		all, err := tx.BlockVersions(agent, label, limit)
		if err == nil && len(all) == 0 {
			err = bridge.Errorf(bridge.NotFound, "no block %.80q", label)
		}
		return all, err
	})
}

// Store keeps a passage for good. Tags that are given twice count once.
// Conflict when the agent has too many. Under a key that was used before it returns the id of the passage that it made then, and nothing else of it.
func (s *Service) Store(ctx context.Context, agent bridge.AgentID, content string, tags []string) (p bridge.Passage, err error) {
	if tags, err = checkPassage(content, tags); err != nil {
		return p, err
	}
	err = s.o.Steps.Change(ctx, func(c bridge.Change) error {
		a, err := findAgent(c.Scene, agent)
		if err == nil {
			err = a.MayAct()
		}
		if err != nil {
			return err
		}
		if made, err := s.once.Earlier(c.Scene, a.ID); err != nil || made != "" {
			p = bridge.Passage{ID: bridge.PassageID(made), Agent: a.ID}
			return err
		}
		p = bridge.Passage{ID: bridge.PassageID(c.NewID("psg_")), Agent: a.ID, Content: content, Tags: tags, CreatedAt: c.Now()}
		if p.Seq, err = c.InsertPassage(p); err != nil {
			return fmt.Errorf("insert passage: %w", err)
		}
		if err := errors.Join(s.fits(c.Scene, p), s.bytesFit(c.Scene, p.Agent)); err != nil {
			return err
		}
		if err := errors.Join(keep(c, passageKept(p)), s.once.Keep(c.Scene, a.ID, string(p.ID), c.Now())); err != nil {
			return err
		}
		return c.Record(bridge.EventMemory, a, bridge.Event{Text: "passage " + string(p.ID) + " is stored"})
	})
	return p, err
}

// fits refuses a passage that is one too many.
func (s *Service) fits(tx *bridge.Scene, p bridge.Passage) error {
	if p.Seq <= s.o.Passages {
		return nil // only beyond it is worth counting, because some may have been deleted
	}
	n, err := tx.CountPassages(p.Agent)
	if err != nil {
		return fmt.Errorf("count passages: %w", err)
	}
	if n > s.o.Passages {
		return bridge.Errorf(bridge.Conflict, "you have stored %d passages, which is the limit; ask the operator to delete some (`drawbridge memory AGENT --forget psg_…`)", s.o.Passages)
	}
	return nil
}

// Forget deletes a passage of an agent for good, and ForgetBlock a block with
// all that it said before, both on the operator's behalf: agents only add to
// their passages. NotFound when it is not there.
func (s *Service) Forget(ctx context.Context, agent bridge.AgentID, id bridge.PassageID) error {
	return s.forget(ctx, agent, fmt.Sprintf("passage %+.80q", id), func(c bridge.Change) (bool, error) {
		dropped, err := c.DropPassage(agent, id)
		return dropped, errors.Join(err, keep(c, passageKept(bridge.Passage{ID: id, Agent: agent})))
	})
}

// ForgetBlock is Forget for a block.
func (s *Service) ForgetBlock(ctx context.Context, agent bridge.AgentID, label string) error {
	return s.forget(ctx, agent, fmt.Sprintf("block %+.80q", label), func(c bridge.Change) (bool, error) {
		dropped, err := c.DropBlock(agent, label)
		return dropped, errors.Join(err, keep(c, blockKept(bridge.Block{Agent: agent, Label: label}, byOperator)))
	})
}

func (s *Service) forget(ctx context.Context, agent bridge.AgentID, what string, drop func(bridge.Change) (bool, error)) error {
	return s.o.Steps.Change(ctx, func(c bridge.Change) error {
		a, err := findAgent(c.Scene, agent)
		if err != nil {
			return err
		}
		dropped, err := drop(c)
		if err != nil {
			return fmt.Errorf("delete %s: %w", what, err)
		}
		if !dropped {
			return bridge.Errorf(bridge.NotFound, "agent %s has no %s; list them with `drawbridge memory %s`", a.Name, what, a.Name)
		}
		return c.Record(bridge.EventMemory, a, bridge.Event{Text: "the operator deleted " + what})
	})
}

// Query is what an agent looks for in its passages.
type Query struct {
	// Text is words of which each must be in the passage, in any order; no
	// character of it is syntax. Empty lets every passage pass.
	Text string
	// Tags must all be on the passage.
	Tags []string
	// Limit is at most MaxFound; 0 means bridge.DefaultPassages.
	Limit int
}

// Search returns the agent's passages that match, the best first and among
// equals the newest. Invalid for more words than can be looked for.
func (s *Service) Search(ctx context.Context, agent bridge.AgentID, q Query) ([]bridge.Passage, error) {
	tags, err := checkQuery(q)
	if err != nil {
		return nil, err
	}
	return view(ctx, s, func(tx *bridge.Scene) ([]bridge.Passage, error) {
		if _, err := findAgent(tx, agent); err != nil {
			return nil, err
		}
		return tx.SearchPassages(bridge.PassageQuery{Agent: agent, Text: q.Text, Tags: tags, Limit: q.Limit})
	})
}

func findAgent(tx *bridge.Scene, id bridge.AgentID) (bridge.Agent, error) {
	a, err := tx.Agent(id)
	if errors.Is(err, bridge.ErrNoRow) {
		return a, bridge.Errorf(bridge.NotFound, "no agent %.80q", string(id))
	}
	return a, err
}

func view[T any](ctx context.Context, s *Service, look func(*bridge.Scene) (T, error)) (out T, err error) {
	err = s.o.Steps.View(ctx, func(tx *bridge.Scene) error {
		out, err = look(tx)
		return err
	})
	return out, err
}
