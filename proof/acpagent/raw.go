package acpagent

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// Raw speaks with the scripted agent by bare lines over two pipes, as simply as it can be done: without a driver, a keeper or a record.
// Benchmarks compare with it. It is not safe for concurrent use.
type Raw struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	session string
	next    int
}

// StartRaw starts the agent in a folder, which is its home, too, and opens a session. Env and path of cmd are the caller's.
func StartRaw(cmd *exec.Cmd, dir string) (*Raw, error) {
	r := &Raw{cmd: cmd}
	var err error
	if r.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.out = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if err := r.open(dir); err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Raw) open(dir string) error {
	if _, err := r.call("initialize", `{"protocolVersion":1,"clientCapabilities":{},"clientInfo":{"name":"raw","version":"1"}}`); err != nil {
		return err
	}
	said, err := r.call("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, dir))
	if err != nil {
		return err
	}
	var opened struct{ SessionID string }
	err = json.Unmarshal(said, &opened)
	r.session = opened.SessionID
	return err
}

// Close ends the agent and waits for its end.
func (r *Raw) Close() error {
	_ = r.in.Close()
	return r.cmd.Wait()
}

// Turn says a prompt and returns when the turn has ended.
func (r *Raw) Turn(prompt string) error {
	_, err := r.call("session/prompt", fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"text","text":%q}]}`, r.session, prompt))
	return err
}

// call sends a request and reads up to its answer.
func (r *Raw) call(method, params string) (json.RawMessage, error) {
	r.next++
	if _, err := fmt.Fprintf(r.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", r.next, method, params); err != nil {
		return nil, err
	}
	for {
		line, err := r.out.ReadString('\n')
		if err != nil {
			return nil, err
		}
		var m struct {
			ID     int
			Result json.RawMessage
		}
		if strings.Contains(line, `"id":`) && json.Unmarshal([]byte(line), &m) == nil && m.ID == r.next {
			return m.Result, nil
		}
	}
}
