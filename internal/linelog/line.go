package linelog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A line is {"crc32":"01234567","record":…} and its end. The sum goes on from that of the line before, so that a line
// that is missing, doubled or moved shows as well as one that was changed.
const (
	linePrefix = `{"crc32":"%08x","record":`
	prefixSize = len(`{"crc32":"01234567","record":`)
	lineSuffix = "}\n"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// DamageError is a line that is not as it was written, or that stands where it was not written.
type DamageError struct {
	// Line counts from 1, the header.
	Line  int
	Cause error
}

// Error names the line and the cause, and nothing of what the line holds.
func (e *DamageError) Error() string {
	return fmt.Sprintf("the log is damaged in line %d: %v", e.Line, e.Cause)
}

// Unwrap returns the cause.
func (e *DamageError) Unwrap() error { return e.Cause }

// maxLine is how long a line may be.
func (o Options) maxLine() int { return prefixSize + o.MaxRecord + len(lineSuffix) }

// seal returns the line for a record after lines of the given sum, and the sum of all of them.
func (o Options) seal(sum uint32, record []byte) (line []byte, next uint32, err error) {
	if len(record) > o.MaxRecord || bytes.IndexByte(record, '\n') >= 0 {
		return nil, sum, fmt.Errorf("a record of %d bytes is too large or has more than one line", len(record))
	}
	next = crc32.Update(sum, castagnoli, record)
	line = fmt.Appendf(make([]byte, 0, prefixSize+len(record)+len(lineSuffix)), linePrefix, next)
	return append(append(line, record...), lineSuffix...), next, nil
}

// unseal returns the record of a line that seal wrote.
func unseal(sum uint32, line []byte) (record []byte, next uint32, err error) {
	if len(line) < prefixSize+len(lineSuffix) {
		return nil, sum, errors.New("it is too short")
	}
	record = line[prefixSize : len(line)-len(lineSuffix)]
	next = crc32.Update(sum, castagnoli, record)
	if string(line[:prefixSize]) != fmt.Sprintf(linePrefix, next) || !bytes.HasSuffix(line, []byte(lineSuffix)) {
		return nil, sum, errors.New("its checksum does not match")
	}
	return record, next, nil
}

// Read hands every record of a log to o.Keep. What a crash in the middle of a write leaves at the end is left out: it was
// never synced, so nobody relied on it. Any other damage is [ErrForeign] or a [*DamageError].
func Read(from io.Reader, o Options) error {
	lines := bufio.NewReaderSize(from, max(o.maxLine(), len(o.Header)+1))
	var sum uint32
	for number := 1; ; number++ {
		line, err := lines.ReadSlice('\n')
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended && !errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("read log: %w", err)
		}
		if number == 1 {
			err = o.checkHeader(line, ended)
		} else if len(line) > 0 {
			sum, err = o.readLine(sum, completed(line, ended))
		} else {
			err = nil
		}
		if err != nil && (number == 1 || !torn(line, ended, lines)) {
			return lineError(number, err)
		}
		if err != nil || ended {
			return nil
		}
	}
}

func lineError(number int, err error) error {
	if number == 1 {
		return err
	}
	return &DamageError{Line: number, Cause: err}
}

// checkHeader takes an empty file, and a header that a crash cut off, for an empty log.
func (o Options) checkHeader(line []byte, ended bool) error {
	header := []byte(o.Header + "\n")
	if bytes.Equal(line, header) || ended && bytes.HasPrefix(header, line) {
		return nil
	}
	return ErrForeign
}

func (o Options) readLine(sum uint32, line []byte) (next uint32, err error) {
	record, next, err := unseal(sum, line)
	if err != nil {
		return sum, err
	}
	return next, o.Keep(record)
}

// completed adds the end of the line that a crash cut off. A whole record is kept although its end is missing: whoever
// wrote it was told that it is not there, and has to bear that it is.
func completed(line []byte, ended bool) []byte {
	if ended {
		return append(bytes.Clone(line), '\n')
	}
	return line
}

// torn reports whether a line that makes no sense is what a crash left: the last one, cut off, or with zeros where the
// disk did not get to write a page of it.
func torn(line []byte, ended bool, rest *bufio.Reader) bool {
	if ended || bytes.IndexByte(line, 0) < 0 {
		return ended
	}
	_, err := rest.Peek(1)
	return errors.Is(err, io.EOF)
}

// Write writes a whole log of what o.Needed gives, and returns its sum and its length in bytes. It syncs nothing.
func Write(to io.Writer, o Options) (sum uint32, size int64, err error) {
	out := bufio.NewWriter(to)
	n, _ := out.WriteString(o.Header + "\n")
	size = int64(n)
	err = o.Needed(func(record []byte) error {
		line, next, err := o.seal(sum, record)
		if err != nil {
			return err
		}
		sum, size = next, size+int64(len(line))
		_, err = out.Write(line)
		return err
	})
	return sum, size, errors.Join(err, out.Flush())
}
