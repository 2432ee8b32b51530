package gateway

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
)

// form is the format of a log.
type form interface {
	contentType() string
	open(b *bytes.Buffer)
	line(b *bytes.Buffer, l *buildv1.LogLine)
	keepAlive(b *bytes.Buffer) // writes a keep-alive
	done(b *bytes.Buffer, how *buildv1.AwaitBuildResponse, last int64)
}

// timeOf returns the time of a line in UTC; "" if it is unknown.
func timeOf(l *buildv1.LogLine) string {
	if l.GetTimeMs() == 0 {
		return ""
	}
	return time.UnixMilli(l.GetTimeMs()).UTC().Format("2006-01-02T15:04:05.000Z")
}

// plain is one line of text per entry.
type plain struct {
	times bool // whether each line begins with its time
}

func (plain) contentType() string { return "text/plain; charset=utf-8" }

func (plain) open(*bytes.Buffer) {}

func (p plain) line(b *bytes.Buffer, l *buildv1.LogLine) {
	if at := timeOf(l); p.times && at != "" {
		b.WriteString(at + " ")
	}
	b.WriteString(strings.ReplaceAll(l.GetText(), "\n", " "))
	b.WriteByte('\n')
}

func (plain) keepAlive(*bytes.Buffer) {}

func (plain) done(*bytes.Buffer, *buildv1.AwaitBuildResponse, int64) {}

// events are Server-Sent Events, as defined by the HTML standard.
type events struct {
	times bool  // whether times are sent
	at    int64 // the time that was sent last, in milliseconds since the epoch
}

func (*events) contentType() string { return "text/event-stream" }

// open tells browsers to reconnect quickly.
func (*events) open(b *bytes.Buffer) { b.WriteString("retry: 1000\n\n") }

// line writes the phase before the line that begins it, and the line's time if it differs from that of the line before, with
// the id of the previous line, so that a client which reconnects with that id gets the line.
func (e *events) line(b *bytes.Buffer, l *buildv1.LogLine) {
	if e.times && l.GetTimeMs() != e.at {
		e.at = l.GetTimeMs()
		event(b, "time", l.GetOrdinal()-1, timeOf(l))
	}
	if l.GetPhase() != "" {
		event(b, "phase", l.GetOrdinal()-1, l.GetPhase())
	}
	event(b, "log", l.GetOrdinal(), l.GetText())
}

func (*events) keepAlive(b *bytes.Buffer) { b.WriteString(": keep-alive\n\n") }

func (*events) done(b *bytes.Buffer, how *buildv1.AwaitBuildResponse, last int64) {
	data := encode(struct {
		Succeeded  bool   `json:"succeeded"`
		Reason     string `json:"reason,omitempty"`
		ReasonCode string `json:"reasonCode,omitempty"`
		Message    string `json:"message,omitempty"`
	}{how.GetState() == buildv1.BuildState_BUILD_STATE_SUCCEEDED, how.GetSummary(), how.GetReason(), how.GetMessage()})
	event(b, "done", last, string(data))
}

// event writes an event. Its data has one field for each line, since every kind of line end
// terminates a field.
func event(b *bytes.Buffer, name string, id int64, data string) {
	b.WriteString("event: " + name + "\nid: " + strconv.FormatInt(id, 10) + "\n")
	data = strings.ReplaceAll(strings.ReplaceAll(data, "\r\n", "\n"), "\r", "\n")
	for part := range strings.SplitSeq(data, "\n") {
		b.WriteString("data: " + part + "\n")
	}
	b.WriteByte('\n')
}

// A transcript writes a log to one client.
type transcript struct {
	w     http.ResponseWriter
	ctl   *http.ResponseController
	form  form
	stall time.Duration // timeout for the client to accept what was sent
	begun bool          // the status has been written
	last  int64         // ordinal of the last line
	b     bytes.Buffer
}

func (t *transcript) begin() {
	if t.begun {
		return
	}
	t.begun = true
	h := t.w.Header()
	h.Set("Content-Type", t.form.contentType())
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // otherwise nginx would buffer lines
	t.w.WriteHeader(http.StatusOK)
	t.form.open(&t.b)
}

// lines adds lines, except those that were already added: a service may repeat some after a
// reconnect.
func (t *transcript) lines(list []*buildv1.LogLine) {
	for _, l := range list {
		if l.GetOrdinal() > t.last {
			t.last = l.GetOrdinal()
			t.form.line(&t.b, l)
		}
	}
}

// send flushes the added lines to the client.
func (t *transcript) send() error {
	_ = t.ctl.SetWriteDeadline(time.Now().Add(t.stall)) // not every writer supports deadlines
	if t.b.Len() > 0 {
		if _, err := t.w.Write(t.b.Bytes()); err != nil {
			return fmt.Errorf("writing the log: %w", err)
		}
		t.b.Reset()
	}
	if err := t.ctl.Flush(); err != nil {
		return fmt.Errorf("writing the log: %w", err)
	}
	return nil
}
