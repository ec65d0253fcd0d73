package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"drawbridge/proof/acpagent"
	"drawbridge/relay/runner/control"
	"drawbridge/relay/runner/keeper"
)

const testToken = "0123456789abcdef0123456789abcdef-cmd"

// These tests are in package main, because nothing can import it; they use the program from outside all the same.
func TestMain(m *testing.M) {
	keeper.Main()
	syscall.Umask(0o077)
	testscript.Main(m, map[string]func(){"drawbridge-relay": main, "acpagent": func() { os.Exit(acpagent.Main()) }})
}

// scripts is the pattern of the scripts that TestScripts runs.
var scripts = "testdata/script/*.txtar"

func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(scripts)
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	testscript.Run(t, testscript.Params{
		Files: files,
		Setup: func(env *testscript.Env) error {
			env.Setenv("RELAY_TOKEN", testToken)
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Setenv("SECRET_KEY", "hunter2-hunter2-hunter2")
			programs, _, _ := strings.Cut(env.Getenv("PATH"), ":")
			env.Setenv("RELAY", filepath.Join(programs, "drawbridge-relay"))
			env.Setenv("ACPAGENT", filepath.Join(programs, "acpagent"))
			env.Values[relayKey{}] = new(process)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"relay":     startRelay,
			"ask":       ask,
			"asklater":  askLater,
			"answer":    answer,
			"pending":   pending,
			"interrupt": interrupt,
			"kill9":     kill9,
		},
	})
}

// relayKey is where a script keeps its relay.
type relayKey struct{}

// process is a relay that runs beside a script.
type process struct {
	cmd *exec.Cmd
	log *bufio.Reader
	// later holds what came of a question that was asked in the background.
	later chan string
}

// startRelay is "relay <file>": it starts a relay and puts its address into $ADDR when it is ready.
func startRelay(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: relay <file>")
	}
	programs, _, _ := strings.Cut(ts.Getenv("PATH"), ":")
	cmd := exec.Command(filepath.Join(programs, "drawbridge-relay"), "run", "--config", ts.MkAbs(args[0]))
	cmd.Env = []string{
		"RELAY_TOKEN=" + testToken, "WORK=" + ts.Getenv("WORK"), "LEAK=do-not-leak", "BASH_ENV=/tmp/do-not-leak", "LD_LIBRARY_PATH=/do-not-leak",
		"RELAY=" + filepath.Join(programs, "drawbridge-relay"), "SECRET_KEY=hunter2-hunter2-hunter2", "GORACE=" + os.Getenv("GORACE"),
	}
	stderr, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	p := ts.Value(relayKey{}).(*process)
	p.cmd, p.log = cmd, bufio.NewReader(stderr)
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
	said, err := post(ts.Getenv("ADDR"), args)
	ts.Check(err)
	fmt.Fprint(ts.Stdout(), said)
}

// askLater is ask in the background; answer waits for it and prints what ask prints.
func askLater(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: asklater <body> [header: value]...")
	}
	p, addr := ts.Value(relayKey{}).(*process), ts.Getenv("ADDR")
	p.later = make(chan string, 1)
	go func() {
		said, err := post(addr, args)
		if err != nil {
			said = "no answer\n"
		}
		p.later <- said
	}()
}

func answer(ts *testscript.TestScript, _ bool, _ []string) {
	fmt.Fprint(ts.Stdout(), <-ts.Value(relayKey{}).(*process).later)
}

// pending waits until a question is open at the relay of a file and puts its id into $APR.
func pending(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: pending <state folder>")
	}
	client := control.NewClient(ts.MkAbs(args[0]))
	deadline, tick := time.After(2*time.Minute), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for {
		open, err := client.Pending(context.Background())
		if err == nil && len(open) > 0 {
			ts.Setenv("APR", open[0].ID)
			return
		}
		select {
		case <-deadline:
			ts.Fatalf("nothing is pending: %v", err)
		case <-tick.C:
		}
	}
}

func post(addr string, args []string) (string, error) {
	req, err := http.NewRequest(http.MethodPost, "http://"+addr+"/run", strings.NewReader(args[0]))
	if err != nil {
		return "", err
	}
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
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return fmt.Sprintf("%d %s", response.StatusCode, body), err
}

// kill9 ends the relay as a crash does.
func kill9(ts *testscript.TestScript, _ bool, _ []string) {
	p := ts.Value(relayKey{}).(*process)
	ts.Check(p.cmd.Process.Kill())
	_ = p.cmd.Wait()
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
