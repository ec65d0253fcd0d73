package metrics

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestPageNamesEveryMetric: docs/how-to/read-metrics.md has each metric of ours.
func TestPageNamesEveryMetric(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/how-to/read-metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	all := make(chan *prometheus.Desc, 200)
	New("v1").registry.Describe(all)
	close(all)
	found := 0
	for d := range all {
		name := regexp.MustCompile(`fqName: "([^"]*)"`).FindStringSubmatch(d.String())[1]
		if !strings.HasPrefix(name, namespace) {
			continue // of Go and of the process
		}
		found++
		if !strings.Contains(string(page), "`"+name+"`") && !strings.Contains(string(page), "`"+name+"{") {
			t.Errorf("the page does not name %s: %s", name, d)
		}
	}
	if found < 8 {
		t.Errorf("%d metrics", found)
	}
}
