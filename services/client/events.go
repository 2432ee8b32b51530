package client

import (
	"bufio"
	"io"
	"strconv"
	"strings"
	"time"
)

// maxEvent is the maximum length of an event, in bytes, and maxRetry that of the reconnection
// time that a server may set, in milliseconds.
const (
	maxEvent = 16_000_000
	maxRetry = 60_000
)

// An Event is an event of a build (gateway/contract/container-service.md#calls).
type Event struct {
	// Kind is "log" or "phase". Other kinds may be added.
	Kind string
	// Text is a line of the log, which may have terminal escapes, or the phase that begins,
	// such as "fetch". A phase may be repeated after a broken connection.
	Text string
}

// stream parses Server-Sent Events as defined by the HTML standard.
type stream struct {
	lines *bufio.Scanner
	last  string        // id for reconnecting
	retry time.Duration // the server's reconnection time; 0 for none
}

func newStream(r io.Reader) *stream {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEvent)
	return &stream{lines: lines}
}

// next returns the next event. It ignores an incomplete event and returns io.EOF or the
// error that cut it off.
func (s *stream) next() (Event, error) {
	e, id := Event{}, s.last
	var data []string
	size := 0
	for s.lines.Scan() {
		line := s.lines.Text()
		if line == "" {
			if s.last = id; data != nil {
				e.Text = strings.Join(data, "\n")
				return e, nil
			}
			e = Event{}
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			e.Kind = value
		case "data":
			if size += len(value) + 1; size > maxEvent {
				return Event{}, bufio.ErrTooLong
			}
			data = append(data, value)
		case "id":
			id = value
		case "retry":
			if ms, err := strconv.Atoi(value); err == nil && ms > 0 && ms <= maxRetry {
				s.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
	if err := s.lines.Err(); err != nil {
		return Event{}, err
	}
	return Event{}, io.EOF
}
