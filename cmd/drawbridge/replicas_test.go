package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"

	"drawbridge/proof/pg"
)

// setDatabase is "postgres": it makes a database for the script's world, whose
// address is in DATABASE_URL and in database.url. It comes before world.
func setDatabase(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: postgres")
	}
	server, err := pg.Shared()
	ts.Check(err)
	address, err := server.Database(context.Background())
	ts.Check(err)
	ts.Setenv("DATABASE_URL", address)
	ts.Check(os.WriteFile(ts.MkAbs("database.url"), []byte(address), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("bridge.more"), []byte("database: ${file:database.url}\n"), 0o600))
}

// havePostgres is the condition [postgres]: false where tests on PostgreSQL are left out. An
// error that is not about missing binaries reaches the script's own "postgres".
func havePostgres(condition string) (bool, error) {
	if condition != "postgres" {
		return false, fmt.Errorf("unknown condition %q", condition)
	}
	_, err := pg.Shared()
	return !pg.Omitted(err), nil
}

// setReplica is "replica <name>": it writes <name>.yaml, the world's bridge on
// another port, and puts its address into the variable of that name.
func setReplica(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: replica <name>")
	}
	port := freeTestPort(ts)
	text := strings.Replace(ts.ReadFile("bridge.yaml"), "listen: 127.0.0.1:"+ts.Getenv("BRIDGEPORT"), "listen: 127.0.0.1:"+port, 1)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".yaml"), []byte(text), 0o600))
	ts.Setenv(strings.ToUpper(args[0]), fmt.Sprintf("http://127.0.0.1:%s", port))
}

// signalProcess is "signal <name> STOP|CONT|INT".
func signalProcess(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]syscall.Signal{"STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT, "INT": syscall.SIGINT}
	if neg || len(args) != 2 || signals[args[1]] == 0 {
		ts.Fatalf("usage: signal <name> STOP|CONT|INT")
	}
	p := ts.Value(stageKey{}).(*testStage).running[args[0]]
	if p == nil {
		ts.Fatalf("%s does not run", args[0])
	}
	ts.Check(p.cmd.Process.Signal(signals[args[1]]))
}
