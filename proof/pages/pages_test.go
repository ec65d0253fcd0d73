package pages_test

import (
	"strings"
	"testing"

	"drawbridge/proof/pages"
)

func TestFind(t *testing.T) {
	t.Parallel()
	text := strings.Join([]string{
		"Type `drawbridge commands --state",
		"held`, or `drawbridge` alone; `GET /v1` and `drawbridge-relay run` are others.",
		"",
		"```",
		`$ TOKEN=x drawbridge say main "What is" > out.txt  # the second word is a text`,
		"drawbridge launch github.com/me/my-app \\",
		"  --name docs && drawbridge agents | head -3",
		"drawbridge say main \"open",
		"```",
		"",
		"```yaml",
		"drawbridge: not a call",
		"```",
	}, "\n")
	var got []string
	for _, c := range pages.Find("page.md", text, "drawbridge") {
		mode := " part "
		if c.Whole {
			mode = " whole "
		}
		got = append(got, c.At+mode+strings.Join(c.Words, "|"))
	}
	want := []string{
		"page.md:1 part commands|--state|held", "page.md:5 whole say|main|What is",
		"page.md:6 whole launch|github.com/me/my-app|--name|docs", "page.md:6 whole agents",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
