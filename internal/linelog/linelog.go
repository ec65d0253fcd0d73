// Package linelog keeps JSON records in a file so that each is on the disk before the call that added it returns.
//
// It is an append-only file of lines with a running checksum, a lock against a second process, and a way to write the
// file again that leaves either the old or the new one after a crash. It does not know what the records mean, and it is
// no defense against somebody who may write the file. Rule of thumb: what a crash can leave is repaired silently, and
// everything else is reported and left as it is.
package linelog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"drawbridge/internal/failpoint"
)

// Suffixes of the files beside a log: one to lock, because the log itself is replaced, and one that is being written.
const (
	LockSuffix = ".lock"
	newSuffix  = ".new"
)

// slack is how many bytes a log may grow beyond twice its needs before Tidy writes it again.
const slack = 16 << 20

// A lock that is taken is tried again for as long as a fork may take.
const (
	lockTries = 200
	lockPause = 10 * time.Millisecond
)

// Errors of Open and of a [Log]; damage to the lines is a [*DamageError].
var (
	ErrInUse   = errors.New("the log is in use by another process")
	ErrForeign = errors.New("the file is not a log of this kind")
	ErrClosed  = errors.New("the log is closed")
)

// Options is what a [Log] is made of.
type Options struct {
	// Path is where the log is; it need not exist. Who may write there is for the caller to check.
	Path string
	// Header is the first line, without its end. It tells the log from other files and from other versions.
	Header string
	// MaxRecord bounds a record, in bytes.
	MaxRecord int
	// Keep receives every record when the log is opened, in order; it must not hold on to the bytes. Its error means that no
	// writer of such a log would have written this record here.
	Keep func(record []byte) error
	// Needed gives everything that a new file has to hold to emit, in the order for Keep, and returns emit's error.
	Needed func(emit func(record []byte) error) error
}

// File is what appending needs of an *os.File.
type File interface {
	io.WriteCloser
	Sync() error
	Truncate(size int64) error
}

// Log is an open log. It is not safe for concurrent use.
type Log struct {
	o    Options
	lock *os.File
	file File
	size int64
	sum  uint32
	// needed is the size when the file was written again.
	needed int64
	// doubtful is true when the end of the file is unknown, so that it has to be written again before it is used.
	doubtful bool
	closed   bool
}

// Open takes the lock, hands every record to o.Keep, and returns a log that the caller has to [Log.Rewrite] before it
// appends. A last line that a crash cut off is left out; other damage is an error, and the file stays as it is.
func Open(o Options) (*Log, error) {
	lock, err := takeLock(o.Path + LockSuffix)
	if err != nil {
		return nil, err
	}
	l := &Log{o: o, lock: lock, doubtful: true}
	if err := l.read(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func takeLock(path string) (*os.File, error) {
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || try == lockTries {
			break
		}
		// A process that is being started holds copies of our descriptors until it becomes its program.
		time.Sleep(lockPause)
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrInUse
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

func (l *Log) read() error {
	file, err := os.OpenFile(l.o.Path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	return Read(file, l.o)
}

// Append adds a record and returns when the disk has it. After an error the record is not there, or, when the disk failed
// to take it back, goes at the next Append or [Log.Rewrite].
func (l *Log) Append(record []byte) error {
	if l.doubtful || l.closed {
		if err := l.Rewrite(); err != nil {
			return err
		}
	}
	line, sum, err := l.o.seal(l.sum, record)
	if err != nil {
		return err
	}
	failpoint.Here("log.append.before")
	if _, err := l.file.Write(line); err != nil {
		l.doubtful = l.file.Truncate(l.size) != nil
		return fmt.Errorf("write log: %w", err)
	}
	failpoint.Here("log.append.written")
	if err := l.file.Sync(); err != nil {
		// A second sync may report success for pages that the kernel has given up.
		l.doubtful = true
		return fmt.Errorf("sync log: %w", err)
	}
	failpoint.Here("log.append.synced")
	l.size, l.sum = l.size+int64(len(line)), sum
	return nil
}

// Tidy writes a log again that has grown far beyond its needs. An error is no harm: the file goes on as it is, or what is
// wrong shows at the next Append.
func (l *Log) Tidy() error {
	if l.size <= 2*l.needed+slack {
		return nil
	}
	err := l.Rewrite()
	if err != nil {
		// Trying again at once would cost every caller a whole file.
		l.needed = l.size
	}
	return err
}

// Rewrite replaces the file (mode 0600) by one of the records that o.Needed gives. After a crash the old or the new one
// is there.
func (l *Log) Rewrite() error {
	if l.closed {
		return ErrClosed
	}
	fresh := l.o.Path + newSuffix
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(fresh, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	sum, size, err := Write(file, l.o)
	if err == nil {
		err = file.Sync()
	}
	failpoint.Here("log.rewrite.written")
	if err == nil {
		err = os.Rename(fresh, l.o.Path)
	}
	failpoint.Here("log.rewrite.renamed")
	if err != nil {
		return errors.Join(fmt.Errorf("write log again: %w", err), file.Close(), os.Remove(fresh))
	}
	if l.file != nil {
		// Its content is of no use any more.
		_ = l.file.Close()
	}
	l.file, l.sum, l.size, l.needed = file, sum, size, size
	err = syncFolder(filepath.Dir(l.o.Path))
	// Until the folder is synced a crash may bring the old file back, without what is appended to the new one.
	l.doubtful = err != nil
	return err
}

func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := folder.Sync(); err != nil {
		return fmt.Errorf("sync folder of the log: %w", err)
	}
	return nil
}

// Close lets another process have the log. Closing twice is fine.
func (l *Log) Close() error {
	if l.closed {
		return nil
	}
	l.closed = true
	var err error
	if l.file != nil {
		err = l.file.Close()
	}
	// Closing alone would leave the lock to a child that is just being started, until it becomes its program.
	return errors.Join(err, syscall.Flock(int(l.lock.Fd()), syscall.LOCK_UN), l.lock.Close())
}

// Wrap puts something between the log and its file until it is written again. It is for tests of a failing disk.
func (l *Log) Wrap(wrap func(File) File) { l.file = wrap(l.file) }
