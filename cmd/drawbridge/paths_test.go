package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// pathWorld is a folder with a configuration that lacks nothing but its database.
type pathWorld struct {
	t   *testing.T
	dir string
}

func newPathWorld(t *testing.T) pathWorld {
	t.Helper()
	w := pathWorld{t, t.TempDir()}
	w.file("allowlist.yaml", "repos: [github.com/me/my-app]\n")
	w.file("notes.txt", strings.Repeat("these are notes\n", 300))
	if err := os.Mkdir(filepath.Join(w.dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"lost.db": "nowhere.db", "far.db": "none/x.db", "loop.db": "loop.db", "ping.db": "pong.db", "pong.db": "ping.db", "badfolder": "nofolder", "ring": "ring"} {
		if err := os.Symlink(target, filepath.Join(w.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w pathWorld) file(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// with writes the configuration with some keys of its own.
func (w pathWorld) with(keys map[string]string) {
	w.t.Helper()
	text := "listen: 127.0.0.1:0\ntoken: ${TOKEN}\nkey: ${KEY}\ncursor: { key: ${CURSOR}, url: http://127.0.0.1:1, api: v1 }\norchestrators: [{ name: main, repo: github.com/me/agent-env }]\n"
	for key, value := range keys {
		quoted, err := json.Marshal(value)
		if err != nil {
			w.t.Fatal(err)
		}
		text += fmt.Sprintf("%s: %s\n", key, quoted)
	}
	w.file("bridge.yaml", text)
}

// run calls a command, which has nothing to wait for.
func (w pathWorld) run(words ...string) outcome {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	env := map[string]string{"TOKEN": strings.Repeat("t", 40), "KEY": strings.Repeat("k", 40), "CURSOR": "key_0123456789"}
	var stdout, stderr bytes.Buffer
	a := app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, getenv: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
	code := run(ctx, a, append(words, "--config", filepath.Join(w.dir, "bridge.yaml")))
	return outcome{stdout: stdout.String(), stderr: stderr.String(), code: code}
}

// names are all files, and the bytes of the notes.
func (w pathWorld) names() (names []string) {
	w.t.Helper()
	err := filepath.WalkDir(w.dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return names
}

// jargon is what the system and the libraries say.
var jargon = []string{"EvalSymlinks", "lstat ", "stat /", "errno", "too many levels", "not a directory", "no such file", "parse \"", "strconv", "pgconn", "SASL", "dial tcp"}

// TestDatabasePaths: whatever is wrong with the database's path, check and serve say the same sentence and what to do, and
// nothing is created or changed.
func TestDatabasePaths(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ database, want string }{
		"a link to nothing":          {"lost.db", `is a link that leads to no file: "nowhere.db" does not exist; put the file back, remove the link, or choose another path`},
		"a link to a missing folder": {"far.db", `is a link that leads to no file: "none/x.db" does not exist`},
		"a link to itself":           {"loop.db", "leads through links in a circle"},
		"two links in a circle":      {"ping.db", "leads through links in a circle"},
		"a folder that is a circle":  {"ring/x.db", "leads through links in a circle"},
		"a folder that is lost":      {"badfolder/x.db", "does not exist; create it or choose another path"},
		"a missing folder":           {"none/x.db", "does not exist; create it or choose another path"},
		"a file as folder":           {"notes.txt/x.db", "a part of its path is a file; choose another path"},
		"a folder":                   {"sub", "is a directory; name a file in it, such as"},
		"a device":                   {"/dev/null", "is not a regular file; choose another path"},
		"a text":                     {"notes.txt", "is not a database, or its beginning is damaged; choose another path, or restore it from a backup"},
		"a long name":                {strings.Repeat("x", 300) + ".db", "has a name that is too long for the file system; choose a shorter path"},
		"nothing":                    {"", "database: is required; write a value, or remove the key for the default"},
		"a NUL":                      {"a\x00b.db", "holds a control character, such as a line break; write the path or address in one line"},
		"a line break":               {"a\nb.db", "holds a control character"},
		"a blank at the end":         {"x.db ", "begins or ends with a blank; remove the blank"},
		"a home":                     {"~/x.db", "begins with ~, which only a shell replaces by a home folder; write the whole path, such as /home/you/x.db"},
		"another's home":             {"~you/x.db", "begins with ~"},
		"an unknown scheme":          {"postgre://host/db", `has the unknown scheme "postgre://"; name a SQLite file, such as drawbridge.db, or write postgres://user@host:5432/database`},
		"another scheme":             {"mysql://host/db", `has the unknown scheme "mysql://"`},
		"SQLite's scheme":            {"sqlite:///x.db", `has the unknown scheme "sqlite://"`},
		"SQLite's file":              {"file:x.db", "is neither a plain file name nor a PostgreSQL address"},
		"memory":                     {":memory:", "is neither a plain file name nor a PostgreSQL address"},
		"a lost colon":               {"postgres//host/db", "because postgres is not followed by ://; write postgres://user@host:5432/database"},
		"a lost slash":               {"postgres:/host/db", "because postgres is not followed by ://"},
		"a port that is a word":      {"postgres://user@host:port/db", "its port is not a number"},
		"a port that is too large":   {"postgres://user@host:99999/db", "its port is not a number from 1 to 65535"},
		"no database":                {"postgres://user@host:5432", "it names no database; write postgres://user@host:5432/database"},
		"a bad escape":               {"postgres://user%zz@host/db", "it is not well encoded; write characters of user and password such as @, /, : and % in the form %40"},
		"an unknown sslmode":         {"postgres://user@host/db?sslmode=yes", `has the unknown sslmode "yes"; use one of disable, allow, prefer, require, verify-ca, verify-full`},
		"nobody listens":             {"postgres://user@127.0.0.1:1/db", "no program listens at port 1 there; start PostgreSQL, or correct host and port in the address"},
		"nobody listens, capitals":   {"Postgres://user@127.0.0.1:1/db", "no program listens at port 1 there"},
		"no such host":               {"postgres://user@no-such-host.invalid:5432/db", "correct the host in the address"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPathWorld(t)
			w.with(map[string]string{"database": tt.database})
			before := w.names()
			for command, got := range map[string]string{"check": w.run("check").stdout, "serve": w.run("serve").stderr} {
				if !strings.Contains(got, tt.want) {
					t.Errorf("%s: %s\nwant %q", command, got, tt.want)
				}
				for line := range strings.Lines(got) {
					if i := slices.IndexFunc(jargon, func(word string) bool { return strings.Contains(line, word) }); i >= 0 && !strings.Contains(line, "Cloud Agents API") {
						t.Errorf("%s shows %q: %s", command, jargon[i], line)
					}
				}
			}
			if after := w.names(); !slices.Equal(after, before) {
				t.Errorf("files before %q, after %q", before, after)
			}
		})
	}
}

// TestOtherPaths: the other paths of bridge.yaml are judged by their text, and files of secrets by what is there.
func TestOtherPaths(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ key, value, want string }{
		"allowlist: nothing":           {"allowlist", "none.yaml", "does not exist; create it"},
		"allowlist: a folder":          {"allowlist", "sub", "is not a regular file; name a plain file"},
		"allowlist: a link to nothing": {"allowlist", "lost.db", "is a link that leads to no file"},
		"allowlist: a circle":          {"allowlist", "loop.db", "leads through too many links; name the file itself"},
		"allowlist: a file as folder":  {"allowlist", "notes.txt/a.yaml", "is not in a folder, because a part of its path is a file; correct the path"},
		"allowlist: a home":            {"allowlist", "~/allowlist.yaml", "allowlist: begins with ~, which only a shell replaces"},
		"allowlist: a line break":      {"allowlist", "a\nb", "holds a control character"},
		"files: a home":                {"files", "~/files", "begins with ~"},
		"files: a line break":          {"files", "a\nb", "holds a control character"},
		"a secret: nothing":            {"public_url", "${file:none.key}", "none.key"},
		"a secret: a link to nothing":  {"public_url", "${file:lost.db}", "is a link that leads to no file"},
		"a secret: a circle":           {"public_url", "${file:loop.db}", "leads through too many links"},
		"a secret: a folder":           {"public_url", "${file:sub}", "is not a regular file; name a plain file"},
		"a secret: a file as folder":   {"public_url", "${file:notes.txt/x}", "a part of its path is a file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPathWorld(t)
			w.with(map[string]string{tt.key: tt.value})
			before := w.names()
			for command, got := range map[string]string{"check": w.run("check", "--offline").stdout, "serve": w.run("serve").stderr} {
				if !strings.Contains(got, tt.want) {
					t.Errorf("%s: %s\nwant %q", command, got, tt.want)
				}
			}
			if after := w.names(); !slices.Equal(after, before) {
				t.Errorf("files before %q, after %q", before, after)
			}
		})
	}
}
