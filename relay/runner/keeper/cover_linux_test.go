package keeper_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/sandbox"
)

// connects is this binary as a program that connects to a Unix socket, also when it may make namespaces of its own.
func connects(path string) int {
	for _, prefix := range [][]string{nil, {"unshare", "-Urm", "umount", path}} {
		if len(prefix) > 0 {
			_ = exec.Command(prefix[0], prefix[1:]...).Run()
		}
		conn, err := net.Dial("unix", path)
		if err == nil {
			_ = conn.Close()
			fmt.Println("connected")
			continue
		}
		fmt.Println("not connected:", err)
	}
	return 0
}

// The relay's control socket is out of a sandbox's reach, also where the sandbox may read the folder in which it is. The same
// sandbox reaches another socket in that folder, so that it is the hiding that is seen here.
func TestSandboxHidesTheControlSocket(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	must(t, err)
	pool, err := keeper.NewPool(true)
	must(t, err)
	t.Cleanup(pool.Close)
	for _, look := range []func(string) (string, error){func(string) (string, error) { return "", os.ErrNotExist }, exec.LookPath} {
		ability := sandbox.Probe(t.Context(), look)
		for _, network := range []bool{false, true} {
			dir := t.TempDir()
			for _, name := range []string{"relay.sock", "other.sock"} {
				listener, err := net.Listen("unix", filepath.Join(dir, name))
				must(t, err)
				defer listener.Close()
			}
			hidden := filepath.Join(dir, "relay.sock")
			plan := ability.Plan(sandbox.Wish{Read: []string{dir}, Network: network, Hide: []string{hidden}})
			reach := func(name string) string {
				_, said, err := script(t.Context(), pool, "", func(c *keeper.Command) {
					c.Path, c.Argv, c.Sandbox = self, []string{self}, &plan
					c.Env = append(c.Env, "KEEPER_CONNECTS="+filepath.Join(dir, name))
				})
				must(t, err)
				return said
			}
			if strings.Contains(plan.Missing(), "control socket") {
				t.Skipf("SKIPPED: %s: nothing keeps a socket out of a sandbox here: %s", ability, plan.Missing())
			}
			if said := reach("relay.sock"); strings.Contains(said, "\nconnected") || !strings.HasPrefix(said, "not connected") {
				t.Errorf("%s, network %t: the control socket: %q", ability, network, said)
			}
			if said := reach("other.sock"); plan.Hiding == "namespace" && !strings.HasPrefix(said, "connected") {
				t.Errorf("%s, network %t: another socket: %q", ability, network, said)
			}
			if conn, err := net.Dial("unix", hidden); err != nil {
				t.Errorf("outside of the sandbox: %v", err)
			} else {
				_ = conn.Close()
			}
		}
	}
}

// A folder of the sandbox that became a link since the plan was made leads nowhere: another action may have put it there.
func TestSandboxFollowsNoLink(t *testing.T) {
	t.Parallel()
	ability := sandbox.Probe(t.Context(), func(string) (string, error) { return "", os.ErrNotExist })
	if ability.Landlock == 0 {
		t.Skip("SKIPPED: this kernel has no Landlock")
	}
	pool, err := keeper.NewPool(true)
	must(t, err)
	t.Cleanup(pool.Close)
	for _, below := range []string{"", "/deeper"} {
		dir := t.TempDir()
		secret, shared := filepath.Join(dir, "secret"), filepath.Join(dir, "shared")
		must(t, os.MkdirAll(secret+below, 0o700))
		must(t, os.WriteFile(secret+below+"/key", []byte("hunter2"), 0o600))
		must(t, os.MkdirAll(shared+below, 0o700))
		plan := ability.Plan(sandbox.Wish{Write: []string{shared + below}})
		must(t, os.RemoveAll(shared))
		must(t, os.Symlink(secret, shared))
		_, said, err := script(t.Context(), pool, "cat "+secret+below+"/key", func(c *keeper.Command) { c.Sandbox = &plan })
		if err == nil || !strings.Contains(err.Error(), "has become a symbolic link") || strings.Contains(said, "hunter2") {
			t.Errorf("%q: said %q, %v", below, said, err)
		}
	}
}
