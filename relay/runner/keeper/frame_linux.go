package keeper

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"drawbridge/relay/runner/sandbox"
)

// maxFrame bounds what relay and keeper say to each other, in bytes; a relay.yaml is smaller.
const maxFrame = 4 << 20

// job is what a relay tells its keeper: run this. Its descriptors go with it in this order: stdout, stderr, then stdin, program and
// cgroup if the flags say so.
type job struct {
	Path      string         `json:"path"`
	Argv      []string       `json:"argv"`
	Dir       string         `json:"dir"`
	Env       []string       `json:"env"`
	Processes int            `json:"processes"`
	Look      time.Duration  `json:"look,omitempty"`
	Bounds    sandbox.Bounds `json:"bounds"`
	Sandbox   *sandbox.Plan  `json:"sandbox,omitempty"`
	Stdin     bool           `json:"stdin,omitempty"`
	Program   bool           `json:"program"`
	Cgroup    bool           `json:"cgroup"`
	// End, in a frame of its own, says that the time of the job is over.
	End bool `json:"end,omitempty"`
}

// word is what a keeper answers: first that the program was started, or why not, and then how it ended.
type word struct {
	Started bool   `json:"started,omitempty"`
	Failed  string `json:"failed,omitempty"`
	End     *End   `json:"end,omitempty"`
}

func send(conn *net.UnixConn, frame any, descriptors ...int) error {
	text, err := json.Marshal(frame)
	if err != nil {
		return err
	}
	if len(text) > maxFrame {
		return fmt.Errorf("frame of %d bytes is too large", len(text))
	}
	head := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
	var rights []byte
	if len(descriptors) > 0 {
		rights = unix.UnixRights(descriptors...)
	}
	// The descriptors belong to the length, which arrives in one piece, because nothing else is on its way.
	if _, _, err := conn.WriteMsgUnix(head, rights, nil); err != nil {
		return err
	}
	_, err = conn.Write(text)
	return err
}

func receive(conn *net.UnixConn, frame any) ([]*os.File, error) {
	head, rights := make([]byte, 4), make([]byte, unix.CmsgSpace(4*8))
	n, r, _, _, err := conn.ReadMsgUnix(head, rights)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	files, err := descriptors(rights[:r])
	if err == nil && n < len(head) {
		_, err = io.ReadFull(conn, head[n:])
	}
	if err == nil {
		size := binary.BigEndian.Uint32(head)
		if size > maxFrame {
			return files, errors.New("frame is too large")
		}
		text := make([]byte, size)
		if _, err = io.ReadFull(conn, text); err == nil {
			err = json.Unmarshal(text, frame)
		}
	}
	return files, err
}

func descriptors(rights []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for _, message := range messages {
		fds, err := unix.ParseUnixRights(&message)
		if err != nil {
			return files, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, file := range files {
		_ = file.Close()
	}
}
