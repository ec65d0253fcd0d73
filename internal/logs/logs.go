// Package logs writes the log of both programs in one form: lines for people at a terminal, and JSON everywhere else. It decides nothing
// about what is logged. Rule of thumb: a program's main asks for the writer once, and hands on a zerolog.Logger.
package logs

import (
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
)

// The formats of a log. Auto is Console at a terminal and JSON elsewhere.
const (
	Auto    = "auto"
	JSON    = "json"
	Console = "console"
)

// Writer returns a writer that takes the lines of a zerolog.Logger, which are JSON, and writes them to w in a format. It is as safe for
// concurrent use as w.
func Writer(w io.Writer, format string) io.Writer {
	if format == Console || format == Auto && IsTerminal(w) {
		return zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: !IsTerminal(w)}
	}
	return w
}

// IsTerminal reports whether a stream is a character device, where a person reads or types.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Short is the begin of a digest or an id: enough to find the whole one in a journal or an audit log.
func Short(id string) string { return id[:min(len(id), 16)] }
