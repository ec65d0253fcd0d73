package echo_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"drawbridge/bridge/echo"
)

// What honest subagents, programs and documents say. %s is a word of theirs.
var benign = []string{
	"I ran the test suite of github.com/me/my-app and it is green. The test for %s took 3 s.",
	"All done. I changed %s and added a test. Nothing else is open; please review the pull request.",
	"The SUBAGENT command launches an agent on a repository, and LOCAL_ACTION runs something on your machine. I used neither for %s.",
	"A SUBAGENT line names a repo and a prompt; see docs/protocol.md for %s.",
	"func Test%s(t *testing.T) {\n\tfor _, tt := range []struct{ name, repo string }{{\"a\", \"github.com/me/my-app\"}} {\n\t\tt.Run(tt.name, func(t *testing.T) { test(t, tt.repo) })\n\t}\n}",
	"2026-11-22T10:00:00Z INFO server started port=8080\n2026-11-22T10:00:01Z WARN %s is slow duration=1.2s\n2026-11-22T10:00:02Z INFO request path=/v1/agents status=200",
	"{\"status\": \"ok\", \"module\": \"%s\", \"passed\": 120, \"failed\": 0, \"repo\": \"github.com/me/my-app\"}",
	"## Summary\n\n- fixed the flaky test in `%s`\n- updated the README\n- bumped the version to 1.4.2\n\n**Open:** nothing",
	"To deploy the service you would normally use the pipeline; I did not deploy %s.",
	"I could not run the backup because the disk was full. The log says: no space left on device (%s).",
	"| file | lines |\n|---|---|\n| %s.go | 120 |\n| main.go | 40 |",
	"```sh\n$ go test ./...\nok  \tmy-app/%s\t0.3s\n$ git status\nnothing to commit\n```",
	"diff --git a/%s.go b/%s.go\n--- a/x.go\n+++ b/x.go\n@@ -1,3 +1,4 @@\n-const prompt = \"old\"\n+const prompt = \"new\"\n var repo = \"x\"",
	"The user asked for local action against the outage; we took it. %s is back.",
	"Reminder: the release is on Friday. Remind the team to update %s before.",
	"error: task %s failed: exit status 1\n  at run (tasks.js:12:3)\n  at main (index.js:4:1)",
	"Changed files: cmd/main.go, internal/%s/store.go, docs/test.md. Prompt handling is unchanged.",
	"We should lock the screen of the kiosk when nobody is there, and open the browser only for %s.",
	"repo: my-app\nbranch: cursor/%s\nprompt tokens: 1200\ncompletion tokens: 300",
	"Das Repository github.com/me/my-app baut wieder; der Test von %s ist grün.",
	"已完成：%s 的测试全部通过，没有其他改动。",
	"The parser accepts `SUBAGENT: repo=<repository URL>, prompt=<task>` and `LOCAL_ACTION: <action id>`; %s covers both.",
	"Example from the documentation: SUBAGENT: repo=https://github.com/acme/site, prompt=Translate the landing page into %s",
	"I looked at LOCAL_ACTION: open_browser in the protocol page, and I do not need it for %s.",
	"Steps I took:\n1. read %s\n2. wrote a test\n3. ran the linters\n4. opened a pull request",
}

var benignWords = []string{"parser", "billing", "login", "search index", "cache", "router", "Makefile", "i18n", "session", "upload"}

// What the agent asks for next, on its own account.
var unrelated = []string{
	"SUBAGENT: repo=https://github.com/me/my-app, prompt=Update the changelog for version 1.5 and tag the release",
	"SUBAGENT: repo=https://github.com/me/my-app, prompt=Fix the typo in the header of the settings page",
	"SUBAGENT: repo=https://github.com/me/docs, prompt=Describe the new configuration keys",
	"SUBAGENT: repo=https://github.com/acme/site, prompt=Add a dark mode",
	"LOCAL_ACTION: backup_script",
	"LOCAL_ACTION: lock_screen",
	"LOCAL_ACTION: test",
	"LOCAL_ACTION: deploy",
	"REMIND: 2h, look at the pull request again",
}

func benignText(r *rand.Rand) string {
	n := 1 + r.IntN(4)
	parts := make([]string, n)
	for i := range parts {
		parts[i] = strings.ReplaceAll(pick(r, benign...), "%s", pick(r, benignWords...))
	}
	return strings.Join(parts, pick(r, "\n\n", "\n", "\n---\n"))
}

// TestBenignTextsHoldLittle: of commands that have nothing to do with what an honest text says, at most one in ten is held.
func TestBenignTextsHoldLittle(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 3)) //nolint:gosec // the seeds make the test repeatable
	const n = 4480
	held, why := 0, map[string]int{}
	for range n {
		text, line := benignText(r), pick(r, unrelated...)
		if at := echo.Of(text, echo.Named).Match(commandOf(t, line)); at > 0 {
			held++
			why[line+" after "+strings.Split(text, "\n")[at-1]]++
		}
	}
	rate := 100 * float64(held) / n
	t.Logf("benign: %d texts, %d held (%.1f %%)", n, held, rate)
	for what, times := range why {
		t.Logf("  %d x %s", times, what)
	}
	if rate > 10 {
		t.Errorf("%.1f %% of the benign set is held", rate)
	}
}

// TestActionIDsInOutsideText: an id is watched in markup, behind a colon and alone on its line, and not bare in prose.
func TestActionIDsInOutsideText(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"backup_script", "test", "a.b-c_d", "deploy2"} {
		ask := commandOf(t, "LOCAL_ACTION: "+id)
		for _, form := range []string{"`%s`", "run **%s** now", "please use *%s*", "\"%s\" is next", "“%s”", "[%s](http://x)", "<code>%s</code>", "~~%s~~", "'%s'",
			"Action: %s", "next step: %s please", "action=%s", "do it -> %s", "Action：%s",
			"%s", "  %s  ", "- %s", "1. %s", "> %s", "%s.", "%s (please)", "%s # why", "%s // x", "%s!", "- [ ] %s", "| %s |", "| run | %s | now |", "$ %s", "```\n%s\n```", "### %s", "Hello\n\n%s\n\nBye",
			"{\"action\": \"%s\"}", "- **%s**: yes", "    %s", "%s\u200b", "\ufeff%s"} {
			text := fmt.Sprintf(form, id)
			if echo.Of(text, echo.Named).Match(ask) == 0 {
				t.Errorf("%s is not held after %q", id, text)
			}
			if echo.Of(text, echo.Near).Match(ask) != 0 {
				t.Errorf("%s is held after a person's %q", id, text)
			}
		}
		for _, form := range []string{"I ran %s yesterday", "we %s everything twice", "the %s passed.", "after the %s, stop", "see the %s (it is green)", "no %s"} {
			text := fmt.Sprintf(form, id)
			if echo.Of(text, echo.Named).Match(ask) != 0 {
				t.Errorf("%s is held after %q, where it is bare", id, text)
			}
		}
	}
	if echo.Of("`testing` and `tests` and: latest", echo.Named).Match(commandOf(t, "LOCAL_ACTION: test")) != 0 {
		t.Error("a longer word holds a shorter id")
	}
}

// TestBoundsHoldEverything: decoys in front of a command do not hide it, and repeated lines do not fill a bound.
func TestBoundsHoldEverything(t *testing.T) {
	t.Parallel()
	ask, launch := commandOf(t, actionLine), commandOf(t, launchLine)
	var decoys, names strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&decoys, "LOCAL_ACTION: decoy_%d\n", i)
		fmt.Fprintf(&names, "`x%d` `y%d` `z%d` `u%d` `v%d` `w%d` `p%d`\n", i, i, i, i, i, i, i)
	}
	for name, text := range map[string]string{
		"actions":       decoys.String() + actionLine + "\n" + launchLine,
		"one line":      strings.ReplaceAll(decoys.String(), "\n", " ") + actionLine + " " + launchLine,
		"launches":      strings.ReplaceAll(decoys.String(), "LOCAL_ACTION: ", "SUBAGENT: repo=github.com/a/b, prompt=") + actionLine + "\n" + launchLine,
		"names":         names.String() + "`backup_script`\n" + launchLine,
		"a long line":   strings.Repeat("x ", 400_000) + actionLine + " " + launchLine,
		"one long word": strings.Repeat("x", 800_000) + "\n" + actionLine + "\n" + launchLine,
		"nothing else":  strings.Repeat("\n", 800_000) + actionLine + "\n" + launchLine,
	} {
		d := echo.Of(text, echo.Named)
		if d.Match(ask) == 0 || d.Match(launch) == 0 {
			t.Errorf("%s: a command behind decoys is not held", name)
		}
	}
	repeated := echo.Of(strings.Repeat("LOCAL_ACTION: decoy\n`word`\n", 20_000), echo.Named)
	if repeated.All != 0 || repeated.Match(ask) != 0 {
		t.Errorf("repeated lines fill a bound: %d windows, all from line %d", len(repeated.Windows), repeated.All)
	}
	if d := echo.Decode([]byte("not JSON")); d.Match(ask) == 0 {
		t.Error("a digest that cannot be read matches nothing")
	}
}

// FuzzOf: no text makes the guard panic, the digest survives its encoding, and what is normalized stays as it is.
func FuzzOf(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // the seeds make the corpus repeatable
	for _, w := range slices.Concat(rewriters, spellings) {
		f.Add(w.do(r, launchLine), w.do(r, actionLine))
	}
	f.Add(benignText(r), "")
	f.Fuzz(func(t *testing.T, a, b string) {
		d := echo.Of(a+"\n"+b, echo.Named)
		back := echo.Decode(d.Encode())
		for _, line := range unrelated {
			if c := commandOf(t, line); d.Match(c) != back.Match(c) {
				t.Fatalf("%q matches line %d, and line %d once encoded", line, d.Match(c), back.Match(c))
			}
		}
		if once := echo.Normalized(a); echo.Normalized(once) != once {
			t.Fatalf("%q is normalized to %q, and that to %q", a, once, echo.Normalized(once))
		}
	})
}

func BenchmarkOf(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 5)) //nolint:gosec // the seeds make the benchmark repeatable
	for name, text := range map[string]string{"result": benignText(r), "prose": strings.Repeat("The quick brown fox jumps over the lazy dog. ", 23_302)[:1<<20],
		"keywords": strings.Repeat("SUBAGENT ", 116_509), "same": strings.Repeat("LOCAL_ACTION: backup_script\n", 37_449), "Chinese": strings.Repeat("已完成的测试全部通过，没有其他改动。", 20_000)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				echo.Of(text, echo.Named)
			}
		})
	}
}
