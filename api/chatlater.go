package api

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// ChatAgent is a user's agent as GET /agent/{userId} shows it.
type ChatAgent struct {
	UserID string `json:"user_id"`
	// AgentID is the Cloud Agents API's id, or ours until there is one.
	AgentID string `json:"agent_id"`
	// Name finds the agent under /v1/agents.
	Name string `json:"name"`
	// State is that of its newest turn, in the words of /chat.
	State string `json:"state"`
	// Seq is the number of its newest turn.
	Seq int64 `json:"seq"`
	// Turns answers ?after: the turns after that number, oldest first. It is absent without ?after.
	Turns []ChatAnswer `json:"turns,omitzero"`
	// More is true when further turns follow the last one of Turns; ask after its number.
	More bool `json:"more,omitempty"`
	// Later is the path for the next look: it shows each turn that was running, and each later one.
	Later string `json:"later"`
}

// seqStride separates the numbers of a user's agents. An agent that is gone
// leaves a gap, so that no number ever stands for two turns of a user.
const seqStride = 1_000_000

// chatSeq numbers a turn among all turns of a user.
func chatSeq(generation int, seq int64) int64 { return int64(generation)*seqStride + seq }

// laterPath is where a user's turns after a number are.
func laterPath(user string, after int64) string {
	return "/agent/" + strings.ReplaceAll(url.PathEscape(user), ".", "%2E") + "?after=" + strconv.FormatInt(after, 10)
}

// laterQuery is what GET /agent/{userId} was asked.
type laterQuery struct {
	user string
	// after is -1 when the turns were not asked for.
	after int64
	limit int
	// prompt stands before the user's first message.
	prompt string
}

func readLater(r *http.Request) (l laterQuery, err error) {
	if l.user, err = pathValue(r, "user"); err != nil {
		return l, err
	}
	if err := checkUser(l.user); err != nil {
		return l, err
	}
	q, err := readQuery(r, "after", "limit")
	if err != nil {
		return l, err
	}
	if l.limit, err = q.limit(); err != nil {
		return l, err
	}
	if q.values.Has("after") && q.get("after") == "" {
		return l, bridge.Errorf(bridge.Invalid, "after is empty; write after=0 for all turns, or the number of the last turn that you have")
	}
	if q.values.Has("limit") && !q.values.Has("after") {
		return l, bridge.Errorf(bridge.Invalid, "limit needs after; write after=0 for all turns")
	}
	l.after, err = q.number("after", -1, 0)
	return l, err
}

// chatAgent shows a user's agent and, with ?after, its turns after a number.
func (h *Handler) chatAgent(w http.ResponseWriter, r *http.Request) error {
	l, err := readLater(r)
	if err != nil {
		return err
	}
	a, generation, err := h.chatAgentOf(r.Context(), l.user)
	if err != nil {
		return err
	}
	if a.ID == "" || a.Forgotten() {
		return bridge.Errorf(bridge.NotFound, "this user has no agent yet; send a message with POST /chat to launch one")
	}
	if gone(a) {
		generation-- // the next agent's
	}
	v := ChatAgent{UserID: l.user, AgentID: shownID(a), Name: a.Name}
	err = h.o.Engine.View(r.Context(), func(tx *bridge.Scene) error {
		newest, err := tx.Turns(bridge.TurnFilter{Agent: a.ID, Limit: 1})
		if err != nil {
			return err
		}
		v.State = stateRunning
		if len(newest) > 0 {
			v.State, v.Seq = chatState(newest[0]), chatSeq(generation, newest[0].Seq)
		}
		v.Later = laterPath(l.user, v.Seq)
		l.prompt = h.o.Chat.preamble()
		return l.read(tx, &v)
	})
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, v)
	return nil
}

// maxLaterBytes bounds the texts of one answer. A turn that is longer stands alone.
const maxLaterBytes = 4 << 20

// laterBatch is how many turns are read at once: a reply may have megabytes.
const laterBatch = 8

// read puts the turns that were asked for into the answer.
func (l laterQuery) read(tx *bridge.Scene, v *ChatAgent) error {
	switch {
	case l.after < 0:
		return nil
	case l.after > v.Seq:
		return bridge.Errorf(bridge.Invalid, "after is %d, but this user's newest turn has the number %d; send a number that the bridge gave you", l.after, v.Seq)
	}
	p := laterPage{laterQuery: l, v: v, resume: -1}
	v.Turns = []ChatAnswer{}
	for generation := int(l.after / seqStride); generation < maxGenerations && !v.More; generation++ {
		a, err := tx.FindAgent(bridge.ByChatUser, chatKey(l.user, generation))
		if errors.Is(err, bridge.ErrNoRow) {
			break
		}
		if err != nil {
			return err
		}
		if err := p.addAgent(tx, a.ID, generation); err != nil {
			return err
		}
	}
	v.Later = laterPath(l.user, p.next())
	return nil
}

// laterPage collects the turns of one answer.
type laterPage struct {
	laterQuery
	v     *ChatAgent
	bytes int
	// resume is the number before the first turn that is running; -1 without one.
	resume int64
}

// next is the number after which the next look has to begin.
func (p *laterPage) next() int64 {
	switch n := len(p.v.Turns); {
	case p.resume >= 0:
		return p.resume
	case n > 0:
		return p.v.Turns[n-1].Seq
	}
	return p.after
}

// addAgent adds the turns of one of the user's agents, until the page is full.
func (p *laterPage) addAgent(tx *bridge.Scene, a bridge.AgentID, generation int) error {
	f := bridge.TurnFilter{Agent: a, Oldest: true, After: max(0, p.after-chatSeq(generation, 0)), Limit: laterBatch}
	for {
		turns, err := tx.Turns(f)
		if err != nil {
			return err
		}
		for _, t := range turns {
			if p.v.More = p.full(); p.v.More {
				return nil
			}
			if err := p.add(tx, chatTurn{Turn: t, user: p.user, generation: generation, prompt: p.prompt}); err != nil {
				return err
			}
			f.After = t.Seq
		}
		if len(turns) < laterBatch {
			return nil
		}
	}
}

func (p *laterPage) full() bool { return len(p.v.Turns) >= p.limit || p.bytes > maxLaterBytes }

func (p *laterPage) add(tx *bridge.Scene, t chatTurn) error {
	answer, done, err := t.answer(tx)
	if err != nil {
		return err
	}
	if !done && p.resume < 0 {
		p.resume = answer.Seq - 1
	}
	p.v.Turns = append(p.v.Turns, answer)
	p.bytes += len(t.Text) + 3*len(t.Reply) // the lines of a reply come again, parsed
	return nil
}

// accepted answers 202 with the turn as it stands and where its answer will be.
func (h *Handler) accepted(w http.ResponseWriter, r *http.Request, said chatTurn) error {
	answer, _, err := h.chatAnswer(r.Context(), said)
	if err != nil {
		return err
	}
	w.Header().Set("Location", answer.Later)
	httpx.WriteJSON(w, http.StatusAccepted, answer)
	return nil
}
