package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"drawbridge/relay/runner/keeper"
)

const testToken = "0123456789abcdef0123456789abcdef-cmd"

// These tests are in package main, because nothing can import it; they use the program from outside all the same.
func TestMain(m *testing.M) {
	keeper.Main()
	syscall.Umask(0o077)
	testscript.Main(m, map[string]func(){"drawbridge-relay": main})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("RELAY_TOKEN", testToken)
			env.Values[relayKey{}] = new(process)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"relay":     startRelay,
			"ask":       ask,
			"interrupt": interrupt,
		},
	})
}

// relayKey is where a script keeps its relay.
type relayKey struct{}

// process is a relay that runs beside a script.
type process struct {
	cmd *exec.Cmd
	log *bufio.Reader
}

// startRelay is "relay <file>": it starts a relay and puts its address into $ADDR when it is ready.
func startRelay(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: relay <file>")
	}
	programs, _, _ := strings.Cut(ts.Getenv("PATH"), ":")
	cmd := exec.Command(filepath.Join(programs, "drawbridge-relay"), "run", "--config", ts.MkAbs(args[0]))
	cmd.Env = []string{"RELAY_TOKEN=" + testToken, "WORK=" + ts.Getenv("WORK"), "LEAK=do-not-leak"}
	stderr, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	p := ts.Value(relayKey{}).(*process)
	*p = process{cmd: cmd, log: bufio.NewReader(stderr)}
	ts.Defer(func() { _ = cmd.Process.Kill() })
	line, err := p.log.ReadString('\n')
	ts.Check(err)
	var ready struct{ Message, Addr string }
	if err := json.Unmarshal([]byte(line), &ready); err != nil || ready.Message != "ready" {
		ts.Fatalf("relay said %q", line)
	}
	ts.Setenv("ADDR", ready.Addr)
}

// ask is "ask <body> [header: value]...": it posts to the relay and prints the status and the answer.
func ask(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: ask <body> [header: value]...")
	}
	req, err := http.NewRequest(http.MethodPost, "http://"+ts.Getenv("ADDR")+"/run", strings.NewReader(args[0]))
	ts.Check(err)
	req.Header.Set("Authorization", "Bearer "+testToken)
	req.Header.Set("Content-Type", "application/json")
	for _, header := range args[1:] {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Set(name, value)
		if name == "Host" {
			req.Host = value
		}
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(req)
	ts.Check(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%d %s", response.StatusCode, body)
}

// interrupt sends the relay SIGINT, expects exit code 0 and prints the rest of its log.
func interrupt(ts *testscript.TestScript, _ bool, _ []string) {
	p := ts.Value(relayKey{}).(*process)
	ts.Check(p.cmd.Process.Signal(syscall.SIGINT))
	log, err := io.ReadAll(p.log)
	ts.Check(err)
	if err := p.cmd.Wait(); err != nil {
		ts.Fatalf("relay: %v\n%s", err, log)
	}
	fmt.Fprintf(ts.Stdout(), "%s", log)
}
