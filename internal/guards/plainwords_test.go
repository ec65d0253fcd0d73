package guards_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hardWords are strings that make a reader stop, with how often they stand in the sources and the docs. A budget only falls:
// who removes some lowers it, and nobody raises it. Write the actor first, then an active verb, then the object.
var hardWords = map[string]int{
	"is no ": 133, "are no ": 17, "whoever": 80, "of which nobody": 6, "is told": 102, "anew": 2, "for ever": 0, "in vain": 0,
}

// everyWord hides what only looks like a hard word: "for every", and names of lanes.
var everyWord = strings.NewReplacer("for every", "", "lanew", "")

// TestPlainWords counts the strings in Go files and Markdown pages of the repository, whatever the case of their letters.
func TestPlainWords(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != "../.." && d.Name() != ".." || d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Base(path) == "plainwords_test.go" || (filepath.Ext(path) != ".go" && filepath.Ext(path) != ".md") {
			return nil
		}
		text, err := os.ReadFile(path)
		for word := range hardWords {
			found[word] += strings.Count(everyWord.Replace(strings.ToLower(string(text))), word)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for word, budget := range hardWords {
		switch n := found[word]; {
		case n > budget:
			t.Errorf("%q stands %d times in sources and docs, at most %d are allowed; write a plain sentence instead", word, n, budget)
		case n < budget:
			t.Logf("%q stands %d times in sources and docs; lower its budget from %d to that", word, n, budget)
		}
	}
}
