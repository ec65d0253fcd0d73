package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	// at is the file or folder that it is about; nil for none.
	at *place
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
	if d.at != nil {
		at = []acp.ToolCallLocation{{Path: d.at.real}}
	}
	begun := []acp.ToolCallStartOpt{acp.WithStartKind(d.kind), acp.WithStartStatus(acp.ToolCallStatusPending), acp.WithStartLocations(at)}
	size := len(object(d.input))
	if size <= maxShown {
		begun = append(begun, acp.WithStartRawInput(d.input))
	}
	h.update(shown, acp.StartToolCall(id, d.title, begun...))
	trouble := d.never
	switch {
	case trouble != "":
	case d.at != nil && d.at.never != "":
		trouble = d.at.never
	case size > maxQuestion:
		trouble = fmt.Sprintf("the call has %d bytes, and the client can show the user at most %d at once; do it in smaller pieces", size, maxQuestion)
	default:
		trouble = h.ask(ctx, id, d, at)
	}
	if trouble != "" {
		say(d.refuse(trouble))
	} else {
		h.update(shown, acp.UpdateToolCall(id, acp.WithUpdateStatus(acp.ToolCallStatusInProgress)))
		trouble = d.do(ctx, say)
		h.note(d.title, trouble)
	}
	status := acp.ToolCallStatusCompleted
	var content []acp.ToolCallContent
	if trouble != "" {
		status, content = acp.ToolCallStatusFailed, []acp.ToolCallContent{acp.ToolContent(acp.TextBlock(trouble))}
	}
	h.update(shown, acp.UpdateToolCall(id, acp.WithUpdateStatus(status), acp.WithUpdateContent(content)))
}

// Bounds of what the client is shown, in bytes: arguments of a call, and those of a question. A message of the protocol has room for the second.
const (
	maxShown    = 64 << 10
	maxQuestion = 1 << 20
)

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
		return "the request was withdrawn before the user allowed it"
	case err != nil:
		return "the client could not ask the user whether this is allowed"
	case answer.Outcome.Selected == nil || answer.Outcome.Selected.OptionId != optionAllow:
		return "the user does not allow this"
	}
	return ""
}

// place is a file or folder that the service names.
type place struct {
	// asked is the path as the service wrote it, and full the same as an absolute one.
	asked, full string
	// rel is the path below the folder of the session, and real the absolute one, both without links.
	rel, real string
	// never says why nothing is done there; "" for nothing.
	never string
}

var (
	errOutside = errors.New("this path is outside of the folder in which this client works")
	errMoved   = errors.New("this path no longer leads to the place that the user allowed")
	errNowhere = errors.New("this path goes through a link whose target does not exist")
)

// place finds where a path leads. Of a link itself, it is the place of the link.
func (h hands) place(path string, itself bool) *place {
	p := &place{asked: path, full: h.full(path)}
	rel, err := h.within(p.full)
	if err == nil {
		if p.rel, err = h.resolve(rel, itself); err != nil && !outside(err) && !errors.Is(err, errNowhere) {
			p.rel, err = rel, nil // what is wrong with it, the deed itself says in its form
		}
	}
	if err != nil {
		p.never = plain(err)
	}
	p.real = filepath.Join(h.dir, p.rel)
	return p
}

// full is a path as the service reads it back.
func (h hands) full(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(h.dir, path)
}

// within makes an absolute path one below the session's folder. "." is the folder itself.
func (h hands) within(full string) (string, error) {
	for _, base := range []string{h.dir, h.real} {
		if rel, err := filepath.Rel(base, full); err == nil && filepath.IsLocal(rel) {
			return rel, nil
		}
	}
	return "", errOutside
}

// resolve follows the links on the way to a path, as far as it is there.
func (h hands) resolve(rel string, itself bool) (string, error) {
	if rel == "." {
		return rel, nil
	}
	at, rest := filepath.Join(h.real, rel), ""
	if itself {
		at, rest = filepath.Dir(at), filepath.Base(at)
	}
	for {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			return h.within(filepath.Join(real, rest))
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if _, err := os.Lstat(at); err == nil {
			return "", errNowhere
		}
		at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest)
	}
}

// still is an error where a place is not any more where it was. What happens behind this look, only a sandbox can prevent.
func (h hands) still(p *place, itself bool) error {
	if p.never != "" {
		return errors.New(p.never)
	}
	now, err := h.resolve(p.rel, itself)
	if err == nil && now != p.rel {
		return errMoved
	}
	return err
}

// outside reports whether an error means that a link or a ".." leads out of the folder.
func outside(err error) bool {
	return errors.Is(err, errOutside) || errors.Is(err, errMoved) || err != nil && strings.Contains(err.Error(), "path escapes from parent")
}

// plain is an error without the name of the call that made it.
func plain(err error) string {
	var at *os.PathError
	if errors.As(err, &at) {
		return at.Err.Error()
	}
	return err.Error()
}
