// Package tooltable has requests of the agent service for its own tools, each with the answer of the vendor's own client. Tests run that client and
// the agent of the relay against the same table, so that each checks the other. It knows neither of them. Rule of thumb: a row that only one of them
// answers stands in that one's tests.
package tooltable

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"drawbridge/internal/yamlconf"
)

//go:embed tools.yaml
var tools []byte

// Row is a request as a message in YAML, and what its result says. WORK is the folder in both.
type Row struct {
	Ask, Says string
	// Withdraw has the service take the request back when its result so far holds this text.
	Withdraw string
}

// Table is the requests of one turn, and the files that the folder has before.
type Table struct {
	Files map[string]string
	Rows  []Row
}

// Vendors is the table that the vendor's client was run against.
func Vendors() (t Table, err error) {
	var file struct {
		Files map[string]string `yaml:"files"`
		Rows  []struct {
			Ask      map[string]any `yaml:"ask"`
			Withdraw string         `yaml:"withdraw"`
			Says     string         `yaml:"says"`
		} `yaml:"rows"`
	}
	if err := yamlconf.Strict(tools, 1<<20, &file); err != nil {
		return t, err
	}
	t.Files = file.Files
	for _, row := range file.Rows {
		ask, err := json.Marshal(row.Ask)
		if err != nil {
			return t, err
		}
		t.Rows = append(t.Rows, Row{Ask: string(ask), Says: row.Says, Withdraw: row.Withdraw})
	}
	return t, nil
}

// Put writes the files into a folder.
func (t Table) Put(dir string) error {
	for name, text := range t.Files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// end stands behind each result in what the model says.
const end = "\x1e"

// Script has the stand-in of the service make all requests in one turn, and say the results.
func (t Table) Script(dir string) string {
	var b strings.Builder
	b.WriteString("turns:\n  - steps:\n")
	for _, row := range t.Rows {
		fmt.Fprintf(&b, "      - exec: %s\n", row.Ask)
		if row.Withdraw != "" {
			fmt.Fprintf(&b, "        withdraw: %q\n", row.Withdraw)
		}
		b.WriteString("      - text: \"{{.Result}}\\x1e\"\n")
	}
	return strings.ReplaceAll(b.String(), "WORK", dir)
}

var took = regexp.MustCompile(` execution_time=\d+`)

// Differences compares what the model said with the table.
func (t Table) Differences(said, dir string) (list []string) {
	said = took.ReplaceAllString(strings.ReplaceAll(said, dir, "WORK"), "")
	got := strings.Split(strings.TrimSuffix(said, end), end)
	if len(got) != len(t.Rows) {
		return []string{fmt.Sprintf("%d results of %d: %q", len(got), len(t.Rows), said)}
	}
	for i, row := range t.Rows {
		if got[i] != row.Says {
			list = append(list, fmt.Sprintf("%s:\n got %s\nwant %s", row.Ask, got[i], row.Says))
		}
	}
	return list
}
