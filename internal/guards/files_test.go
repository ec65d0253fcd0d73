package guards_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxBytesInGit is more than any text of ours needs. What is larger is a program or a database that was added by mistake.
const maxBytesInGit = 512 << 10

func TestNoLargeFileInGit(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Logf("git lists no files here (%v): a copy without its history holds what its maker put into it", err)
		return
	}
	names := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	if len(names) < 50 {
		t.Fatalf("git lists only %d files: the guard looks in the wrong place", len(names))
	}
	for _, name := range names {
		info, err := os.Lstat(filepath.Join("../..", name))
		if err == nil && info.Size() > maxBytesInGit {
			t.Errorf("%s has %d bytes, more than %d: remove it from git, or make it smaller", name, info.Size(), maxBytesInGit)
		}
	}
}

// anchors are the headings of a page, as links name them.
func anchors(t *testing.T, page string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	prose := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(string(text), "") // # begins comments in blocks
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(prose, -1) {
		plain := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(plain, " ", "-"))
	}
	return all
}

// How many lines a reader gets: of the README, and of any other page.
const (
	maxReadme = 120
	maxPage   = 200
)

// TestPages: the README is short, each link of a page leads to a file, and the map of the documentation or the README leads to each page.
func TestPages(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)
	led := map[string]bool{"README.md": true, "CHANGELOG.md": true}
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	if len(pages) < 30 {
		t.Fatalf("%d pages: the guard looks in the wrong place", len(pages))
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(filepath.ToSlash(page), "../../")
		switch n := strings.Count(string(text), "\n"); {
		case name == "README.md" && n > maxReadme:
			t.Errorf("README.md has %d lines; at most %d, the rest belongs below docs", n, maxReadme)
		case n > maxPage:
			t.Errorf("%s has %d lines; at most %d: make it two pages", name, n, maxPage)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			to := filepath.Join(filepath.Dir(page), m[1])
			if m[1] == "" {
				to = page
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which is not there", name, m[1])
			} else if m[2] != "" && !slices.Contains(anchors(t, to), m[2]) {
				t.Errorf("%s links to %s#%s, and no heading there is called so", name, m[1], m[2])
			}
			if name == "README.md" || name == "docs/README.md" {
				led[strings.TrimPrefix(filepath.ToSlash(to), "../../")] = true
			}
		}
	}
	for _, page := range pages {
		if name := strings.TrimPrefix(filepath.ToSlash(page), "../../"); !led[name] && !strings.HasPrefix(name, "docs/adr/") {
			t.Errorf("neither README.md nor docs/README.md leads to %s", name)
		}
	}
}
