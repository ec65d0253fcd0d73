// Package logs writes the log of both programs in one form: lines for people at a terminal, and JSON everywhere else. It decides nothing
// about what is logged. Rule of thumb: a program's main asks for the writer once, and hands on a zerolog.Logger.
package logs

import (
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"
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

// IsTerminal reports whether a person reads or types at a stream.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
