package agent

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	acp "github.com/coder/acp-go-sdk"
	"github.com/google/uuid"

	"drawbridge/openai/cursor/wire"
)

// Bounds of one answer: bytes of a file, and entries of a list.
const (
	maxFile    = 8 << 20
	maxEntries = 5000
)

func one(say func(*wire.ExecClientMessage), m *wire.ExecClientMessage, trouble string) string {
	say(m)
	return trouble
}

func readResult(r *wire.ReadResult) *wire.ExecClientMessage {
	return &wire.ExecClientMessage{Message: &wire.ExecClientMessage_ReadResult{ReadResult: r}}
}

func redactedResult(r *wire.ReadResult) *wire.ExecClientMessage {
	return &wire.ExecClientMessage{Message: &wire.ExecClientMessage_RedactedReadResult{RedactedReadResult: r}}
}

// load reads a file of the folder, and returns its bytes.
func (h hands) load(rel string) ([]byte, error) {
	f, err := h.root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not have it wait
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, syscall.EISDIR
	case !info.Mode().IsRegular():
		return nil, errors.New("this path is not a regular file")
	case info.Size() > maxFile:
		return nil, fmt.Errorf("the file has %d bytes; this client reads at most %d", info.Size(), maxFile)
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}

func (h hands) read(a *wire.ReadArgs, wrap func(*wire.ReadResult) *wire.ExecClientMessage) *deed {
	at := h.place(a.GetPath(), false)
	return &deed{
		kind: acp.ToolKindRead, title: "Read " + at.asked, input: map[string]any{"path": at.real}, at: at,
		refuse: func(why string) *wire.ExecClientMessage {
			return wrap(&wire.ReadResult{Result: &wire.ReadResult_Rejected{Rejected: &wire.PathRejected{Path: at.asked, Reason: why}}})
		},
		do: func(_ context.Context, say func(*wire.ExecClientMessage)) string {
			err := h.still(at, false)
			var data []byte
			if err == nil {
				data, err = h.load(at.rel)
			}
			r := &wire.ReadResult{}
			switch {
			case err == nil:
				r.Result = &wire.ReadResult_Success{Success: readSuccess(at.full, data, a)}
				return one(say, wrap(r), "")
			case errors.Is(err, fs.ErrNotExist):
				r.Result = &wire.ReadResult_FileNotFound{FileNotFound: &wire.Path{Path: at.full}}
			case errors.Is(err, fs.ErrPermission):
				r.Result = &wire.ReadResult_PermissionDenied{PermissionDenied: &wire.Path{Path: at.full}}
			case errors.Is(err, syscall.EISDIR):
				r.Result = &wire.ReadResult_InvalidFile{InvalidFile: &wire.PathRejected{Path: at.full, Reason: "Path is a directory, not a file"}}
			case outside(err):
				r.Result = &wire.ReadResult_Rejected{Rejected: &wire.PathRejected{Path: at.asked, Reason: errOutside.Error()}}
			default:
				r.Result = &wire.ReadResult_Error{Error: &wire.PathError{Path: at.full, Error: plain(err)}}
			}
			return one(say, wrap(r), plain(err))
		},
	}
}

func isText(data []byte) bool { return bytes.IndexByte(data, 0) < 0 && utf8.Valid(data) }

// readSuccess is a file, or the lines of it that were asked for. What is no text goes back as it is.
func readSuccess(path string, data []byte, a *wire.ReadArgs) *wire.ReadSuccess {
	done := &wire.ReadSuccess{Path: path, FileSize: int64(len(data))}
	if !isText(data) {
		done.Output = &wire.ReadSuccess_Data{Data: data}
		return done
	}
	lines := strings.Split(string(data), "\n")
	done.TotalLines = int32(len(lines))
	from, to := 0, len(lines)
	if n := int(a.GetOffset()); n > 0 && n <= len(lines) { // past the end, the vendor's client gives all of it
		from = n - 1
	} else if n < 0 {
		from = max(0, len(lines)+n)
	}
	if a.Limit != nil {
		to = int(min(int64(len(lines)), int64(from)+int64(a.GetLimit())))
	}
	done.RangeApplied = from > 0 || to < len(lines)
	done.Output = &wire.ReadSuccess_Content{Content: strings.Join(lines[from:to], "\n")}
	return done
}

func (h hands) write(a *wire.WriteArgs) *deed {
	at, never := h.place(a.GetPath(), false), ""
	data, text := []byte(a.GetFileText()), a.GetFileText()
	input := map[string]any{"path": at.real, "content": text}
	if len(a.GetFileBytes()) > 0 {
		if data = a.GetFileBytes(); text != "" && text != string(data) {
			never = "the request has both text and bytes as the content; send one of them"
		}
		if input["content"] = string(data); !isText(data) {
			input["content"] = "base64: " + base64.StdEncoding.EncodeToString(data)
		}
	}
	result := func(r *wire.WriteResult) *wire.ExecClientMessage {
		return &wire.ExecClientMessage{Message: &wire.ExecClientMessage_WriteResult{WriteResult: r}}
	}
	return &deed{
		kind: acp.ToolKindEdit, title: "Write " + at.asked, input: input, at: at, never: never,
		refuse: func(why string) *wire.ExecClientMessage {
			return result(&wire.WriteResult{Result: &wire.WriteResult_Rejected{Rejected: &wire.PathRejected{Path: at.asked, Reason: why}}})
		},
		do: func(_ context.Context, say func(*wire.ExecClientMessage)) string {
			err := h.still(at, false)
			if err == nil {
				err = h.save(at.rel, data)
			}
			r := &wire.WriteResult{}
			switch {
			case err == nil:
				done := &wire.WriteSuccess{Path: at.full, FileSize: int32(len(data))}
				if len(a.GetFileBytes()) == 0 {
					done.LinesCreated = int32(strings.Count(text, "\n") + 1)
				}
				if a.GetReturnFileContentAfterWrite() {
					done.FileContentAfterWrite = &text
				}
				return one(say, result(&wire.WriteResult{Result: &wire.WriteResult_Success{Success: done}}), "")
			case errors.Is(err, fs.ErrPermission):
				r.Result = &wire.WriteResult_PermissionDenied{PermissionDenied: &wire.WriteDenied{Path: at.full, Directory: filepath.Dir(at.full), Operation: "write", Error: plain(err)}}
			case errors.Is(err, syscall.ENOSPC):
				r.Result = &wire.WriteResult_NoSpace{NoSpace: &wire.Path{Path: at.full}}
			case outside(err):
				r.Result = &wire.WriteResult_Rejected{Rejected: &wire.PathRejected{Path: at.asked, Reason: errOutside.Error()}}
			default:
				r.Result = &wire.WriteResult_Error{Error: &wire.PathError{Path: at.full, Error: plain(err)}}
			}
			return one(say, result(r), plain(err))
		},
	}
}

// save replaces a file by a new one, so that nobody reads half of it.
func (h hands) save(rel string, data []byte) error {
	mode := fs.FileMode(0o644)
	info, err := h.root.Lstat(rel)
	switch {
	case err == nil && info.IsDir():
		return syscall.EISDIR
	case err == nil && !info.Mode().IsRegular():
		return errors.New("this path is not a regular file")
	case err == nil && info.Mode()&0o200 == 0:
		return &fs.PathError{Op: "write", Path: rel, Err: fs.ErrPermission}
	case err == nil:
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := h.root.MkdirAll(filepath.Dir(rel), 0o755); err != nil {
		return err
	}
	fresh := filepath.Join(filepath.Dir(rel), ".drawbridge-"+uuid.NewString())
	made := h.root.WriteFile(fresh, data, mode)
	if made == nil && info != nil {
		made = h.root.Chmod(fresh, mode) // the process's mask does not count for a file that was there
	}
	if made == nil {
		made = h.root.Rename(fresh, rel)
	}
	if made != nil {
		return errors.Join(made, h.drop(fresh))
	}
	return nil
}

// drop removes what was begun and cannot be finished.
func (h hands) drop(rel string) error {
	if err := h.root.Remove(rel); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (h hands) remove(path string) *deed {
	at := h.place(path, true)
	result := func(r *wire.DeleteResult) *wire.ExecClientMessage {
		return &wire.ExecClientMessage{Message: &wire.ExecClientMessage_DeleteResult{DeleteResult: r}}
	}
	return &deed{
		kind: acp.ToolKindDelete, title: "Delete " + at.asked, input: map[string]any{"path": at.real}, at: at,
		refuse: func(why string) *wire.ExecClientMessage {
			return result(&wire.DeleteResult{Result: &wire.DeleteResult_Rejected{Rejected: &wire.PathRejected{Path: at.asked, Reason: why}}})
		},
		do: func(_ context.Context, say func(*wire.ExecClientMessage)) string {
			was, size, err := h.unlink(at)
			r := &wire.DeleteResult{}
			switch {
			case err == nil:
				done := &wire.DeleteSuccess{Path: at.full, DeletedFile: at.full, FileSize: size, PrevContent: was}
				return one(say, result(&wire.DeleteResult{Result: &wire.DeleteResult_Success{Success: done}}), "")
			case errors.Is(err, fs.ErrNotExist):
				r.Result = &wire.DeleteResult_FileNotFound{FileNotFound: &wire.Path{Path: at.full}}
			case errors.Is(err, syscall.EISDIR):
				r.Result = &wire.DeleteResult_NotFile{NotFile: &wire.NotFile{Path: at.full, ActualType: "directory"}}
			case errors.Is(err, fs.ErrPermission):
				r.Result = &wire.DeleteResult_PermissionDenied{PermissionDenied: &wire.PathError{Path: at.full, Error: plain(err)}}
			case outside(err):
				r.Result = &wire.DeleteResult_Rejected{Rejected: &wire.PathRejected{Path: at.asked, Reason: errOutside.Error()}}
			default:
				r.Result = &wire.DeleteResult_Error{Error: &wire.PathError{Path: at.full, Error: plain(err)}}
			}
			return one(say, result(r), plain(err))
		},
	}
}

// unlink removes one file, and returns what was in it where that is text that fits an answer. Of a link, it removes the link.
func (h hands) unlink(at *place) (was string, size int64, err error) {
	if err := h.still(at, true); err != nil {
		return "", 0, err
	}
	info, err := h.root.Lstat(at.rel)
	if err != nil {
		return "", 0, err
	}
	if info.IsDir() {
		return "", 0, syscall.EISDIR
	}
	if info.Mode().IsRegular() {
		size = info.Size()
		if data, err := h.load(at.rel); err == nil && utf8.Valid(data) {
			was = string(data)
		}
	}
	return was, size, h.root.Remove(at.rel)
}

func (h hands) diagnose(path string) *deed {
	at := h.place(path, false)
	result := func(r *wire.DiagnosticsResult) *wire.ExecClientMessage {
		return &wire.ExecClientMessage{Message: &wire.ExecClientMessage_DiagnosticsResult{DiagnosticsResult: r}}
	}
	reject := func(why string) *wire.ExecClientMessage {
		return result(&wire.DiagnosticsResult{Result: &wire.DiagnosticsResult_Rejected{Rejected: &wire.PathRejected{Path: at.asked, Reason: why}}})
	}
	return &deed{
		kind: acp.ToolKindRead, title: "Diagnostics of " + at.asked, input: map[string]any{"path": at.real}, at: at, refuse: reject,
		do: func(_ context.Context, say func(*wire.ExecClientMessage)) string {
			err := h.still(at, false)
			if err == nil {
				_, err = h.root.Stat(at.rel)
			}
			switch {
			case err == nil: // no language server runs here, so that there is nothing to say
				return one(say, result(&wire.DiagnosticsResult{Result: &wire.DiagnosticsResult_Success{Success: &wire.DiagnosticsSuccess{Path: at.full}}}), "")
			case errors.Is(err, fs.ErrNotExist):
				return one(say, result(&wire.DiagnosticsResult{Result: &wire.DiagnosticsResult_FileNotFound{FileNotFound: &wire.Path{Path: at.full}}}), plain(err))
			case outside(err):
				return one(say, reject(errOutside.Error()), plain(err))
			}
			return one(say, reject(plain(err)), plain(err))
		},
	}
}

func (h hands) list(a *wire.LsArgs) *deed {
	at := h.place(a.GetPath(), false)
	result := func(r *wire.LsResult) *wire.ExecClientMessage {
		return &wire.ExecClientMessage{Message: &wire.ExecClientMessage_LsResult{LsResult: r}}
	}
	reject := func(why string) *wire.ExecClientMessage {
		return result(&wire.LsResult{Result: &wire.LsResult_Rejected{Rejected: &wire.PathRejected{Path: at.asked, Reason: why}}})
	}
	return &deed{
		kind: acp.ToolKindRead, title: "List " + at.asked, input: map[string]any{"path": at.real}, at: at, refuse: reject,
		do: func(ctx context.Context, say func(*wire.ExecClientMessage)) string {
			t := tree{hands: h, ctx: ctx, left: maxEntries}
			err := t.begin(at, a.GetIgnore())
			switch {
			case err == nil:
				return one(say, result(&wire.LsResult{Result: &wire.LsResult_Success{Success: &wire.LsSuccess{DirectoryTreeRoot: t.root}}}), "")
			case outside(err):
				return one(say, reject(errOutside.Error()), plain(err))
			}
			why := plain(err)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				why = "Path does not exist: " + at.full
			case errors.Is(err, syscall.ENOTDIR):
				why = "Path is not a directory: " + at.full
			}
			return one(say, result(&wire.LsResult{Result: &wire.LsResult_Error{Error: &wire.PathError{Path: at.full, Error: why}}}), why)
		},
	}
}

// rulesOf reads the .gitignore of a folder.
func (h hands) rulesOf(dir string) ([]byte, error) { return h.load(path.Join(dir, ".gitignore")) }

// tree makes the tree of a folder. A folder for which no room is left is there, and not processed.
type tree struct {
	hands
	ctx  context.Context //nolint:containedctx // of one list
	root *wire.LsNode
	// asked are the patterns that the service leaves out.
	asked []glob
	left  int
}

func (t *tree) begin(at *place, patterns []string) error {
	err := t.still(at, false)
	if err != nil {
		return err
	}
	if t.asked, err = newGlobs(patterns); err != nil {
		return err
	}
	info, err := t.hands.root.Stat(at.rel)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return syscall.ENOTDIR
	}
	t.root, err = t.node(filepath.ToSlash(at.rel), at.full, above(t.rulesOf, filepath.ToSlash(at.rel)))
	return err
}

func (t *tree) node(rel, full string, l ignores) (*wire.LsNode, error) {
	out := &wire.LsNode{AbsPath: full}
	entries, err := fs.ReadDir(t.hands.root.FS(), rel)
	if err != nil {
		return nil, err
	}
	if t.left <= 0 || t.ctx.Err() != nil {
		return out, nil
	}
	out.ChildrenWereProcessed = len(entries) <= t.left
	entries = entries[:min(len(entries), t.left)]
	t.left -= len(entries)
	l = l.enter(t.rulesOf, rel)
	for _, e := range entries {
		below := path.Join(rel, e.Name())
		switch {
		case matchAny(t.asked, below) || l.has(below, e.IsDir()):
		case e.Type().IsRegular():
			out.ChildrenFiles = append(out.ChildrenFiles, &wire.LsFile{Name: e.Name()})
		case e.IsDir() && e.Name() != ".git":
			child, err := t.node(below, filepath.Join(full, e.Name()), l)
			if err != nil {
				child = &wire.LsNode{AbsPath: filepath.Join(full, e.Name())} // not to be read, but there
			}
			if len(t.asked) == 0 || !child.ChildrenWereProcessed || len(child.ChildrenDirs)+len(child.ChildrenFiles) > 0 {
				out.ChildrenDirs = append(out.ChildrenDirs, child)
			}
		}
	}
	return out, nil
}
