package mail

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"mime"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// partPrefix begins the names of folders whose copy is not whole yet.
const partPrefix = ".part-"

// maxDescription bounds what a sender says about a file, in bytes.
const maxDescription = 4 << 10

// FilePath is where, at the bridge's door, the two agents of a transfer fetch the file.
func FilePath(id bridge.FileID) string { return "/mcp/files/" + string(id) }

// Transfer copies a file, out of the sender's workspace or from d.Content, and tells the recipient,
// who must be within the reach of SendTo, how to fetch it. The copy is on disk
// before the message is; when anything fails, nothing is left of it. It counts
// as a message.
func (s *Service) Transfer(ctx context.Context, from bridge.AgentID, d FileDraft) (bridge.File, bridge.Message, error) {
	f, m, err := s.handedOver(ctx, from)
	if err != nil || f.ID != "" {
		return f, m, err
	}
	sender, err := s.mayTransfer(ctx, from, d)
	if err != nil {
		return bridge.File{}, bridge.Message{}, err
	}
	done, err := s.place(ctx, sender, d)
	if err != nil {
		return bridge.File{}, bridge.Message{}, err
	}
	defer done()
	if f, err = s.copyIn(ctx, sender, d); err != nil {
		return bridge.File{}, bridge.Message{}, err
	}
	if m, err = s.handOver(ctx, &f, d); err != nil || m.ID == "" {
		err = errors.Join(err, os.RemoveAll(filepath.Dir(f.Path)))
	}
	switch {
	case err != nil:
		return bridge.File{}, bridge.Message{}, err
	case m.ID == "": // the same request ran beside this one
		return s.handedOver(ctx, from)
	}
	return f, m, nil
}

// handedOver returns what the same request handed over before, the zero File for nothing.
func (s *Service) handedOver(ctx context.Context, from bridge.AgentID) (f bridge.File, m bridge.Message, err error) {
	if s.once.Key == "" {
		return f, m, nil
	}
	err = s.o.Steps.View(ctx, func(tx *bridge.Scene) error {
		id, err := s.once.Earlier(tx, from)
		if err != nil || id == "" {
			return err
		}
		if m, err = tx.Message(bridge.MessageID(id)); err != nil || len(m.Files) == 0 {
			return err
		}
		f, err = tx.File(m.Files[0].ID)
		return err
	})
	return f, m, noRow(err, bridge.Errorf(bridge.NotFound, "the file that you sent with this idempotency_key was deleted; send it again with another key"))
}

// mayTransfer refuses what cannot be delivered before anything is copied.
func (s *Service) mayTransfer(ctx context.Context, from bridge.AgentID, d FileDraft) (sender bridge.Agent, err error) {
	if s.o.Files == "" {
		return sender, bridge.Errorf(bridge.Denied, "this bridge takes no files; send the text in a message")
	}
	if len(d.Description) > maxDescription {
		return sender, bridge.Errorf(bridge.TooLarge, "the description has %d bytes; at most %d are allowed", len(d.Description), maxDescription)
	}
	if d.Description != "" {
		if err := checkText(d.Description); err != nil {
			return sender, err
		}
	}
	err = s.write(ctx, from, func(p *post) error {
		sender = p.from
		to, err := p.within(d.To)
		if err != nil {
			return err
		}
		if err := p.fileRoom(1); err != nil {
			return err
		}
		return p.pairLimit(to)
	})
	return sender, err
}

// maxShown bounds the text of a file that stands in the message about it, in bytes.
const maxShown = 16 << 10

// shortText returns what a file holds, if that is a text that can stand in a message.
func shortText(f bridge.File) (text string, short bool) {
	if f.Size > maxShown {
		return "", false
	}
	data, err := os.ReadFile(f.Path)
	return string(data), err == nil && (len(data) == 0 || checkText(string(data)) == nil)
}

// handOver records the file and tells the recipient. It returns the zero Message if the same request did so before.
func (s *Service) handOver(ctx context.Context, f *bridge.File, d FileDraft) (bridge.Message, error) {
	var m bridge.Message
	shown, short := shortText(*f)
	err := s.write(ctx, f.From, func(p *post) error {
		m = bridge.Message{}
		if id, err := s.once.Earlier(p.Scene, f.From); err != nil || id != "" {
			return err
		}
		to, err := p.within(d.To)
		if err != nil {
			return err
		}
		if err := p.fileRoom(f.Size); err != nil {
			return err
		}
		if err := p.pairLimit(to); err != nil {
			return err
		}
		// Name and description are the sender's words.
		text := fmt.Sprintf("%s, %s, sha256 %s\n%s", f.Name, words.Count(f.Size, "byte"), f.SHA256, d.Description)
		how := words.Say("fetch it with GET %s at the address of your MCP server, with your token:", FilePath(f.ID))
		switch tokenless := s.o.Tokenless != nil && s.o.Tokenless(to.Runtime); {
		case tokenless && short:
			text, how = strings.TrimRight(text, "\n")+"\n\n"+shown, "you have no token to fetch it with, so here is its text:"
		case tokenless:
			how = words.Say("you have no token to fetch it with, and it is not a text of at most %d bytes; ask the sender to commit it, or to send you the part that you need:", maxShown)
		}
		m = p.message(bridge.MailDirect, strings.TrimRight(text, "\n"))
		m.To, m.Files = []bridge.AgentID{to.ID}, []bridge.Attachment{{ID: f.ID, Type: typeOf(f.Name), Name: f.Name, Size: f.Size}}
		f.Message, f.To, f.CreatedAt = m.ID, to.ID, p.Now()
		if err := p.InsertFile(*f); err != nil {
			return err
		}
		if _, err = p.deliver(m, words.Say("%s sent you file %s (message %s); %s", m.FromName, f.ID, m.ID, how), []target{{agent: to, loud: true, direct: true}}); err != nil {
			return err
		}
		return s.once.Keep(p.Scene, f.From, string(m.ID), p.Now())
	})
	return m, err
}

func typeOf(name string) string {
	return or(mime.TypeByExtension(filepath.Ext(name)), "application/octet-stream")
}

// checkFileName returns an Invalid error unless a name is one element of a path
// that shows as itself.
func checkFileName(name string) error {
	if name == "" || len(name) > 255 || name == "." || name == ".." || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r == '\\' || !unicode.IsPrint(r) }) {
		return bridge.Errorf(bridge.Invalid, "file name %+.80q: use one name of at most 255 bytes, without slashes and control characters", name)
	}
	return nil
}

// copyIn copies a file out of a workspace into a folder of its own.
func (s *Service) copyIn(ctx context.Context, sender bridge.Agent, d FileDraft) (f bridge.File, err error) {
	src, name, err := s.source(sender, d)
	if err != nil {
		return f, err
	}
	defer src.Close()
	f = bridge.File{ID: bridge.FileID(s.o.NewID("fil_")), From: sender.ID, Name: or(d.Name, name), Description: d.Description}
	if err := checkFileName(f.Name); err != nil {
		return f, err
	}
	part, whole := filepath.Join(s.o.Files, partPrefix+string(f.ID)), filepath.Join(s.o.Files, string(f.ID))
	if err := os.MkdirAll(part, 0o700); err != nil {
		return f, fmt.Errorf("make folder for file: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(part))
		}
	}()
	if f.Size, f.SHA256, err = s.copyFile(ctx, filepath.Join(part, f.Name), src); err != nil {
		return f, err
	}
	if err := errors.Join(syncDir(part), os.Rename(part, whole), syncDir(s.o.Files)); err != nil {
		return f, fmt.Errorf("keep file: %w", errors.Join(err, os.RemoveAll(whole)))
	}
	f.Path, err = filepath.Abs(filepath.Join(whole, f.Name))
	return f, err
}

// source is what the sender sends, and the name that it has there.
func (s *Service) source(sender bridge.Agent, d FileDraft) (io.ReadCloser, string, error) {
	if d.Content != nil {
		return io.NopCloser(d.Content), filepath.Base(filepath.ToSlash(d.Source)), nil
	}
	return s.openSource(sender, d.Source)
}

// openSource opens a regular file inside the sender's workspace. The folder is
// the root of everything that is looked at: neither dots nor links lead out of
// it. Not waiting for the other end of a FIFO, and looking again at what was
// opened, keeps a file that is swapped meanwhile from holding anyone up.
func (s *Service) openSource(sender bridge.Agent, source string) (*os.File, string, error) {
	folder := s.o.Workspace(sender)
	if folder == "" {
		return nil, "", bridge.Errorf(bridge.Denied, "agent %s has no workspace on the bridge's machine to send files from; give the file itself as content or content_base64, or upload it with PUT /mcp/files?recipient_id=ID&name=NAME", sender.Name)
	}
	rel := source
	if filepath.IsAbs(source) {
		var err error
		if rel, err = filepath.Rel(folder, source); err != nil {
			rel = ".."
		}
	}
	if !filepath.IsLocal(rel) {
		return nil, "", bridge.Errorf(bridge.Denied, "%+.200q is not inside your workspace; copy the file there first", source)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, "", fmt.Errorf("open workspace of %q: %w", sender.ID, err)
	}
	defer root.Close()
	info, err := root.Stat(rel)
	if err == nil {
		err = s.checkSource(source, info)
	}
	if err != nil {
		return nil, "", sourceTrouble(source, err)
	}
	f, err := root.OpenFile(rel, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, "", sourceTrouble(source, err)
	}
	if err := s.checkOpened(root, rel, source, f); err != nil {
		return nil, "", errors.Join(sourceTrouble(source, err), f.Close())
	}
	return f, filepath.Base(rel), nil
}

// checkOpened looks at what was opened by its name once more: only while the
// name leads to it does one link mean that it stands nowhere else.
func (s *Service) checkOpened(root *os.Root, rel, source string, f *os.File) error {
	opened, err := f.Stat()
	if err != nil {
		return err
	}
	named, err := root.Stat(rel)
	if err != nil {
		return err
	}
	if !os.SameFile(opened, named) {
		return bridge.Errorf(bridge.Conflict, "%+.200q was replaced while it was opened; send it again", source)
	}
	return s.checkSource(source, named)
}

func (s *Service) checkSource(source string, info fs.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return bridge.Errorf(bridge.Denied, "%+.200q is not a regular file; pack a folder into an archive first", source)
	case links(info) > 1:
		// Its other name may stand anywhere on the disk, where no os.Root can see it.
		return bridge.Errorf(bridge.Denied, "%+.200q has other names (hard links), so the bridge cannot tell whether it belongs to your workspace; send a copy", source)
	case info.Size() > s.o.MaxFile:
		return bridge.Errorf(bridge.TooLarge, "%+.200q has %d bytes; at most %d are allowed; send a part of it", source, info.Size(), s.o.MaxFile)
	}
	return nil
}

// links counts the names of a file.
func links(info fs.FileInfo) uint64 {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return math.MaxUint64 // none of a file system's
	}
	return uint64(stat.Nlink) //nolint:unconvert // narrower on some platforms
}

// sourceTrouble tells the sender what is wrong with its file, and nothing of
// what stands outside of its workspace.
func sourceTrouble(source string, err error) error {
	switch {
	case bridge.KindOf(err) != "":
		return err
	case errors.Is(err, fs.ErrNotExist):
		return bridge.Errorf(bridge.NotFound, "there is no file %+.200q in your workspace", source)
	}
	return &bridge.Error{Kind: bridge.Denied, Message: fmt.Sprintf("%+.200q leads out of your workspace, or you may not read it; copy the file into your workspace", source), Cause: err}
}

// copyFile writes a new file that is on disk when it returns, and no more than the limit.
func (s *Service) copyFile(ctx context.Context, path string, src io.Reader) (size int64, sum string, err error) {
	dst, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, "", fmt.Errorf("create file: %w", err)
	}
	defer func() {
		if e := dst.Close(); e != nil && err == nil {
			err = fmt.Errorf("close file: %w", e)
		}
	}()
	hash := sha256.New()
	size, err = io.Copy(io.MultiWriter(dst, hash), io.LimitReader(untilDone{ctx, src}, s.o.MaxFile+1))
	if err != nil {
		return 0, "", fmt.Errorf("copy file: %w", err)
	}
	if size > s.o.MaxFile {
		return 0, "", bridge.Errorf(bridge.TooLarge, "the file has more than %d bytes, which is the limit; send a part of it, or send it when it is complete", s.o.MaxFile)
	}
	if err := dst.Sync(); err != nil {
		return 0, "", fmt.Errorf("sync file: %w", err)
	}
	return size, hex.EncodeToString(hash.Sum(nil)), nil
}

// untilDone reads until its context ends.
type untilDone struct {
	ctx context.Context //nolint:containedctx // it lives exactly as long as the copy
	r   io.Reader
}

// Read implements io.Reader.
func (u untilDone) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}

// syncDir makes the names in a folder durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// OpenFile opens a file that the agent sent or got; bridge.User may open all. An agent
// has at most 16 open at a time; then the error is RateLimited. The caller closes it.
func (s *Service) OpenFile(ctx context.Context, agent bridge.AgentID, id bridge.FileID) (io.ReadCloser, bridge.File, error) {
	var f bridge.File
	err := s.o.Steps.View(ctx, func(tx *bridge.Scene) (err error) {
		f, err = tx.File(id)
		if err == nil && agent != bridge.User && agent != f.From && agent != f.To {
			err = bridge.ErrNoRow
		}
		return err
	})
	if err != nil {
		return nil, bridge.File{}, noRow(err, bridge.Errorf(bridge.NotFound, "there is no file %+.60q that you may read", id))
	}
	r, err := s.openCopy(agent, f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, bridge.File{}, bridge.Errorf(bridge.NotFound, "file %s is not in the bridge's folder any more; ask %s to send it again", f.ID, f.From)
	}
	if err != nil {
		return nil, bridge.File{}, fmt.Errorf("open file %q: %w", f.ID, err)
	}
	return r, f, nil
}

// openCopy opens a file for a reader who may be slow, and counts it until it is closed.
func (s *Service) openCopy(agent bridge.AgentID, path string) (io.ReadCloser, error) {
	if agent == bridge.User {
		return os.Open(path)
	}
	done, err := s.shares.read(agent)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		done()
		return nil, err
	}
	return &counted{File: f, done: sync.OnceFunc(done)}, nil
}

// counted is an open file that gives its place back when it is closed.
type counted struct {
	*os.File
	done func()
}

// Close implements io.Closer. Twice is fine.
func (c *counted) Close() error {
	defer c.done()
	return c.File.Close()
}

// DeleteFile takes a file away for the operator: its copy, and its name from the
// message that told of it. NotFound when there is none.
func (s *Service) DeleteFile(ctx context.Context, id bridge.FileID) error {
	var f bridge.File
	err := s.change(ctx, bridge.User, func(p *post) (err error) {
		if f, err = p.File(id); err != nil {
			return noRow(err, bridge.Errorf(bridge.NotFound, "there is no file %+.60q", id))
		}
		if _, err := p.DropFile(id); err != nil {
			return err
		}
		m, err := p.Message(f.Message)
		if err != nil {
			return err
		}
		m.Files = slices.DeleteFunc(slices.Clone(m.Files), func(a bridge.Attachment) bool { return a.ID == id })
		m.EditedAt = p.Now()
		if err := p.UpdateMessage(m); err != nil {
			return err
		}
		return p.tell(bridge.EventMessageUpdated, m)
	})
	if err != nil {
		return err
	}
	// A copy that cannot be removed now is a leftover that Sweep takes away.
	if folder := filepath.Dir(f.Path); filepath.Base(folder) == string(id) {
		if err := os.RemoveAll(folder); err != nil {
			return fmt.Errorf("remove copy of file %q: %w", id, err)
		}
	}
	return nil
}

// sweepAge is how old what nobody knows must be before it is taken away; a copy
// that is being made is younger.
const sweepAge = time.Hour

// Sweep removes what a crash left of copies that no message names, and returns
// how many there were. It may run at any time, beside others.
func (s *Service) Sweep(ctx context.Context, now time.Time) (removed int, err error) {
	if s.o.Files == "" {
		return 0, nil
	}
	entries, err := os.ReadDir(s.o.Files)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read files folder: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || now.Sub(info.ModTime()) < sweepAge {
			continue
		}
		known, err := s.knows(ctx, e.Name())
		if err != nil {
			return removed, err
		}
		if known {
			continue
		}
		if err := os.RemoveAll(filepath.Join(s.o.Files, e.Name())); err != nil {
			return removed, fmt.Errorf("remove leftover: %w", err)
		}
		removed++
	}
	return removed, nil
}

// knows reports whether a folder is to be kept: it is a file's, or none of ours.
func (s *Service) knows(ctx context.Context, folder string) (bool, error) {
	if strings.HasPrefix(folder, partPrefix) {
		return false, nil
	}
	if !strings.HasPrefix(folder, "fil_") {
		return true, nil
	}
	err := s.o.Steps.View(ctx, func(tx *bridge.Scene) error {
		_, err := tx.File(bridge.FileID(folder))
		return err
	})
	if errors.Is(err, bridge.ErrNoRow) {
		return false, nil
	}
	return true, err
}
