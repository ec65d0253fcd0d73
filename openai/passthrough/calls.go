package passthrough

import (
	"encoding/json"
	"strings"

	"drawbridge/internal/loosejson"
	"drawbridge/openai/upstream"
)

// call is a call of a tool as it is being written.
type call struct {
	index    int
	id, name string
	// args are the arguments so far, which pieces puts together, and sent counts their bytes that are queued.
	args   string
	pieces loosejson.Joiner
	sent   int
	// shown is set once the piece with the name is queued.
	shown bool
	extra map[string]json.RawMessage
}

// whole reports whether the arguments are complete, so that nothing more of this call can come.
func (c *call) whole() bool {
	return strings.HasPrefix(strings.TrimSpace(c.args), "{") && json.Valid([]byte(c.args))
}

// piece takes a piece of a call. The name is shown when the next piece comes, because some endpoints cut it in two.
func (t *turn) piece(m map[string]json.RawMessage) {
	f, _ := loosejson.Object(m["function"]) // what is not there is empty
	index, id, name := -1, loosejson.Text(m["id"]), loosejson.Text(f["name"])
	if n := loosejson.Number(m["index"]); n != nil {
		index = int(*n)
	}
	if t.repeats(index, id, name, f["arguments"]) {
		return
	}
	at := t.find(index, id, name, loosejson.Said(f["arguments"]) && string(f["arguments"]) != `""`)
	if at < 0 {
		t.showCalls()
		t.calls = append(t.calls, call{index: index})
		at = len(t.calls) - 1
	}
	c := &t.calls[at]
	named := c.name != "" && (name == "" || name == c.name)
	if c.id == "" {
		c.id = id
	}
	switch {
	case name == c.name || c.shown:
	case strings.HasPrefix(name, c.name): // some send all of the name so far
		c.name = name
	default:
		c.name += name
	}
	arguments := f["arguments"]
	if c.empty() && strings.Contains(string(arguments), "{") {
		c.args = ""
	}
	if strings.HasPrefix(string(arguments), "{") {
		c.args += string(arguments)
	} else {
		c.args += c.pieces.Add(arguments)
	}
	for key, v := range m {
		if !c.shown && key != "index" && key != "id" && key != "type" && key != "function" && loosejson.Said(v) {
			if c.extra == nil {
				c.extra = map[string]json.RawMessage{}
			}
			c.extra[key] = v
		}
	}
	if named {
		t.show(at)
	}
}

// repeats reports whether a piece says all of a whole call once more, as some endpoints do at the end.
func (t *turn) repeats(index int, id, name string, arguments json.RawMessage) bool {
	for i := range t.calls {
		if c := &t.calls[i]; index >= 0 && c.index == index && id != "" && c.id == id && name == c.name && c.whole() && loosejson.Text(arguments) == c.args {
			return true
		}
	}
	return false
}

// find returns the call that a piece belongs to, -1 for a new one; more says that the piece has arguments. Endpoints leave the index or
// the id out, begin the index at 1, or use one index for all calls.
func (t *turn) find(index int, id, name string, more bool) int {
	for i := len(t.calls) - 1; i >= 0 && id != ""; i-- {
		if c := &t.calls[i]; c.id == id {
			if name != "" && more && c.whole() { // some make one id for all calls
				return -1
			}
			return i
		}
	}
	for i := len(t.calls) - 1; i >= 0; i-- {
		c := &t.calls[i]
		switch {
		case index >= 0 && c.index != index, index < 0 && id != "" && c.id != id:
		case t.another(c, id, name, more):
			return -1
		default:
			return i
		}
	}
	return -1
}

// another reports whether a piece at the place of a call begins another one. Only a piece with a name does.
func (t *turn) another(c *call, id, name string, more bool) bool {
	switch {
	case name == "" || c.name == "":
		return false
	case id != "" && c.id != "":
		return id != c.id
	case name == c.name:
		return more && c.whole() // some repeat the name in each piece
	case c.shown || c.whole():
		return true
	}
	return t.offered[c.name] && !t.offered[c.name+name]
}

// empty reports whether the arguments are an empty object so far. Some endpoints send one first, and then the true one.
func (c *call) empty() bool { return strings.TrimSpace(c.args) == "{}" }

// show queues what is not queued yet of a call. An empty object waits for the end of the answer.
func (t *turn) show(at int) {
	c := &t.calls[at]
	e := upstream.Event{Kind: upstream.CallPiece, Index: at, Arguments: c.args[c.sent:]}
	if c.empty() && !t.closing {
		e.Arguments = ""
	}
	if !c.shown {
		e.ID, e.Name, e.Extra = c.id, c.name, c.extra
	}
	c.shown = true
	c.sent += len(e.Arguments)
	t.queue = append(t.queue, e)
}

// showCalls shows the calls that have a name and were not shown.
func (t *turn) showCalls() {
	for at := range t.calls {
		if c := &t.calls[at]; c.name != "" && (!c.shown || c.sent < len(c.args) && (!c.empty() || t.closing)) {
			t.show(at)
		}
	}
}

// closeCalls shows what is left of the calls and says what is wrong with them. Arguments of an answer that a limit or a
// filter cut off may end anywhere.
func (t *turn) closeCalls() error {
	for at := range t.calls {
		c := &t.calls[at]
		c.args += c.pieces.Rest()
		switch {
		case c.name == "":
			return upstream.MayHaveBegun("upstream_garbage", "the endpoint called a tool without a name; nothing was called; send the request again as a new one")
		case c.args != "" && t.finish != "length" && t.finish != "content_filter" && !json.Valid([]byte(c.args)):
			return upstream.MayHaveBegun("upstream_garbage", "the endpoint called the tool "+t.p.shown(c.name)+" with arguments that are not JSON; nothing was called; send the request again as a new one")
		}
	}
	t.closing = true
	t.showCalls()
	return nil
}
