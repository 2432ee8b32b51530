package follow

import (
	"bufio"
	"io"
	"strconv"
	"strings"
	"time"
)

// maxEvent is the maximum length of a line of an event stream, in bytes.
const maxEvent = 16_000_000

// event is a Server-Sent Event: "log", "phase" or "done"
// (gateway/contract/container-service.md#calls).
type event struct {
	name, data string
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
func (s *stream) next() (event, error) {
	e, id := event{}, s.last
	var data []string
	for s.lines.Scan() {
		line := s.lines.Text()
		if line == "" {
			if s.last = id; data != nil {
				e.data = strings.Join(data, "\n")
				return e, nil
			}
			e = event{}
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			e.name = value
		case "data":
			data = append(data, value)
		case "id":
			id = value
		case "retry":
			if ms, err := strconv.Atoi(value); err == nil {
				s.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
	if err := s.lines.Err(); err != nil {
		return event{}, err
	}
	return event{}, io.EOF
}
