package client

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// clientOf returns a client of a server with this handler.
func clientOf(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := New(s.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// events writes a line of a log and additional text.
func events(w http.ResponseWriter, more string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "retry: 1\n\nevent: log\nid: 1\ndata: line\n\n"+more)
	_ = http.NewResponseController(w).Flush()
}

func TestFollowerGivesUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events func(w http.ResponseWriter, r *http.Request)
		want   string
	}{
		"silence": {func(w http.ResponseWriter, r *http.Request) {
			events(w, "")
			<-r.Context().Done()
		}, "nothing was received for 50ms"},
		"silence from the start": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "nothing was received for 50ms"},
		"breaks":                 {func(w http.ResponseWriter, _ *http.Request) { events(w, "") }, "the connection ended before the build"},
		"an invalid end":         {func(w http.ResponseWriter, _ *http.Request) { events(w, "event: done\ndata: x\n\n") }, "does not respond like a Slipway server"},
		"refused":                {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "502 Bad Gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollower(clientOf(t, c.events), "beef_1", func(Event) error { return nil })
			f.silence, f.retryFor = time.Minute, time.Nanosecond
			if strings.HasPrefix(name, "silence") {
				f.silence = 50 * time.Millisecond
			}
			if _, err := f.run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	t.Run("an error of each", func(t *testing.T) {
		t.Parallel()
		c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) { events(w, "event: done\ndata: {\"succeeded\":true}\n\n") })
		f := newFollower(c, "beef_1", func(Event) error { return os.ErrClosed })
		if _, err := f.run(t.Context()); !errors.Is(err, os.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

// FuzzEvents checks that an event stream is parsed without a panic, and that no event is longer
// than the stream.
func FuzzEvents(f *testing.F) {
	f.Add("retry: 1000\n\nevent: phase\nid: 1\ndata: fetch\n\n: comment\ndata:a\ndata:b\n\n")
	f.Add("data\n\nid: \x00\nretry: -1\nretry: 99999999999999999999\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		total := 0
		for s := newStream(strings.NewReader(text)); ; {
			e, err := s.next()
			if err != nil {
				break
			}
			total += len(e.Text) + len(e.Kind)
		}
		if total > len(text) {
			t.Errorf("%q has events of %d bytes", text, total)
		}
	})
}
