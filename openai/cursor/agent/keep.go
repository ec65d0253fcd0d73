package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	acp "github.com/coder/acp-go-sdk"

	"drawbridge/openai/upstream"
)

// keep is a session on the disk: what was said, one JSON object a line, and beside it what the service keeps with the session.
type keep struct{ dir string }

// said is one message.
type said struct {
	Role string `json:"role"`
	Text string `json:"text"`
	// Turn is the turn whose whole answer this is.
	Turn string `json:"turn,omitempty"`
}

const saidFile = "said.jsonl"

// keptFor is how long a session stays on the disk after its last word.
const keptFor = 30 * 24 * time.Hour

// begin makes the folder of a session, and deletes those of old ones.
func (k keep) begin() error {
	all, err := os.ReadDir(filepath.Dir(k.dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the sessions: %w", err)
	}
	for _, e := range all {
		old := filepath.Join(filepath.Dir(k.dir), e.Name())
		if at, err := os.Stat(filepath.Join(old, saidFile)); err == nil && time.Since(at.ModTime()) > keptFor {
			if err := os.RemoveAll(old); err != nil {
				return fmt.Errorf("delete an old session: %w", err)
			}
		}
	}
	if err := os.MkdirAll(filepath.Join(k.dir, "state"), 0o700); err != nil {
		return fmt.Errorf("save the session: %w", err)
	}
	return os.WriteFile(filepath.Join(k.dir, saidFile), nil, 0o600)
}

// add puts a message behind the others, on the disk. A line that a kill or a full disk cut off is ended first.
func (k keep) add(m said) (err error) {
	f, err := os.OpenFile(filepath.Join(k.dir, saidFile), os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("save the session: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	last := []byte{'\n'}
	if end, err := f.Seek(0, io.SeekEnd); err != nil {
		return err
	} else if end > 0 {
		if _, err := f.ReadAt(last, end-1); err != nil {
			return err
		}
	}
	if line = append(line, '\n'); last[0] != '\n' {
		line = append([]byte{'\n'}, line...)
	}
	_, err = f.Write(line)
	return errors.Join(err, f.Sync())
}

// read returns what was said. A line that was cut off is left out.
func (k keep) read() (list []said, err error) {
	data, err := os.ReadFile(filepath.Join(k.dir, saidFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, acp.NewInvalidParams(map[string]any{"error": "this agent has no session of that id"})
	}
	for line := range bytes.Lines(data) {
		var m said
		if json.Unmarshal(line, &m) == nil {
			list = append(list, m)
		}
	}
	return list, err
}

// Get implements [upstream.State].
func (k keep) Get(_ context.Context, key string) ([]byte, error) {
	data, err := os.ReadFile(k.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// Put implements [upstream.State].
func (k keep) Put(_ context.Context, key string, value []byte) error {
	path := k.path(key)
	f, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(value)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

func (k keep) path(key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(k.dir, "state", hex.EncodeToString(sum[:]))
}

// load reads the session from the disk, and tells the client what was said.
func (s *session) load(ctx context.Context) (err error) {
	if s.said, err = s.keep.read(); err != nil {
		return err
	}
	for _, m := range s.said {
		if m.Role == "user" {
			s.update(ctx, acp.UpdateUserMessageText(m.Text))
		} else {
			s.update(ctx, acp.UpdateAgentMessageText(m.Text))
		}
	}
	return nil
}

// messages is the whole conversation as the service reads it, with the turn before the newest message where that was answered whole.
func (s *session) messages() (list []upstream.Message, follows string) {
	for _, m := range s.said {
		list = append(list, upstream.Message{Role: m.Role, Text: m.Text})
	}
	if n := len(s.said); n > 0 {
		follows = s.said[n-1].Turn
	}
	return list, follows
}
