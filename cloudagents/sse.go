package cloudagents

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

const (
	// maxFrame bounds what is kept of one event.
	maxFrame = 1 << 20
	// maxEventID bounds ids, which go into a header.
	maxEventID = 256
	// streamShare bounds a whole stream, as a multiple of Options.MaxReply: each
	// text comes at least twice, and tool calls come with it.
	streamShare = 32
)

var errStreamTooLong = errors.New("the stream is too long")

// Event is one event of a run's stream (facts: section 5).
type Event struct {
	// ID resumes the stream behind this event; "" for an event without an id
	// line, such as every status.
	ID string
	// Name is status, assistant, thinking, tool_call, interaction_update,
	// heartbeat, result, error, done, or a word of tomorrow.
	Name string
	// Data is the JSON as it came, nil when Oversize. It is the receiver's to keep.
	Data []byte
	// Oversize is true when the event had more than 1 MiB, which was dropped.
	Oversize bool
}

// sse reads server-sent events. Beyond the API's strict form it takes CRLF, no
// blank behind the colon, comments, and data in several lines.
type sse struct {
	r *bufio.Reader
	// left counts down the bytes that the whole stream may still have.
	left int64
	// size counts the bytes kept of the frame so far.
	size  int
	event Event
	data  *bytes.Buffer
}

// readEvents calls fn for each whole event until the end of r, fn's error, or
// total bytes. A frame that the end cut off is dropped.
func readEvents(r io.Reader, total int64, fn func(Event) error) error {
	s := &sse{r: bufio.NewReaderSize(r, 64<<10), left: total}
	for {
		line, err := s.line()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if len(line) > 0 {
			s.field(line)
			continue
		}
		event, ok := s.dispatch()
		if !ok {
			continue
		}
		if err := fn(event); err != nil {
			return err
		}
	}
}

// line returns the next whole line without its end. Of a line that does not fit
// into the frame it keeps nothing and marks the event Oversize.
func (s *sse) line() ([]byte, error) {
	var line []byte
	for {
		chunk, err := s.r.ReadSlice('\n')
		if s.left -= int64(len(chunk)); s.left < 0 {
			return nil, errStreamTooLong
		}
		line = s.keep(line, chunk)
		if err == nil {
			return s.trim(line), nil
		}
		if err != bufio.ErrBufferFull {
			return nil, err
		}
	}
}

// keep appends chunk to line, or only as much as tells a long line's field once
// the frame is over its bound.
func (s *sse) keep(line, chunk []byte) []byte {
	blank := len(line) == 0 && len(s.trim(chunk)) == 0
	if s.size += len(chunk); s.size > maxFrame && !blank {
		s.event.Oversize = true
	}
	if s.event.Oversize {
		chunk = chunk[:min(len(chunk), 64)]
	}
	return append(line, chunk...)
}

func (s *sse) trim(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}

func (s *sse) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "id":
		if len(value) <= maxEventID && bytes.IndexByte(value, 0) < 0 {
			s.event.ID = string(value)
		}
	case "event":
		s.event.Name = clip(string(value), 60)
	case "data":
		if s.data == nil {
			s.data = &bytes.Buffer{}
		} else {
			s.data.WriteByte('\n')
		}
		if !s.event.Oversize {
			s.data.Write(value)
		}
	}
}

// dispatch ends a frame. A frame without data is none.
func (s *sse) dispatch() (Event, bool) {
	event, data := s.event, s.data
	s.event, s.data, s.size = Event{}, nil, 0
	if data == nil {
		return Event{}, false
	}
	if !event.Oversize {
		event.Data = data.Bytes()
	}
	return event, true
}
