package permits_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drawbridge/relay/agents/permits"
	"drawbridge/relay/runner/settings"
)

// rules are what a user may write. The programs do not exist: the test puts a printer of arguments in their place.
var rules = []settings.Command{
	{Program: "gotool", Args: []string{"test"}},
	{Program: "maker"},
	{Program: "gitlike", Args: []string{"status"}},
	{Program: "exactly", Args: []string{"run", "all"}, Exact: true},
}

func matches(command string) []string {
	words, err := permits.Words(command)
	if err != nil {
		return nil
	}
	if slices.ContainsFunc(rules, func(r settings.Command) bool { return permits.Matches(r, words) }) {
		return words
	}
	return nil
}

func TestOnlyOneSimpleCommandMatches(t *testing.T) {
	t.Parallel()
	for _, command := range []string{
		"gotool test", "gotool test ./...", "  gotool  test -run TestA ", `gotool test -run 'Test A'`, `gotool test "a b" c`, "maker", "maker all -j4 CC=gcc",
		"gitlike status --short", "exactly run all", "gotool test a,b:c@d%e+f",
	} {
		if matches(command) == nil {
			t.Errorf("%q does not match", command)
		}
	}
	for _, command := range []string{
		"", " ", "gotool", "gotool build", "gotool tests", "Gotool test", "./gotool test", "/bin/gotool test", "gotool test;id", "gotool test ; id", "gotool test && id", "gotool test || id", "gotool test | id",
		"gotool test & id", "gotool test&", "gotool test\nid", "gotool test\r\nid", "gotool test\rid", "gotool test $(id)", "gotool test `id`", "gotool test ${IFS}id", "gotool test $HOME", "gotool test $'\\n'id",
		"gotool test > f", "gotool test 2>f", "gotool test <f", "gotool test <(id)", "gotool test >(id)", "gotool test <<<x", "gotool test <<E", "gotool test *", "gotool test ?", "gotool test [a]", "gotool test {a,b}",
		"gotool test ~", "gotool test !1", "gotool test #x", "#gotool test", "gotool test \\\nid", `gotool test \;`, "A=1 gotool test", "PATH=. gotool test", "gotool=1 test", "gotool+=1 test", "gotool() test",
		"env gotool test", "xargs gotool test", "sh -c 'gotool test'", "time gotool test", "! gotool test", "command gotool test", "exec gotool test", "nohup gotool test", "sudo gotool test", "if gotool test", "{ gotool test; }", "(gotool test)",
		"gotool test -exec id", "gotool test -exec=id", "gotool test -toolexec=id", "gotool test --exec id", "gitlike status -c core.fsmonitor=id", "gitlike -c a=b status", "gitlike -C / status",
		"exactly run all more", "exactly run", `"gotool" test`, `'gotool' test`, `go"tool" test`, `gotool "test;id"`, `gotool test ";id"`, `gotool test '$(id)'`, `gotool test "$(id)"`, "gotool test \"`id`\"", `gotool test 'a`, `gotool test "a`,
		`gotool test 'a'b`, `gotool test a'b'`, `gotool test ''`, "gotool test =ls", "%1 gotool test", "-gotool test", "gotool\ttest", "gotool\u00a0test", "gotool test \u2028 id", "gotool test \x00", "gоtool test", "gotool test ｜id", "gotool test \x1b[2J",
		"gotool test " + strings.Repeat("a ", 9000),
	} {
		if words := matches(command); words != nil {
			t.Errorf("%q matches as %q", command, words)
		}
	}
}

// printer stands for each program of the rules: it writes that it ran, and its arguments.
const printer = `#!/bin/sh
{ printf '%s\0' "$(basename "$0")"; for a in "$@"; do printf '%s\0' "$a"; done; printf '\n'; } >> "$ARGV_LOG"
`

// shells are the real shells of this machine that a command is given to.
func shells(t testing.TB) []string {
	t.Helper()
	var list []string
	for _, shell := range []string{"/bin/sh", "/bin/bash", "/bin/zsh"} {
		if _, err := os.Stat(shell); err == nil {
			list = append(list, shell)
		}
	}
	if len(list) == 0 {
		t.Fatal("this machine does not have /bin/sh")
	}
	return list
}

// stage makes the programs of the rules, and returns what runs a command and says which argument lists came of it.
func stage(t testing.TB) func(t testing.TB, shell, command string) string {
	t.Helper()
	bin, work := t.TempDir(), t.TempDir()
	for _, rule := range rules {
		if err := os.WriteFile(filepath.Join(bin, rule.Program), []byte(printer), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	log := filepath.Join(t.TempDir(), "log")
	return func(t testing.TB, shell, command string) string {
		_ = os.Remove(log)
		c := exec.CommandContext(t.Context(), shell, "-c", command)
		c.Dir, c.Env = work, []string{"PATH=" + bin + ":/usr/bin:/bin", "ARGV_LOG=" + log}
		_ = c.Run()
		text, _ := os.ReadFile(log)
		if left, _ := os.ReadDir(work); len(left) > 0 {
			t.Errorf("%s -c %q left files: %v", shell, command, left)
		}
		return string(text)
	}
}

// agree runs a command that matches a rule in each shell, which must run exactly these words, once.
func agree(t testing.TB, run func(t testing.TB, shell, command string) string, command string) bool {
	words := matches(command)
	if words == nil {
		return false
	}
	want := strings.Join(words, "\x00") + "\x00\n"
	for _, shell := range shells(t) {
		if got := run(t, shell, command); got != want {
			t.Errorf("%s -c %q ran %q; the rule saw %q", shell, command, got, want)
		}
	}
	return true
}

// pieces are what commands are made of in the test against real shells: good ones often, so that many match, and each kind of attack.
var pieces = []string{
	" ", " ", " ", "gotool test", "maker", "gitlike status", "exactly run all", " a", " -v", " ./...", " x=y", "'a b'", `"c d"`, "=", "%", "@", "+", ":", ",", "/", "-", "'", `"`, ";", "&", "|", "\n", "\r", "\t", "$", "`", "(", ")", "{", "}", "<", ">",
	"*", "?", "[", "]", "~", "!", "#", "\\", "^", "A=1 ", "touch f", "$(touch f)", "; touch f", "\x00", "é", "\u2028",
}

func FuzzWords(f *testing.F) {
	for _, command := range []string{"gotool test ./...", "maker 'a b' c=d", "maker;id", "gotool test $(id)", "maker =ls", "maker a\\\nb", "exactly run all"} {
		f.Add(command)
	}
	run := stage(f)
	f.Fuzz(func(t *testing.T, command string) { agree(t, run, command) })
}
