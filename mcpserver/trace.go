package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"drawbridge/bridge"
	"drawbridge/internal/tracing"
)

// TraceRun sends the span of a run when an event says that it ended, or that its
// turn failed and nothing will complete it; the spans of its tools are below it. It
// sends the span of an action when an event says that a relay ran it.
func TraceRun(t *tracing.Tracing, e bridge.Event) {
	took, err := strconv.ParseInt(e.Fields["duration_ms"], 10, 64)
	if err != nil {
		return
	}
	status, begun := cmp.Or(e.Fields["status"], e.Fields["error"], e.Kind), e.At.Add(-time.Duration(took)*time.Millisecond)
	switch e.Kind {
	case bridge.EventCompleted, bridge.EventTurnFailed:
		t.Run(tracing.Run{Turn: string(e.Turn), Agent: string(e.Agent), Name: e.Name, Status: status, Provider: provider(e), Begun: begun, Ended: e.At,
			Failed: status != string(bridge.RunFinished), After: strings.Fields(e.Fields["after"]), Spent: spent(e)})
	case bridge.EventExecuted:
		if status == string(bridge.ActionExecuted) {
			status = ""
		}
		t.Action(tracing.Action{Turn: string(e.Turn), Agent: string(e.Agent), Name: e.Fields["action"], Kind: status, Begun: begun, Ended: e.At})
	}
}

// spent reads the tokens that the event of a run's end names; nil when it names none.
func spent(e bridge.Event) *tracing.Tokens {
	n := func(key string) int64 {
		tokens, _ := strconv.ParseInt(e.Fields[key], 10, 64) // 0 when it is not there
		return tokens
	}
	if e.Fields["input_tokens"] == "" {
		return nil
	}
	return &tracing.Tokens{Input: n("input_tokens"), Output: n("output_tokens"), CacheWrite: n("cache_write_tokens"), CacheRead: n("cache_read_tokens")}
}

// provider names who ran an agent: the Cloud Agents API gives its agents ids of its own.
func provider(e bridge.Event) string {
	if strings.HasPrefix(e.Fields["external"], "bc-") {
		return "cursor"
	}
	return "drawbridge"
}

// traced makes a span of each request that the SDK takes, except calls of our tools: those make their own.
func (d *Door) traced(o *offer) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if k, ok := req.(*mcp.CallToolRequest); ok && k.Params != nil {
				if _, ours := o.tools[k.Params.Name]; ours {
					return next(ctx, method, req)
				}
			}
			about := tracing.Request{Method: method, Caller: callersTrace(req)}
			if c := callerOf(ctx); c != nil {
				about.Agent = string(c.agent.ID)
			} else if extra := req.GetExtra(); extra != nil && extra.TokenInfo != nil {
				if c, ok := extra.TokenInfo.Extra[callerKey].(*caller); ok {
					about.Agent = string(c.agent.ID)
				}
			}
			ctx, end := d.o.Tracing.Request(ctx, about)
			result, err := next(ctx, method, req)
			end(faultOf(err))
			return result, err
		}
	}
}

// callersTrace is the client's traceparent, in the metadata of the request or else in its header.
func callersTrace(req mcp.Request) string {
	if params := req.GetParams(); params != nil && !reflect.ValueOf(params).IsNil() {
		if parent, ok := params.GetMeta()["traceparent"].(string); ok {
			return parent
		}
	}
	if extra := req.GetExtra(); extra != nil {
		return extra.Header.Get("Traceparent")
	}
	return ""
}

// faultOf is the code of JSON-RPC that an error gets, "" for none.
func faultOf(err error) string {
	if err == nil {
		return ""
	}
	if coded := (*jsonrpc.Error)(nil); errors.As(err, &coded) {
		return strconv.FormatInt(coded.Code, 10)
	}
	return "internal"
}
