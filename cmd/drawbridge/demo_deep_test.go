//go:build deep

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"
)

// The story ends the same when the bridge is killed in its middle, and when no webhook ever arrives.
func TestDemoFaults(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"kill", "no-webhooks"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			got := call(t, dir, "", "demo", "--fault", fault)
			if got.code != exitOK || got.stderr != "" {
				t.Errorf("exit code %d, stderr %q\n%s", got.code, got.stderr, got.stdout)
			}
			if left := leftBehind(t, dir); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// A team of scripted agents comes to the right result, also when the bridge is killed with all of them at work.
func TestDemoTeam(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"", "kill"} {
		t.Run("fault "+fault, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			got := call(t, dir, "", "demo", "--team", "--fault="+fault)
			if got.code != exitOK || got.stderr != "" || !strings.Contains(got.stdout, "The lead told you: The text has 19 words") || strings.Contains(got.stdout, "  ! ") {
				t.Errorf("exit code %d, stderr %q\n%s", got.code, got.stderr, got.stdout)
			}
			if left := leftBehind(t, dir); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
	if got := call(t, t.TempDir(), "", "demo", "--team", "--keep"); got.code != exitUsage || !strings.Contains(got.stderr, "leave out --keep") {
		t.Errorf("exit code %d, stderr %q", got.code, got.stderr)
	}
}

func TestDemoJSON(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	got := call(t, dir, "", "demo", "--json")
	if got.code != exitOK || got.stderr != "" {
		t.Errorf("exit code %d, stderr %q", got.code, got.stderr)
	}
	count := map[string]int{}
	last := time.Time{}
	for line := range strings.Lines(got.stdout) {
		var e struct {
			Time  time.Time
			Event string
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Event == "" || e.Time.Before(last) {
			t.Fatalf("%v: %s", err, line)
		}
		last = e.Time
		count[e.Event]++
	}
	for event, n := range map[string]int{"launched": 3, "executed": 3, "refused": 2, "held": 1, "approved": 1, "near_miss": 1} {
		if count[event] != n {
			t.Errorf("%s happened %d times, not %d: %v", event, count[event], n, count)
		}
	}
	if left := leftBehind(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestDemoKeep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := keepDemo(t, dir)
	var kept struct{ Bridge, Token, Page, Cloud, Folder string }
	if err := json.Unmarshal(d.line(t, `"event":"kept"`), &kept); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodGet, kept.Bridge+"/v1/agents", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+kept.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the kept bridge answers %s", resp.Status)
	}
	if page := logIn(t, kept.Bridge, kept.Page); !strings.Contains(page, "<b>main</b> wants to run lock_screen on laptop") || !strings.Contains(page, "the screen would be locked here") || !strings.Contains(page, `>yours<`) {
		t.Errorf("lock_screen does not wait on the page:\n%s", page)
	}
	if err := d.interrupt(t); err != nil {
		t.Errorf("%v\n%s", err, &d.errs)
	}
	if left := leftBehind(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// logIn opens a link to the page as a browser does, and returns the page.
func logIn(t *testing.T, bridge, link string) string {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(link, "?code=")
	req, err := http.NewRequest(http.MethodPost, bridge+"/login", strings.NewReader(url.Values{"code": {code}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", bridge)
	resp, err := (&http.Client{Jar: jar}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", resp.Status, err)
	}
	return string(page)
}

// Somebody who has seen enough leaves nothing behind either.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := keepDemo(t, dir)
	d.line(t, `"event":"reply"`)
	if err := d.interrupt(t); err == nil {
		t.Error("an interrupted story counts as told")
	}
	if strings.Contains(d.errs.String(), "did not end within") {
		t.Errorf("an interrupted demo says %q", &d.errs)
	}
	if left := leftBehind(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
