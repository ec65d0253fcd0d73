package engine

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/echo"
	"drawbridge/bridge/words"
)

// hear records what the agent may repeat out of words that its turn tells it.
func (c *change) hear(j job, h echo.Heard) error {
	h.Agent, h.Turn, h.Seq = j.agent.ID, j.turn.ID, j.turn.Seq
	return echo.Hear(c.Scene, h, c.now)
}

// oldEchoes is the age of what the agent of a turn has heard too long ago, to the minute.
func oldEchoes(j job, now time.Time) bridge.EchoAge {
	return bridge.ExpiredEchoes(j.turn.Seq, now.Truncate(time.Minute))
}

// hearTurn records what the agent may repeat out of its turn, and forgets what it
// heard too long ago.
func (c *change) hearTurn(j job) error {
	if _, err := c.DropEchoes(j.agent.ID, oldEchoes(j, c.now)); err != nil {
		return fmt.Errorf("forget what %q heard: %w", j.agent.ID, err)
	}
	if err := c.hear(j, ownWords(j)); err != nil {
		return err
	}
	carried, err := c.CarriedNotices(j.turn.ID)
	if err != nil {
		return err
	}
	if err := cmp.Or(c.Want(aboutNotices(carried)...), c.wantChildren(carried)); err != nil {
		return err
	}
	for _, n := range carried {
		if err := c.hearNotice(j, n); err != nil {
			return err
		}
	}
	return nil
}

// wantChildren says that the agents will be looked up that the notices are about.
func (c *change) wantChildren(carried []bridge.Notice) error {
	var children []bridge.Need
	for _, n := range carried {
		for _, id := range n.Commands {
			if m, err := c.Command(id); err != nil && !errors.Is(err, bridge.ErrNoRow) {
				return err
			} else if m.Child != "" {
				children = append(children, bridge.NeedAgent{ID: m.Child})
			}
		}
	}
	return c.Want(children...)
}

// ownWords is the text that the turn was made with: a person's, or a parent's.
func ownWords(j job) echo.Heard {
	h := echo.Heard{Text: j.turn.Text, Source: bridge.EchoOperator, Place: "the operator's words"}
	if j.command.ID != "" && j.turn.Cause == bridge.CauseLaunch {
		h.Source, h.Place = bridge.EchoTree, "the prompt that launched it"
	}
	for _, s := range j.turn.Said {
		if s.Source == bridge.OriginOutside {
			h.Source, h.Author, h.Mode, h.Place = bridge.EchoOutside, s.Author, echo.Named, "the words of "+s.Author
		}
	}
	return h
}

func (c *change) hearNotice(j job, n bridge.Notice) error {
	h := echo.Heard{Source: bridge.EchoOutside, Mode: echo.Named}
	if err := c.attribute(&h, n); err != nil {
		return err
	}
	h.Text = words.Untrusted(n)
	if err := c.hear(j, h); err != nil {
		return err
	}
	h.Text, h.Mode = othersIn(n), min(h.Mode, echo.Near)
	return c.hear(j, h)
}

// othersIn returns the part of a notice's own text that may hold names which others chose,
// or a person's message.
func othersIn(n bridge.Notice) string {
	if n.Message == "" {
		_, evidence, _ := strings.Cut(string(n.Text), words.Confirmed)
		return evidence
	}
	text := string(n.Text)
	if n.Cause == bridge.CauseCompletion { // the bridge's own sentences and, in the last line, who writes
		text = text[strings.LastIndexByte(text, '\n')+1:]
	}
	return text
}

// attribute says whose words a notice brings, and what they are.
func (c *change) attribute(h *echo.Heard, n bridge.Notice) error {
	h.Place = "what it was told"
	switch {
	case n.Message != "":
		m, err := c.Message(n.Message)
		if errors.Is(err, bridge.ErrNoRow) {
			return nil
		}
		h.Source, h.Author, h.Place = bridge.EchoTree, m.FromName, fmt.Sprintf("the message %s of %s", m.ID, m.FromName)
		if m.From == bridge.User {
			h.Source, h.Mode = bridge.EchoOperator, echo.Exact
		}
		return err
	case n.Cause == bridge.CauseCompletion:
		h.Source, h.Place = bridge.EchoTree, "the result of a subagent"
	case n.Cause == bridge.CauseReminder:
		h.Source, h.Place, h.Mode = bridge.EchoTree, "its own reminder", echo.Exact // what it wrote itself
	}
	if len(n.Commands) == 0 {
		return nil
	}
	m, err := c.Command(n.Commands[0])
	switch {
	case errors.Is(err, bridge.ErrNoRow):
		return nil
	case err != nil:
		return err
	case n.Cause == bridge.CauseActionOutcome:
		h.Author, h.Except, h.Place = m.Canonical, m.Canonical, "the output of action "+m.Canonical
	case m.Child != "":
		child, err := c.Agent(m.Child)
		if err != nil {
			return err
		}
		h.Author, h.Place = child.Name, "the result of "+child.Name
	}
	return nil
}
