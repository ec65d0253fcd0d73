package acp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"drawbridge/internal/loosejson"
	"drawbridge/relay/agents"
)

// chunk is a piece of a message.
type chunk struct {
	// text is the chunk's own text. Images, links and embedded resources are not the agent's words.
	text string
	// message is the id of the message that it belongs to, "" where the agent gives none.
	message string
}

// chunkOf reads a chunk of a stream of words, whose pieces p joins. If its id is not a string, the chunk has no id.
func chunkOf(params json.RawMessage, p *pieces) chunk {
	var n struct {
		Update struct {
			Content json.RawMessage `json:"content"`
			Message json.RawMessage `json:"messageId"`
		} `json:"update"`
	}
	_ = json.Unmarshal(params, &n) // the caller read it as an update
	content, _ := loosejson.Object(n.Update.Content)
	c := chunk{message: loosejson.Text(n.Update.Message)}
	if len(c.message) > maxID {
		c.message = ""
	}
	if loosejson.Text(content["type"]) == "text" {
		c.text = p.add(content["text"], c.message)
	}
	return c
}

// pieces joins the pieces of one message, between which an agent may part a character.
type pieces struct {
	of   loosejson.Joiner
	name string
}

// add takes a piece of the message with a name. Half a character of another message is left out.
func (p *pieces) add(raw json.RawMessage, name string) string {
	if name != p.name {
		*p = pieces{name: name}
	}
	return p.of.Add(raw)
}

// maxID bounds the ids of messages and tool calls that are kept, in bytes; a longer one counts as none.
const maxID = 200

// text gathers the messages of a turn. The zero text is empty.
type text struct {
	messages []string
	open     strings.Builder
	// id is that of the open message, "" when it has none.
	id   string
	size int
	// over is true when a tool call came since the last chunk.
	over bool
}

// cut notes that a tool call began. What follows is another message, unless its id says otherwise.
func (t *text) cut() { t.over = true }

func (t *text) add(c chunk) *agents.Error {
	piece := c.text
	if piece == "" {
		return nil
	}
	if t.size += len(piece); t.size > maxText {
		return &agents.Error{Cause: agents.Crashed, Reason: fmt.Sprintf("the agent said more than %d MiB in one turn", maxText>>20)}
	}
	named := t.id != "" && c.message != ""
	same, other := named && t.id == c.message, named && t.id != c.message
	if t.open.Len() > 0 && !same && (other || t.over) {
		t.close()
	}
	t.over, t.id = false, c.message
	t.open.WriteString(piece)
	return nil
}

// openLine takes out the beginning of a line that the open message ends with.
func (t *text) openLine() chunk {
	said := t.open.String()
	at := strings.LastIndexByte(said, '\n') + 1
	t.open.Reset()
	t.open.WriteString(said[:at])
	return chunk{said[at:], t.id}
}

func (t *text) close() {
	if t.open.Len() > 0 {
		t.messages = append(t.messages, t.open.String())
		t.open.Reset()
	}
}

// all closes the open message and returns every message.
func (t *text) all() []string {
	t.close()
	return t.messages
}

// String is every message, each from the beginning of a line.
func (t *text) String() string { return join(t.all()) }

func join(messages []string) string {
	var out strings.Builder
	for i, m := range messages {
		if i > 0 && !strings.HasSuffix(messages[i-1], "\n") {
			out.WriteByte('\n')
		}
		out.WriteString(m)
	}
	return out.String()
}

// replay gathers what an agent has in a session that it loads. Its add does nothing on nil: outside a replay, a quoted message of the
// user's is not for us.
type replay struct {
	messages []*replayed
	size     int
	updates  int
	// most is how many updates it takes.
	most int
	// news gets a signal for each piece, nil for nobody.
	news chan struct{}
}

// has reports whether one of the user's messages holds the words.
func (r *replay) has(words string) bool {
	return slices.ContainsFunc(r.messages, func(m *replayed) bool { return m.user && strings.Contains(m.text.String(), words) })
}

type replayed struct {
	user, tool bool
	text       strings.Builder
}

// tool notes a tool call.
func (r *replay) tool() {
	if last := len(r.messages) - 1; last < 0 || !r.messages[last].tool {
		r.messages = append(r.messages, &replayed{tool: true})
	}
}

func (r *replay) add(user bool, c chunk) *agents.Error {
	if r == nil {
		return nil
	}
	if r.updates++; r.updates > r.most {
		return &agents.Error{Cause: agents.Crashed, Reason: fmt.Sprintf("the agent replayed more than %d updates", r.most)}
	}
	piece := c.text
	if piece == "" {
		return nil
	}
	select {
	case r.news <- struct{}{}:
	default:
	}
	last := len(r.messages) - 1
	if last < 0 || r.messages[last].user != user || r.messages[last].tool {
		r.messages, last = append(r.messages, &replayed{user: user}), last+1
	}
	r.messages[last].text.WriteString(piece)
	for r.size += len(piece); r.size > maxReplay && len(r.messages) > 1; r.messages = r.messages[1:] {
		r.size -= r.messages[0].text.Len()
	}
	if r.size > maxReplay {
		return &agents.Error{Cause: agents.Crashed, Reason: fmt.Sprintf("the agent replayed a message of more than %d MiB", maxReplay>>20)}
	}
	return nil
}

func (r *replay) said() []Said {
	list := make([]Said, len(r.messages))
	for i, m := range r.messages {
		list[i] = Said{User: m.user, Text: m.text.String(), Tool: m.tool}
	}
	return list
}
