package acpagent

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// session is one conversation, kept in a file of its own.
type session struct {
	id, path string
	mode     string
	// stop cancels the turn that runs, nil when none does. The agent's mutex guards it.
	stop context.CancelFunc
	// servers are those that the session was opened with.
	servers []server
}

// said is one line of a session's file.
type said struct {
	Role string `json:"role"`
	Text string `json:"text"`
}

var modes = []string{"default", "plan", "bypassPermissions"}

// opening is what the requests that open a session have in common.
type opening struct {
	SessionID  string `json:"sessionId"`
	Cwd        string `json:"cwd"`
	McpServers *[]struct {
		Name, Command string
		Args          *[]string
		Env           *[]struct{ Name, Value string }
	} `json:"mcpServers"`
}

// opening reads and judges what is common to the requests that open a session.
func (a *agent) opening(params json.RawMessage) (o opening, refused *problem) {
	err := json.Unmarshal(params, &o)
	if err != nil || !filepath.IsAbs(o.Cwd) || o.McpServers == nil {
		a.fault("a session is opened with %s", params)
		return o, &problem{-32602, "Invalid params"}
	}
	for _, m := range *o.McpServers {
		if m.Name == "" || !filepath.IsAbs(m.Command) || m.Args == nil || m.Env == nil {
			a.fault("an MCP server in %s", params)
			return o, &problem{-32602, "Invalid params"}
		}
	}
	if stat, err := os.Stat(o.Cwd); err != nil || !stat.IsDir() {
		return o, &problem{-32602, "cwd is not a folder"}
	}
	if a.missesLogin() {
		return o, &problem{-32000, "Authentication required"}
	}
	return o, nil
}

func (o opening) servers() []server {
	var all []server
	for _, m := range *o.McpServers {
		s := server{command: m.Command, args: *m.Args}
		for _, v := range *m.Env {
			s.env = append(s.env, v.Name+"="+v.Value)
		}
		all = append(all, s)
	}
	return all
}

func (a *agent) newSession(params json.RawMessage) (any, *problem) {
	o, refused := a.opening(params)
	if refused != nil {
		return nil, refused
	}
	s := a.session("acp-" + strings.ToLower(rand.Text()))
	s.servers = o.servers()
	s.keep(a, said{"begin", ""})
	a.note(Line{Event: Opened, Session: s.id})
	return a.opened(s), nil
}

func (a *agent) session(id string) *session {
	s := &session{id: id, path: filepath.Join(a.home, "sessions", id+".jsonl"), mode: "default"}
	if mode := os.Getenv("ACPAGENT_MODE"); mode == "open" {
		// A relay refuses an entry that names this mode.
		s.mode = "bypassPermissions"
	} else if mode != "" {
		s.mode = mode
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sessions[id] = s
	return s
}

func (a *agent) opened(s *session) object {
	var all []object
	for _, m := range modes {
		all = append(all, object{"id": m, "name": m})
	}
	return object{"sessionId": s.id, "modes": object{"currentModeId": s.mode, "availableModes": all}, "models": object{"currentModelId": "scripted"}}
}

// goOn opens a session of an earlier process. session/load replays it first.
func (a *agent) goOn(method string, params json.RawMessage) (any, *problem) {
	o, refused := a.opening(params)
	way := goesOn()
	late := way == "late" || way == "later"
	if refused == nil && way != "both" && "session/"+way != method && !(late && method == "session/load") {
		a.fault("%s is not among the agent's capabilities", method)
		refused = &problem{-32601, "Method not found"}
	}
	if refused != nil {
		return nil, refused
	}
	history, err := readSession(filepath.Join(a.home, "sessions", filepath.Base(o.SessionID)+".jsonl"))
	if err != nil {
		return nil, &problem{-32002, "Resource not found"}
	}
	s := a.session(filepath.Base(o.SessionID))
	s.servers = o.servers()
	a.note(Line{Event: Loaded, Session: s.id, Text: method})
	replay := func(history []said) {
		for _, l := range history {
			kind := map[string]string{"user": "user_message_chunk", "agent": "agent_message_chunk"}[l.Role]
			if method == "session/load" && kind != "" {
				a.update(s.id, object{"sessionUpdate": kind, "content": text(l.Text)})
			}
		}
	}
	now := len(history)
	if late {
		now = 0
	}
	if way == "later" { // all but the last turn at once
		now = max(0, lastOf(history, "user"))
	}
	replay(history[:now])
	if late {
		a.history = func() { replay(history[now:]) }
	}
	return object{"modes": a.opened(s)["modes"]}, nil
}

// lastOf is where the last line of a role stands, -1 for nowhere.
func lastOf(history []said, role string) int {
	for i, l := range slices.Backward(history) {
		if l.Role == role {
			return i
		}
	}
	return -1
}

func readSession(path string) ([]said, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []said
	for line := range strings.Lines(string(data)) {
		var l said
		if json.Unmarshal([]byte(line), &l) == nil {
			list = append(list, l)
		}
	}
	return list, nil
}

// keep adds a line to the session's file, on the disk before anything follows from it.
func (s *session) keep(a *agent, l said) {
	file, err := os.OpenFile(s.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		line, _ := json.Marshal(l)
		_, err = file.Write(append(line, '\n'))
	}
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		a.fault("the session %s cannot be kept: %v", s.id, err)
		os.Exit(4)
	}
	_ = file.Close()
}

func (a *agent) setMode(params json.RawMessage) (any, *problem) {
	var p struct{ SessionID, ModeID string }
	a.mu.Lock()
	defer a.mu.Unlock()
	if json.Unmarshal(params, &p) != nil || a.sessions[p.SessionID] == nil || !slices.Contains(modes, p.ModeID) {
		return nil, &problem{-32602, "Invalid params"}
	}
	a.sessions[p.SessionID].mode = p.ModeID
	return object{}, nil
}

func (a *agent) cancel(params json.RawMessage) {
	var p struct{ SessionID string }
	_ = json.Unmarshal(params, &p)
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.sessions[p.SessionID]
	if s == nil {
		go a.fault("session/cancel of %q, which is not open", p.SessionID)
		return
	}
	if s.stop != nil {
		s.stop()
	}
}

func text(words string) object { return object{"type": "text", "text": words} }
