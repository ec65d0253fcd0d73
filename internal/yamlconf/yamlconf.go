// Package yamlconf reads configuration files strictly: every key must be known,
// every problem is reported at once with its place and a remedy, and secrets come
// from the environment or from files, never from the text itself. It decides
// nothing about what the values mean and is no general YAML library. Rule of
// thumb: what a person may have meant differently is a problem, not a guess.
package yamlconf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"
)

const (
	// MaxSize is the largest configuration file, in bytes.
	MaxSize = 1 << 20
	// maxProblems bounds the report on a file that is no configuration at all.
	maxProblems = 100
	// maxAliased bounds how many nodes all aliases of a file may stand for, so that
	// a few lines of nested aliases cannot grow into gigabytes.
	maxAliased = 100_000
)

// Source is one configuration file as read.
type Source struct {
	// Name is how problems name the file, such as bridge.yaml.
	Name string
	// Dir is the folder that ${file:path} is relative to.
	Dir  string
	Data []byte
	// Getenv looks up ${VAR}, as os.LookupEnv does. Nil means an empty environment.
	Getenv func(string) (string, bool)
	// Plain says that ${ is plain text in this file: it refers to nothing, as in a text that somebody sent.
	Plain bool
}

// Read reads a file into the struct that v points to and reports every problem. The File, which is never nil, tells where each
// key stands. Fields are named by their yaml tag; a field without one cannot be configured.
// The tag's options are "short" (a scalar in place of the mapping fills this
// string) and "at" with an empty name (this string receives the place, as file:line).
// A tag oneof:"a b" names the only words that a text may be.
// Supported are strings, booleans, integers, time.Duration, Secret, pointers,
// slices, structs and maps with string keys. What is absent keeps the value that v
// had, so that defaults are set before the call. An empty list, mapping or value
// of null is an empty slice or map, and a problem for a scalar.
func Read(src Source, v any) (*File, []Problem) {
	d := &decoder{src: src, file: newFile(src.Name), lines: strings.Split(string(src.Data), "\n")}
	root, problem := Document(src)
	if problem != nil {
		return d.file, []Problem{*problem}
	}
	if root != nil {
		d.value(root, "", reflect.ValueOf(v).Elem())
	}
	return d.file, d.report()
}

// Document returns the root node of the only document, or nil for an empty file. Its scalars hold references as they were written.
func Document(src Source) (root *yaml.Node, problem *Problem) {
	if len(src.Data) > MaxSize {
		return nil, &Problem{At: src.Name, Reason: fmt.Sprintf("is larger than %d bytes", MaxSize), Remedy: "check that this is the right file"}
	}
	defer func() {
		// The YAML library reports some malformed input by panicking.
		if r := recover(); r != nil {
			root, problem = nil, &Problem{At: src.Name, Reason: "is not YAML", Remedy: "check the file's syntax"}
		}
	}()
	data, masked := mask(src.Data)
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, syntaxProblem(src.Name, data, err)
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		return nil, &Problem{At: at(src.Name, second.Line), Reason: "a second document begins here", Remedy: "keep one document and remove the line ---"}
	case !errors.Is(err, io.EOF):
		return nil, syntaxProblem(src.Name, data, err)
	}
	if masked {
		unmask(&doc)
	}
	if len(doc.Content) == 0 || isNull(doc.Content[0]) {
		return nil, nil
	}
	return doc.Content[0], nil
}

// File knows where each key of a decoded file stands, and which values were not
// written in the file itself. It is read-only and safe for concurrent use.
type File struct {
	name  string
	lines map[string]int
	// written holds the text of values that were interpolated; it is what may be
	// shown, because the value itself may have come from a secret's file.
	written map[string]string
}

func newFile(name string) *File {
	return &File{name: name, lines: make(map[string]int), written: make(map[string]string)}
}

// Name is the name that the Source had.
func (f *File) Name() string { return f.name }

// At returns the place of a key path such as relays.laptop.url or
// orchestrators[0].repo, as file:line. For a key that is absent it is the place of
// the nearest mapping above it.
func (f *File) At(path string) string {
	for {
		if line, ok := f.lines[path]; ok {
			return at(f.name, line)
		}
		if path == "" {
			return f.name
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
}

// Has reports whether a key was given.
func (f *File) Has(path string) bool {
	_, ok := f.lines[path]
	return ok
}

// ByReference reports whether the value at a path came from the environment or
// a file, at least in part, and does not stand in this file itself.
func (f *File) ByReference(path string) bool {
	_, ok := f.written[path]
	return ok
}

// Problem describes a value that was decoded and is wrong all the same. A value
// that came from the environment or a file is shown as the reference to it.
func (f *File) Problem(path, value, reason, remedy string) Problem {
	if written, ok := f.written[path]; ok {
		value = written
	}
	return Problem{At: f.At(path), Key: path, Value: value, Reason: reason, Remedy: remedy}
}

func at(name string, line int) string {
	if line <= 0 {
		return name
	}
	return fmt.Sprintf("%s:%d", name, line)
}
