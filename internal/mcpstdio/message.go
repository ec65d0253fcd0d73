package mcpstdio

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
)

// read takes lines from In. One that is too long is answered and passed over.
func (p *pipe) read(ctx context.Context, lines chan<- []byte) error {
	in := bufio.NewReaderSize(p.o.In, 64<<10)
	var line, tail []byte // tail is the end of what did not fit
	for {
		part, err := in.ReadSlice('\n')
		if len(line) <= maxLine {
			line = append(line, part...)
		} else {
			tail = append(tail, part...)
			tail = tail[max(len(tail)-maxTail, 0):]
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		switch text := bytes.TrimSpace(line); {
		case len(line) > maxLine:
			p.answer(message{ID: idOf(line, tail), response: isResponse(line)}, codeInvalid, fmt.Sprintf("a message of more than %d bytes; send less", maxLine))
		case len(text) > 0:
			select {
			case lines <- bytes.Clone(text):
			case <-ctx.Done():
				return nil
			}
		}
		line, tail = line[:0], tail[:0]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read standard input: %w", err)
		}
	}
}

// maxTail is how much of the end of a message that is too long is kept, in bytes.
const maxTail = 512

// lastID finds the id where it is a message's last key, as some SDKs write it:
// the brace that ends the line is the message's own.
var lastID = regexp.MustCompile(`"id"\s*:\s*(-?[0-9]{1,18}|"[^"\\]{1,200}")\s*(?:,\s*"jsonrpc"\s*:\s*"2.0"\s*)?\}\s*$`)

// idOf finds the id of a message that is too long to be kept, so that its sender
// does not wait without end: among its first keys or at its end, else null.
func idOf(head, tail []byte) json.RawMessage {
	if m := lastID.FindSubmatch(tail); m != nil {
		return m[1]
	}
	in := json.NewDecoder(bytes.NewReader(head))
	if t, err := in.Token(); err != nil || t != json.Delim('{') {
		return json.RawMessage("null")
	}
	for in.More() {
		key, err := in.Token()
		var value json.RawMessage
		if err != nil || in.Decode(&value) != nil {
			break
		}
		if key == "id" {
			return value
		}
	}
	return json.RawMessage("null")
}

// isResponse reports whether the first keys of a message that is too long to be kept
// are those of a response.
func isResponse(head []byte) bool {
	in := json.NewDecoder(bytes.NewReader(head))
	if t, err := in.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	for in.More() {
		key, err := in.Token()
		if err != nil || key == "method" || key == "params" {
			return false
		}
		var value json.RawMessage
		if key == "result" || key == "error" || in.Decode(&value) != nil {
			return key == "result" || key == "error"
		}
	}
	return false
}

// message is what the transport must know of one.
type message struct {
	raw    []byte
	ID     json.RawMessage
	Method string
	Params params
	// response: the client answers something. Nothing is ever answered to it.
	response bool
	// fault is why the line is not a message; the bridge does not get it then.
	fault *fault
}

type params struct {
	Name string `json:"name"`
	URI  string `json:"uri"`
	Meta struct {
		Version  string          `json:"io.modelcontextprotocol/protocolVersion"`
		Progress json.RawMessage `json:"progressToken"`
	} `json:"_meta"`
	Arguments struct {
		Key string `json:"idempotency_key"`
	} `json:"arguments"`
	// Request is what a cancellation is about, and Token and Progress what a progress notification says.
	Request  json.RawMessage `json:"requestId"`
	Token    json.RawMessage `json:"progressToken"`
	Progress float64         `json:"progress"`
}

// fault is an error of JSON-RPC.
type fault struct {
	code int
	text string
}

// The codes of JSON-RPC that the pipe itself answers with.
const (
	codeParse   = -32700
	codeInvalid = -32600
	codeLost    = -32000
)

// look reads a line. A batch is carried as it is, for the bridge to judge.
func look(line []byte) message {
	m := message{raw: line}
	var keys map[string]json.RawMessage
	switch err := json.Unmarshal(line, &keys); {
	case !json.Valid(line):
		m.fault = &fault{codeParse, "parse error: the line is not JSON; write one message on one line"}
		return m
	case line[0] == '[':
		return m
	case err != nil:
		m.fault = &fault{codeInvalid, "invalid request: a message must be a JSON object"}
		return m
	}
	id, hasID := keys["id"]
	if hasID && isID(id) {
		m.ID = id
	}
	_, result := keys["result"]
	_, failure := keys["error"]
	_ = json.Unmarshal(keys["method"], &m.Method) // what is not a text is refused below
	_ = json.Unmarshal(keys["params"], &m.Params) // the bridge says what is wrong with it
	switch {
	case m.Method == "" && keys["method"] == nil && (result || failure):
		m.response = true
	case m.Method == "":
		m.fault = &fault{codeInvalid, "invalid request: method must be a text"}
	case hasID && m.ID == nil:
		m.fault = &fault{codeInvalid, "invalid request: id must be a text or a number; leave it out for a notification"}
	}
	return m
}

// isID reports whether JSON may be the id of a request: a text or a number.
func isID(raw json.RawMessage) bool {
	return raw[0] == '"' || raw[0] == '-' || (raw[0] >= '0' && raw[0] <= '9')
}
