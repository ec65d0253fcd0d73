package local

import (
	"errors"
	"os"
)

// maxLog bounds a program's log in bytes. A log that would grow beyond it becomes NAME.1, in place of an earlier one.
const maxLog = 16 << 20

// logFile is a log of bounded size. It is not safe for concurrent use.
type logFile struct {
	path       string
	file       *os.File
	size, most int64
}

// openLog opens a log to write at its end.
func openLog(path string, most int64) (*logFile, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	is, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &logFile{path: path, file: file, size: is.Size(), most: most}, nil
}

// Write implements io.Writer. Where the log cannot be renamed, it grows.
func (l *logFile) Write(p []byte) (int, error) {
	if l.size > 0 && l.size+int64(len(p)) > l.most {
		l.turnOver()
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

func (l *logFile) turnOver() {
	if os.Rename(l.path, l.path+".1") != nil {
		return
	}
	next, err := openLog(l.path, l.most)
	if err != nil {
		return // the renamed file goes on
	}
	_ = l.file.Close()
	*l = *next
}

// Close closes the log.
func (l *logFile) Close() error { return l.file.Close() }
