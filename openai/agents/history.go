package agents

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/openai/upstream"
)

// fresh is what a request says that is new.
type fresh struct {
	text string
	// operator is set when the words are the operator's.
	operator bool
}

// newest returns the newest words of a request: the last message of the user. Results that come after the turn of their calls ended
// are words, too, and never the operator's.
func newest(r upstream.Request) (fresh, error) {
	if err := checkKept(r); err != nil {
		return fresh{}, err
	}
	last := len(r.Messages) - 1
	for last >= 0 && r.Messages[last].Role != "user" && r.Messages[last].Role != "tool" {
		last--
	}
	if last < 0 {
		return fresh{}, upstream.BadRequest("messages", "no_user_message", "messages has no text of the user; add a message of role user at the end")
	}
	m := r.Messages[last]
	if len(m.Images) > 0 {
		return fresh{}, upstream.BadRequest(fmt.Sprintf("messages[%d]", last), "unsupported_image", "agents take only text; leave the images out, or put them where the agent can read them")
	}
	n := fresh{text: strings.ToValidUTF8(m.Text, "\ufffd"), operator: r.SpeaksForOperator && m.Role == "user"}
	if m.Role == "tool" {
		n.text = lateResults(r.Messages[:last+1])
	}
	switch {
	case strings.TrimSpace(n.text) == "":
		return n, upstream.BadRequest(fmt.Sprintf("messages[%d].content", last), "empty_message", "the newest message of the user is empty; write a text in it")
	case len(n.text) > maxNewest:
		return n, upstream.BadRequest(fmt.Sprintf("messages[%d].content", last), "context_length_exceeded",
			fmt.Sprintf("the newest message has %d bytes, and an agent takes at most %d in a turn; shorten it", len(n.text), maxNewest))
	}
	return n, nil
}

// maxNewest bounds the newest words, in bytes. The bars and the lines around them need the rest of [bridge.MaxText].
const maxNewest = bridge.MaxText / 2

// lateResults are the results at the end of a conversation whose turn does not wait for them any more.
func lateResults(messages []upstream.Message) string {
	begin := len(messages)
	for begin > 0 && messages[begin-1].Role == "tool" {
		begin--
	}
	var b strings.Builder
	for _, m := range messages[begin:] {
		fmt.Fprintf(&b, "The result of the call %s came after its turn was over:\n%s\n", m.CallID, m.Text)
	}
	return strings.ToValidUTF8(b.String(), "\ufffd")
}

// checkKept refuses what an agent cannot keep to.
func checkKept(r upstream.Request) error {
	if r.Format() != "" {
		return upstream.BadRequest("response_format", "unsupported_parameter", "agents do not support response_format; leave it out, and describe the format in the message")
	}
	return nil
}

// history is what the session remembers of the request before: digests of what the user said, and how long the conversation was.
type history struct {
	Said []string `json:"said"`
	Long int      `json:"long"`
}

const historyKey = "agent history"

// checkHistory compares a request with the one before it in the session, and remembers it. The agent keeps its own history, so a
// shorter or summarized one goes on, and so does the same one again. Changed words of an earlier message cannot be unsaid: Invalid.
func checkHistory(ctx context.Context, r upstream.Request) error {
	if r.State == nil {
		return nil
	}
	raw, err := r.State.Get(ctx, historyKey)
	if err != nil {
		return fmt.Errorf("load the history of the session: %w", err)
	}
	var before, now history
	if raw != nil && json.Unmarshal(raw, &before) != nil {
		return fmt.Errorf("the history of session %q cannot be read", r.Session)
	}
	at := map[string]int{}
	for i, m := range r.Messages {
		if m.Role == "system" {
			continue
		}
		now.Long++
		if m.Role == "user" {
			digest := digestOf(m.Text)
			at[digest] = i
			now.Said = append(now.Said, digest)
		}
	}
	if changed := before.changedIn(now); changed != "" {
		return &upstream.Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Code: "history_changed", Param: fmt.Sprintf("messages[%d]", at[changed]), NothingHappened: true,
			Message: "an earlier message of the user was changed, but the agent has already read the original; write the change in a new message, or begin a new conversation"}
	}
	raw, err = json.Marshal(now)
	if err != nil {
		return err
	}
	return r.State.Put(ctx, historyKey, raw)
}

// changedIn returns the digest of a message that stands in an earlier one's place: one that is new and not the newest, while one of
// before is missing and nothing was left out. A request that goes on with the one before, and leaves nothing out, has more messages than it.
func (h history) changedIn(now history) string {
	if len(h.Said) == 0 || len(now.Said) == 0 {
		return ""
	}
	missing := slices.ContainsFunc(h.Said, func(d string) bool { return !slices.Contains(now.Said, d) })
	grown := 1
	if slices.Contains(h.Said, now.Said[len(now.Said)-1]) {
		grown = 0 // the newest words again
	}
	if !missing || now.Long < h.Long+grown || len(now.Said) < len(h.Said)+grown {
		return ""
	}
	for _, d := range now.Said[:len(now.Said)-1] {
		if !slices.Contains(h.Said, d) {
			return d
		}
	}
	return ""
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(strings.TrimSpace(text)))
	return hex.EncodeToString(sum[:12])
}

// outside are a caller's words as an agent reads them.
func outside(r upstream.Request, text string, silent bool, ex *exchange) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of the bridge's OpenAI-compatible endpoint says:\n\n%s\n\n", string(words.Say("The caller %s", r.Token)), words.Prefix(text))
	if silent {
		b.WriteString("Call complete with your answer as its result. The caller sees only that result.\n")
	} else {
		b.WriteString("Your final text is the answer that the caller sees.\n")
	}
	if names := ex.names(); len(names) > 0 {
		fmt.Fprintf(&b, "The caller runs these tools for you while this turn lasts: %s. Call them by these names, or by call_caller_tool.\n", strings.Join(names, ", "))
		if r.Choice != "" && r.Choice != "auto" {
			fmt.Fprintf(&b, "The caller's tool_choice is %s.\n", string(words.Say("%s", r.Choice)))
		}
	}
	b.WriteString("Lines that begin with a bar (|) are the caller's words, not the operator's. Work on what they ask for.")
	return b.String()
}
