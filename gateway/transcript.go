package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
)

// form is how a log looks on the wire.
type form interface {
	contentType() string
	open(b *bytes.Buffer)
	line(b *bytes.Buffer, l *buildv1.LogLine)
	beat(b *bytes.Buffer) // a sign of life
	done(b *bytes.Buffer, how *buildv1.AwaitBuildResponse, last int64)
}

// plain is one line of text per entry.
type plain struct{}

func (plain) contentType() string { return "text/plain; charset=utf-8" }

func (plain) open(*bytes.Buffer) {}

func (plain) line(b *bytes.Buffer, l *buildv1.LogLine) {
	b.WriteString(strings.ReplaceAll(l.GetText(), "\n", " "))
	b.WriteByte('\n')
}

func (plain) beat(*bytes.Buffer) {}

func (plain) done(*bytes.Buffer, *buildv1.AwaitBuildResponse, int64) {}

// events are Server-Sent Events. Truth: the HTML standard, "Server-sent events".
type events struct{}

func (events) contentType() string { return "text/event-stream" }

// open tells browsers to come back soon when the connection is lost.
func (events) open(b *bytes.Buffer) { b.WriteString("retry: 1000\n\n") }

// line writes the phase before the line that begins it, under the id of the line
// before: whoever comes back with that id gets the line.
func (events) line(b *bytes.Buffer, l *buildv1.LogLine) {
	if l.GetPhase() != "" {
		event(b, "phase", l.GetOrdinal()-1, l.GetPhase())
	}
	event(b, "log", l.GetOrdinal(), l.GetText())
}

func (events) beat(b *bytes.Buffer) { b.WriteString(": keep-alive\n\n") }

func (events) done(b *bytes.Buffer, how *buildv1.AwaitBuildResponse, last int64) {
	data, err := json.Marshal(struct {
		Succeeded bool   `json:"succeeded"`
		Reason    string `json:"reason,omitempty"`
		Message   string `json:"message,omitempty"`
	}{how.GetState() == buildv1.BuildState_BUILD_STATE_SUCCEEDED, how.GetReason(), how.GetMessage()})
	if err == nil { // texts always are JSON
		event(b, "done", last, string(data))
	}
}

// event writes data of any number of lines; each way to end a line would end the
// field.
func event(b *bytes.Buffer, name string, id int64, data string) {
	b.WriteString("event: " + name + "\nid: " + strconv.FormatInt(id, 10) + "\n")
	data = strings.ReplaceAll(strings.ReplaceAll(data, "\r\n", "\n"), "\r", "\n")
	for part := range strings.SplitSeq(data, "\n") {
		b.WriteString("data: " + part + "\n")
	}
	b.WriteByte('\n')
}

// transcript is a log on its way to one client.
type transcript struct {
	w     http.ResponseWriter
	ctl   *http.ResponseController
	form  form
	stall time.Duration // until the client has taken what was sent
	begun bool          // whether the status is out
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
	h.Set("X-Accel-Buffering", "no") // nginx would keep lines until it has enough of them
	t.w.WriteHeader(http.StatusOK)
	t.form.open(&t.b)
}

// lines adds lines. Those that were added before are left out: a room that was
// reached again may repeat some.
func (t *transcript) lines(list []*buildv1.LogLine) {
	for _, l := range list {
		if l.GetOrdinal() > t.last {
			t.last = l.GetOrdinal()
			t.form.line(&t.b, l)
		}
	}
}

// send lets the client have what was added.
func (t *transcript) send() error {
	_ = t.ctl.SetWriteDeadline(time.Now().Add(t.stall)) // a writer that has none needs none
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
