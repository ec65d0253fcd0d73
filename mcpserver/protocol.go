package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The SDK serves prompts/list and its like with an empty answer even when the
// server does not declare them. declared answers -32601 to what is not declared, as
// the protocol has it. Without capabilities the SDK declares by itself what is
// registered, and nothing is refused.
func declared(c *mcp.ServerCapabilities) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if c != nil && !declares(c, method) {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + method + " belongs to a capability that this server does not declare"}
			}
			return next(ctx, method, req)
		}
	}
}

// declares reports whether a method belongs to a capability that is declared, or to none.
func declares(c *mcp.ServerCapabilities, method string) bool {
	area, _, _ := strings.Cut(method, "/")
	switch area {
	case "tools":
		return c.Tools != nil
	case "prompts":
		return c.Prompts != nil
	case "resources":
		return c.Resources != nil
	case "completion":
		return c.Completions != nil
	case "logging":
		//lint:ignore SA1019 clients of the older era still ask for it, and the suite's build declares it
		return c.Logging != nil
	}
	return true
}

// speaks turns what the SDK refuses with status 400 and plain text into an error of
// JSON-RPC: clients look for a code there, and some wait for an answer under their
// id. The SDK decides what it refuses, but for a body that is not one JSON value: it
// would take the first and ignore the rest. next serves a request by its body.
func speaks(next func(body []byte) http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			next(nil).ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
		if tidy := tidied(body); tidy != nil {
			body = tidy
			r.ContentLength = -1
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
		out := &refusal{ResponseWriter: w}
		if out.held = err == nil && len(body) > 0 && len(body) < maxBody && !json.Valid(body); !out.held {
			next(body).ServeHTTP(out, r)
		}
		if out.held {
			out.send(body)
		}
	})
}

// informing are the fields of a request that only inform and that the SDK reads.
type informing struct {
	Params struct {
		Info *mcp.Implementation     `json:"clientInfo"`
		Caps *mcp.ClientCapabilities `json:"capabilities"`
		Meta struct {
			Info *mcp.Implementation     `json:"io.modelcontextprotocol/clientInfo"`
			Caps *mcp.ClientCapabilities `json:"io.modelcontextprotocol/clientCapabilities"`
		} `json:"_meta"`
	} `json:"params"`
}

// tidied is a request with other values in the fields that only inform and that the SDK would refuse it for: a client's name, version and
// capabilities, and _meta. Some languages write [] for an empty object. It is nil for a request that needs no change.
func tidied(body []byte) []byte {
	if json.Unmarshal(body, new(informing)) == nil {
		return nil
	}
	var m, params, meta map[string]json.RawMessage
	if json.Unmarshal(body, &m) != nil || json.Unmarshal(m["params"], &params) != nil {
		return nil
	}
	tidy := func(fields map[string]json.RawMessage, name string, form any, instead string) {
		if raw := fields[name]; raw != nil && json.Unmarshal(raw, form) != nil {
			fields[name] = json.RawMessage(instead)
		}
	}
	const unknown = `{"name":"unknown","version":"unknown"}`
	tidy(params, "clientInfo", new(mcp.Implementation), unknown)
	tidy(params, "capabilities", new(mcp.ClientCapabilities), `{}`)
	tidy(params, "_meta", &meta, `{}`)
	if meta != nil {
		tidy(meta, mcp.MetaKeyClientInfo, new(mcp.Implementation), unknown)
		tidy(meta, mcp.MetaKeyClientCapabilities, new(mcp.ClientCapabilities), `{}`)
		params["_meta"] = marshaled(meta)
	}
	m["params"] = marshaled(params)
	return marshaled(m)
}

// marshaled is a map of JSON values as JSON.
func marshaled(fields map[string]json.RawMessage) []byte {
	raw, err := json.Marshal(fields)
	if err != nil {
		panic(err) // each value was read as JSON
	}
	return raw
}

// refusal holds back an answer of status 400 in plain text.
type refusal struct {
	http.ResponseWriter
	held bool
	text bytes.Buffer
}

// Unwrap lets a ResponseController through.
func (w *refusal) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush sends what was written, unless it is held back.
func (w *refusal) Flush() {
	if !w.held {
		_ = http.NewResponseController(w.ResponseWriter).Flush() // the next write tells of a client that is gone
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *refusal) WriteHeader(status int) {
	if w.held = status == http.StatusBadRequest && strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain"); !w.held {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (w *refusal) Write(p []byte) (int, error) {
	if w.held {
		return w.text.Write(p)
	}
	return w.ResponseWriter.Write(p)
}

// send answers in JSON-RPC. A request of an unknown method is answered with status
// 200, as any request that the server took and could not serve: clients read the body then.
func (w *refusal) send(body []byte) {
	said := strings.TrimSpace(w.text.String())
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	answer := struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   jsonrpc.Error   `json:"error"`
	}{"2.0", json.RawMessage("null"), jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "invalid request: " + clipped(said)}}
	status := http.StatusBadRequest
	switch err := json.Unmarshal(body, &m); {
	case !json.Valid(body):
		answer.Error = jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "parse error: the body must be one JSON message"}
	case err != nil || !isID(m.ID): // an id that cannot be one is not repeated
	case strings.Contains(said, unknownMethod):
		status, answer.ID = http.StatusOK, m.ID
		answer.Error = jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + clipped(m.Method)}
	default:
		answer.ID = m.ID
	}
	data, err := json.Marshal(answer)
	if err != nil {
		panic(err) // texts, and an id that was read as JSON
	}
	h := w.Header()
	h.Del("Content-Length")
	h.Set("Content-Type", "application/json")
	w.ResponseWriter.WriteHeader(status)
	_, _ = w.ResponseWriter.Write(data) // a client that is gone has no use for an error
}

// unknownMethod is how the SDK begins its words about a method that it does not know.
const unknownMethod = "JSON RPC not handled"

// isID reports whether JSON may be the id of a request: a string or a number.
func isID(raw json.RawMessage) bool {
	return len(raw) > 0 && (raw[0] == '"' || raw[0] == '-' || (raw[0] >= '0' && raw[0] <= '9'))
}
