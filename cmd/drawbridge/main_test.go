package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"

	"drawbridge/proof/acpagent"
	"drawbridge/proof/pg"
	"drawbridge/relay/runner/keeper"
)

// These tests are in package main, because nothing can import it; they use the program from outside all the same: the
// test binary is the program, so that under -race every process of every script looks for races.
func TestMain(m *testing.M) {
	keeper.Main()
	// The relay refuses to run where others may write.
	syscall.Umask(0o077)
	testscript.Main(manyAtOnce{m}, map[string]func(){"drawbridge": main, "acpagent": func() { os.Exit(acpagent.Main()) }})
}

// manyAtOnce runs more scripts at a time than there are processors, because most of their time is waiting.
type manyAtOnce struct{ *testing.M }

// Run implements testscript.TestingM. It is not reached when the test binary is the program.
func (m manyAtOnce) Run() int {
	flag.Parse()
	if n := flag.Lookup("test.parallel"); n.Value.String() == n.DefValue {
		if err := n.Value.Set(strconv.Itoa(2 * runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	return pg.Main(m.M)
}

// scripts is the pattern of the scripts that TestScripts runs.
var scripts = "testdata/script/*.txtar"

// TestScripts runs each file of testdata/script, and in the deep tier of testdata/deep: one story or one attack a file, with its history in the head.
func TestScripts(t *testing.T) {
	t.Parallel()
	t.Cleanup(removeBuilt)
	files, err := filepath.Glob(scripts)
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	testscript.RunT(watchedT{T: t}, testscript.Params{
		Files:     files,
		Condition: havePostgres,
		Setup: func(env *testscript.Env) error {
			env.Setenv("NO_COLOR", "1")
			env.Setenv("DRAWBRIDGE_CHECK_FREE", "0") // a script runs on a nearly full disk, too
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Values[stageKey{}] = newTestStage()
			env.Values[clientsKey{}] = map[string]*mcp.ClientSession{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"machine":   machineSays,
			"local":     setLocal,
			"clone":     makeClone,
			"starttty":  startTTY,
			"type":      typeLine,
			"noneleft":  noneLeft,
			"killchild": killChild,
			"follows":   followsPage,
			"world":     setWorld,
			"front":     setFront,
			"port":      setPorts,
			"postgres":  setDatabase,
			"replica":   setReplica,
			"signal":    signalProcess,
			"start":     startProcess,
			"end":       endProcess,
			"crash":     crashProcess,
			"logged":    waitLogged,
			"http":      callHTTP,
			"send":      sendHTTP,
			"land":      landHTTP,
			"until":     waitJSON,
			"expect":    expectJSON,
			"json":      printField,
			"login":     setLogin,
			"open":      openClient,
			"tool":      callTool,
			"close":     closeClient,
			"mode":      checkMode,
			"keep":      keepSecret,
			"repeat":    repeatLine,
			"replace":   replaceText,
			"parseok":   parsesAsJSON,
			"model":     startModel,
		},
	})
}

// The secrets of every script's world. No output of any command may hold one.
const (
	operatorToken = "operator-token-0123456789abcdef0123456789abcdef"
	viewerToken   = "viewer-token-0123456789abcdef0123456789abcdef"
	bridgeKey     = "bridge-key-0123456789abcdef0123456789abcdef0123"
	relayToken    = "relay-token-0123456789abcdef0123456789abcdef012"
	cursorKey     = "cursor_sim_key"
)

// secretBook is every secret that some output could leak.
type secretBook struct {
	mu   sync.Mutex // guards list
	list []string
}

var secrets = secretBook{list: []string{operatorToken, bridgeKey, relayToken, cursorKey}}

func (b *secretBook) add(s string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, s)
}

// find returns the first secret in text, or "".
func (b *secretBook) find(text string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.list {
		if strings.Contains(text, s) {
			return s
		}
	}
	return ""
}

// watchedT looks at everything that a script's commands printed: no secret, no panic, no race.
type watchedT struct{ *testing.T }

// Run implements testscript.T.
func (w watchedT) Run(name string, f func(testscript.T)) {
	w.T.Run(name, func(t *testing.T) { f(watchedT{T: t}) })
}

// Verbose implements testscript.T; without it a script that passes forgets what it printed.
func (watchedT) Verbose() bool { return true }

// Log implements testscript.T.
func (w watchedT) Log(args ...any) {
	w.Helper()
	text := fmt.Sprint(args...)
	if trouble := troubleIn(text); trouble != "" {
		w.T.Errorf("the script's output holds %s", trouble)
	}
	w.T.Log(text)
}

var broken = regexp.MustCompile(`WARNING: DATA RACE|(?m)^panic: |^fatal error: |goroutine \d+ \[running\]`)

// troubleIn names what no output may hold, or returns "".
func troubleIn(text string) string {
	if s := secrets.find(text); s != "" {
		return fmt.Sprintf("the secret that begins with %.6q", s)
	}
	return broken.FindString(text)
}

// outcome is what one call of the program came to.
type outcome struct {
	stdout, stderr string
	code           int
}

// call runs the program in dir with a bare environment.
func call(t *testing.T, dir, stdin string, args ...string) outcome {
	t.Helper()
	path, err := exec.LookPath("drawbridge")
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + dir, "GORACE=" + os.Getenv("GORACE")}, strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	o := outcome{stdout: stdout.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode()}
	if trouble := troubleIn(o.stdout + o.stderr); trouble != "" {
		t.Errorf("drawbridge %q printed %s", args, trouble)
	}
	return o
}
