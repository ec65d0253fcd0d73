package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	acp "github.com/coder/acp-go-sdk"
	"github.com/google/uuid"

	"drawbridge/openai/cursor/wire"
)

// hands run the service's own tools in the folder of a session.
type hands struct{ *session }

// deed is one thing that the service asks for.
type deed struct {
	kind  acp.ToolKind
	title string
	// input is the exact arguments, for whoever allows it.
	input map[string]any
	// path is the file or folder that it is about, "" for none.
	path string
	// never says why nobody is asked, because it cannot be done anyway; "" asks.
	never string
	// refuse is the answer of something that was not allowed.
	refuse func(reason string) *wire.ExecClientMessage
	// do does it, and returns what went wrong, "" for nothing. The first message to say decides.
	do func(ctx context.Context, say func(*wire.ExecClientMessage)) (trouble string)
}

// Env implements [cursor.Local].
func (h hands) Env() *wire.RequestContextEnv {
	return &wire.RequestContextEnv{OsVersion: runtime.GOOS, WorkspacePaths: []string{h.dir}, Shell: filepath.Base(shell()), TimeZone: zone(), ProjectFolder: h.dir}
}

func zone() string {
	if name := time.Local.String(); name != "Local" {
		return name
	}
	name, _ := time.Now().Zone()
	return name
}

// Exec implements [cursor.Local].
func (h hands) Exec(m *wire.ExecServerMessage) func(context.Context, func(*wire.ExecClientMessage)) {
	d := h.deed(m)
	if d == nil {
		return nil
	}
	return func(ctx context.Context, say func(*wire.ExecClientMessage)) { h.perform(ctx, d, say) }
}

func (h hands) deed(m *wire.ExecServerMessage) *deed {
	switch ask := m.Message.(type) {
	case *wire.ExecServerMessage_ReadArgs:
		return h.read(ask.ReadArgs, readResult)
	case *wire.ExecServerMessage_RedactedReadArgs:
		return h.read(ask.RedactedReadArgs, redactedResult)
	case *wire.ExecServerMessage_WriteArgs:
		return h.write(ask.WriteArgs)
	case *wire.ExecServerMessage_DeleteArgs:
		return h.remove(ask.DeleteArgs.GetPath())
	case *wire.ExecServerMessage_LsArgs:
		return h.list(ask.LsArgs)
	case *wire.ExecServerMessage_GrepArgs:
		return h.search(ask.GrepArgs)
	case *wire.ExecServerMessage_DiagnosticsArgs:
		return h.diagnose(ask.DiagnosticsArgs.GetPath())
	case *wire.ExecServerMessage_ShellArgs:
		return h.shell(ask.ShellArgs, outcome)
	case *wire.ExecServerMessage_ShellStreamArgs:
		return h.shell(ask.ShellStreamArgs, streamed)
	case *wire.ExecServerMessage_FetchArgs:
		return h.fetch(ask.FetchArgs.GetUrl())
	}
	return nil
}

// perform asks whether a deed is allowed, does it, and shows each step to the client.
func (h hands) perform(ctx context.Context, d *deed, say func(*wire.ExecClientMessage)) {
	id := acp.ToolCallId("call_" + uuid.NewString())
	shown := context.WithoutCancel(ctx) // what was done is shown, also when the turn ends meanwhile
	var at []acp.ToolCallLocation
	if d.path != "" {
		at = []acp.ToolCallLocation{{Path: d.path}}
	}
	h.update(shown, acp.StartToolCall(id, d.title, acp.WithStartKind(d.kind), acp.WithStartStatus(acp.ToolCallStatusPending), acp.WithStartRawInput(d.input), acp.WithStartLocations(at)))
	trouble := d.never
	if trouble == "" {
		trouble = h.ask(ctx, id, d, at)
	}
	if trouble != "" {
		say(d.refuse(trouble))
	} else {
		h.update(shown, acp.UpdateToolCall(id, acp.WithUpdateStatus(acp.ToolCallStatusInProgress)))
		trouble = d.do(ctx, say)
	}
	status := acp.ToolCallStatusCompleted
	var content []acp.ToolCallContent
	if trouble != "" {
		status, content = acp.ToolCallStatusFailed, []acp.ToolCallContent{acp.ToolContent(acp.TextBlock(trouble))}
	}
	h.update(shown, acp.UpdateToolCall(id, acp.WithUpdateStatus(status), acp.WithUpdateContent(content)))
}

// The options of each question.
const (
	optionAllow  = "allow"
	optionReject = "reject"
)

// ask has the client decide. It returns why not, "" for yes.
func (h hands) ask(ctx context.Context, id acp.ToolCallId, d *deed, at []acp.ToolCallLocation) string {
	answer, err := h.a.conn.RequestPermission(ctx, acp.RequestPermissionRequest{
		SessionId: h.id,
		ToolCall:  acp.ToolCallUpdate{ToolCallId: id, Title: &d.title, Kind: &d.kind, RawInput: d.input, Locations: at},
		Options: []acp.PermissionOption{
			{OptionId: optionAllow, Kind: acp.PermissionOptionKindAllowOnce, Name: "Allow"},
			{OptionId: optionReject, Kind: acp.PermissionOptionKindRejectOnce, Name: "Reject"},
		},
	})
	switch {
	case ctx.Err() != nil:
		return "the request was withdrawn before anybody allowed it"
	case err != nil:
		return "nobody could be asked whether this is allowed"
	case answer.Outcome.Selected == nil || answer.Outcome.Selected.OptionId != optionAllow:
		return "the user does not allow this"
	}
	return ""
}

var errOutside = errors.New("this path is outside of the folder in which this client works")

// within makes a path of the service's one below the session's folder. "." is the folder itself.
func (h hands) within(path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(h.dir, path)
	}
	for _, base := range []string{h.dir, h.real} {
		if rel, err := filepath.Rel(base, path); err == nil && filepath.IsLocal(rel) {
			return rel, nil
		}
	}
	return "", errOutside
}

// never is why nobody is asked about a path.
func (h hands) never(path string) string {
	if _, err := h.within(path); err != nil {
		return err.Error()
	}
	return ""
}

// outside reports whether an error means that a link or a ".." leads out of the folder.
func outside(err error) bool {
	return errors.Is(err, errOutside) || err != nil && strings.Contains(err.Error(), "path escapes from parent")
}

// plain is an error without the name of the call that made it.
func plain(err error) string {
	var at *os.PathError
	if errors.As(err, &at) {
		return at.Err.Error()
	}
	return err.Error()
}
