package hub_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"drawbridge/proof/memstore"
	"drawbridge/relay/hub"
	"drawbridge/relay/wire"
)

// BenchmarkHosted is a warm turn from the hub's door to its end: over a WebSocket on loopback to the program drawbridge-relay, which has
// a scripted agent in each of ten sessions. After the turns, while all ten sessions rest, it measures memory in MB (Linux alone): what the
// relay's process has in memory (VmRSS), how much of it is its own (RssAnon), and what is its keepers' own.
func BenchmarkHosted(b *testing.B) {
	const sessions = 10
	s := siteOn(b, memstore.NewDisk(), nil)
	programs := b.TempDir()
	out, err := exec.Command("go", "build", "-trimpath", "-o", programs, "drawbridge/cmd/drawbridge-relay", "drawbridge/proof/acpagent/program").CombinedOutput()
	if err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	relay := startRelay(b, filepath.Join(programs, "drawbridge-relay"), hostedConfig(b, filepath.Join(programs, "program")), joined(b, s, "laptop"))
	s.online(b, "laptop")
	say := func(n int) time.Duration {
		session, id := fmt.Sprintf("s%d", n%sessions), fmt.Sprintf("t%d", n)
		began := time.Now()
		end, err := s.RunTurn(b.Context(), hub.TurnCall{Relay: "laptop", ID: id, Ask: wire.TurnAsk{
			Agent: "fake", Session: session, Marker: "[bridge " + id + "]", Text: "[bridge " + id + "]\ndo: say here", Home: wire.Home{Name: session, Repo: "local/app"},
		}})
		if err != nil || end.Cause != wire.TurnAnswered {
			b.Fatalf("%+v, %v", end, err)
		}
		return time.Since(began)
	}
	n := 0
	for ; n < 2*sessions; n++ { // the first turn of a session makes its workspace
		say(n)
	}
	var took []time.Duration
	for ; b.Loop(); n++ {
		took = append(took, say(n))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(megabytes(b, relay, "VmRSS"), "MB-relay")
	b.ReportMetric(megabytes(b, relay, "RssAnon"), "MB-relay-own")
	keepers, own := 0, 0.0
	for _, pid := range children(b, relay) {
		keepers++
		own += megabytes(b, pid, "RssAnon")
	}
	b.ReportMetric(own, "MB-keepers-own")
	b.Logf("%d processes of the relay's own beside it", keepers)
}

// hostedConfig writes a relay.yaml with a clone and an agent.
func hostedConfig(b *testing.B, agent string) string {
	b.Helper()
	dir := b.TempDir()
	for _, args := range [][]string{{"init", "-q", dir + "/clone"}, {"-C", dir + "/clone", "commit", "-q", "--allow-empty", "-m", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Env = []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=P", "GIT_AUTHOR_EMAIL=p@example.com",
			"GIT_COMMITTER_NAME=P", "GIT_COMMITTER_EMAIL=p@example.com",
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("git: %v\n%s", err, out)
		}
	}
	path := filepath.Join(dir, "relay.yaml")
	text := fmt.Sprintf("listen: none\nagents: { fake: { kind: acp, argv: [%q], i_know: true, slots: 16 } }\nrepos: { local/app: { clone: %q, agents: [fake] } }\n", agent, dir+"/clone")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// startRelay runs the relay's program until the benchmark ends, and returns its process.
func startRelay(b *testing.B, program, config, identity string) int {
	b.Helper()
	cmd := exec.Command(program, "run", "--config", config, "--identity", identity)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + filepath.Dir(config)}
	log := &strings.Builder{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || b.Failed() {
			b.Logf("relay: %v\n%s", err, log)
		}
	})
	return cmd.Process.Pid
}

// megabytes is a field of /proc/<pid>/status.
func megabytes(b *testing.B, pid int, field string) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, field+":"); found {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				b.Fatal(err)
			}
			return float64(kb) / 1024
		}
	}
	b.Fatalf("process %d has no %s", pid, field)
	return 0
}

// children are the processes below the relay that run its own program: its keepers.
func children(b *testing.B, relay int) (pids []int) {
	b.Helper()
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", relay))
	if err != nil {
		b.Fatal(err)
	}
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		b.Fatal(err)
	}
	for _, exe := range links {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(exe)))
		if to, err := os.Readlink(exe); err == nil && to == program && pid != relay {
			pids = append(pids, pid)
		}
	}
	return pids
}
