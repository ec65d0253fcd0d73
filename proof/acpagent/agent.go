// Package acpagent is a scripted agent that speaks version 1 of the Agent Client Protocol by code of its own: a stand-in for real agents
// where a test needs one that keeps sessions, asks, dies and misbehaves on demand.
//
// It shares no code with the driver, so that each checks the other. It is as strict as real agents are: what a client does wrong is
// refused and written down as a fault. Its log in HOME says what it was told, synced before anything follows from it, so that a test that kills it
// has an oracle. The text of a prompt is its script, see [agent.play]. Rule of thumb: what a real agent was seen to do, this one can be
// told to do.
package acpagent

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// LogName is the log in HOME, one JSON object a line.
const LogName = "acpagent.log"

// Line is one line of the log.
type Line struct {
	At    time.Time `json:"at"`
	PID   int       `json:"pid"`
	Event string    `json:"event"`
	// Session and Text depend on the event: the prompt, the answer to a question, or what the client did wrong.
	Session string `json:"session,omitempty"`
	Text    string `json:"text,omitempty"`
}

// Events of a [Line].
const (
	Started  = "started"
	Opened   = "opened"
	Loaded   = "loaded"
	Prompted = "prompted"
	Answered = "answered"
	Replied  = "replied"
	Ended    = "ended"
	Fault    = "fault"
)

// ReadLog returns the log of the agent with this HOME.
func ReadLog(home string) ([]Line, error) {
	data, err := os.ReadFile(filepath.Join(home, LogName))
	if err != nil {
		return nil, err
	}
	var lines []Line
	for text := range strings.Lines(string(data)) {
		var l Line
		// A kill may have cut the last one.
		if json.Unmarshal([]byte(text), &l) == nil {
			lines = append(lines, l)
		}
	}
	return lines, nil
}

// Main is the agent's whole life on the standard streams; it returns the exit code. These variables change it:
//
//	ACPAGENT_START     at the start: silent, garbage, banner (one line before the protocol), exit, exit once (the first process alone), version2, stderr (floods it)
//	ACPAGENT_LOGIN     missing: wants a login when a session is opened; file: until "auth login" was run in this HOME
//	ACPAGENT_SESSIONS  how it goes on with sessions: both (if not set), load, resume, none; late is load, with the history sent
//	                   after the answer, and later is load, with the last turn of the history sent in the middle of the next one
//	ACPAGENT_MODE      the mode that a session begins in: default (if not set), plan, open (bypassPermissions)
func Main() int {
	a, err := open(os.Getenv("HOME"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "acpagent:", err)
		return 2
	}
	if len(os.Args) > 1 && os.Args[1] == "auth" {
		return a.logIn()
	}
	a.note(Line{Event: Started, Text: os.Getenv("ACPAGENT_START")})
	switch os.Getenv("ACPAGENT_START") {
	case "silent":
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	case "garbage":
		for {
			if _, err := os.Stdout.WriteString("Welcome to acpagent! This is not the protocol.\n"); err != nil {
				return 1
			}
		}
	case "banner":
		fmt.Println("\x1b[1mWelcome to acpagent!\x1b[0m")
	case "exit once":
		lines, _ := ReadLog(a.home)
		if len(lines) > 1 {
			break
		}
		fallthrough
	case "exit":
		fmt.Fprintln(os.Stderr, "acpagent: the configuration cannot be read")
		return 3
	case "stderr":
		go func() { _, _ = io.Copy(os.Stderr, strings.NewReader(strings.Repeat("warning\n", 10<<20))) }()
	}
	return a.serve(os.Stdin)
}

// loginFile is what a login leaves in the HOME.
const loginFile = "acpagent.login"

// logIn asks for a code, as logins do, and keeps it. An empty one is refused.
func (a *agent) logIn() int {
	fmt.Fprint(os.Stderr, "acpagent: paste your code: ")
	code, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	if code = strings.TrimSpace(code); code == "" {
		fmt.Fprintln(os.Stderr, "acpagent: no code")
		return 1
	}
	if err := os.WriteFile(filepath.Join(a.home, loginFile), []byte(code), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, "acpagent:", err)
		return 1
	}
	fmt.Fprintln(os.Stderr, "acpagent: logged in")
	return 0
}

// missesLogin reports whether a session wants a login.
func (a *agent) missesLogin() bool {
	switch os.Getenv("ACPAGENT_LOGIN") {
	case "missing":
		return true
	case "file":
		_, err := os.Stat(filepath.Join(a.home, loginFile))
		return err != nil
	}
	return false
}

// agent is the process.
type agent struct {
	home string
	log  *os.File

	writing sync.Mutex
	running sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	ready    bool
	sessions map[string]*session
	asked    map[string]chan json.RawMessage
	next     int
	// history is what an answer to session/load left for later.
	history func()
}

// message is any JSON-RPC message.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *problem        `json:"error,omitempty"`
}

// incoming is a message with its parts as they came.
type incoming struct {
	JSONRPC string
	ID      json.RawMessage
	Method  string
	Params  json.RawMessage
	Result  json.RawMessage
	Error   *problem
}

type problem struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// object is a JSON object to be sent.
type object map[string]any

func open(home string) (*agent, error) {
	if !filepath.IsAbs(home) {
		return nil, fmt.Errorf("HOME is %q and has to be an absolute path", home)
	}
	if err := os.MkdirAll(filepath.Join(home, "sessions"), 0o700); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(home, LogName), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &agent{home: home, log: log, sessions: map[string]*session{}, asked: map[string]chan json.RawMessage{}}, nil
}

// note writes a line into the log, and returns when it is on the disk.
func (a *agent) note(l Line) {
	l.At, l.PID = time.Now(), os.Getpid()
	text, err := json.Marshal(l)
	if err == nil {
		_, err = a.log.Write(append(text, '\n'))
	}
	if err == nil {
		err = a.log.Sync()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "acpagent: the log cannot be written:", err)
		os.Exit(4)
	}
}

// fault notes what the client did wrong.
func (a *agent) fault(format string, args ...any) {
	a.note(Line{Event: Fault, Text: fmt.Sprintf(format, args...)})
}

// serve reads until the input ends.
func (a *agent) serve(input io.Reader) int {
	defer a.running.Wait()
	reader := bufio.NewReader(input)
	for {
		line, err := reader.ReadBytes('\n')
		if err != nil {
			return 0
		}
		var m incoming
		if err := json.Unmarshal(line, &m); err != nil || m.JSONRPC != "2.0" {
			a.fault("a line that is not JSON-RPC 2.0: %.200q", line)
			continue
		}
		a.take(m)
	}
}

func (a *agent) take(m incoming) {
	switch {
	case m.Method == "" && len(m.ID) > 0:
		a.replied(m)
	case m.Method == "session/cancel" && m.ID == nil:
		a.cancel(m.Params)
	case m.ID == nil:
		a.fault("a notification that is not known: %s", m.Method)
	case m.Method == "session/prompt":
		a.running.Go(func() { a.prompt(m) })
	default:
		result, refused := a.request(m)
		a.answer(m.ID, result, refused)
		if a.history != nil && goesOn() == "late" {
			a.running.Go(a.history)
			a.history = nil
		}
	}
}

// request answers what is answered at once.
func (a *agent) request(m incoming) (any, *problem) {
	a.mu.Lock()
	ready := a.ready
	a.mu.Unlock()
	if ready == (m.Method == "initialize") {
		a.fault("%s came before initialize, or initialize a second time", m.Method)
		return nil, &problem{-32600, "Invalid request"}
	}
	switch m.Method {
	case "initialize":
		return a.initialize(m.Params)
	case "session/new":
		return a.newSession(m.Params)
	case "session/load", "session/resume":
		return a.goOn(m.Method, m.Params)
	case "session/set_mode":
		return a.setMode(m.Params)
	default:
		a.fault("a method that is not known: %s", m.Method)
		return nil, &problem{-32601, "Method not found"}
	}
}

func (a *agent) initialize(params json.RawMessage) (any, *problem) {
	var p struct {
		ProtocolVersion    *int
		ClientCapabilities *struct{}
		ClientInfo         *struct{ Name, Version string }
	}
	if err := json.Unmarshal(params, &p); err != nil || p.ProtocolVersion == nil || p.ClientInfo == nil || p.ClientInfo.Name == "" || p.ClientCapabilities == nil {
		a.fault("initialize with %s", params)
		return nil, &problem{-32602, "Invalid params"}
	}
	a.mu.Lock()
	a.ready = true
	a.mu.Unlock()
	version := 1
	if os.Getenv("ACPAGENT_START") == "version2" {
		version = 2
	}
	way, can := goesOn(), object{"close": object{}}
	if way == "both" || way == "resume" {
		can["resume"] = object{}
	}
	return object{
		"protocolVersion":   version,
		"agentCapabilities": object{"loadSession": way == "both" || way == "load" || way == "late" || way == "later", "sessionCapabilities": can, "promptCapabilities": object{}},
		"agentInfo":         object{"name": "acpagent", "version": "1.0"},
		"authMethods":       []object{{"id": "script", "name": "Set ACPAGENT_LOGIN"}},
	}, nil
}

func goesOn() string {
	if way := os.Getenv("ACPAGENT_SESSIONS"); way != "" {
		return way
	}
	return "both"
}

// answer answers a request.
func (a *agent) answer(id json.RawMessage, result any, refused *problem) {
	m := message{ID: id, Error: refused}
	if refused == nil {
		m.Result = result
	}
	a.send(m)
}

func (a *agent) send(m message) {
	m.JSONRPC = "2.0"
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // of our own making
	}
	a.raw(append(text, '\n'))
}

// raw writes bytes as they are.
func (a *agent) raw(text []byte) {
	a.writing.Lock()
	defer a.writing.Unlock()
	_, _ = os.Stdout.Write(text) // a client that is gone ends our input, too
}

func (a *agent) update(session string, update object) {
	a.send(message{Method: "session/update", Params: object{"sessionId": session, "update": update}})
}

// ask sends a request and waits for its answer.
func (a *agent) ask(method string, params any) json.RawMessage {
	reply := make(chan json.RawMessage, 1)
	a.mu.Lock()
	a.next++
	id := strconv.Quote(fmt.Sprint("ask-", a.next))
	a.asked[id] = reply
	a.mu.Unlock()
	a.send(message{ID: json.RawMessage(id), Method: method, Params: params})
	return <-reply
}

// replied hands an answer of the client's to whom it is for.
func (a *agent) replied(m incoming) {
	a.mu.Lock()
	reply := a.asked[string(m.ID)]
	delete(a.asked, string(m.ID))
	a.mu.Unlock()
	switch {
	case reply == nil:
		a.fault("an answer to %s, which was not asked", m.ID)
	case m.Error != nil:
		reply <- json.RawMessage(fmt.Sprintf(`{"error":%d}`, m.Error.Code))
	default:
		reply <- m.Result
	}
}
