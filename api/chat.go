package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/internal/httpx"
)

// ChatOptions configures the seed's /chat surface, where each user has an agent.
type ChatOptions struct {
	// Repo is where a new user's agent is launched; empty means that no new ones are.
	Repo string
	// Ref and API are as for any launch.
	Ref, API string
	// Prompt stands before a new user's first message, for example the protocol page.
	Prompt string
	// PerMinute is how many requests a user has in a minute; default 20.
	PerMinute int
	// Wait is how long a request waits for the turn; default 300 s.
	Wait time.Duration
}

func (o ChatOptions) withDefaults() ChatOptions {
	if o.PerMinute <= 0 {
		o.PerMinute = 20
	}
	if o.Wait <= 0 {
		o.Wait = 300 * time.Second
	}
	return o
}

// maxUserID bounds a user_id in bytes.
const maxUserID = 256

// ChatRequest is one message of a user. Message and Text are two names for one
// thing; give one of them.
type ChatRequest struct {
	UserID  string `json:"user_id"`
	Message string `json:"message,omitempty"`
	Text    string `json:"text,omitempty"`
}

func (c ChatRequest) words() (string, error) {
	switch {
	case c.UserID == "":
		return "", bridge.Errorf(bridge.Invalid, "user_id is missing")
	case c.Message != "" && c.Text != "" && c.Message != c.Text:
		return "", bridge.Errorf(bridge.Invalid, "message and text differ; send one of them")
	case c.Message == "" && c.Text == "":
		return "", bridge.Errorf(bridge.Invalid, "message is missing")
	case c.Message == "":
		return c.Text, checkLine("user_id", c.UserID, maxUserID)
	}
	return c.Message, checkLine("user_id", c.UserID, maxUserID)
}

// chat gives the user's agent a turn and answers when the turn and what it asked for have an answer.
func (h *Handler) chat(w http.ResponseWriter, r *http.Request) error {
	var req ChatRequest
	if err := readTolerant(w, r, &req); err != nil {
		return err
	}
	words, err := req.words()
	if err != nil {
		return err
	}
	if wait := h.rates.Take(req.UserID); wait > 0 {
		return &bridge.Error{Kind: bridge.RateLimited, RetryAfter: wait,
			Message: "more than " + strconv.Itoa(h.o.Chat.PerMinute) + " requests in a minute; wait and try again"}
	}
	turn, err := h.converse(r.Context(), req.UserID, words)
	if err != nil {
		return err
	}
	note(r, turn.Agent, turn.ID)
	httpx.Linger(w, h.o.Chat.Wait+30*time.Second)
	answer, err := h.await(r.Context(), turn.ID)
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, answer)
	return nil
}

// converse gives a user's agent its next turn; a user without one gets one.
func (h *Handler) converse(ctx context.Context, user, words string) (bridge.Turn, error) {
	for range 2 {
		a, generation, err := h.chatAgentOf(ctx, user)
		switch {
		case err != nil:
			return bridge.Turn{}, err
		case a.ID != "" && !stillborn(a):
			return h.o.Engine.Say(ctx, a.ID, words)
		}
		turn, err := h.introduce(ctx, chatKey(user, generation), words)
		if bridge.KindOf(err) != bridge.Conflict {
			return turn, err
		}
		// Another request of the same user was first: its agent is the one to talk to.
	}
	return bridge.Turn{}, bridge.Errorf(bridge.Conflict, "this user's agent is being launched; try again")
}

// introduce launches an agent for a user, with the message as its prompt.
func (h *Handler) introduce(ctx context.Context, key, words string) (bridge.Turn, error) {
	if h.o.Chat.Repo == "" {
		return bridge.Turn{}, bridge.Errorf(bridge.Unavailable, "no repository is configured for /chat, so new users get no agent")
	}
	if h.o.Chat.Prompt != "" {
		words = h.o.Chat.Prompt + "\n\n" + words
	}
	sum := sha256.Sum256([]byte(key))
	spec := engine.Spec{Name: "chat-" + hex.EncodeToString(sum[:8]), Role: h.roleOf(h.o.Chat.Repo), Repo: h.o.Chat.Repo, Ref: h.o.Chat.Ref, API: h.o.Chat.API, Prompt: words, ChatUser: key}
	spec.Runtime = h.o.Runtime(spec.Name, spec.Role)
	spec.Join, spec.JoinWithin = h.o.Join(spec.Name, spec.Role)
	_, turn, err := h.o.Engine.LaunchAgent(ctx, spec)
	return turn, err
}

// stillborn reports an agent whose launch failed for good: nobody can talk to
// it, and its user gets another one.
func stillborn(a bridge.Agent) bool { return a.External == "" && a.State == bridge.AgentFailed }

// chatGeneration separates a user's id from the number of its agent. No user id
// holds it, because control characters are refused.
const chatGeneration = "\x1f"

// maxGenerations bounds how many failed launches a user's agent survives.
const maxGenerations = 1000

// chatKey is what binds an agent to a user: the user's id for the first one.
func chatKey(user string, generation int) string {
	if generation == 0 {
		return user
	}
	return user + chatGeneration + strconv.Itoa(generation)
}

// chatAgentOf returns the user's agent, or a zero one, and the generation that
// a new one would have.
func (h *Handler) chatAgentOf(ctx context.Context, user string) (a bridge.Agent, generation int, err error) {
	err = h.o.Engine.View(ctx, func(tx bridge.Tx) error {
		a = bridge.Agent{}
		for generation = range maxGenerations {
			next, err := tx.FindAgent(bridge.ByChatUser, chatKey(user, generation))
			if errors.Is(err, bridge.ErrNoRow) {
				return nil
			}
			if err != nil {
				return err
			}
			if a = next; !stillborn(a) {
				return nil
			}
		}
		return bridge.Errorf(bridge.Conflict, "every launch for this user failed: %s", a.Trouble)
	})
	return a, generation, err
}

// await waits until the turn is over and its commands have an answer, until the
// time is up, or until the client or the server goes away. It never polls: the
// engine tells of every change.
func (h *Handler) await(ctx context.Context, id bridge.TurnID) (ChatAnswer, error) {
	changes, stop := h.o.Engine.Watch()
	defer stop()
	timeUp := time.NewTimer(h.o.Chat.Wait)
	defer timeUp.Stop()
	for {
		answer, done, err := h.chatAnswer(ctx, id)
		if err != nil || done {
			return answer, err
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return answer, nil // nobody reads it any more
		case <-timeUp.C:
			answer, _, err = h.chatAnswer(ctx, id)
			return answer, err
		case <-httpx.Draining(ctx):
			return answer, nil
		}
	}
}

// ChatAgent is a user's agent as GET /agent/{userId} shows it.
type ChatAgent struct {
	UserID string `json:"user_id"`
	// AgentID is the Cloud Agents API's id, or ours until there is one.
	AgentID string `json:"agent_id"`
	// Name finds the agent under /v1/agents.
	Name string `json:"name"`
	// State is that of its newest turn, in the words of /chat.
	State string `json:"state"`
}

func (h *Handler) chatAgent(w http.ResponseWriter, r *http.Request) error {
	user, err := pathValue(r, "user")
	if err != nil {
		return err
	}
	if err := checkLine("user_id", user, maxUserID); err != nil {
		return err
	}
	a, _, err := h.chatAgentOf(r.Context(), user)
	if err != nil {
		return err
	}
	if a.ID == "" {
		return bridge.Errorf(bridge.NotFound, "this user has no agent yet; POST /chat makes one")
	}
	var turns []bridge.Turn
	err = h.o.Engine.View(r.Context(), func(tx bridge.Tx) (err error) {
		turns, err = tx.Turns(bridge.TurnFilter{Agent: a.ID, Limit: 1})
		return err
	})
	if err != nil {
		return err
	}
	v := ChatAgent{UserID: user, AgentID: shownID(a), Name: a.Name, State: stateRunning}
	if len(turns) > 0 {
		v.State = chatState(turns[0])
	}
	httpx.WriteJSON(w, http.StatusOK, v)
	return nil
}
