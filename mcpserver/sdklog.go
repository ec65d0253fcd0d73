package mcpserver

import (
	"context"
	"log/slog"
	"strings"
)

// sdkLog lowers what the SDK logs as an error to a warning: it means a client that breaks the
// protocol, or leaves. Only faults of the program itself stay errors.
type sdkLog struct{ slog.Handler }

// ownFaults begins those messages of the SDK that no client can cause.
var ownFaults = []string{"AddTool", "excluding ", "jsonrpc2 internal error"}

// Handle implements slog.Handler.
func (l sdkLog) Handle(ctx context.Context, r slog.Record) error {
	own := false
	for _, begin := range ownFaults {
		own = own || strings.HasPrefix(r.Message, begin)
	}
	if r.Level > slog.LevelWarn && !own {
		r.Level = slog.LevelWarn
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l sdkLog) WithAttrs(attrs []slog.Attr) slog.Handler { return sdkLog{l.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (l sdkLog) WithGroup(name string) slog.Handler { return sdkLog{l.Handler.WithGroup(name)} }
