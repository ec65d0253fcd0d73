package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// Report is what a look at a whole log found.
type Report struct {
	// Head is the last line's number and hash.
	Head Head
	// Size is how many bytes hold whole lines, Torn how many follow them: a line that a kill cut off.
	Size, Torn int64
	// NoHead is true when there is no head file, so that lines cut off the end would not show.
	NoHead bool
	// File is the digest of relay.yaml that was noted last, "" when none was.
	File string
	// Last is the kind of the last line, written at At; "" when there is no line.
	Last string
	At   time.Time
}

// Damage is where a chain is broken, and how. Line counts from 1.
type Damage struct {
	Line   int
	Reason string
}

// Error names the line.
func (d *Damage) Error() string { return fmt.Sprintf("line %d: %s", d.Line, d.Reason) }

// Verify checks the log at path against itself and its head file, without a lock. contains, when not empty, is a hash that a
// line must have. The error is a *[Damage] when the log is not what was written.
func Verify(path, contains string) (Report, error) {
	file, err := os.Open(path)
	if err != nil {
		return Report{}, err
	}
	defer file.Close()
	// The head is read first: lines that are written meanwhile make the log longer than it, which is no damage.
	var known *Head
	head, err := os.Open(path + HeadSuffix)
	if err == nil {
		known, err = readHead(head)
		_ = head.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Report{}, err
	}
	return check(file, known, contains, nil)
}

// readHead returns nil for an empty file, which is what a first start leaves.
func readHead(file *os.File) (*Head, error) {
	text := make([]byte, 20+1+2*sha256.Size+1)
	n, err := file.ReadAt(text, 0)
	if n == 0 && errors.Is(err, io.EOF) {
		return nil, nil
	}
	var h Head
	if _, err := fmt.Sscanf(string(text[:n]), "%d %64s\n", &h.Seq, &h.Hash); err != nil || h.String()+"\n" != string(text[:n]) {
		return nil, errors.New("its head file is damaged")
	}
	return &h, nil
}

// check reads lines one by one, so that a log of any size needs little memory.
func check(r io.Reader, known *Head, contains string, each func(time.Time, Event)) (Report, error) {
	report := Report{Head: Head{Hash: zeroHash}, NoHead: known == nil}
	lines := bufio.NewReaderSize(r, maxLine)
	found := contains == ""
	for number := 1; ; number++ {
		text, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			report.Torn = int64(len(text))
			break
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			return report, &Damage{number, "was changed: it is longer than any line that a relay writes"}
		}
		if err != nil {
			return report, err
		}
		hash, n, err := follows(text, report.Head)
		if err != nil {
			return report, &Damage{number, err.Error()}
		}
		if each != nil {
			each(n.Time, n.Event)
		}
		report.File = cmp.Or(n.File, report.File)
		report.Last, report.At = n.Event.Event, n.Time
		report.Head = Head{Seq: report.Head.Seq + 1, Hash: hash}
		report.Size += int64(len(text))
		found = found || hash == contains
		if known != nil && known.Seq == report.Head.Seq && known.Hash != hash {
			return report, &Damage{number, "was written again together with all lines before it: the head file has another hash for it"}
		}
	}
	switch {
	case known != nil && known.Seq > report.Head.Seq:
		return report, &Damage{int(report.Head.Seq) + 1, fmt.Sprintf("is missing: the end was cut off after line %d was written", known.Seq)}
	case !found:
		return report, &Damage{1, "the chain does not contain the hash " + contains + ": it was written again, or cut off before it"}
	}
	return report, nil
}

// follows returns a whole line and its hash, or what is wrong with it behind the line of head.
func follows(text []byte, head Head) (hash string, n line, err error) {
	body, rest, marked := cutLast(text, hashMark)
	sum := sha256.Sum256(body)
	hash = hex.EncodeToString(sum[:])
	if !marked || rest != hash+"\"}\n" {
		return "", line{}, errors.New("was changed: its hash does not match")
	}
	if err := json.Unmarshal(append(bytes.Clone(body), '}'), &n); err != nil {
		return "", line{}, errors.New("was changed: it is not a line of an audit log")
	}
	switch want := head.Seq + 1; {
	case n.Seq > want:
		return "", line{}, fmt.Errorf("is number %d: %d to %d are missing before it", n.Seq, want, n.Seq-1)
	case n.Seq < want:
		return "", line{}, fmt.Errorf("is number %d in the place of number %d: lines were moved or inserted", n.Seq, want)
	case n.Prev != head.Hash:
		return "", line{}, errors.New("does not have the hash of the line before it: that line was replaced")
	}
	return hash, n, nil
}

func cutLast(text []byte, mark string) (before []byte, after string, found bool) {
	at := bytes.LastIndex(text, []byte(mark))
	if at < 0 {
		return text, "", false
	}
	return text[:at], string(text[at+len(mark):]), true
}
