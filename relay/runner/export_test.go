package runner

import (
	"bytes"
	"time"

	"drawbridge/internal/linelog"
)

// DecodeRequest reads the body of POST /run.
var DecodeRequest = decodeRequest

// Wrap puts something between a journal and its file.
func (j *FileJournal) Wrap(wrap func(linelog.File) linelog.File) { j.log.Wrap(wrap) }

// Interrupted is how many claims the process before left open.
func (j *FileJournal) Interrupted() int { return j.interrupted }

// ParseJournal reads the text of a journal.
func ParseJournal(text []byte, now func() time.Time) (*Memory, error) {
	m := NewMemory(now)
	return m, linelog.Read(bytes.NewReader(text), m.lines(""))
}

// FormatJournal writes the text of a journal.
func FormatJournal(m *Memory) ([]byte, error) {
	var text bytes.Buffer
	_, _, err := linelog.Write(&text, m.lines(""))
	return text.Bytes(), err
}

// Interrupt is what a restart does to open claims.
func (m *Memory) Interrupt() int { return m.interrupt() }
