package yamlconf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"

	"drawbridge/internal/clip"
)

// mostWork bounds the lines times the bytes of a file in which badLine looks for the exact line: it parses the file once for each line, at a
// few megabytes a second.
const mostWork = 4 << 20

// syntaxProblem says where a file stops being YAML, and what to do about it.
func syntaxProblem(name string, data []byte, err error) *Problem {
	line, reason, remedy := syntaxFault(data, err)
	p := &Problem{At: name, Reason: reason, Remedy: remedy}
	if line > 0 {
		p.At = at(name, line)
	}
	return p
}

// syntaxFault says in plain words why data is not YAML, after the library's error about it. The line counts from 1 and is 0
// when nobody can tell it.
func syntaxFault(data []byte, err error) (line int, reason, remedy string) {
	text := unmasker.Replace(strings.TrimPrefix(err.Error(), "yaml: "))
	if _, scanErr := fmt.Sscanf(text, "line %d:", &line); scanErr == nil {
		_, text, _ = strings.Cut(text, ": ")
	}
	if bad := badLine(data); bad > 0 {
		line = bad
	}
	if tabbed(data, line) {
		return line, "has a tab in its indentation", "YAML takes only blanks there; replace the tab"
	}
	return line, "is not YAML: " + clip.Text(text, maxShown), "check indentation, quotes and colons of this line"
}

// badLine returns the number of the first line with which data stops being YAML, or 0 where it cannot tell. The library
// reports the line where the surrounding mapping begins, or one line too few (its parser counts from 0 there).
func badLine(data []byte) int {
	lines := bytes.SplitAfter(data, []byte("\n"))
	if len(lines)*len(data) > mostWork {
		return 0
	}
	end := len(data)
	for n := len(lines); n > 0; n-- {
		if isYAML(data[:end]) {
			return min(n+1, len(lines))
		}
		end -= len(lines[n-1])
	}
	return 1
}

func isYAML(data []byte) (ok bool) {
	defer func() {
		if recover() != nil { // the library panics on some malformed input
			ok = false
		}
	}()
	var n yaml.Node
	err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&n)
	return err == nil || errors.Is(err, io.EOF)
}

// tabbed reports whether a line's indentation holds a tab.
func tabbed(data []byte, line int) bool {
	lines := strings.Split(string(data), "\n")
	if line < 1 || line > len(lines) {
		return false
	}
	text := lines[line-1]
	return strings.Contains(text[:len(text)-len(strings.TrimLeft(text, " \t"))], "\t")
}

// runsOn reports the line at which a plain value goes on, or 0: "- a" and a more indented "- b" below it are one value for
// YAML, "a - b", and that is never meant in a configuration.
func runsOn(n *yaml.Node, lines []string) int {
	if n.Kind != yaml.ScalarNode || n.Style != 0 || n.Line < 1 || n.Line >= len(lines) || !strings.Contains(n.Value, " ") {
		return 0
	}
	text := lines[n.Line-1]
	if n.Column < 1 || n.Column > len(text) || strings.HasPrefix(text[n.Column-1:], n.Value) {
		return 0
	}
	for next := n.Line + 1; next <= len(lines); next++ {
		word := strings.TrimSpace(lines[next-1])
		if word != "" {
			if strings.Contains(n.Value, " "+word) {
				return next
			}
			return 0
		}
	}
	return 0
}

// libraryWords are what the YAML library says of a value that does not fit: with Go's type names, which are not for users.
var libraryWords = []struct {
	said  *regexp.Regexp
	plain string
}{
	{regexp.MustCompile(`field (\S+) not found in type \S+`), `unknown key "$1"; see the format in the help`},
	{regexp.MustCompile(`cannot unmarshal !!map into \S+`), "a mapping is written in the place of one value or a list"},
	{regexp.MustCompile(`cannot unmarshal !!seq into \S+`), "a list is written in the place of one value or a mapping"},
	{regexp.MustCompile("cannot unmarshal !!\\w+ (`[^`]*`) into u?int\\S*"), "$1 is not a whole number"},
	{regexp.MustCompile("cannot unmarshal !!\\w+ (`[^`]*`) into float\\S*"), "$1 is not a number"},
	{regexp.MustCompile("cannot unmarshal !!\\w+ (`[^`]*`) into bool"), "$1 is not true or false"},
	{regexp.MustCompile("cannot unmarshal !!\\w+ (`[^`]*`) into \\[\\]\\S+"), "$1 is not a list"},
	{regexp.MustCompile("cannot unmarshal !!\\w+ (`[^`]*`) into \\S+"), "$1 is not a mapping with keys"},
	{regexp.MustCompile(`mapping key "(\S+)" already defined at line (\d+)`), `the key "$1" is already on line $2`},
}

// Script reads the script at path by parse. An error of the YAML library is in the reader's words.
func Script[T any](path string, parse func([]byte) (T, error)) (T, error) {
	var none T
	data, err := os.ReadFile(path)
	if err != nil {
		return none, fmt.Errorf("read script: %w", err)
	}
	s, err := parse(data)
	if err != nil {
		return none, Plain(path, data, err)
	}
	return s, nil
}

// Plain rewrites an error of the YAML library about data in the reader's words, each fault with the right line.
func Plain(name string, data []byte, err error) error {
	var faults *yaml.TypeError
	if !errors.As(err, &faults) {
		if strings.HasPrefix(err.Error(), "yaml: ") {
			return errors.New(syntaxProblem(name, data, err).String())
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	texts := make([]string, len(faults.Errors))
	for i, text := range faults.Errors {
		for _, w := range libraryWords {
			text = w.said.ReplaceAllString(text, w.plain)
		}
		texts[i] = name + ": " + text
	}
	return errors.New(strings.Join(texts, "\n"))
}

// Strict reads the one document of a file into v, and refuses keys that v lacks. An empty file changes nothing. The errors are those that [Plain] words.
func Strict(data []byte, most int, v any) error {
	if len(data) > most {
		return fmt.Errorf("larger than %d bytes", most)
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(v); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	// yaml reads the first document and ignores the rest, which would drop rules in silence.
	if err := d.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return errors.New("more than one YAML document")
	}
	return nil
}
