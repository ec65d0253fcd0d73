package linelog_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drawbridge/internal/linelog"
)

const header = `{"log":"test"}`

// book is a log's user, who needs every record but those that begin with "-".
type book struct {
	records []string
	options linelog.Options
}

func newBook(path string) *book {
	b := &book{}
	b.options = linelog.Options{
		Path: path, Header: header, MaxRecord: 100,
		Keep: func(record []byte) error {
			if string(record) == "bad" {
				return errors.New("it is bad")
			}
			b.records = append(b.records, string(record))
			return nil
		},
		Needed: func(emit func([]byte) error) error {
			for _, r := range b.records {
				if strings.HasPrefix(r, "-") {
					continue
				}
				if err := emit([]byte(r)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	return b
}

func open(t *testing.T, b *book) *linelog.Log {
	t.Helper()
	l, err := linelog.Open(b.options)
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	return l
}

func add(t *testing.T, b *book, l *linelog.Log, records ...string) {
	t.Helper()
	for _, r := range records {
		must(t, l.Append([]byte(r)))
		b.records = append(b.records, r)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestLogKeepsWhatWasAppended(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	first := newBook(path)
	l := open(t, first)
	add(t, first, l, "1", `{"x":"<é>"}`, "-gone", "", strings.Repeat("x", 100))
	for _, record := range []string{"a\nb", strings.Repeat("x", 101)} {
		if err := l.Append([]byte(record)); err == nil {
			t.Errorf("%q was appended", record)
		}
	}
	if _, err := linelog.Open(newBook(path).options); !errors.Is(err, linelog.ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
	must(t, l.Close())
	if err := l.Append([]byte("late")); !errors.Is(err, linelog.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	second := newBook(path)
	l = open(t, second)
	if diff := cmp.Diff(first.records, second.records); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	add(t, second, l, "2")
	must(t, l.Close())
	third := newBook(path)
	open(t, third)
	want := []string{"1", `{"x":"<é>"}`, "", strings.Repeat("x", 100), "2"}
	if diff := cmp.Diff(want, third.records); diff != "" {
		t.Errorf("written again (-want +got):\n%s", diff)
	}
}

func TestTidy(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "logs")
	must(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "log")
	b := newBook(path)
	l := open(t, b)
	add(t, b, l, "-1", "2")
	before, err := os.Stat(path)
	must(t, err)
	must(t, l.Tidy())
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("a small file was written again, %v", err)
	}
	l.Grow(17 << 20)
	must(t, os.Rename(dir, dir+".away"))
	if err := l.Tidy(); err == nil {
		t.Error("a file was written in no folder")
	}
	// It is not tried again at once, and the old file goes on.
	must(t, l.Tidy())
	add(t, b, l, "3")
	must(t, os.Rename(dir+".away", dir))
	l.Grow(100 << 20)
	must(t, l.Tidy())
	if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), "-1") || !strings.Contains(string(text), "3}") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestReadDamage(t *testing.T) {
	t.Parallel()
	b := newBook("")
	b.records = []string{"1", "2", "3"}
	var text bytes.Buffer
	_, size, err := linelog.Write(&text, b.options)
	if err != nil || size != int64(text.Len()) {
		t.Fatalf("size %d of %d, %v", size, text.Len(), err)
	}
	lines := strings.SplitAfter(text.String(), "\n")
	tests := []struct {
		name, text string
		want       []string
		// line is that of the damage, 0 for none, 1 for a foreign file.
		line int
	}{
		{"whole", text.String(), []string{"1", "2", "3"}, 0},
		{"empty", "", nil, 0},
		{"half a header", header[:5], nil, 0},
		{"no end of the last line", strings.TrimSuffix(text.String(), "\n"), []string{"1", "2", "3"}, 0},
		{"cut", strings.TrimSuffix(text.String(), "}\n"), []string{"1", "2"}, 0},
		{"zeros at the end", text.String() + "\x00\x00", []string{"1", "2", "3"}, 0},
		{"page of zeros in the last line", text.String() + "{\x00}\n", []string{"1", "2", "3"}, 0},
		{"zeros in the middle", lines[0] + "\x00\n" + lines[1], nil, 2},
		{"blank line", lines[0] + "\n" + lines[1], nil, 2},
		{"missing line", lines[0] + lines[2], nil, 2},
		{"line twice", lines[0] + lines[1] + lines[1], []string{"1"}, 3},
		{"other file", "hello\n", nil, 1},
		{"other file of one line", "hello", nil, 1},
		{"long line", text.String() + strings.Repeat("x", 1000) + "\n", []string{"1", "2", "3"}, 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBook("")
			err := linelog.Read(strings.NewReader(tt.text), b.options)
			line := 0
			var damage *linelog.DamageError
			switch {
			case errors.As(err, &damage):
				line = damage.Line
			case errors.Is(err, linelog.ErrForeign):
				line = 1
			case err != nil:
				line = -1
			}
			if diff := cmp.Diff(tt.want, b.records); diff != "" || line != tt.line {
				t.Errorf("error %v, want line %d; records (-want +got):\n%s", err, tt.line, diff)
			}
		})
	}
}

// A record that its user does not understand is damage, unless the line was cut off.
func TestReadAsksItsUser(t *testing.T) {
	t.Parallel()
	b := newBook("")
	b.records = []string{"1", "bad"}
	var text bytes.Buffer
	_, _, err := linelog.Write(&text, b.options)
	must(t, err)
	var damage *linelog.DamageError
	if err := linelog.Read(&text, b.options); !errors.As(err, &damage) || damage.Line != 3 || damage.Unwrap().Error() != "it is bad" {
		t.Errorf("error %v", err)
	}
}
