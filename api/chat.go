package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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

// preamble is what stands before a new user's first message.
func (o ChatOptions) preamble() string {
	if o.Prompt == "" {
		return ""
	}
	return o.Prompt + "\n\n"
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
		return c.Text, checkUser(c.UserID)
	}
	return c.Message, checkUser(c.UserID)
}

// checkUser refuses an id that does not fit on one line. It refuses the replacement
// character too: a reader of JSON puts it for every half of a surrogate pair, and
// two users would have one id.
func checkUser(id string) error {
	if strings.ContainsRune(id, utf8.RuneError) {
		return bridge.Errorf(bridge.Invalid, "user_id is not valid Unicode; send an id of valid characters")
	}
	return checkLine("user_id", id, maxUserID)
}

// chat gives the user's agent a turn. It answers when the turn and what it asked
// for have an answer, or with ?async=true as soon as the turn is recorded.
func (h *Handler) chat(w http.ResponseWriter, r *http.Request) error {
	async, err := readAsync(r)
	if err != nil {
		return err
	}
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
	if async {
		return h.accepted(w, r, turn)
	}
	httpx.Linger(w, h.o.Chat.Wait+30*time.Second)
	answer, err := h.await(r.Context(), turn)
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, answer)
	return nil
}

// readAsync reads ?async. A word that it does not know makes no turn.
func readAsync(r *http.Request) (async bool, err error) {
	q, err := readQuery(r, "async")
	if err != nil {
		return false, err
	}
	switch word := q.get("async"); {
	case word == "true":
		return true, nil
	case word == "false", !q.values.Has("async"):
		return false, nil
	default:
		return false, bridge.Errorf(bridge.Invalid, "async is %+.20q; write async=true to get an answer at once, or leave it out to wait for the reply", word)
	}
}

// converse gives a user's agent its next turn; a user without one gets one.
func (h *Handler) converse(ctx context.Context, user, words string) (chatTurn, error) {
	for range 2 {
		a, generation, err := h.chatAgentOf(ctx, user)
		said := chatTurn{user: user, generation: generation, prompt: h.o.Chat.preamble()}
		switch {
		case err != nil:
			return said, err
		case a.ID != "" && !gone(a):
			said.Turn, err = h.o.Engine.Say(ctx, a.ID, words)
			return said, err
		}
		said.Turn, err = h.introduce(ctx, chatKey(user, generation), words)
		if bridge.KindOf(err) != bridge.Conflict {
			return said, err
		}
		// Another request of the same user was first: its agent is the one to talk to.
	}
	return chatTurn{}, bridge.Errorf(bridge.Conflict, "this user's agent is being launched; try again")
}

// introduce launches an agent for a user, with the message as its prompt.
func (h *Handler) introduce(ctx context.Context, key, words string) (bridge.Turn, error) {
	if h.o.Chat.Repo == "" {
		return bridge.Turn{}, bridge.Errorf(bridge.NotFound, "this bridge has no repository for new users of /chat; ask the operator to set chat.orchestrator in bridge.yaml")
	}
	words = h.o.Chat.preamble() + words
	sum := sha256.Sum256([]byte(key))
	spec := engine.Spec{Name: "chat-" + hex.EncodeToString(sum[:8]), Role: h.roleOf(h.o.Chat.Repo), Repo: h.o.Chat.Repo, Ref: h.o.Chat.Ref, API: h.o.Chat.API, Prompt: words, ChatUser: key}
	spec.Runtime, spec.Blocks = h.o.Runtime(spec.Name, spec.Role), h.o.Blocks(spec.Name, spec.Role)
	spec.Join, spec.JoinWithin = h.o.Join(spec.Name, spec.Role)
	_, turn, err := h.o.Engine.LaunchAgent(ctx, spec)
	return turn, err
}

// gone reports an agent that takes no more turns: its launch failed, or the
// operator forgot it. Its user gets another one.
func gone(a bridge.Agent) bool {
	return a.Forgotten() || a.External == "" && a.State == bridge.AgentFailed
}

// chatGeneration separates a user's id from the number of its agent. No user id
// holds it, because control characters are refused.
const chatGeneration = "\x1f"

// maxGenerations bounds how many agents a user can have, one after the other.
const maxGenerations = 1000

// chatKey is what binds an agent to a user: the user's id for the first one.
func chatKey(user string, generation int) string {
	if generation == 0 {
		return user
	}
	return user + chatGeneration + strconv.Itoa(generation)
}

// chatAgentOf returns the user's agent with its generation. When the agent is gone, or
// the user never had one, generation is that of the next agent.
func (h *Handler) chatAgentOf(ctx context.Context, user string) (a bridge.Agent, generation int, err error) {
	err = h.o.Engine.View(ctx, func(tx *bridge.Scene) error {
		a = bridge.Agent{}
		for generation = range maxGenerations {
			next, err := tx.FindAgent(bridge.ByChatUser, chatKey(user, generation))
			if errors.Is(err, bridge.ErrNoRow) {
				return nil
			}
			if err != nil {
				return err
			}
			if a = next; !gone(a) {
				return nil
			}
		}
		return bridge.Errorf(bridge.Conflict, "this user has used up %d agents, which is the limit; send another user_id. The last agent ended with: %s", maxGenerations, a.Trouble)
	})
	return a, generation, err
}

// await waits until the turn is over and its commands have an answer, until the
// time is up, or until the client or the server goes away. It never polls: the
// engine tells of every change.
func (h *Handler) await(ctx context.Context, said chatTurn) (ChatAnswer, error) {
	changes, stop := h.o.Engine.Watch()
	defer stop()
	timeUp := time.NewTimer(h.o.Chat.Wait)
	defer timeUp.Stop()
	for {
		answer, done, err := h.chatAnswer(ctx, said)
		if err != nil || done {
			return answer, err
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return answer, nil // nobody reads it any more
		case <-timeUp.C:
			answer, _, err = h.chatAnswer(ctx, said)
			return answer, err
		case <-httpx.Draining(ctx):
			return answer, nil
		}
	}
}
