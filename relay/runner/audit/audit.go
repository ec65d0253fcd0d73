// Package audit keeps the record of what a relay was asked for, what a person said, and what ran: JSON lines, each of which
// holds the hash of the one before it, so that a line that is changed, taken out, put in or moved shows where.
//
// A program of the same user can write the whole file and its head again. Against that, keep the head's hash elsewhere, as
// the relay's log does at every start, and ask [Verify] for it. It holds no output, no
// argument and no environment. Rule of thumb: what a person would ask afterwards is a field, and nothing else is.
package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"drawbridge/internal/trust"
)

// Kinds of an [Event].
const (
	Ready    = "ready"
	Changed  = "changed"
	Ended    = "ended"
	Torn     = "torn"
	Accepted = "accepted"
	Ran      = "ran"
	Refused  = "refused"
	Asked    = "asked"
	Approved = "approved"
	Denied   = "denied"
	Alarm    = "alarm"
	Stopped  = "stopped"
	Resumed  = "resumed"
)

// Event is what a line says. Texts of others are escaped by the caller.
type Event struct {
	Event string `json:"event"`
	// File is the digest of relay.yaml, as it was read at a start or taken over since.
	File    string `json:"file,omitempty"`
	Request string `json:"request,omitempty"`
	Action  string `json:"action,omitempty"`
	// Body is the digest of what may not change under one request id, set when something ran or was about to.
	Body string `json:"body,omitempty"`
	// Key names the key that signed the request, or the door that it came through.
	Key   string `json:"key,omitempty"`
	Agent string `json:"agent,omitempty"`
	// Config is the definition of the action, Argv the hash of its arguments.
	Config string `json:"config,omitempty"`
	Argv   string `json:"argv,omitempty"`
	// Files are the digests of the files that the action relies on, by path.
	Files  map[string]string `json:"files,omitempty"`
	Status string            `json:"status,omitempty"`
	// Exit, Stdout and Stderr are set when something ran; the latter count bytes before any cut.
	Exit   *int   `json:"exit,omitempty"`
	Stdout *int64 `json:"stdout_bytes,omitempty"`
	Stderr *int64 `json:"stderr_bytes,omitempty"`
	// Sandbox is what was in force, not what was wished for.
	Sandbox string `json:"sandbox,omitempty"`
	By      string `json:"by,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// Skipped counts the events since the line before that were too many of their kind to write.
	Skipped int `json:"skipped,omitempty"`
}

// line is an Event in the chain. The hash follows as the last field of the text.
type line struct {
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	Prev string    `json:"prev"`
	Event
}

const (
	// HeadSuffix is added to the path of a log for the file that holds its head.
	HeadSuffix = ".head"
	hashMark   = `,"hash":"`
	maxLine    = 16 << 10
	// perMinute bounds, for each kind apart, what a caller of whose requests nothing runs can make us write: one kind that is
	// used up must not hide another.
	perMinute = 60
)

// bounded are the kinds that need no more than a caller; the others need a person, or a start, which have bounds of their own.
var bounded = []string{Refused, Alarm, Asked, Approved}

// zeroHash stands before the first line.
var zeroHash = hex.EncodeToString(make([]byte, sha256.Size))

// Head is the end of a chain: how many lines it has, and the hash of the last.
type Head struct {
	Seq  uint64
	Hash string
}

// String is what head files hold and people compare.
func (h Head) String() string { return fmt.Sprintf("%020d %s", h.Seq, h.Hash) }

// Log appends to an audit file. It is safe for concurrent use.
type Log struct {
	now func() time.Time

	mu      sync.Mutex
	file    *os.File
	head    *os.File
	at      Head
	before  string
	minute  time.Time
	count   map[string]int
	skipped int
	// failed is why the last line could not be written, nil when it was.
	failed error
}

// Open opens the log at path, or creates it (mode 0600), and checks all of it. A last line that a kill cut off is taken out
// and recorded. Any other damage is an error that says where it is. each, when not nil, gets every event as it is read, the
// oldest first; after an error what it got means nothing.
func Open(path string, now func() time.Time, each func(at time.Time, e Event)) (*Log, error) {
	l, err := open(path, now, each)
	if err != nil {
		return nil, fmt.Errorf("open audit log %s: %w", path, err)
	}
	return l, nil
}

func open(path string, now func() time.Time, each func(time.Time, Event)) (*Log, error) {
	if err := trust.Place(path, "state"); err != nil {
		return nil, err
	}
	if err := trust.Place(path+HeadSuffix, "state"); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	head, err := os.OpenFile(path+HeadSuffix, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	l := &Log{now: now, file: file, head: head}
	if err := l.start(each); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Log) start(each func(time.Time, Event)) error {
	if err := syscall.Flock(int(l.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return trust.Because("is in use by another relay", "stop that one, or give this one a folder of its own with state: in relay.yaml")
	}
	known, err := readHead(l.head)
	if err != nil {
		return err
	}
	report, err := check(l.file, known, "", each)
	if err != nil {
		return trust.Because(err.Error(), "keep it as evidence: move it and its "+HeadSuffix+" file to another place; the relay then begins a new log")
	}
	l.at, l.before = report.Head, report.File
	if report.Torn > 0 {
		if err := l.file.Truncate(report.Size); err != nil {
			return err
		}
		if err := l.Add(Event{Event: Torn, Reason: fmt.Sprintf("the relay removed an unfinished line at the end of the log: size %d", report.Torn)}); err != nil {
			return err
		}
	}
	if report.NoHead && report.Head.Seq > 0 {
		// The next line makes a new head, which would hide that there was none.
		return l.Add(Event{Event: Alarm, Reason: "the head file was missing or empty, so lines before this one may have been removed"})
	}
	return nil
}

// Add writes one line. It is on the disk when Add returns, with two exceptions: what was accepted is on the disk with the
// next line, because the journal has it already; and what comes as fast as a caller likes, such as refusals and alarms, is
// written at most 60 times a minute of each kind, and the rest is counted.
func (l *Log) Add(e Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now().UTC()
	if slices.Contains(bounded, e.Event) && !l.admit(e.Event, now) {
		l.skipped++
		return nil
	}
	l.failed = l.add(e, now)
	return l.failed
}

// add is Add without its bound, for those who hold the mutex.
func (l *Log) add(e Event, now time.Time) error {
	e.Skipped, l.skipped = l.skipped, 0
	next := Head{Seq: l.at.Seq + 1}
	text, hash, err := seal(line{Seq: next.Seq, Time: now, Prev: l.previous(), Event: e})
	if err != nil {
		return fmt.Errorf("write audit line: %w", err)
	}
	next.Hash = hash
	before, err := l.file.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("write audit line: %w", err)
	}
	if _, err := l.file.Write(text); err != nil {
		return errors.Join(fmt.Errorf("write audit line: %w", err), l.file.Truncate(before))
	}
	l.at = next
	if e.Event == Refused || e.Event == Accepted {
		return nil
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("sync audit log: %w", err)
	}
	// The head comes after the line is safe, so that it is never ahead of what a power cut leaves.
	if _, err := l.head.WriteAt([]byte(next.String()+"\n"), 0); err != nil {
		return fmt.Errorf("write head of the audit log: %w", err)
	}
	return nil
}

func (l *Log) admit(kind string, now time.Time) bool {
	if now.Sub(l.minute) >= time.Minute || now.Before(l.minute) {
		l.minute, l.count = now, map[string]int{}
	}
	l.count[kind]++
	return l.count[kind] <= perMinute
}

func (l *Log) previous() string {
	if l.at.Seq == 0 {
		return zeroHash
	}
	return l.at.Hash
}

// Head is the end of the chain now.
func (l *Log) Head() Head {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at
}

// Failed is why the last line could not be written, nil when it was.
func (l *Log) Failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Before is the digest of relay.yaml that the last start before this one noted, "" when there is none.
func (l *Log) Before() string { return l.before }

// Close lets another relay have the log.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Closing alone would leave the lock to a child that is just being started, until its exec.
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close(), l.head.Close())
}

// seal returns the text of a line with its end, and its hash.
func seal(n line) (text []byte, hash string, err error) {
	body, err := json.Marshal(n)
	if err != nil {
		return nil, "", err
	}
	body = bytes.TrimSuffix(body, []byte("}"))
	sum := sha256.Sum256(body)
	hash = hex.EncodeToString(sum[:])
	text = append(append(append(body, hashMark...), hash...), "\"}\n"...)
	if len(text) > maxLine {
		return nil, "", errors.New("it is too long")
	}
	return text, hash, nil
}
