//go:build conformance

//lint:file-ignore SA1019 the suite calls what newer versions of the protocol have deprecated

package mcp

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The schemas of what the rounds ask.
const (
	askName    = `{"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}`
	askColor   = `{"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}`
	askOK      = `{"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}`
	askContext = `{"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}`
)

// stateKey signs the state that a client carries between two rounds; it lives as
// long as the process.
var stateKey = []byte(rand.Text())

func seal(state string) string {
	mac := hmac.New(sha256.New, stateKey)
	mac.Write([]byte(state))
	return state + "." + hex.EncodeToString(mac.Sum(nil))
}

// open returns a sealed state, or the error for one that is not ours.
func open(sealed string) (string, error) {
	state, _, _ := strings.Cut(sealed, ".")
	if !hmac.Equal([]byte(seal(state)), []byte(sealed)) {
		return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "this requestState is not one that this server gave"}
	}
	return state, nil
}

// addRounds adds the tools that need several rounds (SEP-2322).
func addRounds(s *mcp.Server) {
	for name, h := range map[string]handler{
		"elicitation": greet, "sampling": capital, "list_roots": countRoots, "multiple_inputs": everything,
		"request_state": confirmed, "tampered_state": confirmed, "multi_round": twoRounds, "capabilities": whatYouCan,
	} {
		add(s, "test_input_required_result_"+name, "Needs more than one round.", h)
	}
}

func greet(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if name := word(r.Params.InputResponses, "user_name", "name"); name != "" {
		return said("Hello, " + name + "!")
	}
	return asks("", mcp.InputRequestMap{"user_name": form("What is your name?", askName)})
}

func capital(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if got, ok := sampled(r.Params.InputResponses, "capital_question"); ok {
		return said(got)
	}
	return asks("", mcp.InputRequestMap{"capital_question": sample("What is the capital of France?", 100)})
}

func countRoots(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if got, ok := roots(r.Params.InputResponses, "client_roots"); ok {
		return said(fmt.Sprintf("%d roots: %s", len(got), strings.Join(got, ", ")))
	}
	return asks("", mcp.InputRequestMap{"client_roots": &mcp.ListRootsParams{}})
}

// everything asks three things at a time and asks again while one is missing.
func everything(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	answers := r.Params.InputResponses
	name := word(answers, "user_name", "name")
	greeting, greeted := sampled(answers, "greeting")
	list, rooted := roots(answers, "client_roots")
	if name != "" && greeted && rooted {
		if _, err := open(r.Params.RequestState); err != nil {
			return nil, err
		}
		return said(fmt.Sprintf("%s, %s, of %d roots", greeting, name, len(list)))
	}
	return asks(seal("three"), mcp.InputRequestMap{
		"user_name": form("What is your name?", askName), "greeting": sample("Generate a greeting", 50), "client_roots": &mcp.ListRootsParams{},
	})
}

// confirmed takes an answer only together with the state that it gave.
func confirmed(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if r.Params.RequestState != "" {
		if _, err := open(r.Params.RequestState); err != nil {
			return nil, err
		}
		if _, ok := filled(r.Params.InputResponses, "confirm"); ok {
			return said("state-ok")
		}
	}
	return asks(seal("asked"), mcp.InputRequestMap{"confirm": form("Please confirm", askOK)})
}

// twoRounds keeps what it knows in the state alone.
func twoRounds(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if r.Params.RequestState == "" {
		return asks(seal("first"), mcp.InputRequestMap{"step1": form("Step 1: What is your name?", askName)})
	}
	state, err := open(r.Params.RequestState)
	if err != nil {
		return nil, err
	}
	name, second := strings.CutPrefix(state, "second:")
	if !second {
		return asks(seal("second:"+word(r.Params.InputResponses, "step1", "name")), mcp.InputRequestMap{"step2": form("Step 2: What is your favorite color?", askColor)})
	}
	return said(name + " likes " + word(r.Params.InputResponses, "step2", "color"))
}

// whatYouCan asks only for what the client says it can do.
func whatYouCan(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if len(r.Params.InputResponses) > 0 {
		return said("answered")
	}
	questions := mcp.InputRequestMap{}
	if c := r.ClientCapabilities(); c != nil {
		if c.Elicitation != nil {
			questions["user_name"] = form("What is your name?", askName)
		}
		if c.Sampling != nil {
			questions["greeting"] = sample("Generate a greeting", 50)
		}
		if c.RootsV2 != nil {
			questions["client_roots"] = &mcp.ListRootsParams{}
		}
	}
	if len(questions) == 0 {
		return said("there is nothing that I could ask you")
	}
	return asks("", questions)
}
